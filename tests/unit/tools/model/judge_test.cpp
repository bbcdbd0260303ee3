// Choices beside what was measured: which one is best, how far a choice is from it, and whether the measurement can
// tell; by measurements made by hand.
#include "tools/model/judge.h"

#include <gtest/gtest.h>

#include <string>

#include "model/profiles.h"
#include "tools/model/choose.h"

namespace zh::tools {
namespace {

using coll::Collective;

constexpr uint64_t kK = 1024;

Interval interval(double mid, double half = 0.02) {
  Interval out;
  out.mid = mid;
  out.low = mid * (1 - half);
  out.high = mid * (1 + half);
  out.count = 8;
  out.valid = true;
  return out;
}

/// Broadcasts of 4 ranks on one node.
MeasuredCase measured(const std::string& algorithm, uint64_t bytes, Interval us, uint64_t chunk = kUsualChunkBytes) {
  MeasuredCase m;
  m.what.collective = Collective::kBcast;
  m.what.algorithm = algorithm;
  m.what.cluster = {4, 1, 1};
  m.what.bytes = bytes;
  m.what.chunk = chunk;
  m.us = us;
  return m;
}

Chooser always(const std::string& algorithm, std::optional<uint64_t> chunk = std::nullopt) {
  return [=](const ModelCase&) { return Choice{algorithm, chunk}; };
}

JudgedCell only_cell(const std::vector<MeasuredCase>& cases, const Chooser& model, const Chooser& standard) {
  const std::vector<JudgedCell> cells = judged_cells(cases, model, standard);
  EXPECT_EQ(cells.size(), 1U);
  return cells.empty() ? JudgedCell() : cells.front();
}

const std::vector<MeasuredCase> kCell = {measured("linear", kK, interval(12)), measured("binomial", kK, interval(10)),
                                         measured("hierarchical", kK, interval(10.9))};

TEST(ModelJudge, AChoiceIsMeasuredByTheBestsTime) {
  const JudgedCell cell = only_cell(kCell, always("binomial"), always("linear"));
  EXPECT_EQ(cell.best, "binomial");
  EXPECT_EQ(cell.best_us.mid, 10);
  EXPECT_EQ(cell.settings, 3);
  EXPECT_TRUE(cell.told);
  EXPECT_EQ(cell.model.quality, Quality::kNearBest);
  EXPECT_DOUBLE_EQ(cell.model.ratio, 1);
  EXPECT_EQ(cell.standard.quality, Quality::kWorse);
  EXPECT_DOUBLE_EQ(cell.standard.ratio, 1.2);
  EXPECT_EQ(cell.standard.measured_as, "linear");
  EXPECT_FALSE(cell.own_to_host);
}

TEST(ModelJudge, WithinATenthIsNearTheBest) {
  EXPECT_EQ(only_cell(kCell, always("hierarchical"), always("linear")).model.quality, Quality::kNearBest);
  const std::vector<MeasuredCase> beyond = {measured("linear", kK, interval(11.2)),
                                            measured("binomial", kK, interval(10))};
  EXPECT_EQ(only_cell(beyond, always("linear"), always("linear")).model.quality, Quality::kWorse);
}

TEST(ModelJudge, WhereIntervalsOverlapTheMeasurementDoesNotSay) {
  std::vector<MeasuredCase> cases = {measured("linear", kK, interval(12, 0.2)), measured("binomial", kK, interval(10))};
  JudgedCell cell = only_cell(cases, always("linear"), always("binomial"));
  EXPECT_EQ(cell.model.quality, Quality::kNotResolved);
  EXPECT_EQ(cell.standard.quality, Quality::kNearBest);
  EXPECT_FALSE(cell.told);
  // Apart, but of too few launches for an interval of 95 %.
  cases[0].us = interval(12);
  cases[0].us.valid = false;
  cell = only_cell(cases, always("linear"), always("binomial"));
  EXPECT_EQ(cell.model.quality, Quality::kNotResolved);
  EXPECT_FALSE(cell.told);
}

TEST(ModelJudge, WhatWasNotMeasuredIsNotJudged) {
  const JudgedCell cell = only_cell(kCell, always("leader-ring"), [](const ModelCase&) { return std::nullopt; });
  EXPECT_EQ(cell.model.quality, Quality::kNotMeasured);
  EXPECT_EQ(cell.model.choice.algorithm, "leader-ring");
  EXPECT_EQ(cell.model.ratio, 0);
  EXPECT_EQ(cell.standard.quality, Quality::kNotMeasured);
  EXPECT_TRUE(judged_cells({kCell[0]}, always("linear"), always("linear")).empty()) << "nothing to choose from";
}

TEST(ModelJudge, OfSeveralChunksTheClosestStandsForTheChoice) {
  const std::vector<MeasuredCase> cases = {
      measured("linear", 256 * kK, interval(50)), measured("hierarchical", 256 * kK, interval(40), 64 * kK),
      measured("hierarchical", 256 * kK, interval(30), 4 * kK), measured("hierarchical", 256 * kK, interval(60), 0)};
  const auto as = [&](uint64_t chunk) {
    return only_cell(cases, always("hierarchical", chunk), always("linear")).model;
  };
  EXPECT_EQ(only_cell(cases, always("linear"), always("linear")).best, "hierarchical/4K");
  EXPECT_EQ(as(4 * kK).measured_as, "hierarchical/4K");
  EXPECT_FALSE(as(4 * kK).other_chunk);
  EXPECT_EQ(as(8 * kK).measured_as, "hierarchical/4K");
  EXPECT_TRUE(as(8 * kK).other_chunk);
  EXPECT_EQ(as(64 * kK).measured_as, "hierarchical");
  EXPECT_DOUBLE_EQ(as(64 * kK).ratio, 40.0 / 30);
  EXPECT_EQ(as(0).measured_as, "hierarchical/0");
  EXPECT_EQ(as(1024 * kK).measured_as, "hierarchical/0") << "a chunk as large as the vector cuts nothing";
  EXPECT_FALSE(as(1024 * kK).other_chunk);
}

TEST(ModelJudge, ZerohopsOwnChoiceIsHeldAgainstTheHost) {
  std::vector<MeasuredCase> cases = kCell;
  cases.push_back(measured(std::string(kOwnChoice), kK, interval(3)));
  cases.back().to_host = interval(0.5);
  JudgedCell cell = only_cell(cases, always("binomial"), always("binomial"));
  EXPECT_EQ(cell.best, "binomial") << "the own choice is no algorithm";
  EXPECT_EQ(cell.settings, 3);
  EXPECT_FALSE(cell.slower_than_host());
  cases.back().to_host = interval(1.04, 0.005);
  EXPECT_FALSE(only_cell(cases, always("linear"), always("linear")).slower_than_host());
  cases.back().to_host = interval(1.2);
  cell = only_cell(cases, always("linear"), always("linear"));
  EXPECT_TRUE(cell.slower_than_host());
  EXPECT_TRUE(cell.surely_slower_than_host());
  cases.back().to_host = interval(1.2, 0.2);
  cell = only_cell(cases, always("linear"), always("linear"));
  EXPECT_TRUE(cell.slower_than_host());
  EXPECT_FALSE(cell.surely_slower_than_host()) << "the interval reaches below the limit";
}

TEST(ModelJudge, CellsAreByCollectiveClusterAndSize) {
  std::vector<MeasuredCase> cases = kCell;
  for (MeasuredCase m : kCell) {
    m.what.bytes = 64 * kK;
    cases.push_back(m);
    m.what.cluster = {4, 2, 1};
    cases.push_back(m);
    m.what.cluster = {8, 2, 1};
    cases.push_back(m);
    m.what.collective = Collective::kReduce;
    cases.push_back(m);
  }
  const std::vector<JudgedCell> cells = judged_cells(cases, always("linear"), always("hierarchical"));
  EXPECT_EQ(cells.size(), 5U);
  const std::vector<JudgedSum> sums = sums_of(cells);
  ASSERT_EQ(sums.size(), 4U);
  EXPECT_EQ(sums[0].cells, 2);
  EXPECT_EQ(sums[0].told, 2);
  EXPECT_EQ(sums[0].model.worse, 2);
  EXPECT_DOUBLE_EQ(sums[0].model.greatest_ratio, 1.2);
  EXPECT_EQ(sums[0].standard.near_best, 2);
  EXPECT_EQ(sums[3].what.collective, Collective::kReduce);
}

// The table of `model choose`, and coll::choose().
TEST(ModelJudge, TheModelChoosesAsItsTableDoes) {
  const model::Parameters& profile = *model::built_in_profile("gigabit-like");
  const coll::Tiles tiles = {8 * kK, 128 * kK};
  ModelCase cell;
  cell.collective = Collective::kAllreduce;
  cell.cluster = {8, 2, 1};
  const Predicted table = predicted_table(Collective::kAllreduce, {8, 2, profile.chips_per_node}, tiles, profile);
  ASSERT_GT(table.entries.size(), 1U);
  const Chooser model = by_model(profile, tiles);
  for (const auto& [entry, us] : table.entries) {
    for (const uint64_t bytes : {entry.from_bytes, entry.from_bytes + 1}) {
      cell.bytes = bytes;
      EXPECT_EQ(model(cell)->algorithm, entry.algorithm->name);
      EXPECT_EQ(model(cell)->chunk, entry.chunk_bytes);
    }
  }
  cell.bytes = table.entries[1].entry.from_bytes - 1;
  EXPECT_EQ(model(cell)->algorithm, table.entries[0].entry.algorithm->name);
  cell.cluster.ranks = 2 * kManyWalks.ranks;
  EXPECT_FALSE(model(cell)) << "too many to walk";
}

TEST(ModelJudge, TheBuiltInChoiceIsThatOfJobsWithoutATable) {
  ModelCase cell;
  cell.collective = Collective::kBcast;
  cell.cluster = {8, 1, 1};
  cell.bytes = 8;
  EXPECT_EQ(built_in(cell)->algorithm, "binomial");
  EXPECT_EQ(built_in(cell)->chunk, kUsualChunkBytes);
  cell.bytes = 1024 * kK;
  EXPECT_EQ(built_in(cell)->algorithm, "scatter-ring-allgather");
  cell.cluster.nodes = 2;
  EXPECT_EQ(built_in(cell)->algorithm, coll::kHostLeaders);
}

}  // namespace
}  // namespace zh::tools
