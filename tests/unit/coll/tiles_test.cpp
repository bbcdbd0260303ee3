// Sizes of chunks by sizes of caches.
#include "coll/algorithms/tiles.h"

#include <gtest/gtest.h>

namespace zh::test {
namespace {

using coll::Tiles;
using coll::tiles_for;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

// mlog_nP paper, 7.3: 32 KiB of L1, 8 MiB of L2.
TEST(Tiles, ThePapersMachineHasThePapersTiles) {
  EXPECT_EQ(tiles_for(32 * kKiB, 8 * kMiB), (Tiles{8 * kKiB, 1 * kMiB}));
}

TEST(Tiles, ArePowersOfTwo) {
  EXPECT_EQ(tiles_for(48 * kKiB, 2 * kMiB), (Tiles{8 * kKiB, 256 * kKiB}));
  EXPECT_EQ(tiles_for(64 * kKiB, 1280 * kKiB), (Tiles{16 * kKiB, 128 * kKiB}));
}

TEST(Tiles, GrowWithTheVector) {
  const Tiles tiles{8 * kKiB, 1 * kMiB};
  EXPECT_EQ(tiles.chunk_of(0), 0U);
  EXPECT_EQ(tiles.chunk_of(8 * kKiB - 1), 0U);
  EXPECT_EQ(tiles.chunk_of(8 * kKiB), 8 * kKiB);
  EXPECT_EQ(tiles.chunk_of(1 * kMiB - 1), 8 * kKiB);
  EXPECT_EQ(tiles.chunk_of(1 * kMiB), 1 * kMiB);
  EXPECT_EQ(tiles.chunk_of(64 * kMiB), 1 * kMiB);
}

TEST(Tiles, OfCachesThatAreNotKnownThereAreNone) {
  EXPECT_EQ(tiles_for(0, 0), Tiles{});
  EXPECT_EQ(Tiles{}.chunk_of(1 * kMiB), 0U);
  EXPECT_EQ(tiles_for(32 * kKiB, 0).chunk_of(1 * kMiB), 8 * kKiB);
  EXPECT_EQ(tiles_for(0, 8 * kMiB).chunk_of(64 * kKiB), 0U);
  EXPECT_EQ(tiles_for(0, 8 * kMiB).chunk_of(4 * kMiB), 1 * kMiB);
  // A second level that is hardly larger than the first.
  EXPECT_EQ(tiles_for(128 * kKiB, 256 * kKiB), (Tiles{32 * kKiB, 0}));
}

}  // namespace
}  // namespace zh::test
