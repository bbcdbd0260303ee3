// Collectives of ranks on several nodes, over a carrier that delays messages.
// label most-ranks: AcrossNodes[.].*/8by
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "coll/schedule/run.h"
#include "coll/team/team.h"
#include "engine/internode.h"
#include "engine/leader_messages.h"
#include "engine/team_steps.h"
#include "engine_support.h"
#include "network_support.h"
#include "os/clock.h"

namespace zh::test {
namespace {

using coll::Collective;
using coll::Problem;

constexpr double kLookEveryUs = 20'000;

/// Ranks of several nodes, as threads.
class Spanning {
 public:
  Spanning(TestBootstrap& world, Network& network, uint32_t node_ranks) {
    rank_ = make_rank(world, {.node_ranks = node_ranks});
    const node::Node& node = *rank_.node;
    const auto n = static_cast<size_t>(node.world_size());
    self_ = static_cast<uint32_t>(world.rank());
    layout_ = std::make_shared<const coll::Layout>(std::span(node.nodes_of(), n));
    EXPECT_TRUE(rank_.rank->open_internode(std::make_unique<NetworkCarrier>(network, world.rank())).ok());
    transport_ = std::make_unique<engine::SpanTransport>(*rank_.rank, *rank_.rank->internode(), 9,
                                                         engine::RankList{{node.local_indices(), n}, nullptr},
                                                         engine::RankList{{node.world_ranks(), n}, nullptr}, self_);
  }

  /// From now on collectives block, and this rank's node shares by a team.
  void use_team() {
    blocks_ = true;
    std::vector<uint32_t> members;
    for (const uint32_t rank : layout_->members(layout_->node_of(self_))) {
      members.push_back(static_cast<uint32_t>(rank_.node->local_index(static_cast<int>(rank))));
    }
    const auto place = std::find(members.begin(), members.end(), rank_.node->self()) - members.begin();
    if (members.size() == 1) return;
    team_ = rank_.rank->make_team(10, members, static_cast<uint32_t>(place));
    ASSERT_TRUE(team_->ready());
  }

  /// Messages to other nodes that this rank sent for it.
  uint64_t run(Problem problem, std::string_view algorithm, const std::vector<uint64_t>& in,
               std::vector<uint64_t>& out) {
    coll::Schedule schedule = schedule_of(&problem, algorithm);
    uint64_t expected = 0;
    bool leads = false;
    for (const coll::Step& step : schedule.steps) {
      const bool leaves = step.kind == coll::StepKind::kSend && layout_->node_of(step.peer) != layout_->node_of(self_);
      if (leaves) ++expected;
      leads = leads || step.of_leaders;
    }
    const uint64_t before = rank_.rank->internode()->stats().messages;
    EXPECT_EQ(carry_out(problem, std::move(schedule), in, out, false), Code::kOk);
    const uint64_t sent = rank_.rank->internode()->stats().messages - before;
    if (!leads) {
      EXPECT_EQ(sent, expected);
    }
    return sent;
  }

  /// How a call ends on this rank, which has no memory for its buffers if it is `empty_handed`.
  Code attempt(Problem problem, std::string_view algorithm, const std::vector<uint64_t>& in, std::vector<uint64_t>& out,
               bool empty_handed) {
    coll::Schedule schedule = schedule_of(&problem, algorithm);
    return carry_out(problem, std::move(schedule), in, out, empty_handed);
  }

 private:
  coll::Schedule schedule_of(Problem* problem, std::string_view algorithm) {
    problem->element_bytes = 8;
    problem->chunk_bytes = engine::Internode::kInlineBytes + 4096;
    problem->self = self_;
    problem->layout = layout_;
    problem->blocks = blocks_;
    problem->team = team_ != nullptr;
    coll::Schedule schedule;
    EXPECT_TRUE(coll::build(*problem, algorithm, &schedule).ok());
    return schedule;
  }

  Code carry_out(const Problem& problem, coll::Schedule schedule, const std::vector<uint64_t>& in,
                 std::vector<uint64_t>& out, bool empty_handed) {
    const bool leads = std::ranges::any_of(schedule.steps, [](const coll::Step& step) { return step.of_leaders; });
    std::unique_ptr<coll::Run> run;
    EXPECT_TRUE(coll::Run::create(std::make_shared<coll::Plan>(std::move(schedule)), *transport_, &run).ok());
    coll::Call call{in.data(), out.data(), kSums, static_cast<int32_t>(coll::kTags * calls_++)};
    call.empty_handed = empty_handed;
    if (empty_handed) call.input = call.output = nullptr;
    std::unique_ptr<engine::TeamSteps> node;
    if (team_ != nullptr) node = std::make_unique<engine::TeamSteps>(*team_);
    call.node = node.get();
    call.leaders = leads ? &leaders_of_nodes() : nullptr;
    call.exact = coll::reduces(problem.collective);
    transport_->begin_blocking(call.first_tag);
    run->start(call);
    os::Interval looks;
    for (bool ended = false; !ended;) {
      rank_.rank->wait_until([&] {
        rank_.rank->internode()->progress();
        ended = run->advance();
        if (!ended && looks.over(kLookEveryUs)) transport_->stands_still(call.first_tag);
        return ended || run->shared_is_next();
      });
      if (!ended) run->share();
    }
    return run->code();
  }

 public:
  /// For a rank that leads its node.
  coll::LeaderSteps& leaders_of_nodes() {
    if (leaders_ == nullptr) {
      std::vector<int32_t> world;
      for (uint32_t node = 0; node < layout_->nodes(); ++node) {
        world.push_back(static_cast<int32_t>(layout_->members(node)[0]));
      }
      leaders_ = std::make_unique<engine::LeaderMessages>(*rank_.rank, 11, std::move(world), layout_->node_of(self_));
    }
    return *leaders_;
  }

  [[nodiscard]] const coll::Layout& layout() const { return *layout_; }
  [[nodiscard]] uint32_t self() const { return self_; }
  /// Messages that end this rank's last sends are taken until all are here.
  void end(TestBootstrap& world) {
    ASSERT_TRUE(world.barrier().ok());
    // A rank that refuses takes no message whose sender has waited long enough to leave a copy.
    rank_.rank->take_back_sends();
    rank_.rank->quiesce();
    ASSERT_TRUE(world.barrier().ok());
  }

 private:
  EngineRank rank_;
  std::shared_ptr<const coll::Layout> layout_;
  std::unique_ptr<engine::SpanTransport> transport_;
  std::unique_ptr<coll::Team> team_;
  std::unique_ptr<engine::LeaderMessages> leaders_;
  uint32_t self_ = 0;
  uint32_t calls_ = 0;
  bool blocks_ = false;
};

struct Shape {
  int ranks;
  uint32_t node_ranks;
  bool teams;
};
class AcrossNodes : public ::testing::TestWithParam<Shape> {};

/// Number `i` of what rank `self` of `n` must have of a call to which rank r brings (r + 1) * (i + 1); nothing where it
/// gets none.
std::optional<uint64_t> expected_across(const Problem& problem, uint64_t n, uint64_t self, uint64_t i) {
  const uint64_t count = problem.count;
  const uint64_t root = problem.root;
  const auto sum = [](uint64_t ranks) { return ranks * (ranks + 1) / 2; };
  using Expected = std::optional<uint64_t>;
  const bool of_all = problem.collective == Collective::kAllgather || problem.collective == Collective::kGather ||
                      problem.collective == Collective::kAlltoall;
  if (i >= count && !of_all) return {};
  switch (problem.collective) {
    case Collective::kBcast:
      return self == root ? Expected() : (root + 1) * (i + 1);
    case Collective::kReduce:
      return self != root ? Expected() : sum(n) * (i + 1);
    case Collective::kAllreduce:
      return sum(n) * (i + 1);
    case Collective::kReduceScatter:
      return sum(n) * (self * count + i + 1);
    case Collective::kScan:
      return sum(self + 1) * (i + 1);
    case Collective::kExscan:
      return self == 0 ? Expected() : sum(self) * (i + 1);
    case Collective::kScatter:
      return (root + 1) * (self * count + i + 1);
    case Collective::kGather:
      return self != root ? Expected() : (i / count + 1) * (i % count + 1);
    case Collective::kAllgather:
      return (i / count + 1) * (i % count + 1);
    case Collective::kAlltoall:
      return (i / count + 1) * (self * count + i % count + 1);
    default:
      return {};
  }
}

constexpr Collective kAcross[] = {Collective::kBarrier,   Collective::kBcast,         Collective::kReduce,
                                  Collective::kGather,    Collective::kScatter,       Collective::kAllreduce,
                                  Collective::kScan,      Collective::kReduceScatter, Collective::kExscan,
                                  Collective::kAllgather, Collective::kAlltoall};

TEST_P(AcrossNodes, CollectivesAreRightAndLeadersAloneSpeakToOtherNodes) {
  const auto n = static_cast<uint64_t>(GetParam().ranks);
  Network network;
  run_ranks(World::kThreads, GetParam().ranks, [&](TestBootstrap& world) {
    Spanning span(world, network, GetParam().node_ranks);
    if (GetParam().teams) span.use_team();
    const uint64_t self = span.self();
    const uint32_t leader = span.layout().members(span.layout().node_of(span.self()))[0];
    for (const uint64_t count : {uint64_t{1}, uint64_t{100}, uint64_t{9000}}) {
      std::vector<uint64_t> in(n * count);
      std::vector<uint64_t> out(n * count);
      for (uint64_t i = 0; i < n * count; ++i) in[i] = (self + 1) * (i + 1);
      for (const Collective collective : kAcross) {
        for (const coll::Algorithm& algorithm : coll::algorithms(collective)) {
          Problem problem{.collective = collective, .count = collective == Collective::kBarrier ? 0 : count};
          problem.root = static_cast<uint32_t>(count % n);
          std::fill(out.begin(), out.end(), 99);
          const uint64_t sent = span.run(problem, algorithm.name, in, out);
          for (uint64_t i = 0; i < n * count; ++i) {
            ASSERT_EQ(out[i], expected_across(problem, n, self, i).value_or(99)) << algorithm.name << ", " << i;
          }
          const bool by_leaders = algorithm.name == "leader-ring" || algorithm.name == "hierarchical" ||
                                  algorithm.name == coll::kHostLeaders;
          if (collective == Collective::kBcast && by_leaders && self != leader && self != problem.root) {
            EXPECT_EQ(sent, 0u) << algorithm.name;
          }
        }
      }
    }
    span.end(world);
  });
}

// One rank has no memory for its buffers. All end, whoever has no error has the right result, and no message stays that
// a later call would take for its own. Steps of leaders cannot tell other nodes.
TEST_P(AcrossNodes, ARankWithoutMemoryIsToldOfToAll) {
  const int ranks = GetParam().ranks;
  Network network;
  const auto n = static_cast<uint64_t>(ranks);
  run_ranks(World::kThreads, ranks, [&](TestBootstrap& world) {
    Spanning span(world, network, GetParam().node_ranks);
    if (GetParam().teams) span.use_team();
    const uint64_t self = span.self();
    for (const Collective collective : kAcross) {
      if (collective == Collective::kAlltoall) continue;
      for (const coll::Algorithm& algorithm : coll::algorithms(collective)) {
        const bool by_host = algorithm.name == coll::kHostLeaders;
        for (const uint64_t victim : {uint64_t{1}, uint64_t{0}, n - 1}) {
          if (by_host && (victim != 1 || collective == Collective::kBarrier)) continue;
          for (const uint64_t count : {uint64_t{100}, uint64_t{9000}}) {
            if (victim != 1 && count != 100) continue;  // who lacks memory matters at one size, the size for one
            Problem problem{.collective = collective, .count = collective == Collective::kBarrier ? 0 : count};
            problem.root = static_cast<uint32_t>(n - 1);
            std::vector<uint64_t> in(n * count);
            for (uint64_t i = 0; i < n * count; ++i) in[i] = (self + 1) * (i + 1);
            for (const bool short_of_memory : {true, false}) {
              std::vector<uint64_t> out(n * count, 99);
              const bool empty_handed = short_of_memory && self == victim;
              const Code code = span.attempt(problem, algorithm.name, in, out, empty_handed);
              if (empty_handed) {
                ASSERT_EQ(code, Code::kNoMemory) << algorithm.name;
              } else if (!short_of_memory) {
                ASSERT_EQ(code, Code::kOk) << algorithm.name;
              }
              for (uint64_t i = 0; i < out.size() && code == Code::kOk; ++i) {
                if (by_host && short_of_memory) break;
                const std::optional<uint64_t> right = expected_across(problem, n, self, i);
                ASSERT_EQ(out[i], right.value_or(99)) << algorithm.name << ", " << i << " without " << victim;
              }
            }
          }
        }
      }
    }
    span.end(world);
  });
}

// A rank of the first node that leads none, the root of all that have one, has another length. Nobody waits for ever,
// other nodes notice nothing, and the next call is a right one again.
TEST_P(AcrossNodes, LengthsThatDisagreeInANodeKeepNobodyWaiting) {
  if (!GetParam().teams) GTEST_SKIP() << "messages that nobody sends are waited for until ranks look around";
  constexpr uint64_t kCounts[][2] = {{2, 3}, {3, 2}, {0, 4}, {4, 0}, {1, 9000}, {9000, 1}};
  const auto n = static_cast<uint64_t>(GetParam().ranks);
  Network network;
  run_ranks(World::kThreads, GetParam().ranks, [&](TestBootstrap& world) {
    Spanning span(world, network, GetParam().node_ranks);
    span.use_team();
    const uint64_t self = span.self();
    const bool is_beside = span.layout().node_of(span.self()) == 0;
    for (const Collective collective : std::span(kAcross).subspan(1)) {
      for (const auto& [usual, odd] : kCounts) {
        Problem problem{.collective = collective, .root = 1, .count = self == 1 ? odd : usual};
        const std::vector<uint64_t> in(n * 9000, 1);
        std::vector<uint64_t> out(n * 9000);
        const Code code = span.attempt(problem, coll::kHostLeaders, in, out, false);
        if (!is_beside) {
          EXPECT_EQ(code, Code::kOk) << coll::name_of(collective);
        } else if (collective == Collective::kAllreduce || collective == Collective::kReduceScatter) {
          EXPECT_NE(code, Code::kOk) << coll::name_of(collective) << ", " << usual << " and " << odd;
        } else if (collective == Collective::kScatter && self == 0) {
          EXPECT_NE(code, Code::kOk) << usual << " and " << odd << ": what the root has is of no use";
        } else if (collective == Collective::kGather && self == 1) {
          EXPECT_NE(code, Code::kOk) << usual << " and " << odd;
        }
        problem.count = 5;
        ASSERT_EQ(span.attempt(problem, coll::kHostLeaders, in, out, false), Code::kOk) << coll::name_of(collective);
      }
    }
    span.end(world);
  });
}

// Nobody has asked before whether lengths are the same, so the steps of a node have to tell, and what goes between
// nodes says so to the others.
TEST_P(AcrossNodes, SlicesThatDisagreeInANodeAreAnErrorOfAll) {
  if (!GetParam().teams) GTEST_SKIP() << "messages say so";
  constexpr uint64_t kCounts[][2] = {{100, 104}, {104, 100}, {100, 2400}, {2400, 100}};  // one chunk
  Network network;
  run_ranks(World::kThreads, GetParam().ranks, [&](TestBootstrap& world) {
    Spanning span(world, network, GetParam().node_ranks);
    span.use_team();
    for (const std::string_view algorithm : {"shmem-parallel", "shmem-cyclic"}) {
      for (const auto& [usual, odd] : kCounts) {
        Problem problem{.collective = Collective::kAllreduce, .count = span.self() == 1 ? odd : usual};
        const std::vector<uint64_t> in(9000, 1);
        std::vector<uint64_t> out(9000);
        EXPECT_NE(span.attempt(problem, algorithm, in, out, false), Code::kOk)
            << algorithm << ", " << usual << " and " << odd;
        problem.count = 5000;
        ASSERT_EQ(span.attempt(problem, algorithm, in, out, false), Code::kOk);
        ASSERT_EQ(out[4999], static_cast<uint64_t>(GetParam().ranks));
      }
    }
    span.end(world);
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, AcrossNodes,
                         ::testing::Values(Shape{5, 2, false}, Shape{8, 4, false}, Shape{7, 3, false},
                                           Shape{5, 2, true}, Shape{8, 4, true}, Shape{7, 3, true}, Shape{8, 3, true}),
                         [](const auto& shape) {
                           return std::to_string(shape.param.ranks) + "by" + std::to_string(shape.param.node_ranks) +
                                  (shape.param.teams ? "teams" : "");
                         });

}  // namespace
}  // namespace zh::test
