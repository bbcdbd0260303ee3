// How often messages have used a buffer, in a table that buffers share.
#include "heap/use_counts.h"

#include <gtest/gtest.h>

#include <memory>

namespace zh::heap {
namespace {

constexpr uint32_t kWanted = 2;

TEST(UseCounts, ABufferThatCameBackIsWantedTwiceAsOften) {
  const auto counts = std::make_unique<UseCounts>();
  for (uint32_t returns = 0; returns < 3; ++returns) {
    for (uint32_t use = 1; use < kWanted << returns; ++use) EXPECT_FALSE(counts->count(1, kWanted)) << returns;
    EXPECT_TRUE(counts->count(1, kWanted)) << returns;
    counts->returned(1);
  }
}

TEST(UseCounts, WhoeverTakesAnEntryBeginsAnew) {
  const auto counts = std::make_unique<UseCounts>();
  (void)counts->count(1, kWanted);
  counts->returned(1);
  for (uint64_t page = 2; page < 10'000; ++page) {  // many of them fall on that entry
    EXPECT_FALSE(counts->count(page, kWanted)) << page;
    EXPECT_TRUE(counts->count(page, kWanted)) << page;
    counts->forget(page);
  }
}

}  // namespace
}  // namespace zh::heap
