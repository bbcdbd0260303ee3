// Tables of costs, what makes a parameter set unusable, and the built-in ones.
#include "model/parameters.h"

#include <gtest/gtest.h>

#include <limits>

#include "model/equations.h"
#include "model/profiles.h"
#include "model_support.h"

namespace zh::model {
namespace {

TEST(CostTable, IsLinearBetweenPointsAndBeyond) {
  const CostTable table{{{100, 2}, {200, 4}, {400, 10}}};
  EXPECT_EQ(table.us_at(100), 2);
  EXPECT_EQ(table.us_at(150), 3);
  EXPECT_EQ(table.us_at(200), 4);
  EXPECT_EQ(table.us_at(300), 7);
  EXPECT_EQ(table.us_at(0), 2) << "below the first point that one's";
  EXPECT_EQ(table.us_at(600), 16) << "the last slope goes on";
  EXPECT_EQ(CostTable({{{100, 2}}}).us_at(1e6), 2);
  EXPECT_EQ(CostTable().us_at(5), 0);
  EXPECT_EQ(CostTable({{{1, 5}, {2, 3}}}).us_at(1000), 3) << "costs never become negative";
}

TEST(CostTable, SaysWhatIsWrong) {
  EXPECT_EQ(CostTable({{{0, 1}, {8, 0.5}}}).fault(), "");
  EXPECT_EQ(CostTable({{{0, 1}, {0, 2}}}).fault(), "point 2: sizes must rise from point to point");
  EXPECT_EQ(CostTable({{{0, -1}}}).fault(), "point 1: a cost is a number of microseconds from 0 to 1e9");
  EXPECT_EQ(CostTable({{{-8, 1}}}).fault(), "point 1: a size is a number of bytes from 0 to 1e15");
  EXPECT_NE(CostTable({{{0, std::numeric_limits<double>::quiet_NaN()}}}).fault(), "");
  EXPECT_NE(CostTable({{{0, std::numeric_limits<double>::infinity()}}}).fault(), "");
}

TEST(StridedCosts, IsLinearBetweenStrides) {
  const StridedCosts costs{{{8, {{{0, 0}, {1000, 2}}}}, {16, {{{0, 0}, {1000, 4}}}}}};
  EXPECT_EQ(costs.us_at(500, 0), 0) << "contiguous";
  EXPECT_EQ(costs.us_at(500, 8), 1);
  EXPECT_EQ(costs.us_at(500, 12), 1.5);
  EXPECT_EQ(costs.us_at(500, 16), 2);
  EXPECT_EQ(costs.us_at(500, 2), 1) << "below the first stride that one's";
  EXPECT_EQ(costs.us_at(500, 4096), 2) << "beyond the last that one's";
  EXPECT_EQ(StridedCosts().us_at(500, 8), 0);
  EXPECT_NE(StridedCosts({{{0, {{{0, 0}}}}}}).fault(), "");
  EXPECT_NE(StridedCosts({{{8, {}}}}).fault(), "");
  EXPECT_NE(StridedCosts({{{8, {{{0, 0}}}}, {8, {{{0, 0}}}}}}).fault(), "");
}

TEST(Parameters, WithoutTheLevelBetweenChipsItIsAsOnOne) {
  Parameters p = test::round_parameters();
  EXPECT_EQ(p.at(CommLevel::kInterChip).overhead.us_at(500), 3);
  p.has_inter_chip = false;
  EXPECT_EQ(p.at(CommLevel::kInterChip).overhead.us_at(500), 2);
}

TEST(Parameters, SayWhatIsWrongAndWhere) {
  const Parameters good = test::round_parameters();
  EXPECT_EQ(good.fault(), "");
  Parameters p = good;
  p.levels[0].overhead = {};
  EXPECT_EQ(p.fault(), "levels.intra-cmp.overhead: no points; every level needs it");
  p = good;
  p.levels[2].network = {};
  EXPECT_NE(p.fault().find("levels.inter-node.network"), std::string::npos);
  p = good;
  p.levels[1].network = {{{0, 1}}};
  EXPECT_NE(p.fault().find("levels.inter-cmp.network"), std::string::npos);
  p.has_inter_chip = false;
  EXPECT_EQ(p.fault(), "") << "a level that is not used";
  p = good;
  p.levels[2].gap = {{{0, -1}}};
  EXPECT_NE(p.fault().find("levels.inter-node.gap: point 1"), std::string::npos);
  p = good;
  p.levels[0].link = {{{0, 1}}};
  EXPECT_NE(p.fault().find("levels.intra-cmp.link: a message inside a node uses none"), std::string::npos);
  p = good;
  p.levels[2].link = {{{0, 6}, {1000, 21}}};
  EXPECT_NE(p.fault().find("levels.inter-node.link: a message is on the link"), std::string::npos);
  p = good;
  p.chips_per_node = 0;
  EXPECT_NE(p.fault().find("chips_per_node"), std::string::npos);
}

TEST(Parameters, KnowWhereTheirTablesEnd) {
  Parameters p = test::round_parameters();
  EXPECT_EQ(p.last_bytes(8, true), 1000);
  p.levels[2].network.points.back().bytes = 800;
  EXPECT_EQ(p.last_bytes(8, true), 800);
  EXPECT_EQ(p.last_bytes(8, false), 1000) << "no network inside a node";
  p.levels[0].latency.rows[1].table.points.back().bytes = 500;
  EXPECT_EQ(p.last_bytes(8, false), 500);
  EXPECT_EQ(p.last_bytes(0, false), 1000) << "contiguous messages have no latency";
}

TEST(Profiles, AreUsableAndFound) {
  EXPECT_EQ(built_in_profiles().size(), 2U);
  for (const Parameters& p : built_in_profiles()) {
    EXPECT_EQ(p.fault(), "") << p.name;
    EXPECT_EQ(built_in_profile(p.name), &p);
    EXPECT_FALSE(p.about.empty());
    EXPECT_FALSE(p.sources.empty());
    EXPECT_EQ(p.chips_per_node, 2U);
  }
  EXPECT_EQ(built_in_profile("nope"), nullptr);
}

TEST(Profiles, CostMoreForLargerMessagesWiderStridesAndFartherLevels) {
  for (const Parameters& p : built_in_profiles()) {
    for (const CommLevel level : kAllLevels) {
      for (const uint64_t stride : {0U, 4U, 8U, 20U, 64U, 100U, 512U, 4096U}) {
        double before = 0;
        for (double bytes = 8; bytes <= 4 << 20; bytes *= 2) {
          const double us = mlogn_p(p, level, {bytes, stride});
          EXPECT_GE(us, before) << p.name << " " << name_of(level) << " " << bytes << "/" << stride;
          EXPECT_LE(us, mlogn_p(p, level, {bytes, stride * 2}));
          EXPECT_LE(us, mlogn_p(p, CommLevel::kInterNode, {bytes, stride}));
          before = us;
        }
      }
    }
  }
}

// What is said to be measured by the papers is not what was put beside it by hand.
TEST(Profiles, WhatTheSourcesCallThePapersIsReckonedFromTheTables) {
  for (const Parameters& p : built_in_profiles()) {
    const LevelCosts& chip = p.at(CommLevel::kIntraChip);
    const LevelCosts& nodes = p.at(CommLevel::kInterNode);
    for (const CostTable::Point& point : nodes.overhead.points) {
      EXPECT_NEAR(chip.overhead.us_at(point.bytes) / point.us, 1 - 0.492, 1e-9) << p.name << ", section 5.1";
    }
    // Multicore collectives paper, figure 2 (a).
    ASSERT_EQ(p.facts.contention.size(), 1U);
    const auto& readers = p.facts.contention[0].us;
    EXPECT_EQ(readers[1].second, readers[0].second) << "level for a chip's four";
    EXPECT_GT(readers[2].second, readers[1].second) << "a step at eight";
  }
}

}  // namespace
}  // namespace zh::model
