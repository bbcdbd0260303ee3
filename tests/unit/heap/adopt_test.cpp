// Adoption: when memory becomes shared, which part of a buffer, and which memory never does.
// label not-emulated: [.](Adopt|Refused)[.]
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "heap_support.h"
#include "os/vm.h"

namespace zh::heap::test {
namespace {

using zh::Atomic;

constexpr size_t kAdoptBytes = 16 * kPage;

void used_twice(Heap& heap, const void* p, size_t n, SharedPlace* place) {
  EXPECT_EQ(heap.publish(p, n, {}, place), Sharing::kLater);
  EXPECT_EQ(heap.publish(p, n, {}, place), Sharing::kMapped);
}

TEST(Adopt, NothingBeforeTheStart) {
  Heap& heap = unused_heap();
  std::byte* p = filled(kAdoptBytes, 1);
  SharedPlace place;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(heap.publish(p, kAdoptBytes, {}, &place), Sharing::kNot);
  EXPECT_EQ(heap.share(p, kAdoptBytes), Sharing::kNot);
  EXPECT_FALSE(heap.holds_any());
  EXPECT_TRUE(is_plain(p));
}

TEST(Adopt, ABufferIsSharedFromItsSecondUseOn) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(kAdoptBytes, 5);
  SharedPlace place;
  EXPECT_EQ(heap.publish(p, kAdoptBytes, {}, &place), Sharing::kLater);
  EXPECT_TRUE(is_plain(p));
  EXPECT_FALSE(heap.locate(p, kAdoptBytes, &place));
  EXPECT_EQ(heap.publish(p, kAdoptBytes, {}, &place), Sharing::kMapped);
  EXPECT_TRUE(heap.locate(p, kAdoptBytes, &place));
  EXPECT_TRUE(mapping_at(p).shared);
  EXPECT_TRUE(holds(p, kAdoptBytes, 5));
  const Stats stats = heap.stats();
  EXPECT_EQ(stats.first_uses, 1U);
  EXPECT_EQ(stats.adopted, 1U);
  EXPECT_EQ(stats.adopted_bytes, kAdoptBytes);
  EXPECT_EQ(stats.shared_bytes, kAdoptBytes);
}

TEST(Adopt, APeerSeesWhatIsWrittenAndTheOtherWayRound) {
  Heap& heap = fresh_heap();
  constexpr size_t n = 3 << 20;
  std::byte* p = filled(n, 5);
  SharedPlace place;
  used_twice(heap, p, n, &place);
  EXPECT_EQ(place.offset, reinterpret_cast<uintptr_t>(p)) << "a page lies in the file where it lies in memory";
  std::byte* seen = as_peer(heap, place);
  ASSERT_NE(seen, nullptr);
  EXPECT_TRUE(holds(seen, n, 5));
  seen[7] = std::byte{9};
  EXPECT_EQ(p[7], std::byte{9});
  p[n - 1] = std::byte{8};
  EXPECT_EQ(seen[n - 1], std::byte{8});
}

TEST(Adopt, OnlyTheOwnerOfABufferSharesIt) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(kAdoptBytes, 1);
  SharedPlace place;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(heap.publish(p, kAdoptBytes, {.exclusive = false}, &place), Sharing::kNot);
  EXPECT_EQ(heap.stats().first_uses, 0U);
  used_twice(heap, p, kAdoptBytes, &place);
  EXPECT_EQ(heap.publish(p, kAdoptBytes, {.exclusive = false}, &place), Sharing::kMapped)
      << "what is shared already counts";
}

TEST(Adopt, SharingByHandIsAtOnce) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(kAdoptBytes, 1);
  EXPECT_EQ(heap.share(p, kAdoptBytes), Sharing::kMapped);
  EXPECT_EQ(heap.share(p, kAdoptBytes), Sharing::kMapped);
  EXPECT_EQ(heap.stats().adopted, 1U);
}

TEST(Adopt, OnlyWholePagesInsideAreShared) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(kAdoptBytes, 1);
  SharedPlace place;
  EXPECT_EQ(heap.share(p + 1, 2 * kPage - 2), Sharing::kNot);
  EXPECT_EQ(heap.publish(p + 1, kPage, {}, &place), Sharing::kNot);
  EXPECT_EQ(heap.publish(p, 0, {}, &place), Sharing::kNot);
  used_twice(heap, p + 100, 4 * kPage, &place);
  EXPECT_EQ(place.offset, reinterpret_cast<uintptr_t>(p) + 100);
  EXPECT_EQ(place.from, kPage - 100);
  EXPECT_EQ(place.end, 4 * kPage - 100);
  EXPECT_TRUE(is_plain(p));
  EXPECT_TRUE(mapping_at(p + kPage).shared);
  EXPECT_TRUE(is_plain(p + 4 * kPage));
  // The whole of what can be mapped, and no more, is what a part of it gets.
  EXPECT_EQ(heap.publish(p + 2 * kPage, kPage, {.exclusive = false}, &place), Sharing::kMapped);
  EXPECT_EQ(place.from, 0U);
  EXPECT_EQ(place.end, kPage);
  EXPECT_FALSE(heap.locate(p, kAdoptBytes, &place)) << "some of it is not shared";
}

TEST(Adopt, EdgesThatANeighbourHasSharedCount) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(kAdoptBytes, 1);
  ASSERT_EQ(heap.share(p, kAdoptBytes), Sharing::kMapped);
  SharedPlace place;
  ASSERT_TRUE(heap.locate(p + 100, 4 * kPage, &place));
  EXPECT_EQ(place.from, 0U);
  EXPECT_EQ(place.end, 4 * kPage);
  EXPECT_FALSE(heap.locate(p + 100, kPage, &place)) << "no whole page";
}

TEST(Adopt, BuffersGrowTogether) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(kAdoptBytes, 1);
  ASSERT_EQ(heap.share(p + 2 * kPage, 3 * kPage), Sharing::kMapped);
  p[2 * kPage] = std::byte{7};
  SharedPlace place;
  used_twice(heap, p, kAdoptBytes, &place);
  EXPECT_EQ(p[2 * kPage], std::byte{7});
  EXPECT_EQ(place.end, kAdoptBytes);
  EXPECT_EQ(heap.stats().shared_bytes, kAdoptBytes) << "no page is counted twice";
  EXPECT_EQ(heap.stats().adopted_bytes, kAdoptBytes);
}

TEST(Adopt, TheFirstPageOfABlockThatLibcHasMapped) {
  if (kSanitized) GTEST_SKIP() << "another malloc";
  const size_t n = 4 << 20;
  auto* p = static_cast<std::byte*>(malloc(n));
  ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % kPage, 16U) << "not a mapping of its own";
  std::memset(p, 3, n);
  Surroundings around;
  around.libc_blocks = true;
  Heap& heap = fresh_heap(around);
  SharedPlace place;
  used_twice(heap, p, n, &place);
  EXPECT_EQ(place.from, 0U);
  Heap& other = fresh_heap();
  auto* q = static_cast<std::byte*>(malloc(n));
  std::memset(q, 3, n);
  used_twice(other, q, n, &place);
  EXPECT_EQ(place.from, kPage - 16) << "with another malloc these words mean something else";
  EXPECT_TRUE(holds(p, n, 3) && holds(q, n, 3));
  EXPECT_TRUE(heap.come_back(p, n));
  EXPECT_TRUE(other.come_back(q, n));
  free(p);
  free(q);
}

TEST(Adopt, BuffersOverSeveralMappings) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(kAdoptBytes, 2);
  constexpr int kReadWrite = PROT_READ | PROT_WRITE;
  void* other =
      mmap(p + 4 * kPage, 4 * kPage, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  ASSERT_EQ(other, p + 4 * kPage);
  std::memset(other, 3, 4 * kPage);
  SharedPlace place;
  used_twice(heap, p + 5, kAdoptBytes - 10, &place);
  EXPECT_TRUE(holds(p, 4 * kPage, 2) && holds(p + 4 * kPage, 4 * kPage, 3) && holds(p + 8 * kPage, 8 * kPage, 2));
  EXPECT_EQ(heap.stats().shared_bytes, kAdoptBytes - 2 * kPage);
}

/// Memory that may not be adopted: refused at every use, and as it was afterwards.
void refused(Heap& heap, const void* p, size_t n, const std::string& why) {
  SharedPlace place;
  EXPECT_EQ(heap.share(p, n), Sharing::kNot);
  EXPECT_NE(std::string(heap.stats().declined_why).find(why), std::string::npos) << heap.stats().declined_why;
  EXPECT_FALSE(heap.locate(p, n, &place));
  usleep(3000);  // refusals are not repeated at once
  const Sharing first = heap.publish(p, n, {}, &place);
  EXPECT_EQ(first, Sharing::kLater);
  EXPECT_EQ(heap.publish(p, n, {}, &place), Sharing::kNot);
  EXPECT_EQ(heap.stats().shared_bytes, 0U);
  EXPECT_EQ(heap.stats().declined, 2U);
}

TEST(Refused, ProtectedMemory) {
  for (const int protection : {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE | PROT_EXEC}) {
    std::byte* p = filled(kAdoptBytes, 1);
    ASSERT_EQ(mprotect(p + 8 * kPage, kPage, protection), 0);
    refused(fresh_heap(), p, kAdoptBytes, "read and written");
    EXPECT_EQ(mprotect(p, kAdoptBytes, PROT_READ | PROT_WRITE), 0);
    EXPECT_TRUE(holds(p, kAdoptBytes, 1));
  }
}

TEST(Refused, SharedMemoryAndHoles) {
  void* p = mmap(nullptr, kAdoptBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  std::memset(p, 1, kAdoptBytes);
  refused(fresh_heap(), p, kAdoptBytes, "private memory");
  std::byte* q = filled(kAdoptBytes, 1);
  munmap(q + 3 * kPage, kPage);
  refused(fresh_heap(), q, kAdoptBytes, "private memory");
}

TEST(Refused, PrivateMappingsOfFiles) {
  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  auto* p = static_cast<std::byte*>(mmap(nullptr, kAdoptBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
  ASSERT_NE(static_cast<void*>(p), MAP_FAILED);
  std::memset(p, 1, kAdoptBytes);
  refused(fresh_heap(), p, kAdoptBytes, "file");
  close(fd);
}

TEST(Refused, WhatWasNeverWritten) {
  constexpr int kReadWrite = PROT_READ | PROT_WRITE;
  auto* p = static_cast<std::byte*>(mmap(nullptr, kAdoptBytes, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  refused(fresh_heap(), p, kAdoptBytes, "never written");
  std::memset(p, 1, kAdoptBytes - kPage);
  refused(fresh_heap(), p, kAdoptBytes, "never written");
  EXPECT_TRUE(holds(p + kAdoptBytes - kPage, kPage, 0));  // now the page of zeros is there
  refused(fresh_heap(), p, kAdoptBytes, "never written");
}

TEST(Refused, Stacks) {
  alignas(4096) std::byte local[4 * kPage];
  std::memset(local, 1, sizeof local);
  if (!kSanitized) refused(fresh_heap(), local, sizeof local, "stack");
  Atomic<uint32_t> stop{0};
  Atomic<std::byte*> other{nullptr};
  std::thread thread([&] {
    alignas(4096) std::byte its[4 * kPage];
    std::memset(its, 2, sizeof its);
    other.store_relaxed(its);
    while (stop.load_relaxed() == 0) std::this_thread::yield();
    EXPECT_TRUE(holds(its, sizeof its, 2));
  });
  while (other.load_relaxed() == nullptr) std::this_thread::yield();
  if (!kSanitized) refused(fresh_heap(), other.load_relaxed(), 4 * kPage, "stack");
  stop.store_relaxed(1);
  thread.join();
}

TEST(Refused, WhatWasExcludedByAdvice) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(kAdoptBytes, 1);
  heap.exclude(p + 4 * kPage, kPage);
  refused(heap, p, kAdoptBytes, "attributes");
  EXPECT_EQ(heap.share(p, 4 * kPage), Sharing::kMapped) << "beside it";
  EXPECT_EQ(heap.share(p + 5 * kPage, 4 * kPage), Sharing::kMapped);
}

TEST(Refused, TooManyExclusionsEndIt) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(600 * kPage, 1);
  for (size_t i = 0; i < 256; ++i) heap.exclude(p + 2 * i * kPage, kPage);
  for (size_t i = 0; i < 256; ++i) heap.exclude(p + 2 * i * kPage, kPage);
  EXPECT_EQ(heap.declined(), nullptr) << "the same ones again";
  heap.exclude(p + 2 * kPage, 3 * kPage);
  EXPECT_EQ(heap.declined(), nullptr) << "joined with the one that it meets";
  heap.exclude(p + 580 * kPage, kPage);
  EXPECT_NE(heap.declined(), nullptr);
}

TEST(Refused, WhileMemoryIsLocked) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(kAdoptBytes, 1);
  std::byte* locked = filled(kPage, 1);
  if (syscall(SYS_mlock, locked, kPage) != 0) GTEST_SKIP() << "mlock is not permitted";
  refused(heap, p, kAdoptBytes, "locked");
  syscall(SYS_munlock, locked, kPage);
  usleep(20'000);
  EXPECT_EQ(heap.share(p, kAdoptBytes), Sharing::kMapped);
}

TEST(Refused, WhileSomebodyElseRemembersPages) {
  std::byte* p = filled(kAdoptBytes, 1);
  constexpr int kUserModeOnly = 1;
  const auto fault = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | kUserModeOnly));
  if (fault >= 0) {
    refused(fresh_heap(), p, kAdoptBytes, "userfaultfd");
    close(fault);
  }
  std::array<uint64_t, 32> parameters{};
  const auto ring = static_cast<int>(syscall(SYS_io_uring_setup, 4, parameters.data()));
  if (ring >= 0) {
    refused(fresh_heap(), p, kAdoptBytes, "io_uring");
    close(ring);
  }
  EXPECT_EQ(fresh_heap().share(p, kAdoptBytes), Sharing::kMapped);
  if (fault < 0 || ring < 0) GTEST_SKIP() << "userfaultfd: " << fault << ", io_uring: " << ring;
}

TEST(Refused, UnderALimitOfFileSizeOrData) {
  std::byte* p = filled(kAdoptBytes, 1);
  for (const auto which : {RLIMIT_FSIZE, RLIMIT_DATA}) {
    EXPECT_TRUE(in_process([&] {
      Heap& heap = fresh_heap();
      const bool before = heap.share(p, 2 * kPage) == Sharing::kMapped;
      const rlimit limit{uint64_t{1} << 33, uint64_t{1} << 33};
      setrlimit(which, &limit);
      return before && heap.share(p, kAdoptBytes) == Sharing::kNot && heap.declined() == nullptr &&
             holds(p, kAdoptBytes, 1);
    }));
  }
}

TEST(Adopt, ARefusalIsNotForEver) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(kAdoptBytes, 1);
  ASSERT_EQ(mprotect(p, kPage, PROT_READ), 0);
  refused(heap, p, kAdoptBytes, "read and written");
  ASSERT_EQ(mprotect(p, kPage, PROT_READ | PROT_WRITE), 0);
  usleep(10'000);
  SharedPlace place;
  used_twice(heap, p, kAdoptBytes, &place);
}

TEST(Adopt, AClosedDescriptorEndsIt) {
  for (const bool replaced : {false, true}) {
    Heap& heap = fresh_heap();
    std::byte* p = filled(kAdoptBytes, 1);
    SharedPlace place;
    used_twice(heap, p, kAdoptBytes, &place);
    const int fd = heap.descriptor(place.region);
    ASSERT_GE(fd, 0);
    close(fd);
    std::array<char, 20> name{"/tmp/zh-heap-XXXXXX"};
    int file = -1;
    if (replaced) {
      file = mkstemp(name.data());
      unlink(name.data());
      ASSERT_EQ(ftruncate(file, 4096), 0);
      ASSERT_EQ(dup2(file, fd), fd);
    }
    EXPECT_EQ(heap.share(filled(kAdoptBytes, 2), kAdoptBytes), Sharing::kNot);
    EXPECT_NE(heap.declined(), nullptr);
    EXPECT_TRUE(holds(p, kAdoptBytes, 1));
    EXPECT_TRUE(in_fork(heap, [&] { return holds(p, kAdoptBytes, 1); }));
    EXPECT_TRUE(heap.come_back(p, kAdoptBytes));
    EXPECT_TRUE(holds(p, kAdoptBytes, 1) && is_plain(p));
    if (replaced) {
      EXPECT_EQ(lseek(fd, 0, SEEK_END), 4096) << "the program's file is left alone";
      close(fd);
      close(file);
    }
  }
}

TEST(Adopt, DecliningKeepsWhatIsShared) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(kAdoptBytes, 1);
  SharedPlace place;
  used_twice(heap, p, kAdoptBytes, &place);
  heap.decline("a reason");
  heap.decline("another one");
  EXPECT_STREQ(heap.declined(), "a reason");
  EXPECT_EQ(heap.publish(p, kAdoptBytes, {}, &place), Sharing::kMapped);
  EXPECT_EQ(heap.share(filled(kAdoptBytes, 1), kAdoptBytes), Sharing::kNot);
  EXPECT_EQ(heap.publish(filled(kAdoptBytes, 1), kAdoptBytes, {}, &place), Sharing::kNot);
}

TEST(Adopt, BuffersThatComeAndGoNeverRunOut) {
  // The bound is on how many there are at once.
  Heap& heap = fresh_heap();
  for (uint32_t i = 0; i < kMaxStretches + 500; ++i) {
    std::byte* p = filled(kPage, 1);
    ASSERT_EQ(heap.share(p, kPage), Sharing::kMapped) << i << ": " << heap.stats().declined_why;
    ASSERT_TRUE(heap.come_back(p, kPage));
    munmap(p - kPage, 3 * kPage);
  }
}

TEST(Adopt, ThreadsShareTheSameBufferOnce) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(64 * kAdoptBytes, 1);
  std::vector<std::thread> threads;
  Atomic<uint32_t> mapped{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      SharedPlace place;
      for (size_t i = 0; i < 64; ++i) {
        for (int k = 0; k < 3; ++k)
          mapped.fetch_add_relaxed(heap.publish(p + i * kAdoptBytes, kAdoptBytes, {}, &place) == Sharing::kMapped);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(mapped.load_relaxed(), 4 * 64U);
  EXPECT_EQ(heap.stats().shared_bytes, 64 * kAdoptBytes);
  EXPECT_EQ(heap.stats().adopted_bytes, 64 * kAdoptBytes);
  EXPECT_TRUE(holds(p, 64 * kAdoptBytes, 1));
}

}  // namespace
}  // namespace zh::heap::test
