// See timeline.h.
#include "coll/analysis/timeline.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <tuple>

#include "coll/analysis/pairs.h"

namespace zh::coll {
namespace {

double logical_price(const void*, const Step& step, bool between) { return !step.message() ? 1 : between ? 4 : 2; }

class Simulation {
 public:
  Simulation(std::span<const Schedule> schedules, const Layout& layout, const Prices& prices)
      : schedules_(schedules), layout_(layout), prices_(prices), pairs_(pair_messages(schedules)) {
    for (const Schedule& schedule : schedules) {
      Rank& rank = ranks_.emplace_back();
      const size_t n = schedule.steps.size();
      rank.ready.resize(n, 0);
      rank.followers.resize(n);
      rank.offered.resize(n);
      out_.spans.emplace_back(n);
      for (uint32_t i = 0; i < n; ++i) {
        rank.left.push_back(schedule.steps[i].n_waits);
        for (const uint32_t wait : schedule.waits_of(schedule.steps[i])) rank.followers[wait].push_back(i);
      }
    }
  }

  Timeline run() {
    if (!pairs_.complaint.empty()) return std::move(out_);
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      for (uint32_t i = 0; i < ranks_[rank].left.size(); ++i) {
        if (ranks_[rank].left[i] == 0) offer(rank, i);
      }
    }
    while (!offers_.empty()) {
      const Offer offer = offers_.top();
      offers_.pop();
      const double start = earliest(offer.rank, offer.step);
      // Somebody else took the port meanwhile.
      if (start > offer.start) {
        offers_.push({start, offer.step, offer.rank});
      } else {
        perform(offer.rank, offer.step, start);
      }
    }
    return std::move(out_);
  }

 private:
  enum Port { kWork, kNodeOut, kNodeIn, kNetOut, kNetIn, kPorts };
  struct Rank {
    std::vector<uint32_t> left;
    std::vector<double> ready;  ///< when what a step waits for ends
    std::vector<std::vector<uint32_t>> followers;
    std::vector<bool> offered;  ///< sends
    std::array<double, kPorts> free{};
  };
  struct Offer {
    double start;
    uint32_t step, rank;
    bool operator>(const Offer& o) const { return std::tie(start, step, rank) > std::tie(o.start, o.step, o.rank); }
  };

  [[nodiscard]] bool between(uint32_t rank, const Step& step) const {
    return step.message() && layout_.node_of(rank) != layout_.node_of(step.peer);
  }
  [[nodiscard]] double& port(uint32_t rank, const Step& step) {
    if (!step.message()) return ranks_[rank].free[kWork];
    const bool net = between(rank, step);
    const bool out = step.kind == StepKind::kSend;
    return ranks_[rank].free[out ? (net ? kNetOut : kNodeOut) : (net ? kNetIn : kNodeIn)];
  }

  double earliest(uint32_t rank, uint32_t i) {
    const Step& step = schedules_[rank].steps[i];
    const double here = std::max(ranks_[rank].ready[i], port(rank, step));
    if (!step.message()) return here;
    const uint32_t other = pairs_.partner[rank][i];
    return std::max({here, ranks_[step.peer].ready[other], port(step.peer, schedules_[step.peer].steps[other])});
  }

  /// The step waits for nothing more; a message is offered once, when its other end is so far.
  void offer(uint32_t rank, uint32_t i) {
    const Step& step = schedules_[rank].steps[i];
    if (!step.message()) return offers_.push({earliest(rank, i), i, rank});
    const uint32_t other = pairs_.partner[rank][i];
    if (ranks_[step.peer].left[other] != 0) return;
    const bool sends = step.kind == StepKind::kSend;
    const uint32_t source = sends ? rank : step.peer;
    const uint32_t send = sends ? i : other;
    if (ranks_[source].offered[send]) return;
    ranks_[source].offered[send] = true;
    offers_.push({earliest(source, send), send, source});
  }

  void perform(uint32_t rank, uint32_t i, double start) {
    const Step& step = schedules_[rank].steps[i];
    const double end = start + prices_.of(prices_.context, step, between(rank, step));
    finish(rank, i, {start, end});
    if (step.message()) finish(step.peer, pairs_.partner[rank][i], {start, end});
    release(rank, i, end);
    if (step.message()) release(step.peer, pairs_.partner[rank][i], end);
  }

  void finish(uint32_t rank, uint32_t i, Span span) {
    out_.spans[rank][i] = span;
    out_.end = std::max(out_.end, span.end);
    port(rank, schedules_[rank].steps[i]) = span.end;
  }

  void release(uint32_t rank, uint32_t i, double end) {
    for (const uint32_t follower : ranks_[rank].followers[i]) {
      ranks_[rank].ready[follower] = std::max(ranks_[rank].ready[follower], end);
      if (--ranks_[rank].left[follower] == 0) offer(rank, follower);
    }
  }

  std::span<const Schedule> schedules_;
  const Layout& layout_;
  const Prices& prices_;
  Pairs pairs_;
  std::vector<Rank> ranks_;
  std::priority_queue<Offer, std::vector<Offer>, std::greater<>> offers_;
  Timeline out_;
};

}  // namespace

Prices logical_prices() { return {logical_price, nullptr}; }

Timeline timeline(std::span<const Schedule> schedules, const Layout& layout, const Prices& prices) {
  return Simulation(schedules, layout, prices).run();
}

}  // namespace zh::coll
