// What a column of `zerohop bench algorithms` takes of a launch.
#include "tools/bench/series.h"

#include <gtest/gtest.h>

namespace zh::tools {
namespace {

using Json = nlohmann::json;

Json case_of(const std::vector<std::vector<double>>& arms) {
  return {{"metrics", {{"time_us", arms}, {"t_max_us", arms}}}};
}

TEST(BenchSeries, TakesZerohopsArmAndBothOfTheHost) {
  SeriesCell cell;
  EXPECT_TRUE(cell.add(case_of({{8, 8, 8}, {4, 5, 6}, {12, 12, 12}})));
  EXPECT_DOUBLE_EQ(cell.time(), 5);
  EXPECT_DOUBLE_EQ(cell.ratio(), 0.5);
  EXPECT_EQ(cell.slowest_us, std::vector<double>{5});
}

TEST(BenchSeries, ABareLaunchHasNoRatio) {
  SeriesCell cell;
  EXPECT_TRUE(cell.add(case_of({{8, 9, 10}})));
  EXPECT_DOUBLE_EQ(cell.time(), 9);
  EXPECT_TRUE(cell.to_host.empty());
  EXPECT_FALSE(cell.add(case_of({{8}, {9}}))) << "arms that are neither";
  EXPECT_EQ(cell.us.size(), 1U);
}

}  // namespace
}  // namespace zh::tools
