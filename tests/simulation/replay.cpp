// See replay.h.
#include "replay.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <queue>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>
#include <vector>

namespace zh::test {
namespace {

namespace sg4 = simgrid::s4u;
using coll::Schedule;
using coll::Step;
using coll::StepKind;

// One second of SimGrid is a µs here. A message has so many bytes for each µs of a link, since SimGrid takes whole
// ones.
constexpr double kBytesPerUs = 1 << 20;

/// Times that are one moment but for rounding; costs of round decimals never meet between two of these steps.
constexpr double kMomentsPerUs = 777'777;

/// Does one thing at a time, what was asked for first; of what was asked for at one moment the earlier step, then that
/// of the lower rank. What waits for others comes last.
class Server {
 public:
  using Work = std::function<void()>;

  void start(const std::string& name, sg4::Host* host) {
    sg4::Actor::create(name, host, [this] {
      while (true) serve();
    })->daemonize();
  }

  void ask(uint32_t step, uint32_t rank, Work work, bool waits = false) {
    waiting_.emplace(Turn{waits, std::llround(sg4::Engine::get_clock() * kMomentsPerUs), step, rank}, std::move(work));
    asked_->release();
  }

 private:
  struct Turn {
    bool waits;
    int64_t since;
    uint32_t step, rank;
    auto operator<=>(const Turn&) const = default;
  };

  void serve() {
    asked_->acquire();
    // What happens at the same moment comes first.
    for (int i = 0; i < 4; ++i) sg4::this_actor::yield();
    const Work work = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    work();
  }

  std::map<Turn, Work> waiting_;
  sg4::SemaphorePtr asked_ = sg4::Semaphore::create(0);
};

class Simulation {
 public:
  Simulation(std::span<const Schedule> schedules, const model::Pricing& pricing, Wires wires)
      : schedules_(schedules),
        pricing_(pricing),
        wires_(wires),
        ranks_(schedules.size()),
        out_(pricing.nodes()),
        in_(pricing.nodes()) {
    make_platform();
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].processor.start("processor", ranks_[rank].host);
    for (uint32_t node = 0; node < pricing.nodes(); ++node) {
      out_[node].start("out", ranks_[0].host);
      in_[node].start("in", ranks_[0].host);
    }
  }

  std::optional<double> run(sg4::Engine& engine) {
    sg4::Actor::create("start", ranks_[0].host, [this] {
      for (uint32_t rank = 0; rank < ranks_.size(); ++rank) prepare(rank);
      for (uint32_t rank = 0; rank < ranks_.size(); ++rank) begin(rank);
      // Daemons alone do not keep a simulation going.
      while (steps_left_ > 0) done_->acquire();
    });
    engine.run();
    return steps_left_ == 0 ? std::optional<double>(end_) : std::nullopt;
  }

 private:
  struct Rank {
    sg4::Host* host = nullptr;
    Server processor;
    std::vector<uint32_t> left;  ///< by step: what it waits for, and a receive's message
    std::vector<std::vector<uint32_t>> followers;
    std::map<std::pair<uint32_t, uint32_t>, std::queue<uint32_t>> receives;  ///< by sender and tag
    std::array<uint32_t, 2> met{};  ///< shared steps so far: of its node, of leaders
  };

  /// A shared step: who has come, and what wakes them when all have.
  struct Meeting {
    std::vector<std::pair<uint32_t, const Step*>> ends;
    sg4::SemaphorePtr all = sg4::Semaphore::create(0);
  };

  void make_platform() {
    using Policy = sg4::Link::SharingPolicy;
    sg4::NetZone* zone = sg4::create_full_zone("cluster");
    const auto link = [&](const std::string& name, double latency, Policy policy) {
      return zone->create_link(name, kBytesPerUs)->set_latency(latency)->set_sharing_policy(policy)->seal();
    };
    const Policy policy = wires_ == Wires::kParts ? Policy::SHARED : Policy::FATPIPE;
    std::vector<sg4::Link*> out;
    std::vector<sg4::Link*> in;
    for (uint32_t node = 0; node < pricing_.nodes(); ++node) {
      out.push_back(link(fmt::format("out of {}", node), 0, policy));
      in.push_back(link(fmt::format("into {}", node), 0, policy));
    }
    for (size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].host = zone->create_host(fmt::format("rank {}", i), 1.0)->seal();
    }
    std::map<double, sg4::Link*> wires;  // by latency
    for (uint32_t from = 0; from < ranks_.size(); ++from) {
      for (uint32_t to = 0; to < ranks_.size(); ++to) {
        const double latency = latency_between(from, to);
        if (from == to) continue;
        if (!wires.contains(latency))
          wires[latency] = link(fmt::format("wire {}", wires.size()), latency, Policy::FATPIPE);
        std::vector<sg4::LinkInRoute> route{sg4::LinkInRoute(wires[latency])};
        if (pricing_.node_of(from) != pricing_.node_of(to)) {
          route.emplace_back(out[pricing_.node_of(from)]);
          route.emplace_back(in[pricing_.node_of(to)]);
        }
        zone->add_route(ranks_[from].host->get_netpoint(), ranks_[to].host->get_netpoint(), nullptr, nullptr, route,
                        false);
      }
    }
    zone->seal();
  }

  [[nodiscard]] double latency_between(uint32_t from, uint32_t to) const {
    return pricing_.message(from, to, 0).network;
  }

  void prepare(uint32_t rank) {
    Rank& r = ranks_[rank];
    const Schedule& schedule = schedules_[rank];
    r.followers.resize(schedule.steps.size());
    steps_left_ += schedule.steps.size();
    for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
      const Step& step = schedule.steps[i];
      const bool receives = step.kind == StepKind::kReceive;
      r.left.push_back(step.n_waits + (receives ? 1 : 0));
      for (const uint32_t wait : schedule.waits_of(step)) r.followers[wait].push_back(i);
      if (!receives) continue;
      r.receives[{step.peer, step.tag}].push(i);
      listen(rank, step);
    }
  }

  void begin(uint32_t rank) {
    for (uint32_t i = 0; i < ranks_[rank].left.size(); ++i) {
      if (ranks_[rank].left[i] == 0) ask(rank, i);
    }
  }

  void ask(uint32_t rank, uint32_t i) {
    ranks_[rank].processor.ask(
        i, rank,
        [this, rank, i] {
          perform(rank, i);
          for (const uint32_t follower : ranks_[rank].followers[i]) settle(rank, follower);
          end_ = std::max(end_, sg4::Engine::get_clock());
          --steps_left_;
          done_->release();
        },
        schedules_[rank].steps[i].shared());
  }

  void settle(uint32_t rank, uint32_t step) {
    if (--ranks_[rank].left[step] == 0) ask(rank, step);
  }

  static std::string mailbox(uint32_t from, uint32_t to, uint32_t tag) {
    return fmt::format("{} {} {}", from, to, tag);
  }

  /// Waits for one message of the network that this receive, or one with its tag, is for.
  void listen(uint32_t rank, const Step& step) {
    if (pricing_.message(step.peer, rank, step.bytes).network == 0) return;
    sg4::Actor::create("port", ranks_[rank].host, [this, rank, &step] {
      (void)sg4::Mailbox::by_name(mailbox(step.peer, rank, step.tag))->get<char>();
      arrive(step.peer, rank, step.tag);
    })->daemonize();
  }

  void arrive(uint32_t from, uint32_t to, uint32_t tag) {
    std::queue<uint32_t>& receives = ranks_[to].receives[{from, tag}];
    const uint32_t step = receives.front();
    receives.pop();
    settle(to, step);
  }

  void perform(uint32_t rank, uint32_t i) {
    const Step& step = schedules_[rank].steps[i];
    if (step.shared()) {
      meet(rank, step);
    } else if (step.kind == StepKind::kReceive) {
      sg4::this_actor::execute(pricing_.message(step.peer, rank, step.bytes).receive);
    } else if (step.kind == StepKind::kSend) {
      send(rank, i, step);
    } else {
      sg4::this_actor::execute(pricing_.work(step.bytes));
    }
  }

  /// The k-th of one rank is the k-th of the others.
  void meet(uint32_t rank, const Step& step) {
    const uint32_t node = pricing_.node_of(rank);
    const uint32_t k = ranks_[rank].met[step.of_leaders ? 1 : 0]++;
    Meeting& meeting = meetings_[{step.of_leaders ? pricing_.nodes() : node, k}];
    meeting.ends.emplace_back(rank, &step);
    const size_t all = step.of_leaders ? pricing_.nodes() : ranks_.size() / pricing_.nodes();
    if (meeting.ends.size() == all) {
      for (size_t i = 0; i < all; ++i) meeting.all->release();
    }
    meeting.all->acquire();
    step.of_leaders ? exchange(meeting) : read_at_once(meeting);
  }

  [[nodiscard]] uint64_t bytes_of(const std::pair<uint32_t, const Step*>& end) const {
    return schedules_[end.first].total(*end.second);
  }

  /// All are there until the slowest has read what the others gave.
  void read_at_once(const Meeting& meeting) {
    uint32_t readers = 0;
    uint64_t most = 0;
    for (const auto& end : meeting.ends) {
      const StepKind kind = end.second->kind;
      const bool gives = kind == StepKind::kBcastRoot || kind == StepKind::kScatterRoot ||
                         kind == StepKind::kGatherLeaf || kind == StepKind::kBarrier;
      if (gives || bytes_of(end) == 0) continue;
      ++readers;
      most = std::max(most, bytes_of(end));
    }
    sg4::this_actor::execute(pricing_.shared(most, readers));
  }

  /// Each round has partners twice as far apart: the whole vector; all that one has so far; half of what is for others.
  void exchange(const Meeting& meeting) {
    const auto is = [&](StepKind kind) {
      return std::any_of(meeting.ends.begin(), meeting.ends.end(),
                         [&](const auto& e) { return e.second->kind == kind; });
    };
    const bool reduces =
        is(StepKind::kReduceRoot) || is(StepKind::kAllreduce) || is(StepKind::kReduceScatter) || is(StepKind::kExscan);
    const auto parts =
        std::find_if(meeting.ends.begin(), meeting.ends.end(), [](const auto& e) { return e.second->n_parts > 0; });
    const uint64_t leaders = meeting.ends.size();
    uint32_t first = meeting.ends[0].first;
    uint32_t second = meeting.ends[1].first;
    if (first > second) std::swap(first, second);
    for (uint64_t far = 1; far < leaders; far *= 2) {
      uint64_t bytes = meeting.ends[0].second->bytes;
      if (parts != meeting.ends.end())
        bytes = bytes_of(*parts) / leaders * (is(StepKind::kAlltoall) ? leaders / 2 : std::min(far, leaders - far));
      const model::MessagePrice price = pricing_.message(first, second, bytes);
      sg4::this_actor::execute(price.send);
      sg4::this_actor::sleep_for(price.network);
      sg4::this_actor::execute(price.receive + (reduces ? pricing_.work(bytes) : 0));
    }
  }

  void send(uint32_t rank, uint32_t i, const Step& step) {
    const model::MessagePrice price = pricing_.message(rank, step.peer, step.bytes);
    sg4::this_actor::execute(price.send);
    if (price.network == 0) return arrive(rank, step.peer, step.tag);
    if (wires_ == Wires::kTurns && price.link > 0) return leave(rank, i, step, price);
    static char token = 0;
    const double bytes = (price.network - latency_between(rank, step.peer)) * kBytesPerUs;
    sg4::Mailbox::by_name(mailbox(rank, step.peer, step.tag))
        ->put_init(&token, static_cast<uint64_t>(std::llround(bytes)))
        ->detach();
  }

  /// The message passes both links; on the second it is for the last part of its time on the way.
  void leave(uint32_t rank, uint32_t i, const Step& step, const model::MessagePrice& price) {
    out_[pricing_.node_of(rank)].ask(i, rank, [this, rank, i, &step, price] {
      sg4::Actor::create("message", ranks_[rank].host, [this, rank, i, &step, price] {
        sg4::this_actor::sleep_for(price.network - price.link);
        in_[pricing_.node_of(step.peer)].ask(i, rank, [this, rank, &step, price] {
          sg4::this_actor::sleep_for(price.link);
          arrive(rank, step.peer, step.tag);
        });
      });
      sg4::this_actor::sleep_for(price.link);
    });
  }

  std::span<const Schedule> schedules_;
  const model::Pricing& pricing_;
  Wires wires_;
  std::vector<Rank> ranks_;
  std::vector<Server> out_, in_;                               ///< links by node
  std::map<std::pair<uint32_t, uint32_t>, Meeting> meetings_;  ///< by node, or behind the last one for leaders; and k
  sg4::SemaphorePtr done_ = sg4::Semaphore::create(0);
  uint64_t steps_left_ = 0;
  double end_ = 0;
};

std::optional<double> simulate(std::span<const Schedule> schedules, const model::Pricing& pricing, Wires wires) {
  // No factors, windows or acknowledgements of TCP: a link is a latency and a bandwidth.
  std::string words[] = {"replay",
                         "--log=root.threshold:error",
                         "--cfg=network/model:CM02",
                         "--cfg=network/crosstraffic:no",
                         "--cfg=network/TCP-gamma:1e15",
                         "--cfg=surf/precision:1e-9",
                         "--cfg=contexts/stack-size:128"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int count = static_cast<int>(std::size(words));
  sg4::Engine engine(&count, arguments.data());
  return Simulation(schedules, pricing, wires).run(engine);
}

}  // namespace

std::optional<double> replay(std::span<const Schedule> schedules, const model::Pricing& pricing, Wires wires) {
  int ends[2];
  if (pipe(ends) != 0) return std::nullopt;
  std::fflush(nullptr);  // SimGrid flushes what the child has inherited
  const pid_t child = fork();
  if (child == 0) {
    const std::optional<double> us = simulate(schedules, pricing, wires);
    const bool told = us && write(ends[1], &*us, sizeof *us) == sizeof *us;
    _exit(told ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  close(ends[1]);
  double us = 0;
  const bool heard = child > 0 && read(ends[0], &us, sizeof us) == sizeof us;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return heard ? std::optional<double>(us) : std::nullopt;
}

}  // namespace zh::test
