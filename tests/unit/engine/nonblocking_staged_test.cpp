// Large started collectives through staging areas: every collective that is served, in processes and in threads,
// several under way at once, lengths that disagree, members that are near each other, and one that lacks memory.
#include "nonblocking_support.h"

#include <random>

namespace zh::test {
namespace {

constexpr uint64_t kLargeContext = 78;
constexpr uint64_t kLeast = coll::kLeastStagedBytes / 8;

StormConfig large_in(World world, int ranks) {
  StormConfig config;
  config.world = world;
  config.ranks = ranks;
  config.rank_bytes = 32 << 20;
  return config;
}

template <typename Body>
void run_all(World world, int ranks, Body&& body) {
  run_ranks(world, ranks, [&](TestBootstrap& bootstrap) {
    EngineRank r = make_rank(bootstrap, large_in(world, ranks));
    ASSERT_NE(r.rank, nullptr);
    {
      LargeRank me(*r.rank, kLargeContext);
      body(me, *r.rank);
      ASSERT_TRUE(bootstrap.barrier().ok());
    }
    r.rank->quiesce();
    ASSERT_TRUE(bootstrap.barrier().ok());
  });
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
    run_all(GetParam(), ranks, [](LargeRank& me, engine::Rank&) {
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
  run_all(GetParam(), 3, [seed](LargeRank& me, engine::Rank& rank) {
    std::mt19937_64 shared(seed);
    std::mt19937_64 own(me.self());
    for (uint64_t number = 0; number < 60; ++number) {
      const Served& s = served()[shared() % served().size()];
      me.begin({s.collective, number, s.counts[shared() % 3], static_cast<uint32_t>(shared() % me.size()), false});
      if (own() % 5 == 0) compute(own() % 100'000);
      while (me.under_way.size() > own() % 5) {
        const auto& u = me.under_way[own() % me.under_way.size()];
        rank.wait_until([&] {
          me.advance_all();
          return u->call.ended;
        });
        ASSERT_NO_FATAL_FAILURE(me.finish(0));
      }
    }
    ASSERT_NO_FATAL_FAILURE(me.finish_all());
  });
}

/// Begins a call and says what becomes of it.
NonblockingOnNode::Progress outcome(LargeRank& me, engine::Rank& rank, const SmallCall& what) {
  auto* const u = me.begin(what);
  NonblockingOnNode::Progress progress = NonblockingOnNode::Progress::kWaits;
  rank.wait_until([&] {
    progress = me.calls().advance(&u->call);
    return progress != NonblockingOnNode::Progress::kWaits;
  });
  me.under_way.clear();
  return progress;
}

TEST_P(Large, LengthsThatDisagreeAreForMessages) {
  run_all(GetParam(), 3, [](LargeRank& me, engine::Rank& rank) {
    const uint64_t mine = kLeast + (me.self() == 1 ? 1 : 0);
    for (uint64_t number = 0; number < 8; number += 2) {
      EXPECT_EQ(outcome(me, rank, {Collective::kAllreduce, number, mine, 0, false}),
                NonblockingOnNode::Progress::kUnserved);
      EXPECT_EQ(outcome(me, rank, {Collective::kBcast, number + 1, kLeast, 0, false}),
                NonblockingOnNode::Progress::kEnded);
    }
  });
}

// Members that have not much memory for teams take another way together, and the right one again later.
TEST(LargeMemory, WhatOneLacksNobodyUses) {
  run_all(World::kThreads, 3, [](LargeRank& me, engine::Rank& rank) {
    EXPECT_EQ(outcome(me, rank, {Collective::kBcast, 0, kLeast, 0, false}), NonblockingOnNode::Progress::kEnded);
    std::vector<std::unique_ptr<coll::NonblockingTeam>> others;
    for (uint64_t k = 0; me.self() == 1; ++k) {
      others.push_back(rank.make_nonblocking_team(false, 1000 + k, {0, 1, 2}, 1));
      if (others.back()->take_block() == kNoOffset) break;
    }
    // The area of the first call is there still.
    EXPECT_EQ(outcome(me, rank, {Collective::kBcast, 1, kLeast, 0, false}), NonblockingOnNode::Progress::kEnded);
    me.begin({Collective::kBcast, 2, kLeast, 0, false});
    ASSERT_NO_FATAL_FAILURE(me.finish_all());
  });
}

TEST(LargeNear, IsForMessages) {
  run_ranks(World::kThreads, 2, [](TestBootstrap& world) {
    StormConfig config = large_in(World::kThreads, 2);
    config.streams = false;
    EngineRank r = make_rank(world, config);
    ASSERT_NE(r.rank, nullptr);
    {
      LargeRank me(*r.rank, kLargeContext, NonblockingOnNode::Kind::kStaged);
      EXPECT_FALSE(me.calls().is_out());
      EXPECT_EQ(outcome(me, *r.rank, {Collective::kAllreduce, 0, kLeast, 0, false}),
                NonblockingOnNode::Progress::kUnserved);
      EXPECT_TRUE(me.calls().is_out());
      ASSERT_TRUE(world.barrier().ok());
    }
    r.rank->quiesce();
    ASSERT_TRUE(world.barrier().ok());
  });
}

TEST(LargeFits, WhatIsServed) {
  coll::Problem problem;
  problem.layout = coll::Layout::one_node(4);
  problem.element_bytes = 8;
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
