// Freed blocks that wait for the next allocation of their size.
// label one-thread: [.]KeptBlocks[.]
#include "heap/kept_blocks.h"

#include <gtest/gtest.h>

namespace zh::heap {
namespace {

void* block(uint64_t i) { return reinterpret_cast<void*>((i + 1) << 20); }

TEST(KeptBlocks, TheLatestThatFitsIsTaken) {
  KeptBlocks kept;
  EXPECT_FALSE(kept.any());
  kept.keep({block(0), 100'000, 1});
  kept.keep({block(1), 200'000, 2});
  kept.keep({block(2), 100'000, 3});
  EXPECT_TRUE(kept.any());
  EXPECT_EQ(kept.bytes(), 400'000U);
  KeptBlock out;
  EXPECT_FALSE(kept.take(100'001, &out)) << "too small";
  EXPECT_FALSE(kept.take(200'000 - kPage - 16, &out)) << "more than a page would be lost";
  ASSERT_TRUE(kept.take(100'000 - kPage, &out));
  EXPECT_EQ(out.address, block(2));
  ASSERT_TRUE(kept.take(100'000, &out));
  EXPECT_EQ(out.address, block(0));
  EXPECT_FALSE(kept.take(100'000, &out));
  EXPECT_EQ(kept.blocks(), 1U);
  EXPECT_EQ(kept.bytes(), 200'000U);
  EXPECT_TRUE(kept.holds(block(1)));
  EXPECT_FALSE(kept.holds(block(0)));
}

TEST(KeptBlocks, WhatNobodyAsksForGoes) {
  KeptBlocks kept;
  KeptBlock out;
  EXPECT_FALSE(kept.take_oldest(0, 5 * kKeptNs, &out));
  kept.keep({block(0), 50'000, 1000});
  kept.keep({block(1), 50'000, 2000});
  EXPECT_FALSE(kept.take_oldest(0, 999 + kKeptNs, &out));
  ASSERT_TRUE(kept.take_oldest(0, 1000 + kKeptNs, &out));
  EXPECT_EQ(out.address, block(0));
  EXPECT_FALSE(kept.take_oldest(0, 1000 + kKeptNs, &out));
  ASSERT_TRUE(kept.take_oldest(0, 2000 + kKeptNs, &out));
  EXPECT_FALSE(kept.any());
  EXPECT_EQ(kept.bytes(), 0U);
}

}  // namespace
}  // namespace zh::heap
