// The papers' figures by the walk: on small clusters the times are those of plain walks, and what is less or more than
// a paper's gain is said to be so.
#include "tools/model/papers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "coll/algorithms/algorithms.h"
#include "model/profiles.h"

namespace zh::tools {
namespace {

using coll::Collective;
using model::Model;

constexpr uint64_t kSizes[] = {1 << 10, 64 << 10};

uint64_t whole(uint64_t) { return 0; }
uint64_t in_quarters(uint64_t bytes) { return bytes / 4; }

/// Broadcasts on 2 nodes of 2 ranks.
PaperFigure small_figure() {
  PaperFigure f;
  f.id = "small";
  f.collective = Collective::kBcast;
  f.nodes = f.ranks_per_node = 2;
  f.sizes = kSizes;
  f.before = {"linear", 64 << 10, "binomial"};
  f.after = "hierarchical";
  f.chunk = in_quarters;
  f.gain = 2;
  f.less[0] = "less in blocks";
  f.less[1] = "less dealt out";
  f.more = "more";
  return f;
}

double us_of(const PaperFigure& f, std::string_view algorithm, bool after, const PaperRow& row, uint64_t bytes,
             uint32_t root, Model model) {
  const model::Parameters& profile = *model::built_in_profile(row.profile);
  ModelCase c;
  c.collective = f.collective;
  c.algorithm = algorithm;
  c.cluster = {f.nodes * f.ranks_per_node, f.nodes, profile.chips_per_node, row.cyclic};
  c.root = root;
  c.bytes = bytes;
  c.chunk = after ? f.chunk(bytes) : 0;
  c.team = after && f.nodes > 1;
  std::string problem;
  const std::vector<coll::Schedule> schedules = schedules_of(c, kOneWalk, &problem);
  EXPECT_EQ(problem, "");
  return walk_us(c, schedules, model, profile);
}

TEST(ModelPapers, ASizeDecidesWhichAlgorithmWasBefore) {
  const BySize before = small_figure().before;
  EXPECT_EQ(before.at((64 << 10) - 1), "linear");
  EXPECT_EQ(before.at(64 << 10), "binomial");
}

TEST(ModelPapers, RowsAreAllProfilesInBothPlacements) {
  const PaperFigure f = small_figure();
  const std::vector<PaperRow> rows = rows_of(f);
  ASSERT_EQ(rows.size(), 2 * model::built_in_profiles().size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].cyclic, i >= rows.size() / 2);
    EXPECT_EQ(rows[i].profile, model::built_in_profiles()[i % model::built_in_profiles().size()].name);
    EXPECT_EQ(rows[i].figure, &f);
    ASSERT_EQ(rows[i].points.size(), std::size(kSizes));
  }
}

TEST(ModelPapers, TimesAreThoseOfPlainWalks) {
  const PaperFigure f = small_figure();
  for (const PaperRow& row : rows_of(f)) {
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      const PaperPoint& point = row.points[i];
      EXPECT_EQ(point.bytes, kSizes[i]);
      const std::string_view old_way = i == 0 ? "linear" : "binomial";
      EXPECT_DOUBLE_EQ(point.linked.before_us, us_of(f, old_way, false, row, kSizes[i], 0, Model::kLinked));
      EXPECT_DOUBLE_EQ(point.linked.after_us, us_of(f, f.after, true, row, kSizes[i], 0, Model::kLinked));
      EXPECT_DOUBLE_EQ(point.unlinked.before_us, us_of(f, old_way, false, row, kSizes[i], 0, Model::kMlogNP));
      EXPECT_DOUBLE_EQ(point.unlinked.after_us, us_of(f, f.after, true, row, kSizes[i], 0, Model::kMlogNP));
    }
  }
}

// One node has no team in the walk, so the same algorithm is the same schedule.
TEST(ModelPapers, AnAlgorithmGainsNothingOverItself) {
  PaperFigure f = small_figure();
  f.nodes = 1;
  f.ranks_per_node = 4;
  f.before = {"", 0, "binomial"};
  f.after = "binomial";
  f.chunk = whole;
  for (const PaperRow& row : rows_of(f)) {
    for (const PaperPoint& point : row.points) {
      EXPECT_DOUBLE_EQ(point.linked.gain(), 1);
      EXPECT_DOUBLE_EQ(point.unlinked.gain(), 1);
    }
    EXPECT_FALSE(row.shown());
    EXPECT_EQ(row.why(), row.cyclic ? "less dealt out" : "less in blocks");
  }
}

// The roots of one node stand for those of all.
TEST(ModelPapers, AnyRootIsTheMeanOverAllRanks) {
  PaperFigure f = small_figure();
  f.any_root = true;
  f.ranks_per_node = 4;
  for (const PaperRow& row : rows_of(f)) {
    double before = 0, after = 0;
    for (uint32_t root = 0; root < 8; ++root) {
      before += us_of(f, "linear", false, row, kSizes[0], root, Model::kLinked) / 8;
      after += us_of(f, f.after, true, row, kSizes[0], root, Model::kLinked) / 8;
    }
    EXPECT_NEAR(row.points[0].linked.before_us, before, 1e-9 * before);
    EXPECT_NEAR(row.points[0].linked.after_us, after, 1e-9 * after);
  }
}

/// A row with these gains by size.
PaperRow row_of(const PaperFigure& f, double small, double large) {
  PaperRow row{&f, "by hand", false, {}};
  row.points.push_back({kSizes[0], {small, 1}, {1, 1}});
  row.points.push_back({kSizes[1], {large, 1}, {1, 1}});
  return row;
}

TEST(ModelPapers, HalfOfThePapersGainIsShown) {
  const PaperFigure f = small_figure();  // gains 2
  EXPECT_EQ(row_of(f, 1, 1.5).best().bytes, kSizes[1]);
  EXPECT_EQ(row_of(f, 1, 1.5).worst().bytes, kSizes[0]);
  EXPECT_TRUE(row_of(f, 0.5, 1.5).shown());
  EXPECT_EQ(row_of(f, 0.5, 1.5).why(), "");
  EXPECT_FALSE(row_of(f, 0.5, 1.49).shown());
  EXPECT_EQ(row_of(f, 0.5, 1.49).why(), "less in blocks");
  EXPECT_EQ(row_of(f, 2.5, 1).why(), "");
  EXPECT_EQ(row_of(f, 2.51, 1).why(), "more");
  EXPECT_TRUE(row_of(f, 2.51, 1).shown());
}

TEST(ModelPapers, WhereThePaperGainsAtAllSizesTheWorstCountsToo) {
  PaperFigure f = small_figure();
  f.least_gain = 1.2;
  EXPECT_TRUE(row_of(f, 1.1, 1.5).shown());
  EXPECT_FALSE(row_of(f, 1.09, 1.5).shown());
  PaperRow dealt_out = row_of(f, 1.09, 1.5);
  dealt_out.cyclic = true;
  EXPECT_EQ(dealt_out.why(), "less dealt out");
}

// A fault that is put in on purpose: old and new way the wrong way round.
TEST(ModelPapers, AFigureTheWrongWayRoundIsNotShown) {
  PaperFigure right = small_figure();
  right.ranks_per_node = 8;
  right.sizes = std::span(kSizes).first(1);
  PaperFigure wrong = right;
  wrong.before = {"", 0, right.after};
  wrong.after = right.before.small;
  right.chunk = wrong.chunk = whole;
  const std::vector<PaperRow> good = rows_of(right), bad = rows_of(wrong);
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_TRUE(good[i].shown()) << good[i].profile << " gains " << good[i].best().linked.gain();
    EXPECT_FALSE(bad[i].shown());
    EXPECT_LT(bad[i].best().linked.gain(), 1);
    EXPECT_FALSE(bad[i].why().empty());
  }
}

TEST(ModelPapers, EveryFigureNamesWhatThereIs) {
  EXPECT_FALSE(paper_figures().empty());
  for (const PaperFigure& f : paper_figures()) {
    EXPECT_TRUE(std::ranges::is_sorted(f.sizes)) << f.id;
    EXPECT_GT(f.gain, 1) << f.id;
    EXPECT_LE(f.least_gain, f.gain) << f.id;
    EXPECT_NE(coll::algorithm(f.collective, f.after), nullptr) << f.id;
    for (const uint64_t bytes : f.sizes) {
      EXPECT_NE(coll::algorithm(f.collective, f.before.at(bytes)), nullptr) << f.id << " " << bytes;
      EXPECT_LE(f.chunk(bytes), std::max<uint64_t>(bytes, 64 << 10)) << f.id;
    }
    EXPECT_FALSE(f.less[0].empty() || f.less[1].empty() || f.more.empty()) << f.id;
  }
}

}  // namespace
}  // namespace zh::tools
