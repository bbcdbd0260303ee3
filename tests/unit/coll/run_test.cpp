// Run: every algorithm with real data over a network that delivers in any order, runs started again, and failures.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "coll/schedule/run.h"
#include "run_support.h"
#include "schedule_support.h"
#include "support/short_memory.h"

namespace zh::test {
namespace {

using coll::Algorithm;
using coll::Collective;
using coll::Problem;

class RunEvery : public ::testing::TestWithParam<Collective> {};

TEST_P(RunEvery, RealData) {
  uint64_t seed = 1;
  for (const uint32_t ranks : {1u, 2u, 3u, 4u, 6u, 7u, 8u}) {
    for (const auto& layout : layouts(ranks)) {
      for (const coll::Reduction& how : {int_sum(), matrix_product()}) {
        for (const bool uniform : {true, false}) {
          Problem problem{.collective = GetParam(), .count = 7 + seed % 5, .element_bytes = how.element_bytes};
          problem.chunk_bytes = 2 * how.element_bytes;
          problem.layout = layout;
          problem.root = static_cast<uint32_t>(seed) % ranks;
          problem.commutative = how.commutative;
          problem.uniform = uniform;
          if (!uniform && !has_lists(problem.collective)) continue;
          for (const Algorithm& algorithm : coll::algorithms(GetParam())) {
            if (!algorithm.fits(problem)) continue;
            const std::vector<Problem> problems = make_problems(problem, uniform);
            Ranks all(problems, algorithm, how, ++seed);
            // Twice: a run can be started again.
            for (int time = 0; time < 2; ++time) {
              all.start(false, 100 * time);
              const std::vector<Bytes> inputs = all.inputs;
              ASSERT_TRUE(all.finish()) << text(problem, algorithm.name);
              EXPECT_EQ(all.inputs, inputs);
              EXPECT_EQ(all.network.open(), 0u);
              for (uint32_t r = 0; r < ranks; ++r) {
                EXPECT_EQ(all.runs[r]->code(), Code::kOk);
                ASSERT_EQ(all.outputs[r], expected_output(problems, r, inputs, how, all.before[r]))
                    << "rank " << r << " of " << text(problem, algorithm.name);
              }
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, RunEvery, ::testing::ValuesIn(all_collectives()),
                         [](const auto& p) { return std::string(coll::name_of(p.param)); });

TEST(RunSchedule, AllreduceOfDoublesGivesTheSameBitsEverywhereAndAlways) {
  Problem problem{.collective = Collective::kAllreduce, .count = 50, .element_bytes = 8, .chunk_bytes = 64};
  problem.layout = blocks_of(11, 3);
  for (const Algorithm& algorithm : coll::algorithms(Collective::kAllreduce)) {
    std::vector<Bytes> results;
    for (const uint64_t seed : {5u, 6u, 7u}) {
      Ranks all(coll::for_all_ranks(problem), algorithm, double_sum(), seed);
      all.start(true, 0);
      // The same numbers, while messages take other turns.
      std::mt19937_64 rng(1);
      for (Bytes& input : all.inputs) {
        const Bytes numbers = random_bytes(rng, input.size(), true);
        std::copy(numbers.begin(), numbers.end(), input.begin());
      }
      ASSERT_TRUE(all.finish());
      results.insert(results.end(), all.outputs.begin(), all.outputs.end());
    }
    for (const Bytes& result : results) EXPECT_EQ(result, results[0]) << algorithm.name;
  }
}

TEST(RunSchedule, InPlace) {
  uint64_t seed = 1;
  for (const Collective collective : all_collectives()) {
    Problem problem{.collective = collective, .root = 4, .count = 5, .element_bytes = 16, .layout = blocks_of(6, 2)};
    problem.commutative = false;
    for (const Algorithm& algorithm : coll::algorithms(collective)) {
      if (!algorithm.fits(problem)) continue;
      const std::vector<Problem> problems = coll::for_all_ranks(problem);
      const std::vector<Problem> placed = in_place(problems);
      Ranks all(placed, algorithm, matrix_product(), ++seed);
      all.start(false, 0);
      // What a call with two buffers would be given.
      std::vector<Bytes> inputs = all.inputs;
      for (uint32_t r = 0; r < 6; ++r) {
        if (!placed[r].in_place || collective == Collective::kScatter) continue;
        const Bytes& held = all.outputs[r];
        const bool piece = collective == Collective::kGather || collective == Collective::kAllgather;
        const uint64_t at = piece ? problems[r].recv_piece(r).at : 0;
        inputs[r].assign(held.begin() + static_cast<int64_t>(at),
                         held.begin() + static_cast<int64_t>(at + problems[r].input_bytes()));
      }
      ASSERT_TRUE(all.finish());
      for (uint32_t r = 0; r < 6; ++r) {
        if (all.outputs[r].empty()) continue;
        EXPECT_EQ(all.outputs[r], expected_output(problems, r, inputs, matrix_product(), all.before[r]))
            << "rank " << r << " of " << text(placed[r], algorithm.name);
      }
    }
  }
}

/// Six ranks of two nodes.
Problem of_two_nodes(Collective collective) {
  Problem problem{.collective = collective, .count = 10, .element_bytes = 4, .chunk_bytes = 16};
  problem.layout = blocks_of(6, 2);
  problem.root = 3;
  return problem;
}

TEST(RunSchedule, WantOfMemoryForAMessageIsToldToAll) {
  uint64_t seed = 1;
  for (const Collective collective : all_collectives()) {
    const Problem problem = of_two_nodes(collective);
    for (const Algorithm& algorithm : coll::algorithms(collective)) {
      if (!algorithm.fits(problem) || algorithm.name == coll::kHostLeaders) continue;
      for (const int after : {1, 2, 5, 9, 20}) {
        const std::string what = text(problem, algorithm.name) + ", start " + std::to_string(after);
        Ranks all(coll::for_all_ranks(problem), algorithm, int_sum(), ++seed);
        all.network.let_lengths_differ();
        all.start(false, 0);
        all.network.fail_after(after);
        ASSERT_TRUE(all.finish()) << what;
        all.expect_right_or_told(problem.ranks(), what);
        if (after == 1) {
          EXPECT_TRUE(std::ranges::any_of(all.runs, [](const auto& run) { return run->code() == Code::kNoMemory; }));
        }
        EXPECT_EQ(all.network.open(), 0u) << what;
      }
    }
  }
}

TEST(RunSchedule, ThatARankComesEmptyHandedIsToldToAll) {
  uint64_t seed = 1;
  for (const Collective collective : all_collectives()) {
    const Problem problem = of_two_nodes(collective);
    for (const Algorithm& algorithm : coll::algorithms(collective)) {
      if (!algorithm.fits(problem) || algorithm.name == coll::kHostLeaders) continue;
      for (uint32_t rank = 0; rank < problem.ranks(); ++rank) {
        const std::string what = text(problem, algorithm.name) + ", without memory rank " + std::to_string(rank);
        Ranks all(coll::for_all_ranks(problem), algorithm, int_sum(), ++seed);
        all.network.let_lengths_differ();
        all.empty_handed = rank;
        all.start(false, 0);
        ASSERT_TRUE(all.finish()) << what;
        EXPECT_EQ(all.runs[rank]->code(), Code::kNoMemory) << what;
        all.expect_right_or_told(rank, what);
        if (collective == Collective::kBarrier) {
          EXPECT_NE(all.runs[(rank + 1) % 6]->code(), Code::kOk) << what;
        }
        EXPECT_EQ(all.network.open(), 0u) << what;
      }
    }
  }
}

TEST(RunSchedule, WithoutScratchACallIsEmptyHanded) {
  const Problem problem = of_two_nodes(Collective::kAllreduce);
  Ranks all(coll::for_all_ranks(problem), *coll::algorithm(problem.collective, "hierarchical"), int_sum(), 5);
  Problem own = problem;
  own.self = 2;
  coll::Schedule schedule;
  ASSERT_TRUE(coll::build(own, "hierarchical", &schedule).ok());
  schedule.scratch_bytes = 1 << 20;
  {
    const ShortMemory out(1 << 20);
    all.replace(2, std::move(schedule));
  }
  all.network.let_lengths_differ();
  all.start(false, 0);
  ASSERT_TRUE(all.finish());
  for (uint32_t r = 0; r < 6; ++r) EXPECT_EQ(all.runs[r]->code(), r == 2 ? Code::kNoMemory : Code::kIo) << r;
}

// Those of its node see it, give the call up and tell the other nodes so, whether it led its node or not.
TEST(RunSchedule, ADeathIsToldToOtherNodes) {
  uint64_t seed = 1;
  for (const Collective collective : all_collectives()) {
    const Problem problem = of_two_nodes(collective);
    for (const Algorithm& algorithm : coll::algorithms(collective)) {
      if (!algorithm.fits(problem) || algorithm.name == coll::kHostLeaders) continue;
      for (uint32_t rank = 0; rank < problem.ranks(); ++rank) {
        const std::string what = text(problem, algorithm.name) + ", dead rank " + std::to_string(rank);
        Ranks all(coll::for_all_ranks(problem), algorithm, int_sum(), ++seed);
        all.network.let_lengths_differ();
        all.network.set_nodes(problem.layout);
        all.start(false, 0);
        all.announce(7);
        all.kill(rank);
        ASSERT_TRUE(all.end(7)) << what;
        all.expect_right_or_told(rank, what);
        if (collective == Collective::kAllreduce || collective == Collective::kBarrier) {
          EXPECT_NE(all.runs[rank < 3 ? 3 : 0]->code(), Code::kOk) << what;
        }
        all.runs.clear();
        EXPECT_EQ(all.network.open(), 0u) << what;
      }
    }
  }
}

// Its node's ranks get what the leader has, or empty messages where less is an error; nobody waits for ever.
TEST(RunSchedule, AFaultAmongLeadersEndsTheCallEverywhere) {
  Problem problem{.root = 4, .count = 10, .element_bytes = 4, .layout = blocks_of(7, 3)};
  for (const Collective collective :
       {Collective::kBcast, Collective::kReduce, Collective::kAllreduce, Collective::kGather, Collective::kScatter,
        Collective::kReduceScatter, Collective::kAlltoall, Collective::kScan, Collective::kExscan}) {
    problem.collective = collective;
    Ranks all(coll::for_all_ranks(problem), *coll::algorithm(collective, coll::kHostLeaders), int_sum(), 3);
    all.network.let_lengths_differ();
    all.meeting.fail(1);
    all.start(false, 0);
    ASSERT_TRUE(all.finish()) << coll::name_of(collective);
    const uint32_t leader = problem.layout->members(1)[0];
    EXPECT_EQ(all.runs[leader]->code(), Code::kIo);
    const bool from_root = collective == Collective::kBcast || collective == Collective::kScatter;
    if (!from_root) {  // the root is the next rank
      EXPECT_NE(all.runs[leader + 1]->code(), Code::kOk) << coll::name_of(collective);
    }
    EXPECT_EQ(all.runs[0]->code(), Code::kOk);
  }
}

/// One rank takes the vector for longer or shorter and perhaps goes another way because of that.
void disagree(const Problem& problem, uint32_t odd, uint64_t odd_count, const Algorithm& usual, const Algorithm& other,
              uint64_t seed) {
  std::vector<Problem> problems = coll::for_all_ranks(problem);
  problems[odd].count = odd_count;
  Ranks all(problems, usual, int_sum(), seed);
  all.network.let_lengths_differ();
  all.replace(odd, other);
  all.start(false, 0);
  all.announce(7);
  const std::string what = text(problem, usual.name) + ", rank " + std::to_string(odd) + " has " +
                           std::to_string(odd_count) + " by " + std::string(other.name);
  ASSERT_TRUE(all.end(7)) << what;
  bool told = false;
  for (const std::unique_ptr<coll::Run>& run : all.runs) {
    told = told || run->code() != Code::kOk;
  }
  // Somebody is sent more than there is room for, or a reduction lacks operands.
  const bool from_root = problem.collective == Collective::kBcast || problem.collective == Collective::kScatter;
  const bool root_has_more = (odd == problem.root) == (odd_count > problem.count);
  bool harms = problem.collective == Collective::kGather ? !root_has_more : !from_root || root_has_more;
  // More operands than are asked for may stay unseen, in chunks that nobody waits for.
  if (coll::reduces(problem.collective) && odd_count > problem.count) harms = false;
  EXPECT_TRUE(told || !harms) << what;
  all.runs.clear();
  EXPECT_EQ(all.network.open(), 0u) << what;
}

TEST(RunSchedule, RanksThatDisagreeAllEnd) {
  uint64_t seed = 1;
  for (const Collective collective : all_collectives()) {
    if (collective == Collective::kBarrier) continue;
    Problem problem{.collective = collective, .count = 24, .element_bytes = 4, .chunk_bytes = 16};
    problem.layout = coll::Layout::one_node(5);
    problem.root = 1;
    for (const Algorithm& usual : coll::algorithms(collective)) {
      for (const Algorithm& other : coll::algorithms(collective)) {
        if (!usual.fits(problem) || !other.fits(problem)) continue;
        for (const uint32_t odd : {1u, 4u}) {
          for (const uint64_t count : {1u, 23u, 25u, 96u}) disagree(problem, odd, count, usual, other, ++seed);
        }
      }
    }
  }
}

TEST(RunSchedule, NothingToDoIsDoneAtOnce) {
  Network network(1, 1);
  std::unique_ptr<coll::Run> run;
  ASSERT_TRUE(coll::Run::create(std::make_shared<coll::Plan>(coll::Schedule{}), network.of(0), &run).ok());
  EXPECT_TRUE(run->advance());
  run->start({});
  EXPECT_TRUE(run->advance());
  EXPECT_EQ(run->code(), Code::kOk);
}

}  // namespace
}  // namespace zh::test
