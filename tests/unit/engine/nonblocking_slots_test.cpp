// Small started collectives through shared memory: every collective, many under way at once in any order of waiting and
// with blocking ones between, members that are ahead, lengths that disagree, and members without memory.
#include "nonblocking_support.h"

#include <algorithm>
#include <random>

namespace zh::test {
namespace {

void run_small(World world, int ranks, const NonblockingBody& body) {
  run_nonblocking(config_of(world), ranks, NonblockingOnNode::Kind::kSlots, body);
}

uint64_t most_elements(Collective collective, uint32_t ranks) {
  const bool one_each = collective == Collective::kScatter || collective == Collective::kAlltoall ||
                        collective == Collective::kReduceScatter;
  return coll::kSlotBytes / 8 / (one_each ? ranks : 1);
}

/// Whether MPI_IN_PLACE means something on a rank.
bool may_be_in_place(Collective collective, bool is_root) {
  const bool rooted =
      collective == Collective::kGather || collective == Collective::kScatter || collective == Collective::kReduce;
  return rooted ? is_root : collective != Collective::kBarrier && collective != Collective::kBcast;
}

std::vector<Collective> all_collectives() {
  std::vector<Collective> all;
  for (size_t i = 0; i < static_cast<size_t>(Collective::kCount); ++i) all.push_back(static_cast<Collective>(i));
  return all;
}

class Small : public ::testing::TestWithParam<World> {};

TEST_P(Small, EveryCollective) {
  for (const int ranks : {1, 2, 5}) {
    run_small(GetParam(), ranks, [](NonblockingRank& me, engine::Rank&, TestBootstrap&) {
      uint64_t number = 0;
      for (const Collective collective : all_collectives()) {
        const uint64_t most = most_elements(collective, me.size());
        for (const uint64_t count : {uint64_t{1}, uint64_t{3}, most}) {
          for (uint32_t root = 0; root < me.size(); ++root) {
            for (const bool in_place : {false, true}) {
              const bool is_one = in_place && may_be_in_place(collective, me.self() == root);
              me.begin({collective, number++, collective == Collective::kBarrier ? 0 : count, root, is_one});
              ASSERT_NO_FATAL_FAILURE(me.finish(0));
            }
          }
        }
      }
    });
  }
}

TEST(SmallFits, WhatASlotHolds) {
  coll::Problem problem;
  problem.layout = coll::Layout::one_node(4);
  for (const Collective collective : all_collectives()) {
    problem.collective = collective;
    problem.element_bytes = 8;
    problem.count = most_elements(collective, 4);
    EXPECT_TRUE(coll::fits_slots(problem)) << coll::name_of(collective);
    problem.uniform = false;
    EXPECT_FALSE(coll::fits_slots(problem)) << coll::name_of(collective);
    problem.uniform = true;
    ++problem.count;
    EXPECT_FALSE(coll::fits_slots(problem)) << coll::name_of(collective);
  }
  problem.count = 0;
  problem.layout = coll::Layout::one_node(33);
  EXPECT_FALSE(coll::fits_slots(problem));
}

/// Random calls, of which up to 20 are under way, are waited for in an order of each rank's own; blocking ones between.
class SmallStorm {
 public:
  SmallStorm(NonblockingRank& me, engine::Rank& rank, uint64_t first_number, uint64_t seed)
      : me_(me), shared_(seed), own_(seed + me_.self() + 1), number_(first_number) {
    std::vector<uint32_t> members(me_.size());
    std::iota(members.begin(), members.end(), 0U);
    team_ = rank.make_team(kContext + 1, members, me_.self());
    rank.set_host_progress([this] { me_.advance_all(); });
  }
  void run(int steps) {
    ASSERT_TRUE(team_->ready());
    for (int i = 0; i < steps; ++i) {
      if (shared_() % 8 == 0) {
        ASSERT_NO_FATAL_FAILURE(block());
      } else {
        begin();
      }
      const uint64_t pause = own_() % 20;
      if (pause == 0) compute(own_() % 100'000);
      while (me_.under_way.size() >= kMost || (!me_.under_way.empty() && own_() % 3 == 0)) {
        ASSERT_NO_FATAL_FAILURE(me_.finish(own_() % me_.under_way.size()));
      }
    }
    ASSERT_NO_FATAL_FAILURE(me_.finish_all());
  }

 private:
  static constexpr size_t kMost = 20;
  void begin() {
    const std::vector<Collective> all = all_collectives();
    SmallCall call;
    call.collective = all[shared_() % all.size()];
    call.number = number_;
    call.root = static_cast<uint32_t>(shared_() % me_.size());
    const uint64_t count = 1 + shared_() % most_elements(call.collective, me_.size());
    if (call.collective != Collective::kBarrier) call.count = count;
    call.in_place = may_be_in_place(call.collective, me_.self() == call.root) && own_() % 3 == 0;
    // Calls by messages have numbers of their own between.
    number_ += shared_() % 10 == 0 ? 1 + shared_() % 40 : 1;
    me_.begin(call);
  }
  void block() {
    uint64_t sum = 0;
    const uint64_t mine = number_ * (me_.self() + 1);
    ASSERT_EQ(team_->allreduce(&mine, &sum, 1, kSums), Code::kOk);
    ASSERT_EQ(sum, number_ * me_.size() * (me_.size() + 1) / 2);
  }

  NonblockingRank& me_;
  std::unique_ptr<Team> team_;
  std::mt19937_64 shared_;
  std::mt19937_64 own_;
  uint64_t number_;
};

TEST_P(Small, ManyUnderWayInAnyOrder) {
  const uint64_t seed = storm_seed();
  for (const int ranks : {2, 4}) {
    run_small(GetParam(), ranks, [seed](NonblockingRank& me, engine::Rank& rank, TestBootstrap& world) {
      // Numbers go past 32 bits on the way.
      SmallStorm storm(me, rank, (uint64_t{1} << 32) - 500, seed);
      ASSERT_NO_FATAL_FAILURE(storm.run(1000));
      ASSERT_TRUE(world.barrier().ok());
      rank.set_host_progress({});
    });
  }
}

// A root gives what has room in its slots, and the rest when the others have taken that.
void run_ahead(World kind, uint64_t stride) {
  constexpr uint64_t kCalls = 3 * coll::kNonblockingSlots;
  run_small(kind, 3, [&](NonblockingRank& me, engine::Rank&, TestBootstrap& world) {
    me.begin({Collective::kBarrier, 0, 0, 0, false});
    ASSERT_NO_FATAL_FAILURE(me.finish(0));
    ASSERT_TRUE(world.barrier().ok());
    const auto begin_all = [&] {
      for (uint64_t i = 0; i < kCalls; ++i) me.begin({Collective::kBcast, 1 + i * stride, 2, 0, false});
    };
    if (me.self() == 0) {
      begin_all();
      for (int i = 0; i < 100; ++i) me.advance_all();
      for (uint64_t i = 0; i < kCalls; ++i) {
        EXPECT_EQ(me.under_way[i]->call.ended, i < coll::kNonblockingSlots) << i;
      }
    }
    ASSERT_TRUE(world.barrier().ok());
    if (me.self() != 0) begin_all();
    ASSERT_NO_FATAL_FAILURE(me.finish_all());
  });
}

TEST_P(Small, ARootRunsAhead) { run_ahead(GetParam(), 1); }
TEST_P(Small, ARootRunsAheadWhereOtherCallsLieBetween) { run_ahead(GetParam(), 10 * coll::kNonblockingSlots + 1); }

TEST_P(Small, LengthsThatDisagree) {
  run_small(GetParam(), 2, [](NonblockingRank& me, engine::Rank&, TestBootstrap&) {
    uint64_t number = 0;
    const auto code_of = [&](Collective collective, uint64_t of_0, uint64_t of_1) {
      const auto* const u = me.begin({collective, number++, me.self() == 0 ? of_0 : of_1, 0, false});
      me.wait(u);
      EXPECT_EQ(std::vector(u->out.end() - kBehind, u->out.end()), std::vector(kBehind, kUntouchedWord));
      const Code code = u->call.code;
      me.under_way.clear();
      return code;
    };
    const bool is_0 = me.self() == 0;
    EXPECT_EQ(code_of(Collective::kBcast, 3, 2), is_0 ? Code::kOk : Code::kTruncated);
    EXPECT_EQ(code_of(Collective::kBcast, 2, 3), Code::kOk);
    EXPECT_EQ(code_of(Collective::kGather, 2, 3), is_0 ? Code::kTruncated : Code::kOk);
    EXPECT_EQ(code_of(Collective::kScatter, 3, 2), is_0 ? Code::kOk : Code::kTruncated);
    EXPECT_EQ(code_of(Collective::kAlltoall, 3, 2), is_0 ? Code::kOk : Code::kTruncated);
    EXPECT_EQ(code_of(Collective::kAllreduce, 2, 3), is_0 ? Code::kTruncated : Code::kInvalid);
    EXPECT_EQ(code_of(Collective::kReduce, 3, 2), is_0 ? Code::kInvalid : Code::kOk);
    EXPECT_EQ(code_of(Collective::kScan, 2, 3), is_0 ? Code::kOk : Code::kInvalid);
    me.exact = true;
    EXPECT_EQ(code_of(Collective::kBcast, 2, 3), is_0 ? Code::kOk : Code::kInvalid);
    me.begin({Collective::kAllreduce, number, 3, 0, false});
    ASSERT_NO_FATAL_FAILURE(me.finish(0));
  });
}

// A member takes no part in a call, which the others then give up; the next ones are right, also in the same slot.
TEST_P(Small, ACallIsGivenUp) {
  run_small(GetParam(), 3, [](NonblockingRank& me, engine::Rank&, TestBootstrap&) {
    for (uint64_t number = 0; number < 3 * coll::kNonblockingSlots; ++number) {
      const bool given_up = number % 5 == 4;
      if (given_up && me.self() == 1) continue;
      auto* const u = me.begin({Collective::kAllreduce, number, 2, 0, false});
      if (given_up) {
        EXPECT_FALSE(u->call.ended);
        me.calls().fail(&u->call, Code::kInvalid);
        EXPECT_EQ(u->call.code, Code::kInvalid);
        EXPECT_EQ(me.calls().advance(&u->call), NonblockingOnNode::Progress::kEnded);
        me.under_way.clear();
      } else {
        ASSERT_NO_FATAL_FAILURE(me.finish(0));
      }
    }
  });
}

// Programs may make and free communicators and persistent operations without end.
TEST(SmallMemory, IsUsedAgain) {
  run_engine(3, config_of(World::kThreads, 16 << 20), [](TestBootstrap&, EngineRank& r, uint32_t) {
    for (uint64_t k = 0; k < 2000; ++k) {
      NonblockingRank me(*r.rank, 100 + k, NonblockingOnNode::Kind::kSlots);
      me.begin({Collective::kBcast, 0, 1, static_cast<uint32_t>(k % 3), false});
      me.begin({Collective::kAllreduce, 1, 1, 0, false});
      ASSERT_NO_FATAL_FAILURE(me.finish_all());
    }
  });
}

// Without memory for one member all of them say so, of calls that began before it was known and of later ones.
TEST(SmallMemory, ThatOneLacksNobodyHas) {
  run_engine(3, config_of(World::kThreads, 16 << 20), [](TestBootstrap& world, EngineRank& r, uint32_t self) {
    {
      std::vector<std::unique_ptr<coll::NonblockingTeam>> others;
      for (uint64_t k = 0; self == 1; ++k) {
        others.push_back(r.rank->make_nonblocking_team(true, 100 + k, {0, 1, 2}, 1));
        if (others.back()->take_block() == kNoOffset) break;
      }
      NonblockingRank me(*r.rank, kContext, NonblockingOnNode::Kind::kSlots);
      for (uint64_t number = 0; number < 4; ++number) me.begin({Collective::kAllreduce, number, 1, 0, false});
      for (const auto& u : me.under_way) EXPECT_EQ(me.outcome(u.get()), NonblockingOnNode::Progress::kUnserved);
      ASSERT_TRUE(world.barrier().ok());
    }
    r.rank->quiesce();
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, Small, ::testing::Values(World::kThreads, World::kProcesses), world_name);

}  // namespace
}  // namespace zh::test
