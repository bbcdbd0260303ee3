// What lets a proof reach very many ranks: sets of ranks as runs, schedules of more steps than a matrix of waits has
// room for, and giving up where the bytes have too many origins.
// label analysis: [.]CheckOfManySteps[.]
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "coll/analysis/check.h"
#include "coll/analysis/rank_set.h"
#include "schedule_support.h"

namespace zh::test {
namespace {

using coll::Collective;
using coll::Problem;
using coll::RankSet;
using coll::Schedule;
using coll::Step;

RankSet set_of(const std::set<uint32_t>& ranks) {
  RankSet out;
  for (const uint32_t rank : ranks) out.add(RankSet(rank));
  return out;
}

TEST(RankSet, IsASetWhateverTheOrder) {
  std::minstd_rand generator(7);
  const auto random = [&] { return static_cast<uint32_t>(generator()); };
  for (int round = 0; round < 300; ++round) {
    std::set<uint32_t> a;
    std::set<uint32_t> b;
    for (uint32_t i = 0; i < 1 + random() % 12; ++i) a.insert(random() % 20);
    for (uint32_t i = 0; i < random() % 12; ++i) b.insert(random() % 20);
    std::set<uint32_t> both = a;
    both.insert(b.begin(), b.end());
    RankSet sum = set_of(a);
    EXPECT_EQ(sum.overlaps(set_of(b)), both.size() < a.size() + b.size());
    sum.add(set_of(b));
    EXPECT_EQ(sum, set_of(both));
    for (const uint32_t rank : both) EXPECT_TRUE(sum.overlaps(RankSet(rank)));
    for (uint32_t n = 0; n <= 21; ++n) {
      EXPECT_EQ(sum.is_first(n), both.size() == n && (n == 0 || *both.rbegin() == n - 1)) << n;
    }
  }
}

TEST(RankSet, WhatFollowsEachOtherIsOneRun) {
  RankSet set(3);
  set.add(RankSet(5));
  EXPECT_EQ(set.runs(), 2U);
  set.add(RankSet(4));
  EXPECT_EQ(set.runs(), 1U);
  EXPECT_TRUE(RankSet().empty());
  EXPECT_FALSE(set.empty());
}

/// Too many steps for a matrix of a bit for each pair.
constexpr uint32_t kManySteps = 20'000;

Problem chain_problem() {
  Problem problem{.collective = Collective::kAllreduce, .count = 8, .layout = coll::Layout::one_node(1)};
  return problem;
}

/// Copies the input to the output by way of one place of scratch memory, again and again; each step waits for the one
/// before.
Schedule chain() {
  Schedule out;
  out.scratch_bytes = 8;
  for (uint32_t i = 0; i < kManySteps; ++i) {
    Step step{.bytes = 8};
    step.from = i % 2 == 0 ? coll::Place::kInput : coll::Place::kScratch;
    step.to = i % 2 == 0 ? coll::Place::kScratch : coll::Place::kOutput;
    step.first_wait = static_cast<uint32_t>(out.waits.size());
    step.n_waits = i > 0 ? 1 : 0;
    if (i > 0) out.waits.push_back(i - 1);
    out.steps.push_back(step);
  }
  return out;
}

TEST(CheckOfManySteps, KnowsWhatWaitsForWhat) {
  const std::vector<Problem> problems{chain_problem()};
  std::vector<Schedule> schedules{chain()};
  EXPECT_EQ(coll::check(problems, schedules).fault, "");
  // The one behind waits for the step before that one, and reads what it writes.
  schedules[0].waits[kManySteps / 2] -= 1;
  EXPECT_NE(coll::check(problems, schedules).fault.find("without waiting for it"), std::string::npos);
  schedules = {chain()};
  schedules[0].steps[kManySteps - 1].n_waits = 0;
  EXPECT_NE(coll::check(problems, schedules).fault.find("step 19999: touches"), std::string::npos);
}

TEST(CheckOfManySteps, ARootThatSendsToAll) {
  Problem problem{.collective = Collective::kBcast, .count = 64, .layout = blocks_of(10'000, 100)};
  const std::vector<Problem> problems = coll::for_all_ranks(problem);
  std::vector<Schedule> schedules;
  ASSERT_TRUE(coll::build(problems, "linear", &schedules).ok());
  EXPECT_EQ(schedules[0].steps.size(), 9999U);
  EXPECT_EQ(coll::check(problems, schedules).fault, "");
  schedules[0].steps[7000].from_at = 1;
  schedules[0].steps[7000].bytes = 63;
  EXPECT_NE(coll::check(problems, schedules).fault, "");
}

TEST(CheckOfManyRanks, FindsWhoIsMissing) {
  Problem problem{.collective = Collective::kBarrier, .layout = blocks_of(1200, 40)};
  const std::vector<Problem> problems = coll::for_all_ranks(problem);
  for (const char* algorithm : {"dissemination", "hierarchical"}) {
    std::vector<Schedule> schedules;
    ASSERT_TRUE(coll::build(problems, algorithm, &schedules).ok());
    EXPECT_EQ(coll::check(problems, schedules).fault, "") << algorithm;
    // One that signals without having waited.
    for (Step& step : schedules[30].steps) step.n_waits = 0;
    const std::string fault = coll::check(problems, schedules).fault;
    EXPECT_NE(fault.find("without having heard of rank"), std::string::npos) << algorithm << ": " << fault;
  }
}

TEST(CheckLimits, GivesUpAndSaysSo) {
  Problem problem{.collective = Collective::kAllgather, .count = 8, .layout = blocks_of(32, 4)};
  const std::vector<Problem> problems = coll::for_all_ranks(problem);
  std::vector<Schedule> schedules;
  ASSERT_TRUE(coll::build(problems, "ring", &schedules).ok());
  // Each output has a stretch for each rank, and one behind them.
  coll::Verdict verdict = coll::check(problems, schedules, {2 * 32 * 33});
  EXPECT_TRUE(verdict.proved()) << verdict.fault;
  EXPECT_FALSE(verdict.gave_up);
  verdict = coll::check(problems, schedules, {500});
  EXPECT_FALSE(verdict.proved());
  EXPECT_TRUE(verdict.gave_up);
  EXPECT_NE(verdict.fault.find("more than 500 origins"), std::string::npos) << verdict.fault;
}

}  // namespace
}  // namespace zh::test
