// Run: every algorithm with real data over a network that delivers in any order, runs started again, and failures.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>

#include "coll/schedule/run.h"
#include "run_support.h"
#include "schedule_support.h"
#include "support/short_memory.h"

namespace zh::test {
namespace {

using coll::Algorithm;
using coll::Collective;
using coll::Problem;
using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::mt19937_64& rng, uint64_t n, bool doubles) {
  Bytes out(n);
  for (uint64_t i = 0; i + 8 <= n && doubles; i += 8) {
    const double value = static_cast<double>(rng() % 1000) / 7;
    std::memcpy(out.data() + i, &value, 8);
  }
  for (uint64_t i = 0; i < n && !doubles; ++i) out[i] = static_cast<std::byte>(rng());
  return out;
}

/// All ranks of one collective in this process.
class Ranks {
 public:
  Ranks(std::vector<Problem> problems, const Algorithm& algorithm, const coll::Reduction& how, uint64_t seed)
      : problems_(std::move(problems)),
        how_(how),
        rng_(seed),
        network(problems_[0].ranks(), seed + 1),
        meeting(problems_[0].layout->nodes()) {
    for (const Problem& p : problems_) {
      coll::Schedule schedule;
      EXPECT_TRUE(coll::build(p, algorithm.name, &schedule).ok());
      EXPECT_TRUE(
          coll::Run::create(std::make_shared<coll::Plan>(std::move(schedule)), network.of(p.self), &runs.emplace_back())
              .ok());
    }
  }

  /// Fills the buffers and starts all ranks.
  void start(bool doubles, int32_t first_tag) {
    inputs.clear();
    outputs.clear();
    before.clear();
    for (size_t r = 0; r < runs.size(); ++r) {
      inputs.push_back(random_bytes(rng_, problems_[r].input_bytes(), doubles));
      outputs.push_back(random_bytes(rng_, problems_[r].output_bytes(), doubles));
      before.push_back(outputs[r]);
      const bool exact = coll::reduces(problems_[r].collective);
      const uint32_t node = problems_[r].layout->node_of(static_cast<uint32_t>(r));
      coll::Call call{inputs[r].data(), outputs[r].data(), how_, first_tag, exact, nullptr, &meeting.of(node)};
      if (r == empty_handed) {
        call.input = call.output = nullptr;
        call.empty_handed = true;
      }
      runs[r]->start(call);
    }
  }

  /// `rank` takes another way than the others.
  void replace(uint32_t rank, const Algorithm& algorithm) {
    coll::Schedule schedule;
    ASSERT_TRUE(coll::build(problems_[rank], algorithm.name, &schedule).ok());
    ASSERT_TRUE(
        coll::Run::create(std::make_shared<coll::Plan>(std::move(schedule)), network.of(rank), &runs[rank]).ok());
  }
  void announce(uint64_t number) {
    for (const Problem& p : problems_) network.of(p.self).announce(number, coll::digest(p));
  }
  /// Ends the runs of ranks that stand still and see that they wait in vain, and tells of those that gave up. Whoever
  /// has ended and sees a death does so as in its next call.
  void look_around(uint64_t number) {
    for (const Problem& p : problems_) {
      coll::Run& run = *runs[p.self];
      coll::Transport& transport = network.of(p.self);
      const bool bereft = transport.bereft();
      if (!run.advance() && (bereft || transport.contradicted(number, coll::digest(p)))) {
        run.fail(bereft ? Code::kPeerDead : Code::kInvalid);
      }
      if (run.advance() && (run.gave_up() || bereft)) transport.give_up(run.gave_up() ? number : number + 1, 0);
    }
  }
  /// finish() of ranks that look around.
  bool end(uint64_t number) {
    for (int times = 0; times < 10; ++times) {
      if (finish(3'000)) return true;
      look_around(number);
    }
    return false;
  }
  /// That rank has died before it did anything of the call.
  void kill(uint32_t rank) {
    network.kill(rank);
    const auto nothing = std::make_shared<coll::Plan>(coll::Schedule{});
    ASSERT_TRUE(coll::Run::create(nothing, network.of(rank), &runs[rank]).ok());
  }
  /// Whoever of the others has no error has the right result.
  void expect_right_or_told(uint32_t but, const std::string& what) const {
    for (uint32_t r = 0; r < runs.size(); ++r) {
      if (r == but || runs[r]->code() != Code::kOk) continue;
      EXPECT_EQ(outputs[r], expected_output(problems_, r, inputs, how_, before[r])) << "rank " << r << " of " << what;
    }
  }

  /// Turns ranks and network in any order until all have ended. False if that takes too long.
  bool finish(uint64_t most_turns = 1'000'000) {
    size_t ended = 0;
    for (uint64_t turn = 0; ended < runs.size() && turn < most_turns; ++turn) {
      if (rng_() % 3 != 0) network.deliver();
      if (turn % 8 != 0) {
        runs[rng_() % runs.size()]->advance();
        continue;
      }
      ended = 0;
      for (const std::unique_ptr<coll::Run>& run : runs) ended += run->advance() ? 1 : 0;
      let_leaders_meet();
    }
    return ended == runs.size();
  }

 private:
  /// Where all leaders have come to a step of theirs, each takes it as a thread.
  void let_leaders_meet() {
    std::vector<coll::Run*> come;
    for (const std::unique_ptr<coll::Run>& run : runs) {
      if (run->shared_is_next()) come.push_back(run.get());
    }
    if (come.size() != problems_[0].layout->nodes()) return;
    std::vector<std::jthread> threads;
    for (coll::Run* run : come) threads.emplace_back([run] { run->share(); });
  }

  std::vector<Problem> problems_;
  coll::Reduction how_;
  std::mt19937_64 rng_;

 public:
  Network network;
  Meeting meeting;
  std::vector<std::unique_ptr<coll::Run>> runs;
  std::vector<Bytes> inputs, outputs, before;
  uint32_t empty_handed = ~0U;
};

class RunEvery : public ::testing::TestWithParam<Collective> {};

TEST_P(RunEvery, RealData) {
  uint64_t seed = 1;
  for (const uint32_t ranks : {1u, 2u, 3u, 4u, 6u, 7u, 8u}) {
    for (const auto& layout : layouts(ranks)) {
      for (const coll::Reduction& how : {int_sum(), matrix_product()}) {
        for (const bool uniform : {true, false}) {
          Problem problem;
          problem.collective = GetParam();
          problem.element_bytes = how.element_bytes;
          problem.count = 7 + seed % 5;
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
  Problem problem;
  problem.collective = Collective::kAllreduce;
  problem.element_bytes = 8;
  problem.count = 50;
  problem.chunk_bytes = 64;
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
    Problem problem;
    problem.collective = collective;
    problem.element_bytes = 16;
    problem.count = 5;
    problem.layout = blocks_of(6, 2);
    problem.root = 4;
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
  Problem problem;
  problem.collective = collective;
  problem.element_bytes = 4;
  problem.count = 10;
  problem.chunk_bytes = 16;
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
    ASSERT_TRUE(
        coll::Run::create(std::make_shared<coll::Plan>(std::move(schedule)), all.network.of(2), &all.runs[2]).ok());
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
  Problem problem;
  problem.element_bytes = 4;
  problem.count = 10;
  problem.layout = blocks_of(7, 3);
  problem.root = 4;
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
    Problem problem;
    problem.collective = collective;
    problem.element_bytes = 4;
    problem.count = 24;
    problem.chunk_bytes = 16;
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
