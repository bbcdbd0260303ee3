// Who times lines for whom.
#include "node/measurers.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>
#include <vector>

namespace zh::node {
namespace {

using Pair = std::pair<uint32_t, uint32_t>;

os::CpuSet cpus(std::initializer_list<uint32_t> list) {
  os::CpuSet set;
  for (const uint32_t cpu : list) set.add(cpu);
  return set;
}

TEST(Measurers, AllWhereEachRankHasAProcessor) {
  const std::vector<os::CpuSet> wide(4, cpus({0, 1, 2, 3}));
  const Measurers m(wide, 4);
  EXPECT_EQ(m.ranks(), (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_FALSE(m.stand_in());
  EXPECT_EQ(m.of(1, 3), Pair(1, 3));
}

TEST(Measurers, TwoForAllThatShareTwoProcessors) {
  const std::vector<os::CpuSet> alike(8, cpus({0, 1}));
  const Measurers m(alike, 2);
  EXPECT_EQ(m.ranks(), (std::vector<uint32_t>{0, 1}));
  EXPECT_TRUE(m.stand_in());
  EXPECT_EQ(m.of(3, 6), Pair(0, 1));
  EXPECT_EQ(m.of(0, 7), Pair(0, 1));
  EXPECT_EQ(m.place_of(0), cpus({0}));
  EXPECT_EQ(m.place_of(1), cpus({1}));
}

TEST(Measurers, OneOfEachProcessorWhereRanksAreBound) {
  std::vector<os::CpuSet> bound;
  for (uint32_t i = 0; i < 8; ++i) bound.push_back(cpus({i % 2}));
  const Measurers m(bound, 2);
  EXPECT_EQ(m.ranks(), (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(m.of(4, 7), Pair(0, 1));
  EXPECT_EQ(m.of(7, 4), Pair(1, 0));
  EXPECT_EQ(m.of(2, 6), Pair(0, 0)) << "on one processor there is no line to time";
}

TEST(Measurers, NobodyWhereRanksMayBeAnywhere) {
  const std::vector<os::CpuSet> wide(8, cpus({0, 1, 2, 3}));
  EXPECT_TRUE(Measurers(wide, 4).ranks().empty());
  std::vector<os::CpuSet> one_is_wide(4, cpus({0, 1}));
  one_is_wide.push_back(cpus({0, 1, 2}));
  EXPECT_TRUE(Measurers(one_is_wide, 3).ranks().empty());
}

TEST(Measurers, NobodyWhereNothingIsKnownOrFewerProcessorsAreGranted) {
  EXPECT_TRUE(Measurers(std::vector<os::CpuSet>(4), 2).ranks().empty());
  EXPECT_TRUE(Measurers(std::vector<os::CpuSet>(4, cpus({0, 1})), 1).ranks().empty()) << "a quota of one CPU";
  EXPECT_TRUE(Measurers(std::vector<os::CpuSet>(1, cpus({0, 1})), 2).ranks().empty()) << "alone";
}

}  // namespace
}  // namespace zh::node
