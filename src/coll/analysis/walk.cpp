// See walk.h.
#include "coll/analysis/walk.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "coll/analysis/pairs.h"
#include "coll/analysis/shared_steps.h"

namespace zh::coll {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// The walk reckons in whole units, so that sums are exact for half a second: who is first among what becomes ready at
/// one moment must not hang on how sums of the same terms in another order are rounded. Costs of 6 decimals are whole,
/// and so are thirds and binary fractions of them, which lines between costs at 1, 4 and 16 KiB have.
constexpr double kUnitsPerUs = 1e6 * 3 * (1 << 12);
double units(double us) { return std::nearbyint(us * kUnitsPerUs); }

/// Something that is ready to be done: first come, first served, and the earlier step where they come together. A
/// shared step comes after all else, since others may wait for what is done before it.
struct Ready {
  bool shared;
  double at;
  uint32_t step;
  bool operator>(const Ready& o) const { return std::tie(shared, at, step) > std::tie(o.shared, o.at, o.step); }
};
using ReadyQueue = std::priority_queue<Ready, std::vector<Ready>, std::greater<>>;

/// Looks come after all that becomes ready at the same time.
enum class What : uint8_t {
  kLeaves,   ///< the message of a send asks for its node's link
  kReaches,  ///< ... and for that of the receiver's node
  kReady,    ///< a step of a rank
  kLook,     ///< a rank looks for something to do
};
struct Event {
  double at;
  What what;
  uint32_t step, rank;
  bool operator>(const Event& o) const {
    return std::tie(at, what, step, rank) > std::tie(o.at, o.what, o.step, o.rank);
  }
};

/// When what the ranks of a node share is free: its link, each direction for itself, and its processors.
struct Shared {
  double out = 0;
  double in = 0;
  std::vector<double> processors;  ///< none: each rank has its own
};

struct Walker {
  std::vector<uint32_t> left;  ///< by step: what it waits for; a receive waits for its message, too
  std::vector<double> ready;   ///< by step: when the last of that was there
  std::vector<std::vector<uint32_t>> followers;
  ReadyQueue receives, others;
  double free = 0;            ///< when its processor is
  double next_reception = 0;  ///< the gap after the last one
  double look = kNever;       ///< when it will look next
};

Layout layout_of(const model::Pricing& pricing, size_t ranks) {
  std::vector<uint32_t> nodes;
  for (uint32_t rank = 0; rank < ranks; ++rank) nodes.push_back(pricing.node_of(rank));
  return Layout(nodes);
}

class Walk {
 public:
  Walk(std::span<const Schedule> schedules, const model::Pricing& pricing)
      : schedules_(schedules),
        pricing_(pricing),
        pairs_(pair_messages(schedules)),
        shared_(match_shared(schedules, layout_of(pricing, schedules.size()))),
        missing_(shared_.groups.size()),
        nodes_(pricing.nodes(), Shared{0, 0, std::vector<double>(pricing.processors(), 0.0)}) {
    for (size_t g = 0; g < missing_.size(); ++g) missing_[g] = shared_.groups[g].ends.size();
    walkers_.reserve(schedules.size());
    for (const Schedule& schedule : schedules) {
      Walker& w = walkers_.emplace_back();
      const size_t n = schedule.steps.size();
      steps_left_ += n;
      w.ready.resize(n, 0);
      w.followers.resize(n);
      out_.spans.emplace_back(n);
      for (uint32_t i = 0; i < n; ++i) {
        const Step& step = schedule.steps[i];
        w.left.push_back(step.n_waits + (step.kind == StepKind::kReceive ? 1 : 0));
        for (const uint32_t wait : schedule.waits_of(step)) w.followers[wait].push_back(i);
      }
    }
  }

  Timeline run() {
    if (!pairs_.complaint.empty() || !shared_.complaint.empty()) return std::move(out_);
    for (uint32_t rank = 0; rank < walkers_.size(); ++rank) {
      for (uint32_t i = 0; i < walkers_[rank].left.size(); ++i) {
        if (walkers_[rank].left[i] == 0) events_.push({0, What::kReady, i, rank});
      }
    }
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      switch (event.what) {
        case What::kLeaves:
          leave(event.rank, event.step, event.at);
          break;
        case What::kReaches:
          reach(event.rank, event.step, event.at);
          break;
        case What::kReady:
          queue(event.rank, event.step, event.at);
          break;
        case What::kLook:
          look(event.rank, event.at);
          break;
      }
    }
    if (steps_left_ > 0) out_.end = kNever;
    return std::move(out_);
  }

 private:
  [[nodiscard]] model::MessagePrice price_of(uint32_t from, uint32_t to, uint64_t bytes) const {
    const model::MessagePrice price = pricing_.message(from, to, bytes);
    return {units(price.send), units(price.network), units(price.link), units(price.receive), units(price.gap)};
  }

  Shared& node_of(uint32_t rank) { return nodes_[pricing_.node_of(rank)]; }

  /// The processor of the rank's node that is free first; null where the rank has one of its own.
  double* processor_for(uint32_t rank) {
    std::vector<double>& all = node_of(rank).processors;
    return all.empty() ? nullptr : &*std::min_element(all.begin(), all.end());
  }

  void queue(uint32_t rank, uint32_t step, double at) {
    Walker& w = walkers_[rank];
    const Step& ready = schedules_[rank].steps[step];
    (ready.kind == StepKind::kReceive ? w.receives : w.others).push({ready.shared(), at, step});
    look_at(rank, std::max(at, w.free));
  }

  void look_at(uint32_t rank, double at) {
    Walker& w = walkers_[rank];
    if (w.look <= at || at == kNever) return;
    w.look = at;
    events_.push({at, What::kLook, kNoStep, rank});
  }

  /// The rank begins what is first in its queues.
  void look(uint32_t rank, double now) {
    Walker& w = walkers_[rank];
    if (now >= w.look) w.look = kNever;
    if (now < w.free) return look_at(rank, w.free);
    const bool may_receive = !w.receives.empty() && now >= w.next_reception;
    if (w.others.empty() && !may_receive) {
      if (!w.receives.empty()) look_at(rank, w.next_reception);
      return;
    }
    if (const double* processor = processor_for(rank); processor != nullptr && now < *processor) {
      return look_at(rank, *processor);
    }
    const bool receives = may_receive && (w.others.empty() || w.others.top() > w.receives.top());
    ReadyQueue& from = receives ? w.receives : w.others;
    const uint32_t step = from.top().step;
    from.pop();
    perform(rank, step, now);
    if (!w.receives.empty() || !w.others.empty()) look_at(rank, w.free);
  }

  void perform(uint32_t rank, uint32_t i, double start) {
    Walker& w = walkers_[rank];
    const Step& step = schedules_[rank].steps[i];
    if (step.shared()) return join(rank, i, start);
    double engaged = 0;
    if (step.kind == StepKind::kSend) {
      const model::MessagePrice price = price_of(rank, step.peer, step.bytes);
      engaged = price.send;
      if (price.link > 0) {
        events_.push({start + price.send, What::kLeaves, i, rank});
      } else {
        settle(step.peer, pairs_.partner[rank][i], start + price.send + price.network);
      }
    } else if (step.kind == StepKind::kReceive) {
      const model::MessagePrice price = price_of(step.peer, rank, step.bytes);
      engaged = price.receive;
      w.next_reception = start + price.gap;
    } else {
      engaged = units(pricing_.work(step.bytes));
    }
    w.free = start + engaged;
    if (double* processor = processor_for(rank)) *processor = w.free;
    out_.spans[rank][i] = {start / kUnitsPerUs, w.free / kUnitsPerUs};
    out_.end = std::max(out_.end, out_.spans[rank][i].end);
    --steps_left_;
    for (const uint32_t follower : w.followers[i]) settle(rank, follower, w.free);
  }

  /// Who has come to a shared step does nothing else until it is over. It begins when the last one has come.
  void join(uint32_t rank, uint32_t i, double start) {
    walkers_[rank].free = kNever;
    if (--missing_[shared_.group_of[rank][i]] > 0) return;
    const SharedSteps::Group& group = *shared_.group(rank, i);
    const bool of_leaders = schedules_[rank].steps[i].of_leaders;
    const double over = start + (of_leaders ? price_among(group) : price_inside(group));
    if (!of_leaders) {
      std::vector<double>& processors = node_of(rank).processors;
      std::fill(processors.begin(), processors.end(), over);
    }
    for (const StepOf& end : group.ends) {
      walkers_[end.rank].free = over;
      out_.spans[end.rank][end.step] = {start / kUnitsPerUs, over / kUnitsPerUs};
      out_.end = std::max(out_.end, out_.spans[end.rank][end.step].end);
      --steps_left_;
      for (const uint32_t follower : walkers_[end.rank].followers[end.step]) settle(end.rank, follower, over);
      look_at(end.rank, over);
    }
  }

  [[nodiscard]] uint64_t bytes_of(const StepOf& end) const {
    return schedules_[end.rank].total(schedules_[end.rank].steps[end.step]);
  }

  /// What a rank of a node copies in a shared step: of a reduction its slice of each vector, as long as one in all.
  [[nodiscard]] uint64_t copied(const StepOf& end) const {
    switch (schedules_[end.rank].steps[end.step].kind) {
      case StepKind::kBcastRoot:
      case StepKind::kScatterRoot:
      case StepKind::kGatherLeaf:
      case StepKind::kBarrier:
        return 0;  // others read what it has
      default:
        return bytes_of(end);
    }
  }

  /// Those of a node that copy do so at once, as many as have processors.
  [[nodiscard]] double price_inside(const SharedSteps::Group& group) {
    uint64_t most = 0;
    size_t readers = 0;
    for (const StepOf& end : group.ends) {
      most = std::max(most, copied(end));
      readers += copied(end) > 0 ? 1 : 0;
    }
    const std::vector<double>& processors = node_of(group.ends[0].rank).processors;
    const size_t at_once = processors.empty() ? group.ends.size() : processors.size();
    const size_t turns = (std::max(readers, size_t{1}) + at_once - 1) / at_once;
    return static_cast<double>(turns) * units(pricing_.shared(most, static_cast<uint32_t>(std::min(readers, at_once))));
  }

  /// Leaders take as many exchanges as their number has doublings: of all bytes; of parts, of twice as many each time;
  /// of parts for each other, of half of them. The models do not know what the host does there.
  [[nodiscard]] double price_among(const SharedSteps::Group& group) const {
    const Step& step = schedules_[group.root_end().rank].steps[group.root_end().step];
    const bool reduces = step.kind == StepKind::kReduceRoot || step.kind == StepKind::kAllreduce ||
                         step.kind == StepKind::kReduceScatter || step.kind == StepKind::kExscan;
    const bool trades = step.kind == StepKind::kAlltoall;
    const size_t leaders = group.ends.size();
    double price = 0;
    for (size_t done = 1; done < leaders; done *= 2) {
      uint64_t bytes = step.bytes;
      const size_t parts = trades ? leaders / 2 : std::min(done, leaders - done);
      if (step.n_parts != 0) bytes = bytes_of(group.root_end()) / leaders * parts;
      const model::MessagePrice message = price_of(group.ends[0].rank, group.ends[1].rank, bytes);
      price += message.send + message.network + message.receive + (reduces ? units(pricing_.work(bytes)) : 0);
    }
    return price;
  }

  void leave(uint32_t rank, uint32_t i, double now) {
    const Step& step = schedules_[rank].steps[i];
    const model::MessagePrice price = price_of(rank, step.peer, step.bytes);
    double& free = node_of(rank).out;
    const double start = std::max(now, free);
    free = start + price.link;
    events_.push({start + std::max(0.0, price.network - price.link), What::kReaches, i, rank});
  }
  void reach(uint32_t rank, uint32_t i, double now) {
    const Step& step = schedules_[rank].steps[i];
    double& free = node_of(step.peer).in;
    free = std::max(now, free) + price_of(rank, step.peer, step.bytes).link;
    settle(step.peer, pairs_.partner[rank][i], free);
  }

  /// One of the things that a step waits for is there.
  void settle(uint32_t rank, uint32_t step, double at) {
    Walker& w = walkers_[rank];
    w.ready[step] = std::max(w.ready[step], at);
    if (--w.left[step] == 0) events_.push({w.ready[step], What::kReady, step, rank});
  }

  std::span<const Schedule> schedules_;
  const model::Pricing& pricing_;
  Pairs pairs_;
  SharedSteps shared_;
  size_t steps_left_ = 0;
  std::vector<size_t> missing_;  ///< by group: ranks that have not come to the step
  std::vector<Shared> nodes_;
  std::vector<Walker> walkers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Timeline out_;
};

}  // namespace

Timeline walk(std::span<const Schedule> schedules, const model::Pricing& pricing) {
  return Walk(schedules, pricing).run();
}

}  // namespace zh::coll
