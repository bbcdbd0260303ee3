// The walk of schedules (src/coll/analysis/walk.h) beside SimGrid, on the same machine of the same costs. Both take
// prices from model::Pricing: only order and links are independent. Built where SimGrid is installed.
#include "coll/analysis/walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "model/profiles.h"
#include "replay.h"

namespace zh::test {
namespace {

using coll::Collective;
using coll::Schedule;
using model::Cluster;
using model::Model;
using model::Parameters;
using model::Pricing;

/// Costs that are sums of powers of two, so that neither simulator rounds: what meets at one moment meets in both.
Parameters exact_parameters() {
  using model::CostTable;
  const auto line = [](double at_0, double at_64k) { return CostTable{{{0, at_0}, {65536, at_64k}}}; };
  Parameters p;
  p.name = "exact";
  p.chips_per_node = 2;
  p.has_inter_chip = true;
  p.levels[0] = {line(0.25, 16.25), {{{8, line(0, 4)}}}, {}, {}, {}};
  p.levels[1] = {line(0.375, 24.375), {{{8, line(0, 6)}}}, {}, {}, {}};
  p.levels[2] = {line(0.5, 32.5), {{{8, line(0, 8)}}}, line(2, 66), line(0, 64), {}};
  p.facts.contention = {{model::kMappedWay, 1024, {{1, 2}, {2, 3}, {4, 5}}, false}};
  return p;
}

std::vector<Parameters> machines() {
  std::vector<Parameters> out{exact_parameters()};
  for (const Parameters& p : model::built_in_profiles()) out.push_back(p);
  return out;
}

struct Case {
  Collective collective = Collective::kBcast;
  std::string_view algorithm;
  Cluster cluster;
  uint64_t bytes = 0;
  uint64_t stride = 0;
  uint64_t chunk = 0;
  bool team = false;
};

std::string text(const Case& c) {
  return std::string(name_of(c.collective)) + " by " + std::string(c.algorithm) + ", " +
         std::to_string(c.cluster.ranks) + " ranks on " + std::to_string(c.cluster.nodes) +
         (c.cluster.cyclic ? " in turn, " : ", ") + std::to_string(c.bytes) + " bytes at stride " +
         std::to_string(c.stride) + " in chunks of " + std::to_string(c.chunk) + (c.team ? ", shared in nodes" : "");
}

coll::Problem problem_of(const Case& c) {
  coll::Problem problem;
  problem.collective = c.collective;
  problem.count = c.bytes;
  problem.chunk_bytes = c.chunk;
  problem.blocks = problem.team = c.team;
  std::vector<uint32_t> node_of(c.cluster.ranks);
  for (uint32_t rank = 0; rank < c.cluster.ranks; ++rank) node_of[rank] = c.cluster.node_of(rank);
  problem.layout = std::make_shared<const coll::Layout>(node_of);
  return problem;
}

std::vector<Schedule> schedules_of(const Case& c) {
  std::vector<Schedule> out;
  EXPECT_TRUE(coll::build(coll::for_all_ranks(problem_of(c)), c.algorithm, &out).ok()) << text(c);
  return out;
}

/// Every algorithm of every collective on 4 to 16 ranks of those of 1 to 4 nodes that it fits, by messages inside nodes
/// and by their teams.
std::vector<Case> cases() {
  constexpr Cluster kClusters[] = {{4, 1, 2, false}, {6, 3, 2, false},  {8, 2, 2, false},
                                   {8, 4, 2, true},  {12, 3, 2, false}, {16, 4, 2, true}};
  std::vector<Case> out;
  for (uint8_t i = 0; i < static_cast<uint8_t>(Collective::kCount); ++i) {
    const auto collective = static_cast<Collective>(i);
    for (const coll::Algorithm& algorithm : coll::algorithms(collective)) {
      const size_t before = out.size();
      for (const Cluster& cluster : kClusters) {
        if (!algorithm.fits(problem_of({collective, algorithm.name, cluster, 0, 0, 0}))) continue;
        out.push_back({collective, algorithm.name, cluster, 4096, 8, 1024});
        out.push_back({collective, algorithm.name, cluster, 65536, 0, 0});
        out.push_back({collective, algorithm.name, cluster, 16384, 0, 4096, true});
      }
      EXPECT_GT(out.size(), before) << algorithm.name << " fits nowhere";
    }
  }
  return out;
}

/// How much longer SimGrid takes than the walk, as a share of the walk.
double excess(const Case& c, Model model, const Parameters& parameters, Wires wires) {
  const std::vector<Schedule> schedules = schedules_of(c);
  const Pricing pricing(model, parameters, c.cluster, c.stride);
  const double walked = coll::walk(schedules, pricing).end;
  const std::optional<double> simulated = replay(schedules, pricing, wires);
  EXPECT_TRUE(simulated.has_value()) << text(c) << ": not all steps ran";
  return simulated.value_or(0) / walked - 1;
}

constexpr double kTolerance = 1e-6;

TEST(WalkBesideSimGrid, IsEqualWhereEachMessageHasAWireOfItsOwn) {
  for (const Parameters& p : machines()) {
    for (const Model model : model::kPaperModels) {
      for (const Case& c : cases()) {
        EXPECT_NEAR(excess(c, model, p, Wires::kOwn), 0, kTolerance)
            << p.name << ", " << name_of(model) << ", " << text(c);
      }
    }
  }
}

TEST(WalkBesideSimGrid, IsEqualWhereMessagesTakeTurnsOnLinks) {
  for (const Parameters& p : machines()) {
    for (const Case& c : cases()) {
      EXPECT_NEAR(excess(c, Model::kLinked, p, Wires::kTurns), 0, kTolerance) << p.name << ", " << text(c);
    }
  }
}

/// How long the busiest link is busy: of any node, in any direction.
double busiest_link(const std::vector<Schedule>& schedules, const Pricing& pricing) {
  std::vector<double> out(pricing.nodes()), in(pricing.nodes());
  for (uint32_t rank = 0; rank < schedules.size(); ++rank) {
    for (const coll::Step& step : schedules[rank].steps) {
      if (step.kind != coll::StepKind::kSend || pricing.node_of(rank) == pricing.node_of(step.peer)) continue;
      const double us = pricing.message(rank, step.peer, step.bytes).link;
      out[pricing.node_of(rank)] += us;
      in[pricing.node_of(step.peer)] += us;
    }
  }
  return std::max(std::ranges::max(out), std::ranges::max(in));
}

/// Whether no two messages share a link, or a root's alone do, which keep it as busy either way.
bool shares_no_link(const Case& c) {
  const bool by_root = c.collective == Collective::kBcast || c.collective == Collective::kScatter;
  return c.cluster.nodes == 1 || c.algorithm == coll::kHostLeaders || c.collective == Collective::kBarrier ||
         (by_root && c.algorithm == "linear");
}

// Of messages that share a link at equal parts all arrive late, where of those that take turns the first is early: what
// goes on from each then begins later, at most as if each rank of a node had a part of the link. Where one is allowed
// to pass, it may begin earlier, but no link can do more than its work.
TEST(WalkBesideSimGrid, IsWithinWhatLinksCanDoWhereMessagesShareThemAtEqualParts) {
  for (const Parameters& p : machines()) {
    for (const Case& c : cases()) {
      const std::vector<Schedule> schedules = schedules_of(c);
      const Pricing pricing(Model::kLinked, p, c.cluster, c.stride);
      const double walked = coll::walk(schedules, pricing).end;
      const double more = excess(c, Model::kLinked, p, Wires::kParts);
      EXPECT_GE((1 + more) * walked, busiest_link(schedules, pricing) * (1 - kTolerance)) << p.name << ", " << text(c);
      EXPECT_LE(1 + more, c.cluster.ranks_per_node()) << p.name << ", " << text(c);
      if (shares_no_link(c)) {
        EXPECT_NEAR(more, 0, kTolerance) << p.name << ", " << text(c);
      }
    }
  }
}

}  // namespace
}  // namespace zh::test
