// Blocks of the malloc family: kept for the next allocation of their size, dropped, or made private before a resize.
// The allocator is the test's own: blocks are mappings, and it writes down what it is given back.
// label not-emulated: [.]Blocks[.]
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "heap_support.h"

namespace zh::heap::test {
namespace {

constexpr size_t kBlockBytes = 64 << 10;

struct Known {
  std::byte* p;
  uint64_t bytes;
};
std::vector<Known> g_blocks;
std::vector<void*> g_freed;

uint64_t usable_bytes(void* block) {
  for (const Known& b : g_blocks) {
    if (b.p == block) return b.bytes;
  }
  return 0;
}
void free_block(void* block) { g_freed.push_back(block); }

class Blocks : public ::testing::Test {
 protected:
  void SetUp() override {
    g_blocks.clear();
    g_freed.clear();
    Surroundings around;
    around.usable_bytes = &usable_bytes;
    around.free_block = &free_block;
    around.at_second_use = true;
    heap.start(around, true);
  }
  static std::byte* block(size_t n, int value, size_t behind_page = 0) {
    std::byte* p = filled(n + behind_page, value) + behind_page;
    g_blocks.push_back({p, n});
    return p;
  }
  std::byte* shared(size_t n, int value, size_t behind_page = 0) {
    std::byte* p = block(n, value, behind_page);
    EXPECT_EQ(heap.share(p, n), Sharing::kMapped);
    return p;
  }
  Heap& heap = unused_heap();
};

TEST_F(Blocks, PrivateOnesAreTheAllocators) {
  std::byte* p = block(kBlockBytes, 1);
  EXPECT_FALSE(heap.keep(p));
  shared(kBlockBytes, 1);
  EXPECT_FALSE(heap.keep(p));
  EXPECT_TRUE(heap.prepare_resize(p));
  EXPECT_EQ(heap.reuse(kBlockBytes), nullptr);
}

TEST_F(Blocks, SharedOnesWaitForTheNextAllocation) {
  std::byte* p = shared(kBlockBytes, 3, 16);
  errno = 77;
  ASSERT_TRUE(heap.keep(p));
  EXPECT_EQ(errno, 77);
  EXPECT_EQ(heap.stats().kept_blocks, 1U);
  EXPECT_EQ(heap.stats().kept_bytes, kBlockBytes);
  EXPECT_EQ(heap.reuse(kBlockBytes + 1), nullptr);
  EXPECT_EQ(heap.reuse(kBlockBytes / 2), nullptr);
  EXPECT_EQ(heap.reuse(kBlockBytes - 100), p);
  EXPECT_EQ(heap.reuse(kBlockBytes), nullptr) << "handed out once";
  EXPECT_EQ(heap.stats().reused_blocks, 1U);
  EXPECT_EQ(heap.stats().kept_bytes, 0U);
  SharedPlace place;
  EXPECT_TRUE(heap.locate(p, kBlockBytes, &place)) << "and is shared still";
  EXPECT_TRUE(heap.keep(p));
  EXPECT_TRUE(g_freed.empty());
}

TEST_F(Blocks, ADoubleFreeAborts) {
  std::byte* p = shared(kBlockBytes, 3);
  ASSERT_TRUE(heap.keep(p));
  EXPECT_DEATH((void)heap.keep(p), "double free");
  EXPECT_EQ(heap.reuse(kBlockBytes), p);
  EXPECT_TRUE(heap.keep(p)) << "allocated in between";
}

TEST_F(Blocks, OnlySoMany) {
  std::vector<std::byte*> all;
  for (uint32_t i = 0; i < kKeptBlocks + 4; ++i) all.push_back(shared(kBlockBytes, 1));
  for (std::byte* p : all) EXPECT_TRUE(heap.keep(p));
  EXPECT_EQ(heap.stats().kept_blocks, kKeptBlocks);
  EXPECT_EQ(g_freed, std::vector<void*>(all.begin(), all.begin() + 4)) << "the oldest go";
  EXPECT_TRUE(is_plain(all[0]));
  EXPECT_EQ(heap.stats().shared_bytes, kKeptBlocks * kBlockBytes);
}

TEST_F(Blocks, OnlySoManyBytes) {
  std::byte* large = shared(kKeptBlockBytes, 1);
  std::byte* too_large = shared(kKeptBlockBytes + kPage, 1);
  std::byte* other = shared(kKeptBlockBytes, 1);
  std::byte* small = shared(kBlockBytes, 1);
  EXPECT_TRUE(heap.keep(large));
  EXPECT_FALSE(heap.keep(too_large)) << "the allocator's, and private";
  EXPECT_TRUE(is_plain(too_large) && is_plain(too_large + kKeptBlockBytes));
  EXPECT_TRUE(heap.keep(other));
  EXPECT_TRUE(heap.keep(small));
  EXPECT_EQ(heap.stats().kept_blocks, 2U);
  EXPECT_EQ(std::count(g_freed.begin(), g_freed.end(), large), 1);
  std::byte* tiny = shared(kLeastKeptBytes - kPage, 1);
  EXPECT_FALSE(heap.keep(tiny));
  EXPECT_TRUE(is_plain(tiny));
}

TEST_F(Blocks, WhatNobodyAsksForGoes) {
  std::byte* old = shared(kBlockBytes, 1);
  ASSERT_TRUE(heap.keep(old));
  usleep(kKeptNs / 1000 + 10'000);
  std::byte* young = shared(2 * kBlockBytes, 1);
  ASSERT_TRUE(heap.keep(young));
  EXPECT_EQ(g_freed, std::vector<void*>{old});
  EXPECT_TRUE(heap.trim());
  EXPECT_EQ(heap.stats().kept_blocks, 0U) << "trimming leaves nothing";
  EXPECT_FALSE(heap.trim());
  EXPECT_EQ(g_freed.size(), 2U);
  EXPECT_FALSE(heap.holds_any());
}

TEST_F(Blocks, OnlyThoseThatAreMostlyShared) {
  std::byte* little = block(kBlockBytes, 1);
  ASSERT_EQ(heap.share(little, kBlockBytes / 4), Sharing::kMapped);
  EXPECT_FALSE(heap.keep(little));
  std::byte* much = block(kBlockBytes, 1);
  ASSERT_EQ(heap.share(much, kBlockBytes / 2), Sharing::kMapped);
  EXPECT_TRUE(heap.keep(much));
}

TEST_F(Blocks, NoneWithASpecialPage) {
  using Protection = Heap::Protection;
  for (int kind = 0; kind < 3; ++kind) {
    std::byte* p = shared(kBlockBytes, 1);
    if (kind == 0) heap.protect(p, kPage, Protection::kRead);
    if (kind == 1) heap.mark(Bit::kWiped, p, kPage, true);
    if (kind == 2) heap.mark(Bit::kHidden, p, kPage, true);
    EXPECT_FALSE(heap.keep(p)) << kind;
    EXPECT_TRUE(is_plain(p));
  }
}

TEST_F(Blocks, NoneWhereNothingIsSharedAnyMore) {
  std::byte* p = shared(kBlockBytes, 1);
  heap.decline("a reason");
  EXPECT_FALSE(heap.keep(p));
  EXPECT_TRUE(is_plain(p));
}

TEST_F(Blocks, AResizeGetsPrivateMemoryWithTheSameContents) {
  std::byte* p = shared(kBlockBytes, 6, 16);
  ASSERT_TRUE(heap.prepare_resize(p));
  EXPECT_TRUE(holds(p, kBlockBytes, 6));
  for (size_t at = 0; at < kBlockBytes; at += kPage) EXPECT_TRUE(is_plain(p + at));
  EXPECT_FALSE(heap.holds_any());
  EXPECT_EQ(mapping_at(p).to, mapping_at(p + kBlockBytes - 1).to) << "one mapping, as libc made it: it may move it";
  SharedPlace place;
  EXPECT_FALSE(heap.locate(p, kBlockBytes, &place));
}

TEST_F(Blocks, ABlockThatLibcHasMappedCanBeMovedAfterwards) {
  if (kSanitized) GTEST_SKIP() << "another malloc";
  Surroundings around;
  around.usable_bytes = [](void* p) { return uint64_t{malloc_usable_size(p)}; };
  around.libc_blocks = true;
  Heap& libcs = fresh_heap(around);
  constexpr size_t n = 48 << 20;
  auto* p = static_cast<std::byte*>(malloc(n));
  std::memset(p, 1, n);
  const auto in_one = [&] { return mapping_at(p).to >= reinterpret_cast<uintptr_t>(p) + malloc_usable_size(p); };
  // As libc grows it: the pages keep the numbers of their first place. The last page is no message's.
  for (size_t size = n; size < 2 * n; size += n / 4) {
    ASSERT_EQ(libcs.share(p, size - 100), Sharing::kMapped);
    ASSERT_TRUE(libcs.prepare_resize(p));
    EXPECT_TRUE(in_one()) << size;
    EXPECT_FALSE(libcs.holds_any());
    EXPECT_TRUE(holds(p, n, 1));
    p = static_cast<std::byte*>(realloc(p, size + n / 4));
    ASSERT_NE(p, nullptr);
    std::memset(p + n, 2, size + n / 4 - n);
  }
  free(p);
}

TEST_F(Blocks, NeighboursOfAFreedBlockKeepTheirPages) {
  // Two blocks in one arena: the page between them belongs to both.
  std::byte* arena = filled(4 * kBlockBytes, 5);
  g_blocks.push_back({arena + 16, 2 * kBlockBytes});
  g_blocks.push_back({arena + 2 * kBlockBytes + 32, 2 * kBlockBytes - 32});
  ASSERT_EQ(heap.share(arena, 4 * kBlockBytes), Sharing::kMapped);
  heap.decline("so that nothing is kept");
  EXPECT_FALSE(heap.keep(arena + 16));
  EXPECT_TRUE(holds(arena + 2 * kBlockBytes, 2 * kBlockBytes, 5));
  EXPECT_TRUE(holds(arena, 16, 5)) << "the allocator's words in front of the block";
  SharedPlace place;
  EXPECT_TRUE(heap.locate(arena + 2 * kBlockBytes + 32, 2 * kBlockBytes - 32, &place));
  EXPECT_TRUE(holds(arena + 2 * kBlockBytes, kPage, 5));
}

}  // namespace
}  // namespace zh::heap::test
