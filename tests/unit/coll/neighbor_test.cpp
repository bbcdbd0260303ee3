// Collectives of neighbourhoods: schedules of graphs of any shape, proved, spoiled, and run with real data.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "coll/analysis/check.h"
#include "run_support.h"
#include "schedule_support.h"

namespace zh::test {
namespace {

using coll::Collective;
using coll::Problem;
using coll::Schedule;
using coll::Step;
using coll::StepKind;

constexpr const char* kLinear = "linear";

/// `edges[from][to]` edges from one rank to another, of different sizes, some 0, in any order on either side.
std::vector<Problem> neighborhoods(const std::vector<std::vector<uint32_t>>& edges, uint64_t seed) {
  const auto ranks = static_cast<uint32_t>(edges.size());
  std::mt19937_64 rng(seed);
  std::vector<Problem> all(ranks);
  const auto nodes = layouts(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    Problem& p = all[r];
    p.collective = Collective::kNeighbor;
    p.self = r;
    p.uniform = false;
    p.layout = nodes[seed % nodes.size()];
    for (uint32_t other = 0; other < ranks; ++other) {
      p.destinations.insert(p.destinations.end(), edges[r][other], other);
      p.sources.insert(p.sources.end(), edges[other][r], other);
    }
    std::shuffle(p.destinations.begin(), p.destinations.end(), rng);
    std::shuffle(p.sources.begin(), p.sources.end(), rng);
  }
  const auto bytes_of = [&](uint32_t from, uint32_t to, uint32_t k) { return (from * 7 + to * 3 + k * 5 + seed) % 11; };
  const auto lay_out = [&](Problem& p, const std::vector<uint32_t>& others, bool sent, std::vector<coll::Piece>* out) {
    std::vector<uint32_t> seen(ranks, 0);
    uint64_t at = 3;
    for (const uint32_t other : others) {
      const uint32_t k = seen[other]++;
      out->push_back({at, sent ? bytes_of(p.self, other, k) : bytes_of(other, p.self, k)});
      at += out->back().bytes + k % 2;
    }
  };
  for (Problem& p : all) {
    lay_out(p, p.destinations, true, &p.send);
    lay_out(p, p.sources, false, &p.recv);
  }
  return all;
}

std::vector<std::vector<uint32_t>> random_edges(uint32_t ranks, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<std::vector<uint32_t>> edges(ranks, std::vector<uint32_t>(ranks));
  for (auto& of : edges) {
    for (uint32_t& n : of) n = rng() % 2 == 0 ? 0 : static_cast<uint32_t>(rng() % 4);
  }
  return edges;
}

std::vector<Schedule> schedules_of(const std::vector<Problem>& problems) {
  std::vector<Schedule> schedules;
  EXPECT_TRUE(coll::build(problems, kLinear, &schedules).ok());
  return schedules;
}

TEST(Neighbor, RandomGraphs) {
  for (uint32_t ranks = 1; ranks <= 12; ++ranks) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const auto edges = random_edges(ranks, seed * 100 + ranks);
      const std::vector<Problem> problems = neighborhoods(edges, seed);
      const coll::Verdict verdict = coll::check(problems, schedules_of(problems));
      ASSERT_EQ(verdict.fault, "") << ranks << " ranks, seed " << seed;
      uint64_t wanted = 0;
      for (uint32_t r = 0; r < ranks; ++r) {
        wanted += std::accumulate(edges[r].begin(), edges[r].end(), uint64_t{0}) - edges[r][r];
      }
      ASSERT_EQ(verdict.messages, wanted) << "also those without bytes";
    }
  }
}

TEST(Neighbor, NobodyAtAll) {
  const std::vector<Problem> problems = neighborhoods({{0, 0}, {0, 0}}, 1);
  EXPECT_EQ(coll::check(problems, schedules_of(problems)).fault, "");
  EXPECT_TRUE(schedules_of(problems)[0].steps.empty());
}

// More than there are tags, and more than are sent at a time.
TEST(Neighbor, ThousandsOfEdgesBetweenTwoRanks) {
  const std::vector<Problem> problems = neighborhoods({{30, 2500}, {1100, 0}}, 1);
  EXPECT_EQ(coll::check(problems, schedules_of(problems)).fault, "");
}

// With a cap on receives as well these would wait for each other in a circle.
TEST(Neighbor, CirclesOfManyNeighbors) {
  const std::vector<Problem> problems = neighborhoods(std::vector(9, std::vector<uint32_t>(9, 20)), 5);
  EXPECT_EQ(coll::check(problems, schedules_of(problems)).fault, "");
}

TEST(Neighbor, PlantedFaultsAreFound) {
  const std::vector<Problem> problems = neighborhoods(random_edges(6, 8), 2);
  const auto first = [](Schedule& s, StepKind kind) {
    return std::find_if(s.steps.begin(), s.steps.end(), [&](const Step& x) { return x.kind == kind && x.bytes > 1; });
  };
  for (const StepKind kind : {StepKind::kSend, StepKind::kReceive}) {
    for (int fault = 0; fault < 3; ++fault) {
      std::vector<Schedule> schedules = schedules_of(problems);
      const auto step = first(schedules[3], kind);
      ASSERT_NE(step, schedules[3].steps.end());
      if (fault == 0) *step = {.kind = StepKind::kCopy};
      if (fault == 1) step->bytes -= 1;
      if (fault == 2) ++(kind == StepKind::kSend ? step->from_at : step->to_at);
      EXPECT_FALSE(coll::check(problems, schedules).proved()) << "fault " << fault;
    }
  }
}

TEST(Neighbor, RealData) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const auto ranks = static_cast<uint32_t>(1 + seed % 7);
    const std::vector<Problem> problems = neighborhoods(random_edges(ranks, seed), seed);
    Ranks all(problems, *coll::algorithm(Collective::kNeighbor, kLinear), {}, seed);
    all.start(false, 0);
    ASSERT_TRUE(all.finish()) << "seed " << seed;
    for (uint32_t r = 0; r < ranks; ++r) {
      ASSERT_EQ(all.runs[r]->code(), Code::kOk);
      ASSERT_EQ(all.outputs[r], expected_output(problems, r, all.inputs, {}, all.before[r]))
          << "rank " << r << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace zh::test
