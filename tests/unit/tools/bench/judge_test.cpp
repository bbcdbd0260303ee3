// The judge on made-up launches: pairing by round and placement, the best peer, paired blocks, derived quantities.
#include "tools/bench/judge.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/bench/report.h"
#include "unit/tools/bench/made_up_launches.h"

namespace zh::tools {
namespace {

LaunchRecord bare(int round, const std::string& host, const std::string& placement, uint64_t size, double us) {
  return made_up_launch(round, host, false, {made_up_case("latency", size, "time_us", {{us}})}, placement);
}

LaunchRecord carried(int round, const std::string& placement, uint64_t size, double host_us, double us) {
  const MadeUpArms arms = made_up_arms(true, host_us, us);
  return made_up_launch(round, "mpich", true, {made_up_case("latency", size, "time_us", arms)}, placement);
}

TEST(Judge, ABlockOfZerohopIsPairedWithBothOfTheHostBesideIt) {
  const nlohmann::json c = made_up_case("bcast", 16, "time_us", {{8, 8, 8}, {4, 5, 6}, {12, 12, 12}});
  const LaunchRecord launch = made_up_launch(0, "mpich", true, {c});
  const Sample sample = samples_of(launch).samples.begin()->second;
  EXPECT_DOUBLE_EQ(sample.value, 5);
  EXPECT_DOUBLE_EQ(*sample.host, 10);
  EXPECT_DOUBLE_EQ(*sample.to_own_host, 0.5);
  EXPECT_DOUBLE_EQ(*sample.noise, 1.5);
}

TEST(Judge, PairsWithinARoundAgainstThePeerWithTheLeastMedian) {
  std::vector<LaunchRecord> all;
  for (int round = 0; round < 8; ++round) {
    const double drift = 1 + round;  // the machine slows down from round to round: only paired ratios stay the same
    all.push_back(bare(round, "mpich", "near", 1024, 4 * drift));
    all.push_back(bare(round, "impi", "near", 1024, 2 * drift));
    all.push_back(carried(round, "near", 1024, 4 * drift, 1 * drift));
  }
  const Judged judged = judge(all, {});
  ASSERT_EQ(judged.rows.size(), 1u);
  const Row& row = judged.rows[0];
  EXPECT_EQ(row.best_peer, "impi");
  EXPECT_DOUBLE_EQ(row.to_best_peer.low, 0.5);
  EXPECT_DOUBLE_EQ(row.to_best_peer.high, 0.5);
  EXPECT_DOUBLE_EQ(row.to_own_host.mid, 0.25);
  EXPECT_DOUBLE_EQ(row.noise.mid, 1);
}

TEST(Judge, KeepsPlacementsApartAndLeavesMixedLaunchesOut) {
  std::vector<LaunchRecord> all;
  for (int round = 0; round < 8; ++round) {
    all.push_back(bare(round, "impi", round == 7 ? "mixed" : round % 2 ? "far" : "near", 1024, 2));
    all.push_back(carried(round, round % 2 ? "far" : "near", 1024, 4, 1));
  }
  const Judged judged = judge(all, {});
  EXPECT_EQ(judged.mixed, 1);
  ASSERT_EQ(judged.rows.size(), 2u);
  for (const Row& row : judged.rows) {
    EXPECT_EQ(row.rounds, 4);
    EXPECT_EQ(row.to_best_peer.count, row.placement == "far" ? 3 : 4);
    EXPECT_FALSE(row.to_best_peer.valid);  // four rounds resolve nothing
  }
}

TEST(Judge, RawLimitsAreTheBestWayOfTheSamePlacement) {
  RawLimits raw;
  add_raw_document({{"placement", "near"},
                    {"rows",
                     {{{"buffers", "private"}, {"size", 65536}, {"us", 3.0}},
                      {{"buffers", "mapped"}, {"size", 65536}, {"us", 2.5}},
                      {{"buffers", "mapped"}, {"size", 65536}, {"us", 1.0}, {"placement", "far"}}}}},
                   &raw);
  std::vector<LaunchRecord> all;
  for (int round = 0; round < 6; ++round) all.push_back(carried(round, "near", 65536, 20, 2.9));
  const Row row = judge(all, raw).rows.at(0);
  ASSERT_TRUE(row.raw_us.has_value());
  EXPECT_EQ(*row.raw_us, 2.5);
}

TEST(Judge, ComparesWithTheHeapSwitchedOffInTheSameRound) {
  std::vector<LaunchRecord> all;
  for (int round = 0; round < 6; ++round) {
    all.push_back(carried(round, "near", 65536, 20, 9.0 + round));
    LaunchRecord off = carried(round, "near", 65536, 20, (9.0 + round) / 0.9);
    off.setting = kHeapOffSetting;
    all.push_back(off);
  }
  const Judged judged = judge(all, {});
  ASSERT_EQ(judged.rows.size(), 1U) << "a launch without the heap has no row of its own";
  EXPECT_NEAR(judged.rows.at(0).to_heap_off.mid, 0.9, 1e-9);
  EXPECT_EQ(judged.rows.at(0).to_heap_off.count, 6);
}

TEST(Judge, ABrokenDocumentIsLeftOutAndNotFollowed) {
  const LaunchRecord nothing{0, "g", "mpich", true, "", 1, nlohmann::json::object()};
  EXPECT_EQ(judge({nothing}, {}).mixed, 1);
}

TEST(BenchReport, AMultiplicationIsNamedByTheOrderOfItsMatrices) {
  std::vector<LaunchRecord> all;
  for (const bool zerohop : {false, true}) {
    nlohmann::json c = made_up_case("matmul", 1024, "comm_us", made_up_arms(zerohop, 4, 2));
    c["order"] = 16;
    all.push_back(made_up_launch(0, "mpich", zerohop, {c}, "far"));
  }
  const Judged judged = judge(all, {});
  ASSERT_EQ(judged.rows.size(), 1U);
  EXPECT_EQ(judged.rows[0].key.param, 16);
  EXPECT_DOUBLE_EQ(judged.rows[0].to_own_host.mid, 0.5);
  EXPECT_NE(table_of(judged, false).find("\n16 x 16 comm_us "), std::string::npos) << table_of(judged, false);
}

TEST(BenchReport, RowsOfOneHeadingStandTogether) {
  std::vector<LaunchRecord> all;
  for (const uint64_t size : {8U, 1024U}) {
    for (const char* host : {"mpich", "openmpi"}) {
      all.push_back(carried(0, "near", size, 4, 3));
      all.back().host = host;
    }
  }
  const std::string table = table_of(judge(all, {}), true);
  size_t headings = 0;
  for (size_t at = table.find("zerohop under"); at != std::string::npos; at = table.find("zerohop under", at + 1))
    ++headings;
  EXPECT_EQ(headings, 2U) << table;
  EXPECT_EQ(closing_of(judge(all, {}), "one way").find("\n4 launches, 0 left out"), 0U);
  EXPECT_NE(closing_of(judge(all, {}), "one way").find("\nnear: the first two ranks share"), std::string::npos);
}

}  // namespace
}  // namespace zh::tools
