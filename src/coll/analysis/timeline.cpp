// See timeline.h.
#include "coll/analysis/timeline.h"

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>

#include "coll/analysis/pairs.h"
#include "coll/analysis/shared_steps.h"

namespace zh::coll {
namespace {

// What a step takes, in logical units.
constexpr double kWorkTime = 1;
constexpr double kInsideTime = 2;
constexpr double kBetweenTime = 4;

class Simulation {
 public:
  Simulation(std::span<const Schedule> schedules, const Layout& layout)
      : schedules_(schedules),
        layout_(layout),
        pairs_(pair_messages(schedules)),
        shared_(match_shared(schedules, layout)) {
    for (const Schedule& schedule : schedules) {
      Rank& rank = ranks_.emplace_back();
      const size_t n = schedule.steps.size();
      rank.ready.resize(n, 0);
      rank.followers.resize(n);
      rank.offered.resize(n, false);
      out_.spans.emplace_back(n);
      for (uint32_t i = 0; i < n; ++i) {
        rank.left.push_back(schedule.steps[i].n_waits);
        for (const uint32_t wait : schedule.waits_of(schedule.steps[i])) rank.followers[wait].push_back(i);
      }
    }
  }

  Timeline run() {
    if (!pairs_.complaint.empty() || !shared_.complaint.empty()) return std::move(out_);
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      for (uint32_t i = 0; i < ranks_[rank].left.size(); ++i) {
        if (ranks_[rank].left[i] == 0) offer(rank, i);
      }
    }
    while (!offers_.empty()) {
      const Offer offer = offers_.top();
      offers_.pop();
      Port* const busy = busy_port(offer);
      if (busy == nullptr) {
        perform(offer.rank, offer.step, offer.start);
      } else {
        queue(busy, {offer.step, offer.rank});
      }
      // It was first in the queue of a port that stays free: the next one may have it.
      if (offer.queued_at != nullptr && offer.queued_at->free <= offer.start) call_next(offer.queued_at);
    }
    return std::move(out_);
  }

 private:
  enum PortKind { kWork, kNodeOut, kNodeIn, kNetOut, kNetIn, kPortKinds };
  /// A step of a rank, by first_end().
  struct Candidate {
    uint32_t step, rank;
    auto operator<=>(const Candidate&) const = default;
  };
  /// Many may wait for one port, of which one at a time has a chance: so they queue at it, and the first is called (is
  /// in offers_) for the time when the port is free.
  struct Port {
    double free = 0;
    std::optional<Candidate> called;  ///< the one called latest for that time
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> waiting;
  };
  struct Rank {
    std::vector<uint32_t> left;
    std::vector<double> ready;  ///< when what a step waits for ends
    std::vector<std::vector<uint32_t>> followers;
    std::vector<bool> offered;  ///< by first_end()
    std::array<Port, kPortKinds> ports;
  };
  /// What may start now, in order.
  struct Offer {
    double start;
    uint32_t step, rank;
    Port* queued_at;  ///< where it was called from; null: it comes for the first time
    bool operator>(const Offer& o) const { return std::tie(start, step, rank) > std::tie(o.start, o.step, o.rank); }
  };

  [[nodiscard]] bool between(uint32_t rank, const Step& step) const {
    return step.message() && layout_.node_of(rank) != layout_.node_of(step.peer);
  }
  [[nodiscard]] Port& port(uint32_t rank, const Step& step) {
    if (!step.message()) return ranks_[rank].ports[kWork];
    const bool net = between(rank, step);
    const bool out = step.kind == StepKind::kSend;
    return ranks_[rank].ports[out ? (net ? kNetOut : kNodeOut) : (net ? kNetIn : kNodeIn)];
  }
  /// Calls f(rank, step) for all that are one with a step: it alone, both ends of a message, all of a shared one.
  template <typename F>
  void each_end(uint32_t rank, uint32_t i, F&& f) const {
    if (const SharedSteps::Group* group = shared_.group(rank, i); group != nullptr) {
      for (const StepOf& end : group->ends) f(end.rank, end.step);
      return;
    }
    f(rank, i);
    const Step& step = schedules_[rank].steps[i];
    if (step.message()) f(step.peer, pairs_.partner[rank][i]);
  }

  /// When it could start if no port were busy.
  double ready(uint32_t rank, uint32_t i) {
    double last = 0;
    each_end(rank, i, [&](uint32_t r, uint32_t s) { last = std::max(last, ranks_[r].ready[s]); });
    return last;
  }

  /// The port that is busy longest beyond the offer's start; null if none is.
  Port* busy_port(const Offer& offer) {
    Port* last = nullptr;
    each_end(offer.rank, offer.step, [&](uint32_t r, uint32_t s) {
      Port* const used = &port(r, schedules_[r].steps[s]);
      if (last == nullptr || used->free > last->free) last = used;
    });
    return last->free > offer.start ? last : nullptr;
  }

  void queue(Port* at, Candidate candidate) {
    if (!at->called || candidate < *at->called) {
      call(at, candidate);
    } else {
      at->waiting.push(candidate);
    }
  }
  void call(Port* at, Candidate candidate) {
    at->called = candidate;
    offers_.push({at->free, candidate.step, candidate.rank, at});
  }
  void call_next(Port* at) {
    at->called.reset();
    if (at->waiting.empty()) return;
    const Candidate next = at->waiting.top();
    at->waiting.pop();
    call(at, next);
  }

  /// A message's send, the root of a shared step, or the step itself: it stands for all ends.
  [[nodiscard]] StepOf first_end(uint32_t rank, uint32_t i) const {
    if (const SharedSteps::Group* group = shared_.group(rank, i); group != nullptr) return group->root_end();
    const Step& step = schedules_[rank].steps[i];
    return step.kind == StepKind::kReceive ? StepOf{step.peer, pairs_.partner[rank][i]} : StepOf{rank, i};
  }

  /// The step waits for nothing more; it is offered once, when its other ends are so far.
  void offer(uint32_t rank, uint32_t i) {
    bool all = true;
    each_end(rank, i, [&](uint32_t r, uint32_t s) { all = all && ranks_[r].left[s] == 0; });
    const StepOf first = first_end(rank, i);
    if (!all || ranks_[first.rank].offered[first.step]) return;
    ranks_[first.rank].offered[first.step] = true;
    offers_.push({ready(first.rank, first.step), first.step, first.rank, nullptr});
  }

  void perform(uint32_t rank, uint32_t i, double start) {
    const double end = start + price_of(rank, i);
    each_end(rank, i, [&](uint32_t r, uint32_t s) { finish(r, s, {start, end}); });
    each_end(rank, i, [&](uint32_t r, uint32_t s) { release(r, s, end); });
  }

  /// A step of leaders takes as many exchanges between nodes as their number has binary digits.
  [[nodiscard]] double price_of(uint32_t rank, uint32_t i) const {
    const Step& step = schedules_[rank].steps[i];
    if (step.message()) return between(rank, step) ? kBetweenTime : kInsideTime;
    if (!step.of_leaders) return kWorkTime;
    const auto others = static_cast<uint32_t>(shared_.group(rank, i)->ends.size() - 1);
    return std::bit_width(others) * kBetweenTime;
  }

  void finish(uint32_t rank, uint32_t i, Span span) {
    out_.spans[rank][i] = span;
    out_.end = std::max(out_.end, span.end);
    Port& used = port(rank, schedules_[rank].steps[i]);
    used.free = span.end;
    call_next(&used);
  }

  void release(uint32_t rank, uint32_t i, double end) {
    for (const uint32_t follower : ranks_[rank].followers[i]) {
      ranks_[rank].ready[follower] = std::max(ranks_[rank].ready[follower], end);
      if (--ranks_[rank].left[follower] == 0) offer(rank, follower);
    }
  }

  std::span<const Schedule> schedules_;
  const Layout& layout_;
  Pairs pairs_;
  SharedSteps shared_;
  std::vector<Rank> ranks_;
  std::priority_queue<Offer, std::vector<Offer>, std::greater<>> offers_;
  Timeline out_;
};

}  // namespace

Timeline timeline(std::span<const Schedule> schedules, const Layout& layout) {
  return Simulation(schedules, layout).run();
}

}  // namespace zh::coll
