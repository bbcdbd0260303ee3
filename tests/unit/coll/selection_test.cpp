// Tables of algorithms: which entry holds, lines with and without a chunk, what is refused.
#include "coll/algorithms/selection.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

namespace zh::test {
namespace {

using coll::Collective;
using coll::Problem;
using coll::Selection;

Problem allreduce_of(uint32_t ranks, uint32_t nodes, uint64_t bytes) {
  std::vector<uint32_t> node_of(ranks);
  for (uint32_t r = 0; r < ranks; ++r) node_of[r] = r * nodes / ranks;
  Problem problem{.collective = Collective::kAllreduce, .count = bytes};
  problem.layout = std::make_shared<const coll::Layout>(node_of);
  return problem;
}

std::string found(const Selection& selection, const Problem& problem) {
  const Selection::Entry* entry = selection.find(problem);
  if (entry == nullptr) return "";
  return std::string(entry->algorithm == nullptr ? coll::kHostAlgorithm : entry->algorithm->name);
}

constexpr const char* kText =
    "# a comment\n"
    "\n"
    "allreduce 4 one 0 recursive-doubling\n"
    "allreduce 4 one 1000 ring 4096 # large\n"
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

TEST(Selection, AChunkIsASixthWordOrNone) {
  Selection selection;
  ASSERT_TRUE(selection.parse("bcast 2 one 0 binomial\nbcast 2 one 9 linear 0\nbcast 2 one 99 linear 512\n").ok());
  EXPECT_EQ(selection.entries()[0].chunk_bytes, std::nullopt);
  EXPECT_EQ(selection.entries()[1].chunk_bytes, 0U);
  EXPECT_EQ(selection.entries()[2].chunk_bytes, 512U);
  EXPECT_EQ(selection.text("# from somewhere\n").substr(0, 18), "# from somewhere\n#");
  EXPECT_TRUE(
      selection.text("").ends_with("\nbcast 2 one 0 binomial\nbcast 2 one 9 linear 0\nbcast 2 one 99 linear 512\n"));
}

TEST(Selection, EachHostAndSourceHasAFileOfItsOwn) {
  std::set<std::string> paths;
  for (const std::string_view abi : coll::kAbis) {
    using PathIn = std::string (*)(const std::string&, std::string_view);
    for (const PathIn path : {PathIn{coll::selection_path}, PathIn{coll::model_selection_path}}) {
      paths.insert(path("/cache", abi));
      EXPECT_EQ(path("", abi), "");
    }
  }
  EXPECT_EQ(paths.size(), 6U);
  const std::string by_model = coll::model_selection_path("/cache", "ompi");
  EXPECT_TRUE(by_model.starts_with("/cache/collectives-model-") && by_model.ends_with("-ompi.txt")) << by_model;
}

TEST(Selection, ATableThatTheUserLacksIsTheSites) {
  const std::string root = ::testing::TempDir() + "zerohop-selection-" + std::to_string(getpid());
  const tune::KeptFolders folders = {root + "/own", root + "/site"};
  std::filesystem::create_directories(folders.own);
  std::filesystem::create_directories(folders.site);
  const auto make = [](const std::string& path) { std::ofstream(path) << "bcast 2 one 0 linear\n"; };
  make(coll::selection_path(folders.site, "ompi"));
  make(coll::model_selection_path(folders.site, "ompi"));
  EXPECT_EQ(coll::selection_path(folders, "ompi"), coll::selection_path(folders.site, "ompi"));
  EXPECT_EQ(coll::selection_path(folders, "mpich"), coll::selection_path(folders.own, "mpich"));
  EXPECT_EQ(coll::model_selection_path(folders, "ompi"), coll::model_selection_path(folders.site, "ompi"));
  make(coll::model_selection_path(folders.own, "ompi"));
  EXPECT_EQ(coll::model_selection_path(folders, "ompi"), coll::model_selection_path(folders.own, "ompi"));
  std::filesystem::remove_all(root);
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

TEST(Selection, SaysWhichLineIsWrongAndHow) {
  const struct {
    const char* line;
    const char* said;
  } cases[] = {
      {"allreduce 4 one 0", "line 3: a line has 5 or 6 words"},
      {"allreduce 4 one 0 ring 1 1", "line 3: a line has 5 or 6 words"},
      {"all 4 one 0 ring", "line 3: the first word is no collective"},
      {"allreduce 1 one 0 ring", "line 3: the second word is no number of ranks"},
      {"allreduce x one 0 ring", "line 3: the second word is no number of ranks"},
      {"allreduce 4 many 0 ring", "line 3: the third word is neither one nor several"},
      {"allreduce 4 one -8 ring", "line 3: the fourth word is no number of bytes"},
      {"allreduce 4 one 0 bruck", "line 3: the fifth word is no algorithm of this collective"},
      {"allreduce 4 one 0 ring 4K", "line 3: the sixth word is no number of bytes of a chunk"},
      {"allreduce 4 one 0 ring ring", "line 3: the sixth word is no number of bytes of a chunk"},
      {"allreduce 4 one 0 ring -1", "line 3: the sixth word is no number of bytes of a chunk"},
      {"allreduce 4 one 0 ring 18446744073709551615", "line 3: the sixth word is no number of bytes of a chunk"},
      {"allreduce 4 one 0 host 4", "line 3: the host's own collective has no chunk"},
  };
  const std::string path = testing::TempDir() + "zh_selection_test." + std::to_string(getpid());
  for (const auto& c : cases) {
    std::string why;
    Selection selection;
    const std::string text = "# a comment\nallreduce 4 one 0 ring\n" + std::string(c.line) + "\n";
    EXPECT_EQ(selection.parse(text, &why).code(), Code::kInvalid);
    EXPECT_TRUE(why.starts_with(c.said)) << why;
    std::ofstream(path) << text;
    EXPECT_EQ(selection.load(path, &why).code(), Code::kInvalid);
    EXPECT_TRUE(why.starts_with(path + ": " + c.said)) << why;
    EXPECT_TRUE(selection.entries().empty());
  }
  std::remove(path.c_str());
  EXPECT_EQ(Selection().load(path).code(), Code::kWouldBlock);
}

}  // namespace
}  // namespace zh::test
