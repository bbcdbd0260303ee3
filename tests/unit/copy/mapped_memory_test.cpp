// MappedMemory: one answer for memory of MPI_Alloc_mem and of the shared heap.
#include "copy/mapped_memory.h"

#include <gtest/gtest.h>

#include <cstring>

#include "copy/region_cache.h"
#include "copy/regions.h"
#include "os/process.h"
#include "support/fake_heap.h"

namespace zh::copy {
namespace {

TEST(MappedMemory, NothingIsMappableWithoutSources) {
  const MappedMemory none(nullptr, nullptr);
  int here = 0;
  MappedBuffer where;
  EXPECT_FALSE(none.any());
  EXPECT_EQ(none.publish(&here, sizeof here, true, {}, &where), Published::kNot);
}

TEST(MappedMemory, MemoryThatWasAskedForIsMappedAtOnce) {
  RegionOwner regions;
  zh::test::FakeHeap heap(16 << 20);
  const MappedMemory memory(&regions, &heap);
  void* p = regions.allocate(8 << 20, 64);
  ASSERT_NE(p, nullptr);
  for (const bool exact : {true, false}) {
    MappedBuffer where;
    EXPECT_EQ(memory.publish(p, 8 << 20, exact, {}, &where), Published::kMapped);
    EXPECT_EQ(where.region.region, 1U);
    EXPECT_EQ(where.fd, regions.descriptor(1));
  }
  EXPECT_EQ(heap.publications, 0U);
}

TEST(MappedMemory, MemoryOfTheHeapIsMappedFromItsSecondUseOn) {
  RegionOwner regions;
  zh::test::FakeHeap heap(16 << 20);
  const MappedMemory memory(&regions, &heap);
  constexpr uint64_t kBytes = 4 << 20;
  std::byte* p = heap.take(kBytes);
  int elsewhere = 0;
  MappedBuffer where;
  EXPECT_EQ(memory.publish(p, kBytes, false, {}, &where), Published::kAskAgain) << "a message may be much shorter";
  EXPECT_EQ(memory.publish(p, kBytes, true, {}, &where), Published::kFirstUse) << "the question was no use";
  EXPECT_EQ(where.region.region, 0U);
  EXPECT_EQ(memory.publish(p, kBytes, true, {}, &where), Published::kMapped);
  EXPECT_EQ(memory.publish(p, kBytes, false, {}, &where), Published::kMapped) << "nothing is made of what is shared";
  EXPECT_EQ(memory.publish(&elsewhere, sizeof elsewhere, true, {}, &where), Published::kNot);
  EXPECT_EQ(memory.publish(p + 4096, 4096, false, {}, &where), Published::kMapped);
  EXPECT_EQ(where.from, 0U);
  EXPECT_EQ(where.end, 4096U);

  // A peer keeps both sources apart, and finds the right bytes.
  void* other = regions.allocate(kBytes, 64);
  MappedBuffer others;
  ASSERT_EQ(memory.publish(other, kBytes, true, {}, &others), Published::kMapped);
  EXPECT_NE(where.region.region, others.region.region);
  std::memset(p, 3, kBytes);
  std::memset(other, 4, kBytes);
  RegionCache cache(2 * kWindowBytes);
  uint64_t run = 0;
  const std::byte* first = cache.resolve(0, os::process_id(), where.fd, where.region, 4096, Direction::kRead, &run);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first[run - 1], std::byte{3});
  const std::byte* second = cache.resolve(0, os::process_id(), others.fd, others.region, 4096, Direction::kRead, &run);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second[run - 1], std::byte{4});
}

// Of a buffer that does not begin and end with a page, what lies in whole pages.
TEST(MappedMemory, TheEdgesOfABufferAreNotMapped) {
  zh::test::FakeHeap heap(16 << 20);
  const MappedMemory memory(nullptr, &heap);
  std::byte* p = heap.take(64 << 10);
  MappedBuffer where;
  EXPECT_EQ(memory.publish(p + 4095, 4096, true, {}, &where), Published::kNot);
  EXPECT_EQ(memory.publish(p + 16, 20'000, true, {}, &where), Published::kFirstUse);
  EXPECT_EQ(memory.publish(p + 16, 20'000, true, {.exclusive = false}, &where), Published::kNot) << "not its own alone";
  std::memset(p, 1, 64 << 10);
  ASSERT_EQ(memory.publish(p + 16, 20'000, true, {}, &where), Published::kMapped);
  EXPECT_EQ(where.from, 4096U - 16);
  EXPECT_EQ(where.end, 16384U - 16);
  EXPECT_EQ(where.region.offset % 4096, 16U);
  EXPECT_EQ(memory.publish(p + 4096, 4096, true, {.exclusive = false}, &where), Published::kMapped) << "shared already";

  RegionCache cache(2 * kWindowBytes);
  std::memset(p, 2, 64 << 10);
  RegionRef ref = where.region;
  uint64_t run = 0;
  const std::byte* inside = cache.resolve(0, os::process_id(), where.fd, ref, 4096, Direction::kRead, &run);
  ASSERT_NE(inside, nullptr);
  EXPECT_EQ(inside[0], std::byte{2});
  ref.offset -= 1;
  const std::byte* outside = cache.resolve(0, os::process_id(), where.fd, ref, 1, Direction::kRead, &run);
  ASSERT_NE(outside, nullptr);
  EXPECT_EQ(outside[0], std::byte{0}) << "the page before it is private";
}

}  // namespace
}  // namespace zh::copy
