// choose(): which way each kind of call goes, at the sizes at which that changes.
#include "coll/algorithms/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace zh::test {
namespace {

using coll::Collective;
using coll::CollectiveWay;
using coll::NodeWay;
using coll::Problem;

constexpr uint64_t kKiB = 1024;

Problem call_of(Collective collective, uint64_t bytes, uint32_t ranks, bool blocks) {
  Problem p{.collective = collective, .count = bytes, .blocks = blocks, .layout = coll::Layout::one_node(ranks)};
  return p;
}

NodeWay node_way_of(Collective collective, uint64_t bytes, const coll::NodeFacts& node) {
  const coll::Choice choice = coll::choose(call_of(collective, bytes, node.ranks, true), {true, true, node}, {});
  EXPECT_EQ(choice.way, CollectiveWay::kTeam);
  return choice.node;
}

struct Border {
  Collective collective;
  coll::NodeFacts node;
  uint64_t last_small;                   ///< bytes of the largest call that is small
  NodeWay beyond;                        ///< how one byte more goes
  uint64_t last_message = ~uint64_t{0};  ///< of the largest that is a message, if `beyond` says so
};

// Multicore collectives paper, section 4.2: on one node its algorithms are what a team does, not messages.
TEST(Choose, ShmemParallelAndCyclicOfANodeAreATeams) {
  for (const auto& [name, order] : {std::pair{coll::kShmemParallel, coll::StagingOrder::kParallel},
                                    std::pair{coll::kShmemCyclic, coll::StagingOrder::kCyclic},
                                    std::pair{std::string_view("ring"), coll::StagingOrder::kFree}}) {
    coll::Precedence named;
    named.named[static_cast<size_t>(Collective::kAllreduce)] = coll::algorithm(Collective::kAllreduce, name);
    const auto choice = [&](uint64_t bytes, bool blocks, bool team) {
      const Problem p = call_of(Collective::kAllreduce, bytes, 4, blocks);
      return coll::choose(p, {team, true, {4, false, true}}, named);
    };
    const bool served = order != coll::StagingOrder::kFree;
    EXPECT_EQ(choice(64 * kKiB, true, true).way, served ? CollectiveWay::kTeam : CollectiveWay::kSchedule) << name;
    EXPECT_EQ(choice(64 * kKiB, true, true).order, order) << name;
    EXPECT_EQ(choice(16 * kKiB, true, true).order, coll::StagingOrder::kFree) << "copied through control blocks";
    EXPECT_EQ(choice(64 * kKiB, true, false).way, CollectiveWay::kSchedule) << "no team";
    EXPECT_EQ(choice(64 * kKiB, false, true).way, CollectiveWay::kSchedule) << "nonblocking";
  }
}

TEST(Choose, BlockingCallsOfANode) {
  using enum NodeWay;
  const coll::NodeFacts two{2, false, true}, four{4, false, true}, crowded{4, true, true}, young{4, false, false},
      young_two{2, false, false};
  for (const Border& b : std::vector<Border>{
           {Collective::kAllreduce, two, 16 * kKiB, kLarge},
           {Collective::kAllreduce, four, 16 * kKiB, kLarge},
           {Collective::kAllreduce, young, 2 * kKiB, kLarge},
           {Collective::kReduce, two, 4 * kKiB, kMessage, 512 * kKiB},
           {Collective::kReduce, four, 16 * kKiB, kLarge},
           {Collective::kScan, two, 4 * kKiB, kMessage, 4096 * kKiB},
           {Collective::kExscan, crowded, 16 * kKiB, kLarge},
           {Collective::kBcast, two, 4 * kKiB, kMessage},
           {Collective::kBcast, four, 16 * kKiB, kLarge},
           {Collective::kBcast, crowded, 32 * kKiB, kLarge},
           {Collective::kGather, four, 16 * kKiB, kLarge},
           {Collective::kGather, crowded, 32 * kKiB, kMessage},
           {Collective::kScatter, two, 4 * kKiB, kMessage},
           {Collective::kScatter, young_two, 1 * kKiB, kMessage},
           {Collective::kScatter, four, 4 * kKiB, kLarge},
           {Collective::kScatter, crowded, 8 * kKiB, kMessage, 256 * kKiB},
           {Collective::kAllgather, four, 16 * kKiB, kLarge},
           {Collective::kAlltoall, four, 4 * kKiB, kLarge},
           {Collective::kReduceScatter, four, 4 * kKiB, kLarge},
       }) {
    const std::string what = std::string(coll::name_of(b.collective)) + " of " + std::to_string(b.node.ranks) +
                             (b.node.crowded ? ", crowded" : "") + (b.node.grown ? "" : ", young");
    EXPECT_EQ(node_way_of(b.collective, b.last_small, b.node), kSmall) << what;
    EXPECT_EQ(node_way_of(b.collective, b.last_small + 1, b.node), b.beyond) << what;
    if (b.last_message == ~uint64_t{0}) {
      EXPECT_EQ(node_way_of(b.collective, 1 << 30, b.node), b.beyond) << what;
      continue;
    }
    EXPECT_EQ(node_way_of(b.collective, b.last_message, b.node), kMessage) << what;
    EXPECT_EQ(node_way_of(b.collective, b.last_message + 1, b.node), kLarge) << what;
  }
}

CollectiveWay nonblocking(Collective collective, uint64_t bytes, bool kernel = true, uint32_t ranks = 2) {
  return coll::choose(call_of(collective, bytes, ranks, false), {false, kernel, {}}, {}).way;
}

TEST(Choose, NonblockingCallsOfANode) {
  using enum CollectiveWay;
  EXPECT_EQ(nonblocking(Collective::kAllreduce, 512), kInSlots);
  EXPECT_EQ(nonblocking(Collective::kAllreduce, 513), kSchedule);
  EXPECT_EQ(nonblocking(Collective::kAllreduce, 16 * kKiB - 1), kSchedule);
  EXPECT_EQ(nonblocking(Collective::kAllreduce, 16 * kKiB), kStaged);
  EXPECT_EQ(nonblocking(Collective::kAlltoall, 256), kInSlots) << "of two pieces";
  EXPECT_EQ(nonblocking(Collective::kAlltoall, 257), kSchedule);
  EXPECT_EQ(nonblocking(Collective::kBcast, 256 * kKiB), kStaged);
  EXPECT_EQ(nonblocking(Collective::kBcast, 256 * kKiB + 1), kSchedule);
  EXPECT_EQ(nonblocking(Collective::kGather, 64 * kKiB), kSchedule);
  EXPECT_EQ(nonblocking(Collective::kBcast, 8, true, 33), kSchedule) << "too many to read each other";
  EXPECT_EQ(nonblocking(Collective::kAllreduce, 8, false), kHost) << "nobody could call the program's function";
}

TEST(Choose, NonblockingCallsBetweenNodesAreTheHosts) {
  Problem p = call_of(Collective::kBcast, 8, 4, false);
  const uint32_t node_of[] = {0, 0, 1, 1};
  p.layout = std::make_shared<const coll::Layout>(node_of);
  EXPECT_EQ(coll::choose(p, {}, {}).way, CollectiveWay::kHost);
  p.blocks = true;
  EXPECT_EQ(coll::choose(p, {}, {}).way, CollectiveWay::kSchedule);
  EXPECT_EQ(coll::choose(p, {}, {}).schedule.algorithm->name, coll::kHostLeaders);
}

// Two nodes of as many ranks each.
TEST(Choose, NodesShareStepsOfBlockingCallsWhereThatIsWorthIt) {
  std::vector<std::string> faults;
  coll::Precedence ring;
  ring.named = coll::read_names("bcast:leader-ring,reduce:hierarchical", &faults);
  const auto shares = [](Collective collective, uint32_t node_ranks, uint64_t bytes, const coll::Precedence& named,
                         bool blocks = true) {
    Problem p = call_of(collective, bytes, 2 * node_ranks, blocks);
    std::vector<uint32_t> node_of(2 * node_ranks, 0);
    std::fill(node_of.begin() + node_ranks, node_of.end(), 1);
    p.layout = std::make_shared<const coll::Layout>(node_of);
    return coll::shares_steps(p, named);
  };
  EXPECT_TRUE(shares(Collective::kBcast, 4, 16 * kKiB, ring));
  EXPECT_FALSE(shares(Collective::kBcast, 4, 16 * kKiB - 1, ring));
  EXPECT_FALSE(shares(Collective::kBcast, 3, 64 * kKiB, ring)) << "too few";
  EXPECT_FALSE(shares(Collective::kReduce, 4, 64 * kKiB, ring)) << "reductions to a root gain nothing";
  EXPECT_TRUE(shares(Collective::kBcast, 2, 8, {})) << "by host-leaders";
  EXPECT_FALSE(shares(Collective::kBcast, 4, 64 * kKiB, ring, false));
}

TEST(Choose, AVariableCountsMoreThanSharedMemory) {
  std::vector<std::string> faults;
  coll::Precedence precedence;
  precedence.named = coll::read_names("allreduce:ring,bcast:host", &faults);
  const coll::Facts facts{true, true, {}};
  for (const bool blocks : {false, true}) {
    EXPECT_EQ(coll::choose(call_of(Collective::kAllreduce, 8, 2, blocks), facts, precedence).way,
              CollectiveWay::kSchedule);
    EXPECT_EQ(coll::choose(call_of(Collective::kBcast, 8, 2, blocks), facts, precedence).way, CollectiveWay::kHost);
    EXPECT_EQ(coll::choose(call_of(Collective::kReduce, 8, 2, blocks), facts, precedence).way,
              blocks ? CollectiveWay::kTeam : CollectiveWay::kInSlots);
  }
}

}  // namespace
}  // namespace zh::test
