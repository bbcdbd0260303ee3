// PageMap against a plain array of free flags.
// label one-thread: [.]PageMap[.]
#include "copy/page_map.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace zh::copy {
namespace {

TEST(PageMap, NeverHandsOutAPageTwiceAndLosesNone) {
  constexpr uint32_t kPages = 512;
  std::mt19937_64 random(31);
  PageMap map(kPages);
  std::vector<bool> used(kPages);
  std::vector<std::pair<uint32_t, uint32_t>> held;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0) {
      const auto pages = static_cast<uint32_t>(1 + random() % 60);
      const uint32_t alignment = 1U << random() % 5;
      const uint32_t first = map.take(pages, alignment);
      if (first == PageMap::kNone) continue;
      ASSERT_EQ(first % alignment, 0U);
      ASSERT_LE(first + pages, kPages);
      for (uint32_t k = first; k < first + pages; ++k) {
        ASSERT_FALSE(used[k]);
        used[k] = true;
      }
      held.emplace_back(first, pages);
    } else if (!held.empty()) {
      const size_t pick = random() % held.size();
      const auto [first, pages] = held[pick];
      held[pick] = held.back();
      held.pop_back();
      map.give_back(first, pages);
      for (uint32_t k = first; k < first + pages; ++k) used[k] = false;
    }
    uint64_t free = 0;
    for (uint32_t k = 0; k < kPages; ++k) free += used[k] ? 0 : 1;
    ASSERT_EQ(map.free_pages(), free);
  }
  for (const auto& [first, pages] : held) map.give_back(first, pages);
  EXPECT_EQ(map.ranges(), 1U);
  EXPECT_EQ(map.take(kPages, 1), 0U);
}

}  // namespace
}  // namespace zh::copy
