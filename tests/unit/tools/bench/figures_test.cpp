// The papers' figures as descriptions: what they name exists, and can be told apart.
#include "tools/bench/figures.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "coll/algorithms/algorithms.h"
#include "tools/bench/series.h"
#include "tools/cli/inputs.h"

namespace zh::tools {
namespace {

using Json = nlohmann::json;

TEST(BenchFigures, NamesAreUniqueAndFound) {
  std::set<std::string_view> names;
  for (const Figure& f : figures()) {
    EXPECT_TRUE(names.insert(f.id).second) << f.id;
    EXPECT_EQ(figure_named(f.id), &f);
  }
  EXPECT_EQ(figure_named("ml"), nullptr);
}

TEST(BenchFigures, WhatTheyNameExists) {
  for (const Figure& f : figures()) {
    const coll::Collective collective = coll::collective_named(f.collective);
    EXPECT_EQ(collective != coll::Collective::kCount, f.telling == FigureTelling::kSeries) << f.id;
    EXPECT_EQ(wrong_sizes({.step = 1}, std::string(f.sizes)), "") << f.id;
    EXPECT_FALSE(f.layouts.empty() || f.ways.empty() || f.algorithms.empty()) << f.id;
    for (const FigureAlgorithm& a : f.algorithms) {
      const bool named = a.name.empty() || coll::algorithm(collective, a.name) != nullptr;
      EXPECT_TRUE(named) << f.id << ": " << a.name;
      const bool cut = a.chunk.empty() || a.chunk == "0" || wrong_sizes({}, std::string(a.chunk)).empty();
      EXPECT_TRUE(cut) << f.id << ": " << a.chunk;
    }
  }
}

TEST(BenchFigures, SeriesOfOneFigureDiffer) {
  for (const Figure& f : figures()) {
    std::set<std::string> series;
    for (const FigureWay& w : f.ways) {
      for (const FigureAlgorithm& a : f.algorithms) {
        const std::string name = std::string(a.name) + "/" + std::string(a.chunk) + " " + std::string(w.name);
        EXPECT_TRUE(series.insert(name).second) << f.id << ": " << name;
      }
    }
  }
}

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
