// The table of measured algorithms: which entry holds, what is refused.
#include "coll/algorithms/selection.h"

#include <gtest/gtest.h>

#include <vector>

namespace zh::test {
namespace {

using coll::Collective;
using coll::Problem;
using coll::Selection;

Problem allreduce_of(uint32_t ranks, uint32_t nodes, uint64_t bytes) {
  std::vector<uint32_t> node_of(ranks);
  for (uint32_t r = 0; r < ranks; ++r) node_of[r] = r * nodes / ranks;
  Problem problem;
  problem.collective = Collective::kAllreduce;
  problem.count = bytes;
  problem.layout = std::make_shared<const coll::Layout>(node_of);
  return problem;
}

std::string found(const Selection& selection, const Problem& problem) {
  const auto algorithm = selection.find(problem);
  if (!algorithm.has_value()) return "";
  return std::string(*algorithm == nullptr ? coll::kHostAlgorithm : (*algorithm)->name);
}

constexpr const char* kText =
    "# a comment\n"
    "\n"
    "allreduce 4 one 0 recursive-doubling\n"
    "allreduce 4 one 1000 ring  # large\n"
    "allreduce 8 one 0 single-reducer\n"
    "allreduce 8 one 4000000 host\n"
    "allreduce 4 several 0 hierarchical\n";

TEST(Selection, FindsTheNearestMeasured) {
  Selection selection;
  ASSERT_TRUE(selection.parse(kText).ok());
  EXPECT_EQ(found(selection, allreduce_of(3, 1, 8)), "");
  EXPECT_EQ(found(selection, allreduce_of(4, 1, 999)), "recursive-doubling");
  EXPECT_EQ(found(selection, allreduce_of(7, 1, 1000)), "ring");
  EXPECT_EQ(found(selection, allreduce_of(9, 1, 1 << 20)), "single-reducer");
  EXPECT_EQ(found(selection, allreduce_of(9, 1, 4 << 20)), "host");
  EXPECT_EQ(found(selection, allreduce_of(8, 2, 1 << 20)), "hierarchical");
  Problem other = allreduce_of(4, 1, 8);
  other.collective = Collective::kBcast;
  EXPECT_EQ(found(selection, other), "");
}

TEST(Selection, LeavesWhatDoesNotFitToTheDefaults) {
  Selection selection;
  ASSERT_TRUE(selection.parse(kText).ok());
  Problem ordered = allreduce_of(4, 1, 1000);
  ordered.commutative = false;
  EXPECT_EQ(found(selection, ordered), "");  // the ring is for operations that commute
  Problem listed = allreduce_of(4, 1, 8);
  listed.uniform = false;
  EXPECT_EQ(found(selection, listed), "");
}

TEST(Selection, ReadsWhatItWrites) {
  Selection selection;
  ASSERT_TRUE(selection.parse(kText).ok());
  Selection again;
  ASSERT_TRUE(again.parse(selection.text()).ok());
  EXPECT_EQ(again.text(), selection.text());
}

TEST(Selection, ReplacesWhatWasMeasuredAnew) {
  Selection selection;
  Selection newer;
  ASSERT_TRUE(selection.parse(kText).ok());
  ASSERT_TRUE(newer.parse("allreduce 4 one 0 shmem-cyclic\n").ok());
  selection.replace(newer);
  EXPECT_EQ(found(selection, allreduce_of(4, 1, 5000)), "shmem-cyclic");
  EXPECT_EQ(found(selection, allreduce_of(8, 1, 8)), "single-reducer");
  EXPECT_EQ(found(selection, allreduce_of(8, 2, 8)), "hierarchical");
}

TEST(Selection, RefusesWhatItDoesNotUnderstand) {
  for (const char* bad :
       {"allreduce 4 one 0", "allreduce 4 one 0 quick", "allreduce 1 one 0 ring", "allreduce 4 many 0 ring",
        "all 4 one 0 ring", "allreduce 4 one 0 ring ring", "allreduce x one 0 ring"}) {
    Selection selection;
    EXPECT_EQ(selection.parse(bad).code(), Code::kInvalid) << bad;
    EXPECT_EQ(found(selection, allreduce_of(4, 1, 8)), "");
  }
}

}  // namespace
}  // namespace zh::test
