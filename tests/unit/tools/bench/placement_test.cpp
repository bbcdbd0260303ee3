// Which launch comes next, which launches make pairs, and what the tables of the placements say.
#include "tools/bench/placement.h"

#include <gtest/gtest.h>

namespace zh::tools {
namespace {

using Json = nlohmann::json;

LaunchRecord placed_launch(const std::string& host, bool zerohop, const std::string& placement, double at_s,
                           double us) {
  const Json arms = zerohop ? Json{"host", "zerohop", "host"} : Json{"host"};
  const Json times = zerohop ? Json{{2 * us}, {us}, {2 * us}} : Json{{us}};
  const Json c = {{"bench", "latency"}, {"size", 1024}, {"buffers", "malloc"}, {"metrics", {{"time_us", times}}}};
  const Json document = {{"placement", placement},
                         {"line_us", {{"before", 0.05}, {"after", 0.05}}},
                         {"ranks", 2},
                         {"arms", arms},
                         {"cases", {c}}};
  return {0, "latency", host, zerohop, "", 1, document, at_s};
}

TEST(PlacementCounts, TheHostThatLacksMostWhereTheMachineIsComesNext) {
  PlacementCounts counts(2);
  const std::vector<std::string> kinds = {"a", "b"};
  EXPECT_EQ(counts.next(kinds), 0U);
  counts.note("a", "near");
  EXPECT_EQ(counts.next(kinds), 1U);
  counts.note("b", "near");
  counts.note("b", "far");
  EXPECT_EQ(counts.next(kinds), 0U) << "far lacks two of a and one of b";
  counts.note("a", "far");
  counts.note("b", "far");
  counts.note("a", "far");
  EXPECT_EQ(counts.next(kinds), 0U) << "far has enough, near does not";
  counts.note("a", "near");
  EXPECT_EQ(counts.next(kinds), 1U);
  counts.note("b", "mixed");
  EXPECT_EQ(counts.next(kinds), 1U) << "a launch during which the placement changed counts for nothing";
  counts.note("b", "near");
  EXPECT_FALSE(counts.next(kinds));
}

TEST(PlacementCounts, OnlyWhatWasSeenMustBeFull) {
  PlacementCounts counts(1);
  counts.note("a", "far");
  EXPECT_FALSE(counts.next({"a"}));
  EXPECT_FALSE(counts.next({}));
}

TEST(PairedByTime, TheClosestOfTheSamePlacementShareARound) {
  const auto paired =
      paired_by_time({placed_launch("mpich", true, "near", 0, 1), placed_launch("impi", false, "far", 1, 1),
                      placed_launch("impi", false, "near", 90, 1), placed_launch("mpich", true, "near", 100, 1),
                      placed_launch("impi", false, "near", 103, 1), placed_launch("impi", false, "near", 5, 1)});
  EXPECT_EQ(paired[5].round, paired[0].round);
  EXPECT_EQ(paired[4].round, paired[3].round) << "3 s away, the other one 10 s";
  EXPECT_NE(paired[0].round, paired[3].round);
  for (const size_t zerohop : {0U, 3U}) EXPECT_NE(paired[2].round, paired[zerohop].round) << "none is left for it";
}

TEST(PairedByTime, RatiosOutliveAMachineThatSlowsDown) {
  std::vector<LaunchRecord> all;
  for (int i = 0; i < 10; ++i) {
    const double slow = 1 + i;
    // The order turns: launches of one pass are neighbours in time, whatever their order.
    all.push_back(placed_launch("impi", false, "far", 100.0 * i + (i % 2 != 0 ? 1 : 3), 4 * slow));
    all.push_back(placed_launch("mpich", true, "far", 100.0 * i + 2, 2 * slow));
  }
  const Judged judged = judge(paired_by_time(all), {});
  ASSERT_EQ(judged.rows.size(), 1U);
  EXPECT_EQ(judged.rows[0].to_best_peer.count, 10);
  EXPECT_DOUBLE_EQ(judged.rows[0].to_best_peer.low, 0.5);
  EXPECT_DOUBLE_EQ(judged.rows[0].to_best_peer.high, 0.5);
  EXPECT_DOUBLE_EQ(judged.rows[0].to_own_host.mid, 0.5);
}

TEST(PlacementTable, APlacementWithTooFewLaunchesIsPrintedAndSaidToBeNotResolved) {
  std::vector<LaunchRecord> all;
  for (int i = 0; i < 10; ++i) {
    const std::string placement = i < 9 ? "far" : "near";
    all.push_back(placed_launch("impi", false, placement, i, 4));
    all.push_back(placed_launch("mpich", true, placement, i, 2));
  }
  const std::string few = placement_table_of(judge(paired_by_time(all), {}));
  EXPECT_NE(few.find("\nfar · latency · malloc"), std::string::npos) << few;
  EXPECT_NE(few.find("launches: impi 9, zerohop 9\n  not resolved"), std::string::npos) << few;
  EXPECT_NE(few.find("launches: impi 1, zerohop 1\n  not resolved"), std::string::npos) << few;
  all.push_back(placed_launch("impi", false, "far", 20, 4));
  all.push_back(placed_launch("mpich", true, "far", 20, 2));
  const std::string enough = placement_table_of(judge(paired_by_time(all), {}));
  EXPECT_NE(enough.find("launches: impi 10, zerohop 10\nsize"), std::string::npos) << enough;
  EXPECT_NE(enough.find("0.500 [0.500, 0.500]"), std::string::npos) << enough;
}

TEST(PlacementTable, AHostThatNeverRanInAPlacementLeavesItUnresolved) {
  std::vector<LaunchRecord> all;
  for (int i = 0; i < 10; ++i) {
    for (const char* placement : {"far", "near"}) {
      all.push_back(placed_launch("impi", false, placement, i, 4));
      all.push_back(placed_launch("mpich", true, placement, i, 2));
    }
    all.push_back(placed_launch("openmpi", false, "near", i, 3));
  }
  const std::string table = placement_table_of(judge(paired_by_time(all), {}));
  EXPECT_NE(table.find("impi 10, zerohop 10\n  not resolved"), std::string::npos) << table;
  EXPECT_NE(table.find("impi 10, openmpi 10, zerohop 10\nsize"), std::string::npos) << table;
}

}  // namespace
}  // namespace zh::tools
