// PayloadRing: block order, room, filler at the end, and no position from which an empty ring refuses a block that
// fits.
#include "shm/payload_ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>

namespace zh::shm {
namespace {

struct Ring {
  explicit Ring(uint64_t bytes) : memory(new (std::align_val_t{kPairBytes}) std::byte[bytes]()) {
    EXPECT_TRUE(ring.attach(memory, 0, bytes));
  }
  ~Ring() { operator delete[](memory, std::align_val_t{kPairBytes}); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  std::byte* memory;
  PayloadRing ring;
};

TEST(PayloadRing, EmptyRingTakesAnyBlockThatFitsFromAnyPosition) {
  constexpr uint64_t kBytes = 2048;
  for (uint64_t offset = 0; offset < kBytes; offset += kLineBytes) {
    for (uint64_t want = 1; want <= kBytes; want += 61) {
      Ring r(kBytes + ReleasedShm::kLeastBytes);
      for (uint64_t at = 0; at + 2 * kLineBytes <= offset; at += 2 * kLineBytes) {
        BlockShm b;
        ASSERT_TRUE(r.ring.allocate(1, &b));
        release_block(r.memory, b);
      }
      ASSERT_TRUE(r.ring.idle());
      BlockShm b;
      ASSERT_TRUE(r.ring.allocate(want, &b)) << "head at " << offset << ", " << want << " bytes";
      EXPECT_FALSE(r.ring.allocate(kBytes, &b)) << "only one such block fits";
    }
  }
}

// A burst of messages of a KiB that the receiver leaves lying.
TEST(PayloadRing, ALargeRingIsFullOfBytesAndNotOfBlocks) {
  constexpr uint64_t kBytes = 4 << 20;
  Ring r(kBytes);
  uint64_t blocks = 0;
  for (BlockShm b; r.ring.allocate(1 << 10, &b);) ++blocks;
  EXPECT_GT(blocks, kBytes / (1 << 10) * 99 / 100);
  EXPECT_STREQ(r.ring.broken_invariant(), nullptr);
}

TEST(PayloadRing, RandomBlocksNeverOverlap) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 rng(seed);
  constexpr uint64_t kBytes = 8192;
  Ring r(kBytes + ReleasedShm::kLeastBytes);
  struct Live {
    BlockShm block;
    uint64_t bytes;
    std::byte mark;
  };
  std::deque<Live> live;
  uint32_t marks = 0;
  for (int i = 0; i < 200000; ++i) {
    if (rng() % 2 == 0) {
      const uint64_t n = rng() % (rng() % 8 == 0 ? kBytes : 700) + 1;
      BlockShm b;
      if (!r.ring.allocate(n, &b)) {
        ASSERT_FALSE(live.empty()) << "an empty ring refused " << n;
      } else if (rng() % 16 == 0) {
        r.ring.undo_last();
      } else {
        live.push_back({b, n, std::byte(++marks)});
        std::fill_n(r.memory + b.payload, n, live.back().mark);
      }
    } else if (!live.empty()) {
      // Mostly in order, sometimes not.
      const size_t k = rng() % 4 == 0 ? rng() % live.size() : 0;
      const Live l = live[k];
      for (uint64_t j = 0; j < l.bytes; ++j) ASSERT_EQ(r.memory[l.block.payload + j], l.mark);
      release_block(r.memory, l.block);
      live.erase(live.begin() + static_cast<ptrdiff_t>(k));
    }
  }
}

}  // namespace
}  // namespace zh::shm
