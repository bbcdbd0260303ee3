// The statistics behind the verdicts: medians, order-statistic intervals, and the three outcomes of a limit.
#include "tools/bench/stats.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace zh::tools {
namespace {

TEST(Median, IsTheMiddleOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median(std::vector<double>{}), 0);
  EXPECT_EQ(median(std::vector<double>{3}), 3);
  EXPECT_EQ(median(std::vector<double>{9, 1, 5}), 5);
  EXPECT_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5);
}

TEST(MedianInterval, FiveValuesAreTooFewFor95Percent) {
  const Interval five = median_interval(std::vector<double>{1, 2, 3, 4, 5});
  EXPECT_FALSE(five.valid);
  EXPECT_NEAR(five.coverage, 0.9375, 1e-12);
  EXPECT_TRUE(median_interval(std::vector<double>{1, 2, 3, 4, 5, 6}).valid);
}

TEST(MedianInterval, TakesTheRanksOfTheBinomialTables) {
  std::vector<double> v;
  for (int i = 1; i <= 20; ++i) v.push_back(21 - i);
  const Interval twenty = median_interval(v);  // published ranks for n = 20: 6 and 15, coverage 0.9586
  EXPECT_EQ(twenty.low, 6);
  EXPECT_EQ(twenty.high, 15);
  EXPECT_NEAR(twenty.coverage, 0.9586, 1e-4);
  v.resize(10);  // 20 .. 11; ranks 2 and 9, coverage 0.9785
  const Interval ten = median_interval(v);
  EXPECT_EQ(ten.low, 12);
  EXPECT_EQ(ten.high, 19);
  EXPECT_NEAR(ten.coverage, 0.9785, 1e-4);
}

TEST(MedianInterval, HoldsTheTrueMedianAsOftenAsItSays) {
  std::mt19937_64 random(20240607);
  std::lognormal_distribution<double> skewed(0, 1);  // median 1
  int held = 0;
  const int trials = 4000;
  for (int t = 0; t < trials; ++t) {
    std::vector<double> v(12);
    for (double& x : v) x = skewed(random);
    const Interval i = median_interval(v);
    held += i.low <= 1 && 1 <= i.high;
  }
  const double share = static_cast<double>(held) / trials;
  EXPECT_GT(share, 0.95);
  EXPECT_LT(share, 0.975);  // n = 12: 0.9614
}

}  // namespace
}  // namespace zh::tools
