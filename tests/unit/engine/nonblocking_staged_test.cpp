// Large started collectives through staging areas: every collective that is served, in processes and in threads,
// several under way at once, lengths that disagree, members that are near each other, and one that lacks memory.
#include "nonblocking_support.h"

#include <random>

namespace zh::test {
namespace {

constexpr uint64_t kLeast = coll::kLeastStagedBytes / 8;

void run_large(World world, int ranks, const NonblockingBody& body) {
  run_nonblocking(config_of(world), ranks, NonblockingOnNode::Kind::kStagedAnywhere, body);
}

struct Served {
  Collective collective;
  std::vector<uint64_t> counts;
};
const std::vector<Served>& served() {
  static const std::vector<Served> all{
      {Collective::kAllreduce, {kLeast, kLeast + 1, 20'011, 100'000}},
      {Collective::kReduce, {kLeast, kLeast + 1, 20'011, 100'000}},
      {Collective::kReduceScatter, {kLeast, kLeast + 1, 20'011}},
      {Collective::kBcast, {kLeast, kLeast + 1, 20'011, 32'768}},
      {Collective::kAllgather, {kLeast, kLeast + 1, 8192}},
      {Collective::kAlltoall, {kLeast, kLeast + 1, 8192}},
  };
  return all;
}
bool large_in_place(Collective collective, bool is_root) {
  if (collective == Collective::kReduce) return is_root;
  // A reduce_scatter in place takes another way.
  return collective != Collective::kBcast && collective != Collective::kReduceScatter;
}

class Large : public ::testing::TestWithParam<World> {};

TEST_P(Large, EveryCollective) {
  for (const int ranks : {2, 3}) {
    run_large(GetParam(), ranks, [](NonblockingRank& me, engine::Rank&, TestBootstrap&) {
      uint64_t number = 0;
      for (const Served& s : served()) {
        for (const uint64_t count : s.counts) {
          for (const bool in_place : {false, true}) {
            const auto root = static_cast<uint32_t>(number % me.size());
            const bool is_one = in_place && large_in_place(s.collective, me.self() == root);
            const auto* const u = me.begin({s.collective, number++, count, root, is_one});
            me.wait(u);
            ASSERT_FALSE(u->call.unserved);
            ASSERT_NO_FATAL_FAILURE(me.finish(0));
          }
        }
      }
    });
  }
}

TEST_P(Large, SeveralUnderWay) {
  const uint64_t seed = storm_seed();
  run_large(GetParam(), 3, [seed](NonblockingRank& me, engine::Rank&, TestBootstrap&) {
    std::mt19937_64 shared(seed);
    std::mt19937_64 own(me.self());
    for (uint64_t number = 0; number < 60; ++number) {
      const Served& s = served()[shared() % served().size()];
      me.begin({s.collective, number, s.counts[shared() % 3], static_cast<uint32_t>(shared() % me.size()), false});
      if (own() % 5 == 0) compute(own() % 100'000);
      while (me.under_way.size() > own() % 5) {
        me.wait(me.under_way[own() % me.under_way.size()].get());
        ASSERT_NO_FATAL_FAILURE(me.finish(0));
      }
    }
    ASSERT_NO_FATAL_FAILURE(me.finish_all());
  });
}

/// Begins a call and says what becomes of it.
NonblockingOnNode::Progress outcome(NonblockingRank& me, const SmallCall& what) {
  const NonblockingOnNode::Progress progress = me.outcome(me.begin(what));
  me.under_way.clear();
  return progress;
}

TEST_P(Large, LengthsThatDisagreeAreForMessages) {
  run_large(GetParam(), 3, [](NonblockingRank& me, engine::Rank&, TestBootstrap&) {
    const uint64_t mine = kLeast + (me.self() == 1 ? 1 : 0);
    for (uint64_t number = 0; number < 8; number += 2) {
      EXPECT_EQ(outcome(me, {Collective::kAllreduce, number, mine, 0, false}), NonblockingOnNode::Progress::kUnserved);
      EXPECT_EQ(outcome(me, {Collective::kBcast, number + 1, kLeast, 0, false}), NonblockingOnNode::Progress::kEnded);
    }
  });
}

// Members that have not much memory for teams take another way together, and the right one again later.
TEST(LargeMemory, WhatOneLacksNobodyUses) {
  run_large(World::kThreads, 3, [](NonblockingRank& me, engine::Rank& rank, TestBootstrap&) {
    EXPECT_EQ(outcome(me, {Collective::kBcast, 0, kLeast, 0, false}), NonblockingOnNode::Progress::kEnded);
    std::vector<std::unique_ptr<coll::NonblockingTeam>> others;
    for (uint64_t k = 0; me.self() == 1; ++k) {
      others.push_back(rank.make_nonblocking_team(false, 1000 + k, {0, 1, 2}, 1));
      if (others.back()->take_block() == kNoOffset) break;
    }
    // The area of the first call is there still.
    EXPECT_EQ(outcome(me, {Collective::kBcast, 1, kLeast, 0, false}), NonblockingOnNode::Progress::kEnded);
    me.begin({Collective::kBcast, 2, kLeast, 0, false});
    ASSERT_NO_FATAL_FAILURE(me.finish_all());
  });
}

TEST(LargeNear, IsForMessages) {
  StormConfig config = config_of(World::kThreads);
  config.streams = false;
  run_nonblocking(config, 2, NonblockingOnNode::Kind::kStaged, [](NonblockingRank& me, engine::Rank&, TestBootstrap&) {
    EXPECT_FALSE(me.calls().is_out());
    EXPECT_EQ(outcome(me, {Collective::kAllreduce, 0, kLeast, 0, false}), NonblockingOnNode::Progress::kUnserved);
    EXPECT_TRUE(me.calls().is_out());
  });
}

TEST(LargeFits, WhatIsServed) {
  coll::Problem problem{.element_bytes = 8, .layout = coll::Layout::one_node(4)};
  for (const Served& s : served()) {
    problem.collective = s.collective;
    problem.count = kLeast;
    EXPECT_TRUE(coll::fits_staging(problem)) << coll::name_of(s.collective);
    problem.uniform = false;
    EXPECT_FALSE(coll::fits_staging(problem)) << coll::name_of(s.collective);
    problem.uniform = true;
    problem.count = kLeast - 1;
    EXPECT_FALSE(coll::fits_staging(problem)) << coll::name_of(s.collective);
    problem.count = uint64_t{1} << 30;
    EXPECT_EQ(coll::fits_staging(problem), coll::reduces(s.collective)) << coll::name_of(s.collective);
  }
  problem.count = kLeast;
  for (const Collective other : {Collective::kGather, Collective::kScatter, Collective::kScan, Collective::kBarrier}) {
    problem.collective = other;
    EXPECT_FALSE(coll::fits_staging(problem)) << coll::name_of(other);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Large, ::testing::Values(World::kThreads, World::kProcesses), world_name);

}  // namespace
}  // namespace zh::test
