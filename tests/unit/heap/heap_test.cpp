// The heap as an object, in this process and with forked peers; the malloc family in front of it is tested by
// tests/heap.
#include "heap/heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "os/vm.h"

namespace {

using zh::heap::Heap;
using zh::heap::kGlobalsRegion;
using zh::heap::kMinBytes;
using zh::heap::kPage;
using zh::heap::Place;

/// Never destroyed, as the process's own: address space is all it keeps.
Heap& unused_heap() {
  static std::array<Heap, 32> heaps;
  static size_t n = 0;
  return heaps.at(n++);
}

Heap& fresh_heap() {
  Heap& heap = unused_heap();
  heap.start(true);
  return heap;
}

std::byte* filled(Heap& heap, size_t n, int value) {
  auto* p = static_cast<std::byte*>(heap.allocate(n, 1, false));
  EXPECT_NE(p, nullptr);
  if (p != nullptr) std::memset(p, value, n);
  return p;
}

bool holds(const std::byte* p, size_t n, int value) {
  for (size_t i = 0; i < n; ++i) {
    if (p[i] != static_cast<std::byte>(value)) return false;
  }
  return true;
}

/// What a peer would see at `place`.
std::byte* as_peer(const Heap& heap, const Place& place, size_t n) {
  const uint64_t start = place.offset / kPage * kPage;
  void* p = mmap(nullptr, n + (place.offset - start), PROT_READ | PROT_WRITE, MAP_SHARED, heap.descriptor(place.region),
                 static_cast<off_t>(start));
  return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p) + (place.offset - start);
}

/// Forks with the handlers that the malloc family registers.
template <typename Child>
int fork_and_wait(Heap& heap, Child&& child) {
  heap.before_fork();
  const pid_t pid = fork();
  if (pid == 0) {
    heap.after_fork_in_child();
    _exit(child() ? 0 : 1);
  }
  heap.after_fork_in_parent();
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Heap, TakesNothingBeforeItIsStarted) {
  Heap& heap = unused_heap();
  EXPECT_EQ(heap.allocate(1 << 20, 1, false), nullptr);
  int local = 0;
  EXPECT_FALSE(heap.owns(&local));
  EXPECT_FALSE(heap.owns(nullptr));
}

TEST(Heap, APeerSeesWhatIsWrittenAndTheOtherWayRound) {
  Heap& heap = fresh_heap();
  constexpr size_t n = 300'000;
  std::byte* p = filled(heap, n, 5);
  ASSERT_NE(p, nullptr);
  Place place;
  ASSERT_TRUE(heap.locate(p + 100, n - 100, &place));
  std::byte* seen = as_peer(heap, place, n - 100);
  ASSERT_NE(seen, nullptr);
  EXPECT_TRUE(holds(seen, n - 100, 5));
  seen[7] = std::byte{9};
  EXPECT_EQ(p[107], std::byte{9});
  heap.free(p);
}

TEST(Heap, OnlyWhatLiesInItIsLocated) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(heap, kMinBytes, 1);
  Place place;
  int local = 0;
  EXPECT_FALSE(heap.locate(&local, sizeof local, &place));
  EXPECT_FALSE(heap.locate(p, uint64_t{1} << 50, &place));
  EXPECT_TRUE(heap.locate(p, 0, &place));
}

TEST(Heap, ABufferIsPublishedFromItsSecondUseOn) {
  Heap& heap = fresh_heap();
  auto* p = static_cast<std::byte*>(heap.allocate(1 << 20, 1, false));
  Place place;
  EXPECT_FALSE(heap.publish(p, 1 << 20, &place));
  EXPECT_TRUE(heap.publish(p, 1 << 20, &place));
  EXPECT_EQ(heap.stats().populated_bytes, 1U << 20);
  EXPECT_TRUE(heap.publish(p + 5000, 1000, &place));
  EXPECT_EQ(heap.stats().first_uses, 1U);
}

TEST(Heap, ReusedMemoryIsZeroedForCalloc) {
  Heap& heap = fresh_heap();
  for (const size_t n : {size_t{40'000}, size_t{1} << 20, size_t{40} << 20}) {
    heap.free(filled(heap, n, 0xee));
    auto* p = static_cast<std::byte*>(heap.allocate(n, 1, true));
    ASSERT_NE(p, nullptr);
    EXPECT_TRUE(holds(p, n, 0)) << n;
    heap.free(p);
  }
}

TEST(Heap, AlignmentsAreKept) {
  Heap& heap = fresh_heap();
  for (size_t alignment = 16; alignment <= zh::heap::kFileAlignment; alignment *= 2) {
    void* p = heap.allocate(kMinBytes + 5, alignment, false);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0U);
    heap.free(p);
  }
  EXPECT_EQ(heap.allocate(kMinBytes, 2 * zh::heap::kFileAlignment, false), nullptr);
}

TEST(Heap, ResizingInPlaceKeepsContents) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(heap, 1 << 20, 3);
  ASSERT_TRUE(heap.resize(p, 8 << 20)) << "at the end of the span there is always more";
  EXPECT_TRUE(holds(p, 1 << 20, 3));
  std::byte* behind = filled(heap, 1 << 20, 4);
  ASSERT_TRUE(heap.resize(p, 100'000));
  EXPECT_TRUE(holds(p, 100'000, 3));
  EXPECT_EQ(heap.usable_bytes(p), (100'000 + kPage - 1) / kPage * kPage);
  EXPECT_TRUE(holds(behind, 1 << 20, 4));
}

TEST(Heap, IdleMemoryIsBoundedAndTrimmed) {
  Heap& heap = fresh_heap();
  std::vector<std::byte*> all;
  for (int i = 0; i < 256; ++i) all.push_back(filled(heap, 1 << 20, i));
  for (std::byte* p : all) heap.free(p);
  EXPECT_LE(heap.stats().idle_bytes, 8U << 20);
  EXPECT_EQ(heap.stats().live_bytes, 0U);
  EXPECT_TRUE(heap.trim());
  EXPECT_EQ(heap.stats().idle_bytes, 0U);
  EXPECT_FALSE(heap.trim());
}

TEST(Heap, WhatIsReturnedReadsAsZeroAndIsPopulatedAgainBeforeItIsPublished) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(heap, 1 << 20, 1);
  Place place;
  (void)heap.publish(p, 1 << 20, &place);
  ASSERT_TRUE(heap.publish(p, 1 << 20, &place));
  ASSERT_TRUE(heap.drop_contents(p, 1 << 20));
  EXPECT_TRUE(holds(p, 1 << 20, 0));
  ASSERT_TRUE(heap.drop_contents(p, 1 << 20));
  EXPECT_FALSE(heap.publish(p, 1 << 20, &place)) << "a peer would fault each page in again";
  EXPECT_TRUE(heap.publish(p, 1 << 20, &place));
}

TEST(Heap, PagesThatLeaveKeepTheirContentsAndAreNoLongerShared) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(heap, 1 << 20, 6);
  Place place;
  ASSERT_TRUE(heap.locate(p, 1 << 20, &place));
  std::byte* seen = as_peer(heap, place, 1 << 20);
  ASSERT_TRUE(heap.leave(p + 2 * kPage, kPage, false));
  EXPECT_TRUE(holds(p, 1 << 20, 6));
  EXPECT_FALSE(heap.locate(p, 1 << 20, &place));
  EXPECT_TRUE(heap.locate(p, 2 * kPage, &place));
  p[2 * kPage] = std::byte{7};
  EXPECT_NE(seen[2 * kPage], std::byte{7});
  heap.free(p);
  std::byte* again = filled(heap, 1 << 20, 8);
  EXPECT_EQ(again, p) << "what was freed is the heap's again";
  EXPECT_TRUE(heap.locate(again, 1 << 20, &place));
  EXPECT_TRUE(holds(seen, 1 << 20, 8));
}

TEST(Heap, PagesThatLeftReadAsZeroOnceTheirContentsAreDropped) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(heap, 1 << 20, 6);
  ASSERT_TRUE(heap.leave(p + 2 * kPage, 4 * kPage, false));
  std::memset(p + 3 * kPage, 7, kPage);
  ASSERT_EQ(madvise(p + 2 * kPage, 4 * kPage, MADV_DONTNEED), 0);
  ASSERT_TRUE(heap.drop_contents(p + 2 * kPage, 4 * kPage));
  EXPECT_TRUE(holds(p + 2 * kPage, 4 * kPage, 0));
  EXPECT_TRUE(holds(p, 2 * kPage, 6));
}

TEST(Heap, AChildKeepsWhatLeftWhenTheParentFreesIt) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(heap, 1 << 20, 6);
  ASSERT_TRUE(heap.leave(p, 1 << 20, false));
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  heap.before_fork();
  const pid_t pid = fork();
  if (pid == 0) {
    heap.after_fork_in_child();
    char byte = 0;
    (void)!read(go[0], &byte, 1);
    _exit(holds(p, 1 << 20, 6) ? 0 : 1);
  }
  heap.after_fork_in_parent();
  heap.free(p);
  for (int i = 0; i < 4; ++i) filled(heap, 1 << 20, 9);
  (void)!write(go[1], "x", 1);
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Heap, PagesThatWereReplacedAreNeverTouchedAgain) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(heap, 1 << 20, 6);
  heap.forget(p + 2 * kPage, kPage);
  void* own = mmap(p + 2 * kPage, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  ASSERT_EQ(own, p + 2 * kPage);
  std::memset(own, 7, kPage);
  EXPECT_TRUE(holds(p, 2 * kPage, 6));
  heap.free(p);
  for (int i = 0; i < 50; ++i) EXPECT_NE(filled(heap, 1 << 20, i), p);
  EXPECT_TRUE(holds(static_cast<std::byte*>(own), kPage, 7));
}

TEST(Heap, PagesThatWereReplacedOutliveAFrozenBlock) {
  Heap& heap = fresh_heap();
  constexpr size_t n = 32 << 20;
  std::byte* p = filled(heap, n, 6);
  heap.forget(p + 2 * kPage, kPage);
  void* own = mmap(p + 2 * kPage, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  ASSERT_EQ(own, p + 2 * kPage);
  std::memset(own, 7, kPage);
  EXPECT_EQ(fork_and_wait(heap, [&] { return holds(static_cast<std::byte*>(own), kPage, 7) && holds(p, kPage, 6); }),
            0);
  heap.free(p);
  EXPECT_TRUE(holds(static_cast<std::byte*>(own), kPage, 7));
}

TEST(Heap, NoWriteOfAnotherThreadIsLostWhenPagesLeave) {
  Heap& heap = fresh_heap();
  constexpr size_t n = 16 << 20;
  std::byte* p = filled(heap, n, 0);
  zh::Atomic<uint32_t> stop{0};
  uint64_t last = 0;
  std::thread writer([&] {
    for (uint64_t value = 1; stop.load_relaxed() == 0; ++value) {
      for (size_t at = 0; at < n; at += kPage) std::memcpy(p + at, &value, sizeof value);
      last = value;
    }
  });
  for (size_t at = 0; at < n; at += n / 64) ASSERT_TRUE(heap.leave(p + at, n / 64, false));
  stop.store_relaxed(1);
  writer.join();
  for (size_t at = 0; at < n; at += kPage) {
    uint64_t value = 0;
    std::memcpy(&value, p + at, sizeof value);
    ASSERT_EQ(value, last) << at / kPage;
  }
}

TEST(Heap, ForkedProcessesSeeTheirOwnMemory) {
  for (const size_t n : {size_t{1} << 20, size_t{32} << 20}) {  // copied by the child, frozen
    Heap& heap = fresh_heap();
    std::byte* p = filled(heap, n, 1);
    auto* untouched = static_cast<std::byte*>(heap.allocate(n, 1, false));
    const int result = fork_and_wait(heap, [&] {
      if (!holds(p, n, 1)) return false;
      std::memset(p, 2, n);
      std::memset(untouched, 2, n);
      heap.free(untouched);
      return heap.allocate(kMinBytes, 1, false) == nullptr && holds(p, n, 2);
    });
    EXPECT_EQ(result, 0);
    EXPECT_TRUE(holds(p, n, 1)) << n;
    EXPECT_TRUE(holds(untouched, n, 0)) << n;
    EXPECT_EQ(heap.stats().forks_copied, n <= 8 << 20 ? 1U : 0U);
    Place place;
    EXPECT_EQ(heap.locate(p, n, &place), n <= 8 << 20) << "what a fork froze is out of peers' reach";
    std::byte* later = filled(heap, n, 4);
    EXPECT_TRUE(heap.locate(later, n, &place));
    EXPECT_NE(later, nullptr);
    heap.free(p);
    heap.free(later);
  }
}

TEST(Heap, AParentsWritesAreNotSeenByItsChild) {
  Heap& heap = fresh_heap();
  constexpr size_t n = 32 << 20;
  std::byte* p = filled(heap, n, 1);
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  heap.before_fork();
  const pid_t pid = fork();
  if (pid == 0) {
    heap.after_fork_in_child();
    char byte = 0;
    (void)!read(go[0], &byte, 1);
    _exit(holds(p, n, 1) ? 0 : 1);
  }
  heap.after_fork_in_parent();
  std::memset(p, 2, n / 2);
  heap.free(p);
  for (int i = 0; i < 4; ++i) heap.free(filled(heap, n, 9));
  (void)!write(go[1], "x", 1);
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Heap, MemoryThatAForkFrozeGoesBackWhenNoChildIsLeft) {
  Heap& heap = fresh_heap();
  constexpr size_t n = 32 << 20;
  std::byte* p = filled(heap, n, 1);
  std::byte* q = filled(heap, n, 2);
  Place place;
  ASSERT_TRUE(heap.locate(p, n, &place));
  const int fd = heap.descriptor(place.region);
  const uint64_t before = zh::os::backed_bytes_of(fd);
  EXPECT_EQ(fork_and_wait(heap, [] { return true; }), 0);
  std::memset(q, 3, n / 2);  // half of it has two copies now
  heap.free(p);
  EXPECT_LE(zh::os::backed_bytes_of(fd), before - n - n / 2 + (1 << 20));
  EXPECT_TRUE(holds(q, n / 2, 3) && holds(q + n / 2, n / 2, 2));
}

TEST(Heap, AProgramThatForksAgainAndAgainEndsWithoutTheHeap) {
  Heap& heap = fresh_heap();
  for (uint32_t i = 0; i <= zh::heap::kMaxForks; ++i) {
    std::byte* p = filled(heap, 32 << 20, 1);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(fork_and_wait(heap, [&] { return holds(p, 32 << 20, 1); }), 0);
    heap.free(p);
  }
  EXPECT_EQ(heap.allocate(1 << 20, 1, false), nullptr);
  EXPECT_NE(heap.declined(), nullptr);
}

class CountingClient final : public zh::heap::ForkClient {
 public:
  void before_fork() override { ++away; }
  void after_fork_in_parent() override {
    --away;
    ++ended;
  }
  void after_fork_in_child() override { child = true; }
  int away = 0;
  int ended = 0;
  bool child = false;
};

TEST(Heap, ClientsAreToldBeforeAndAfter) {
  Heap& heap = fresh_heap();
  CountingClient client;
  ASSERT_TRUE(heap.add_fork_client(&client));
  EXPECT_EQ(fork_and_wait(heap, [&] { return client.child && client.away == 0; }), 0);
  EXPECT_EQ(client.ended, 0) << "nothing in the heap, nothing to keep away";
  filled(heap, 1 << 20, 1);
  EXPECT_EQ(fork_and_wait(heap, [&] { return client.child && client.away == 1; }), 0);
  EXPECT_EQ(client.away, 0);
  EXPECT_EQ(client.ended, 1);
  heap.remove_fork_client(&client);
}

TEST(Heap, AClosedDescriptorEndsItsGrowth) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(heap, 1 << 20, 1);
  Place place;
  ASSERT_TRUE(heap.locate(p, 1 << 20, &place));
  close(heap.descriptor(place.region));
  EXPECT_EQ(heap.allocate(64 << 20, 1, false), nullptr);
  EXPECT_NE(heap.declined(), nullptr);
  EXPECT_TRUE(holds(p, 1 << 20, 1));
  heap.free(p);
}

TEST(Heap, ThreadsDoNotGetEachOthersMemory) {
  Heap& heap = fresh_heap();
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&heap, &wrong, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<std::pair<std::byte*, size_t>> mine(8);
      for (int i = 0; i < 400; ++i) {
        auto& [p, n] = mine[random() % mine.size()];
        if (p != nullptr) {
          wrong[static_cast<size_t>(t)] += holds(p, n, t + 1) ? 0 : 1;
          heap.free(p);
        }
        n = kMinBytes + random() % (random() % 4 == 0 ? 2 << 20 : 64 << 10);
        p = filled(heap, n, t + 1);
      }
      for (auto& [p, n] : mine) {
        if (p != nullptr) heap.free(p);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
  EXPECT_EQ(heap.stats().live_bytes, 0U);
}

}  // namespace
