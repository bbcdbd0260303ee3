#include "heap/page_runs.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace {

using zh::heap::kNoPage;
using zh::heap::PageEntry;
using zh::heap::PageRuns;
using zh::heap::RunState;

constexpr uint32_t kPages = 1 << 16;

struct PageRunsTest : testing::Test {
  std::vector<PageEntry> entries = std::vector<PageEntry>(kPages);
  PageRuns runs;
  PageRunsTest() { runs.open(entries.data()); }

  /// Runs tile [0, end), no two free ones touch.
  void check() const {
    uint32_t first = 0;
    bool free_before = false;
    while (first < runs.end()) {
      ASSERT_GT(runs.pages_at(first), 0U);
      const bool free = runs.state_at(first) == RunState::kFree;
      ASSERT_FALSE(free && free_before) << "two free runs meet at " << first;
      free_before = free;
      first += runs.pages_at(first);
    }
    ASSERT_EQ(first, runs.end());
  }
};

TEST_F(PageRunsTest, NothingToTakeBeforePagesAreAdded) {
  EXPECT_EQ(runs.take(1, 1), kNoPage);
  runs.extend(10);
  EXPECT_EQ(runs.take(11, 1), kNoPage);
  EXPECT_EQ(runs.take(10, 1), 0U);
  EXPECT_EQ(runs.take(1, 1), kNoPage);
}

TEST_F(PageRunsTest, AFreedRunJoinsItsNeighbours) {
  runs.extend(30);
  const uint32_t a = runs.take(10, 1);
  const uint32_t b = runs.take(10, 1);
  const uint32_t c = runs.take(10, 1);
  runs.give(a);
  runs.give(c);
  const auto all = runs.give(b);
  EXPECT_EQ(all.first, 0U);
  EXPECT_EQ(all.pages, 30U);
}

TEST_F(PageRunsTest, AddedPagesJoinAFreeEnd) {
  runs.extend(4);
  runs.extend(4);
  EXPECT_EQ(runs.take(8, 1), 0U);
}

TEST_F(PageRunsTest, AlignedRunsLeaveNoPageBehind) {
  runs.extend(1024);
  const uint32_t one = runs.take(1, 1);
  const uint32_t aligned = runs.take(100, 512);
  EXPECT_EQ(aligned, 512U);
  runs.give(aligned);
  const auto all = runs.give(one);
  EXPECT_EQ(all.pages, 1024U);
}

TEST_F(PageRunsTest, GrowsOnlyIntoFreePages) {
  runs.extend(20);
  const uint32_t a = runs.take(5, 1);
  const uint32_t b = runs.take(5, 1);
  EXPECT_FALSE(runs.grow(a, 6));
  EXPECT_TRUE(runs.grow(b, 15));
  EXPECT_FALSE(runs.grow(b, 16));
  EXPECT_EQ(runs.pages_at(b), 15U);
  check();
}

TEST_F(PageRunsTest, SplitPartsAreGivenOneByOne) {
  runs.extend(10);
  const uint32_t a = runs.take(10, 1);
  runs.split(a, 3);
  EXPECT_EQ(runs.pages_at(a), 3U);
  EXPECT_EQ(runs.pages_at(a + 3), 7U);
  runs.give(a + 3);
  EXPECT_EQ(runs.take(7, 1), a + 3);
}

TEST_F(PageRunsTest, RetiredPagesAreNeverTakenAgain) {
  runs.extend(10);
  const uint32_t a = runs.take(4, 1);
  runs.retire_free();
  EXPECT_EQ(runs.take(1, 1), kNoPage);
  runs.set_state(a, RunState::kGone);
  runs.extend(5);
  EXPECT_EQ(runs.take(5, 1), 10U);
  EXPECT_EQ(runs.take(1, 1), kNoPage);
}

TEST_F(PageRunsTest, AnyFreeRunOfTheRightLengthIsFoundWhereOneOfALongerBinIs) {
  // A run from the next bin up always fits, however the bins' bounds fall.
  for (uint32_t pages = 1; pages < 3000; pages += 7) {
    PageRuns fresh;
    std::vector<PageEntry> table(8192);
    fresh.open(table.data());
    fresh.extend(pages + pages / 8 + 1);
    EXPECT_NE(fresh.take(pages, 1), kNoPage) << pages;
  }
}

TEST_F(PageRunsTest, RandomUseKeepsRunsApart) {
  std::mt19937 engine(7);
  const auto random = [&engine] { return static_cast<uint32_t>(engine()); };
  std::map<uint32_t, uint32_t> live;
  runs.extend(1000);
  for (int step = 0; step < 60000; ++step) {
    if (random() % 2 == 0 || live.empty()) {
      const uint32_t pages = 1 + random() % (random() % 8 == 0 ? 400U : 20U);
      const uint32_t alignment = random() % 6 == 0 ? 1U << random() % 7 : 1;
      uint32_t first = runs.take(pages, alignment);
      if (first == kNoPage && runs.end() + 500 < kPages) {
        runs.extend(500);
        first = runs.take(pages, alignment);
      }
      if (first == kNoPage) continue;
      ASSERT_EQ(first % alignment, 0U);
      const auto next = live.lower_bound(first);
      ASSERT_TRUE(next == live.end() || first + pages <= next->first);
      ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= first);
      live[first] = pages;
    } else {
      auto it = live.begin();
      std::advance(it, random() % live.size());
      ASSERT_EQ(runs.pages_at(it->first), it->second);
      const uint32_t wanted = it->second + 1 + random() % 5;
      if (random() % 4 == 0) {
        if (runs.grow(it->first, wanted)) it->second = wanted;
      } else {
        runs.give(it->first);
        live.erase(it);
      }
    }
    if (step % 1000 == 0) check();
  }
  for (const auto& [first, pages] : live) runs.give(first);
  EXPECT_EQ(runs.pages_at(0), runs.end());
  check();
}

}  // namespace
