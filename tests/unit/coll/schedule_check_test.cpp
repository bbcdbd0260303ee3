// Every algorithm, proved for all numbers of ranks up to 33, all roots, many layouts, counts and chunk sizes.
// label one-thread: EveryCollective[.]
// label proof: EveryCollective[.](Teams|Layouts)
#include <gtest/gtest.h>

#include <algorithm>

#include "coll/algorithms/choose.h"
#include "coll/analysis/check.h"
#include "schedule_support.h"

namespace zh::test {
namespace {

using coll::Algorithm;
using coll::Collective;
using coll::Layout;
using coll::Problem;
using coll::Schedule;
using coll::Step;
using coll::StepKind;
using coll::Verdict;

constexpr uint32_t kMostRanks = 33;

Verdict prove(const std::vector<Problem>& problems, const Algorithm& algorithm) {
  std::vector<Schedule> schedules;
  const Status built = coll::build(problems, algorithm.name, &schedules);
  EXPECT_TRUE(built.ok()) << built.what();
  Verdict verdict = coll::check(problems, schedules);
  EXPECT_EQ(verdict.fault, "") << text(problems[0], algorithm.name);
  return verdict;
}

/// Calls f(problem, algorithm) for commutative and other operations and all algorithms that fit.
template <typename F>
void each_algorithm(Problem problem, F&& f) {
  for (const bool commutative : {true, false}) {
    if (!commutative && !coll::reduces(problem.collective)) continue;
    problem.commutative = commutative;
    for (const Algorithm& algorithm : coll::algorithms(problem.collective)) {
      if (algorithm.fits(problem)) f(problem, algorithm);
    }
  }
}

class EveryCollective : public ::testing::TestWithParam<Collective> {};

TEST_P(EveryCollective, AllRanksAndRoots) {
  for (uint32_t ranks = 1; ranks <= kMostRanks; ++ranks) {
    Problem problem{.collective = GetParam(), .element_bytes = 4};
    problem.count = 37;  // less than a piece for every rank, and with a remainder
    problem.chunk_bytes = 48;
    const std::vector<std::shared_ptr<const Layout>> nodes = layouts(ranks);
    const uint32_t roots = coll::has_root(GetParam()) ? ranks : 1;
    for (problem.root = 0; problem.root < roots && !HasFailure(); ++problem.root) {
      problem.layout = nodes[(problem.root + ranks) % nodes.size()];
      each_algorithm(problem, [](const Problem& p, const Algorithm& a) { prove(make_problems(p, true), a); });
    }
  }
}

TEST_P(EveryCollective, LayoutsCountsAndChunks) {
  for (const uint32_t ranks : {1u, 2u, 3u, 5u, 8u, 13u}) {
    for (const std::shared_ptr<const Layout>& layout : layouts(ranks)) {
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{ranks} - 1, uint64_t{ranks}, uint64_t{1000}}) {
        for (const uint64_t chunk : {uint64_t{0}, uint64_t{1}, uint64_t{1040}}) {
          Problem problem{.collective = GetParam(), .count = count, .element_bytes = count % 2 != 0 ? 12U : 8U};
          problem.chunk_bytes = count == 1000 && chunk == 1 ? 400 : chunk;
          problem.layout = layout;
          problem.root = static_cast<uint32_t>(count + chunk) % ranks;
          each_algorithm(problem, [](const Problem& p, const Algorithm& a) { prove(make_problems(p, true), a); });
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_P(EveryCollective, ListsAndInPlace) {
  for (uint32_t ranks = 1; ranks <= 12; ++ranks) {
    for (const std::shared_ptr<const Layout>& layout : layouts(ranks)) {
      Problem problem{.collective = GetParam(), .count = 5, .element_bytes = 4, .chunk_bytes = 8, .layout = layout};
      problem.root = (ranks * 2) / 3;
      each_algorithm(problem, [](const Problem& p, const Algorithm& a) {
        prove(in_place(make_problems(p, true)), a);
        Problem listed = p;
        listed.uniform = false;
        if (!has_lists(p.collective) || !a.fits(listed)) return;
        prove(make_problems(p, false), a);
        prove(in_place(make_problems(p, false)), a);
      });
      if (HasFailure()) return;
    }
  }
}

// What a node shares by its team changes nothing between nodes, so some may have one and others not.
TEST_P(EveryCollective, Teams) {
  for (uint32_t ranks = 1; ranks <= 16; ++ranks) {
    for (const std::shared_ptr<const Layout>& layout : layouts(ranks)) {
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{50}}) {
        Problem problem{.collective = GetParam(), .count = count, .element_bytes = 4, .chunk_bytes = 48};
        problem.layout = layout;
        problem.root = (ranks * 2) / 3;
        each_algorithm(problem, [](const Problem& p, const Algorithm& a) {
          std::vector<Problem> without = make_problems(p, true);
          for (Problem& q : without) q.blocks = true;
          const uint64_t messages = prove(without, a).node_messages;
          for (const bool some : {false, true}) {
            const std::vector<Problem> problems = with_teams(make_problems(p, true), some);
            EXPECT_EQ(prove(problems, a).node_messages, messages) << text(problems[0], a.name);
            prove(in_place(problems), a);
          }
        });
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(EveryCollective, TheChoiceFits) {
  for (const uint32_t ranks : {1u, 2u, 4u, 7u, 16u}) {
    for (const std::shared_ptr<const Layout>& layout : layouts(ranks)) {
      for (const uint64_t count : {0u, 1u, 100u, 1000u, 100'000u}) {
        for (const int kind : {0, 1, 2, 3}) {
          Problem problem{.collective = GetParam(), .count = count, .element_bytes = 8, .layout = layout};
          problem.commutative = kind % 2 == 0;
          problem.uniform = kind < 2 || !has_lists(problem.collective);
          const Algorithm* chosen = coll::algorithm(GetParam(), coll::default_algorithm(problem));
          ASSERT_NE(chosen, nullptr);
          EXPECT_TRUE(chosen->fits(problem));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, EveryCollective, ::testing::ValuesIn(all_collectives()),
                         [](const auto& p) { return std::string(coll::name_of(p.param)); });

TEST(Schedules, LeadersAloneCrossBetweenNodes) {
  Problem problem{.count = 1024, .layout = blocks_of(16, 4)};
  problem.root = 6;  // no node's first rank
  problem.collective = Collective::kBcast;
  // The vector enters each of the three other nodes once.
  for (const char* name : {"leader-ring", "hierarchical"}) {
    EXPECT_EQ(prove(coll::for_all_ranks(problem), *coll::algorithm(Collective::kBcast, name)).node_bytes, 3 * 1024u);
  }
  EXPECT_EQ(prove(coll::for_all_ranks(problem), *coll::algorithm(Collective::kBcast, "linear")).node_bytes, 12 * 1024u);
  problem.collective = Collective::kAllgather;
  EXPECT_EQ(prove(coll::for_all_ranks(problem), *coll::algorithm(Collective::kAllgather, "leader-ring")).node_messages,
            12u);
}

TEST(Schedules, BetweenNodesTheHostAloneCarries) {
  for (const Collective collective : all_collectives()) {
    for (const std::shared_ptr<const Layout>& layout : {blocks_of(16, 4), blocks_of(7, 3), blocks_of(5, 5)}) {
      Problem problem = planted_problem(collective);
      problem.layout = layout;
      const Verdict verdict = prove(coll::for_all_ranks(problem), *coll::algorithm(collective, coll::kHostLeaders));
      EXPECT_EQ(verdict.node_messages, 0U) << text(problem, coll::kHostLeaders);
    }
  }
}

/// Kinds of the steps that each rank takes with others.
std::vector<std::vector<StepKind>> shared_kinds(const std::vector<Schedule>& schedules) {
  std::vector<std::vector<StepKind>> kinds(schedules.size());
  for (size_t rank = 0; rank < schedules.size(); ++rank) {
    for (const Step& step : schedules[rank].steps) {
      if (step.shared()) kinds[rank].push_back(step.kind);
    }
  }
  return kinds;
}

TEST(Schedules, LeadersTakeTheSameStepsForEveryLength) {
  for (const bool team : {false, true}) {
    for (const Collective collective : all_collectives()) {
      const Algorithm* how = coll::algorithm(collective, coll::kHostLeaders);
      if (how == nullptr) continue;
      std::vector<std::vector<StepKind>> usual;
      for (const uint64_t count : {0u, 1u, 1000u, 1'000'000u}) {
        Problem problem = planted_problem(collective);
        problem.count = count;
        std::vector<Problem> problems = coll::for_all_ranks(problem);
        if (team) problems = with_teams(std::move(problems), false);
        std::vector<Schedule> schedules;
        ASSERT_TRUE(coll::build(problems, how->name, &schedules).ok());
        const std::vector<std::vector<StepKind>> kinds = shared_kinds(schedules);
        if (usual.empty()) usual = kinds;
        EXPECT_EQ(kinds, usual) << text(problem, how->name);
      }
    }
  }
}

TEST(Schedules, HostLeadsCallsThatBlockOnSeveralNodes) {
  Problem problem = planted_problem(Collective::kAllreduce);
  EXPECT_NE(coll::default_algorithm(problem), coll::kHostLeaders);
  problem.blocks = true;
  EXPECT_EQ(coll::default_algorithm(problem), coll::kHostLeaders);
  problem.layout = Layout::one_node(7);
  EXPECT_NE(coll::default_algorithm(problem), coll::kHostLeaders);
  problem.layout = std::make_shared<const Layout>(std::vector<uint32_t>{0, 1, 0, 1});
  EXPECT_NE(coll::default_algorithm(problem), coll::kHostLeaders) << "operands in rank order";
  problem.commutative = true;
  EXPECT_EQ(coll::default_algorithm(problem), coll::kHostLeaders);
}

TEST(Schedules, ReduceScattersAreWorthSharingByAllPiecesTogether) {
  Problem problem = planted_problem(Collective::kReduceScatter);
  problem.blocks = true;
  problem.element_bytes = 1;
  problem.layout = blocks_of(8, 2);
  problem.count = 2047;
  EXPECT_FALSE(coll::worth_sharing(problem));
  problem.count = 2048;
  EXPECT_TRUE(coll::worth_sharing(problem));
  problem.uniform = false;
  EXPECT_FALSE(coll::may_share(problem)) << "members of a node know different lengths";
  problem.uniform = true;
  problem.layout = std::make_shared<const Layout>(std::vector<uint32_t>{0, 1, 0, 1, 0, 1, 0, 1});
  EXPECT_FALSE(coll::may_share(problem)) << "pieces of a node do not follow each other";
}

TEST(Schedules, SlicesOfChunksAreAsLongAsChunksOfOthers) {
  Problem problem = planted_problem(Collective::kAllreduce);
  problem.layout = blocks_of(8, 2);
  problem.element_bytes = 4;
  problem.count = 1000;
  problem.chunk_bytes = 400;
  const Algorithm& algorithm = *coll::algorithm(Collective::kAllreduce, "shmem-parallel");
  EXPECT_EQ(prove(coll::for_all_ranks(problem), algorithm).node_messages, 8U) << "a nonblocking call: two for a slice";
  // 4000 bytes in chunks of 1600: three of them.
  for (const bool some : {false, true}) {
    EXPECT_EQ(prove(with_teams(coll::for_all_ranks(problem), some), algorithm).node_messages, 3 * 8U);
  }
}

// Multicore collectives paper, section 4.3: links between ranks are used both ways at once, for any number of ranks.
TEST(Schedules, PairsOfAnAlltoallFaceEachOther) {
  for (uint32_t ranks = 2; ranks <= 64; ++ranks) {
    Problem problem{.collective = Collective::kAlltoall, .count = 1, .layout = Layout::one_node(ranks)};
    const std::vector<Problem> all = coll::for_all_ranks(problem);
    std::vector<Schedule> schedules;
    ASSERT_TRUE(coll::build(all, "pairwise", &schedules).ok());
    std::vector<std::vector<uint32_t>> faced(ranks);
    for (uint32_t self = 0; self < ranks; ++self) {
      std::vector<uint32_t> sent;
      std::vector<uint32_t> received;
      for (const Step& s : schedules[self].steps) {
        if (s.kind == StepKind::kSend) sent.push_back(s.peer);
        if (s.kind == StepKind::kReceive) received.push_back(s.peer);
      }
      EXPECT_EQ(sent, received) << "rank " << self << " of " << ranks;
      EXPECT_EQ(sent.size(), ranks - 1);
      faced[self] = sent;
    }
    if (ranks % 2 != 0) continue;  // one of them has nothing to do in each step
    for (uint32_t self = 0; self < ranks; ++self) {
      for (uint32_t step = 0; step + 1 < ranks; ++step) {
        EXPECT_EQ(faced[faced[self][step]][step], self) << "step " << step << " of " << ranks << " ranks";
      }
    }
  }
}

TEST(Schedules, TagsAreUsedAgainInOrder) {
  Problem problem{.collective = Collective::kAllgather, .count = 1, .layout = Layout::one_node(coll::kTags + 40)};
  Schedule schedule;
  ASSERT_TRUE(coll::build(problem, "ring", &schedule).ok());
  const auto tag_zero = std::count_if(schedule.steps.begin(), schedule.steps.end(),
                                      [](const Step& s) { return s.kind == StepKind::kSend && s.tag == 0; });
  EXPECT_EQ(tag_zero, 2);
}

TEST(Digest, TellsCallsApartAndNotRanks) {
  const Problem problem = planted_problem(Collective::kBcast);
  Problem other = problem;
  other.self = 3;
  EXPECT_EQ(coll::digest(other), coll::digest(problem));
  other.root = problem.root + 1;
  EXPECT_NE(coll::digest(other), coll::digest(problem));
  other = problem;
  ++other.count;
  EXPECT_NE(coll::digest(other), coll::digest(problem));
  other = problem;
  other.collective = Collective::kReduce;
  EXPECT_NE(coll::digest(other), coll::digest(problem));
}

TEST(Schedules, WhatDoesNotFitIsRefused) {
  Problem problem = planted_problem(Collective::kAllreduce);
  Schedule schedule;
  EXPECT_EQ(coll::build(problem, "ring", &schedule).code(), Code::kNotSupported);
  EXPECT_EQ(coll::build(problem, "no such", &schedule).code(), Code::kInvalid);
}

}  // namespace
}  // namespace zh::test
