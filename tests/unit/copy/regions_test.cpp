// Mappable memory: the owner's allocator, locate(), and peers that map it from other processes.
#include "copy/regions.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "os/process.h"

namespace zh::copy {
namespace {

TEST(RegionOwner, AllocationsAreAlignedDistinctAndKeepTheirBytes) {
  RegionOwner owner;
  std::mt19937_64 random(41);
  std::map<std::byte*, std::pair<size_t, std::byte>> held;
  for (int step = 0; step < 5000; ++step) {
    if (random() % 5 < 3) {
      const size_t n = random() % 3 == 0 ? random() % 200000 : random() % 3000;
      const size_t alignment = size_t{1} << random() % 15;
      auto* p = static_cast<std::byte*>(owner.allocate(n, alignment));
      ASSERT_NE(p, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0U);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0U);
      const auto next = held.lower_bound(p);
      ASSERT_TRUE(next == held.end() || p + n <= next->first);
      if (next != held.begin()) {
        const auto before = std::prev(next);
        ASSERT_LE(before->first + before->second.first, p);
      }
      const auto fill = static_cast<std::byte>(random());
      std::memset(p, static_cast<int>(fill), n);
      held[p] = {n, fill};
    } else if (!held.empty()) {
      auto it = held.begin();
      std::advance(it, static_cast<int64_t>(random() % held.size()));
      const auto [n, fill] = it->second;
      for (size_t k = 0; k < n; ++k) ASSERT_EQ(it->first[k], fill);
      RegionRef ref;
      ASSERT_TRUE(owner.locate(it->first, n, &ref));
      ASSERT_TRUE(owner.free(it->first));
      held.erase(it);
    }
  }
  for (const auto& [p, value] : held) ASSERT_TRUE(owner.free(p));
}

TEST(RegionOwner, LocateKnowsExactlyTheLiveAllocations) {
  RegionOwner owner;
  std::vector<std::byte> foreign(100);
  RegionRef ref;
  EXPECT_FALSE(owner.locate(foreign.data(), 1, &ref));
  auto* big = static_cast<std::byte*>(owner.allocate(10000, 64));
  auto* small = static_cast<std::byte*>(owner.allocate(100, 64));
  ASSERT_TRUE(owner.locate(big, 10000, &ref));
  EXPECT_NE(ref.region, 0U);
  const RegionRef start = ref;
  ASSERT_TRUE(owner.locate(big + 5000, 5000, &ref));
  EXPECT_EQ(ref.offset, start.offset + 5000);
  EXPECT_EQ(ref.generation, start.generation);
  EXPECT_FALSE(owner.locate(big + 5000, 100000, &ref)) << "beyond its end";
  EXPECT_TRUE(owner.locate(small + 99, 1, &ref));
  EXPECT_FALSE(owner.locate(small, 200, &ref));
  EXPECT_TRUE(owner.free(big));
  EXPECT_TRUE(owner.free(small));
  EXPECT_FALSE(owner.locate(big, 1, &ref)) << "freed";
  EXPECT_FALSE(owner.locate(small, 1, &ref)) << "freed";
}

TEST(RegionOwner, RefusesWhatItDidNotGive) {
  RegionOwner owner;
  auto* p = static_cast<std::byte*>(owner.allocate(100000, 64));
  auto* q = static_cast<std::byte*>(owner.allocate(128, 64));
  int other = 0;
  EXPECT_FALSE(owner.free(&other));
  EXPECT_FALSE(owner.free(nullptr));
  EXPECT_FALSE(owner.free(p + 4096));
  EXPECT_FALSE(owner.free(q + 64));
  EXPECT_TRUE(owner.free(p));
  EXPECT_TRUE(owner.free(q));
  EXPECT_FALSE(owner.free(p)) << "twice";
  EXPECT_FALSE(owner.free(q)) << "twice";
  EXPECT_EQ(owner.allocate(8, 96), nullptr) << "no power of two";
}

TEST(RegionOwner, StaysWithinItsBudgetAndGivesMemoryBack) {
  RegionOwner owner(16 << 20);
  void* a = owner.allocate(12 << 20, 64);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(owner.allocate(8 << 20, 64), nullptr);
  EXPECT_LE(owner.backed_bytes(), 16U << 20);
  EXPECT_TRUE(owner.free(a));
  EXPECT_EQ(owner.backed_bytes(), 0U) << "a large range returns to the system";
  void* b = owner.allocate(8 << 20, 64);
  EXPECT_NE(b, nullptr);
  EXPECT_EQ(owner.allocate(size_t{1} << 60, 64), nullptr);
  EXPECT_TRUE(owner.free(b));
}

TEST(RegionOwner, OpensMoreRegionsWhenOneIsFull) {
  RegionOwner owner(uint64_t{4} << 30);
  // Address space of the first region is 256 MiB; the memory behind these is taken, so they stay modest.
  std::vector<void*> held;
  RegionRef first;
  RegionRef last;
  for (int i = 0; i < 5; ++i) {
    void* p = owner.allocate(60 << 20, 64);
    if (p == nullptr) break;
    held.push_back(p);
    ASSERT_TRUE(owner.locate(p, 60 << 20, i == 0 ? &first : &last));
  }
  if (held.size() < 5) GTEST_SKIP() << "needs 300 MiB of memory";
  EXPECT_NE(first.region, last.region);
  EXPECT_GE(owner.descriptor(last.region), 0);
  EXPECT_EQ(owner.descriptor(last.region + 1), -1);
  for (void* p : held) EXPECT_TRUE(owner.free(p));
}

TEST(RegionOwner, ServesThreadsAtOnce) {
  RegionOwner owner;
  std::vector<std::thread> threads;
  std::vector<int> bad(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      for (int step = 0; step < 500; ++step) {
        const size_t n = 1 + random() % 9000;
        auto* p = static_cast<unsigned char*>(owner.allocate(n, 64));
        std::memset(p, t, n);
        RegionRef ref;
        if (!owner.locate(p, n, &ref)) ++bad[static_cast<size_t>(t)];
        for (size_t k = 0; k < n; ++k) {
          if (p[k] != t) ++bad[static_cast<size_t>(t)];
        }
        if (!owner.free(p)) ++bad[static_cast<size_t>(t)];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const int n : bad) EXPECT_EQ(n, 0);
}

/// Runs `body` in a child process; its result must be 0.
template <typename Body>
void in_child(Body&& body) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    os::die_with_parent(parent);
    _exit(body());
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(RegionCache, APeerReadsAndWritesTheOwnersMemory) {
  RegionOwner owner;
  const pid_t pid = getpid();
  for (const size_t n : {size_t{100}, size_t{5000}, size_t{70} << 20}) {
    auto* p = static_cast<unsigned char*>(owner.allocate(n, 64));
    ASSERT_NE(p, nullptr);
    std::memset(p, 7, n);
    RegionRef ref;
    ASSERT_TRUE(owner.locate(p, n, &ref));
    const int fd = owner.descriptor(ref.region);
    in_child([&] {
      RegionCache cache(256 << 20);
      std::byte* q = cache.resolve(3, pid, fd, ref, n);
      if (q == nullptr) return 1;
      if (reinterpret_cast<unsigned char*>(q) == p) return 2;
      for (size_t k = 0; k < n; ++k) {
        if (q[k] != std::byte{7}) return 3;
      }
      std::memset(q, 9, n);
      return cache.resolve(3, pid, fd, ref, n) == q ? 0 : 4;
    });
    for (size_t k = 0; k < n; ++k) ASSERT_EQ(p[k], 9);
    EXPECT_TRUE(owner.free(p));
  }
}

TEST(RegionCache, SeesMemoryThatWasReleasedAndTakenAgain) {
  RegionOwner owner;
  RegionCache cache(256 << 20);
  RegionRef ref;
  for (int round = 0; round < 3; ++round) {
    auto* p = static_cast<unsigned char*>(owner.allocate(8 << 20, 64));
    std::memset(p, round + 1, 8 << 20);
    ASSERT_TRUE(owner.locate(p, 8 << 20, &ref));
    const std::byte* q = cache.resolve(0, getpid(), owner.descriptor(ref.region), ref, 8 << 20);
    ASSERT_NE(q, nullptr);
    EXPECT_EQ(std::memcmp(p, q, 8 << 20), 0);
    EXPECT_TRUE(owner.free(p));
  }
}

TEST(RegionCache, AnotherGenerationIsAnotherMemory) {
  RegionCache cache(256 << 20);
  std::byte* before = nullptr;
  for (int round = 0; round < 2; ++round) {
    // The second owner's descriptor and region get the same numbers as the first one's.
    RegionOwner owner;
    auto* p = static_cast<unsigned char*>(owner.allocate(5000, 64));
    std::memset(p, round + 1, 5000);
    RegionRef ref;
    ASSERT_TRUE(owner.locate(p, 5000, &ref));
    before = cache.resolve(0, getpid(), owner.descriptor(ref.region), ref, 5000);
    ASSERT_NE(before, nullptr);
    EXPECT_EQ(before[4999], static_cast<std::byte>(round + 1));
  }
}

TEST(RegionCache, KeepsItsBudgetAndEvictsTheOldest) {
  RegionOwner owner;
  RegionCache cache(2 * kWindowBytes);
  auto* p = static_cast<std::byte*>(owner.allocate(5 * kWindowBytes, 64));
  ASSERT_NE(p, nullptr);
  RegionRef ref;
  ASSERT_TRUE(owner.locate(p, 5 * kWindowBytes, &ref));
  const int fd = owner.descriptor(ref.region);
  for (int round = 0; round < 3; ++round) {
    for (uint64_t w = 0; w < 5; ++w) {
      RegionRef at = ref;
      at.offset += w * kWindowBytes;
      p[w * kWindowBytes] = static_cast<std::byte>(w + static_cast<uint64_t>(round));
      const std::byte* q = cache.resolve(0, getpid(), fd, at, 100);
      ASSERT_NE(q, nullptr);
      EXPECT_EQ(*q, p[w * kWindowBytes]);
      EXPECT_LE(cache.mapped_bytes(), 2 * kWindowBytes);
    }
  }
  EXPECT_EQ(cache.resolve(0, getpid(), fd, ref, 5 * kWindowBytes), nullptr) << "more than the budget";
  cache.forget(0);
  EXPECT_EQ(cache.mapped_bytes(), 0U);
}

TEST(RegionCache, RefusesWhatCannotBeMapped) {
  RegionCache cache(256 << 20);
  EXPECT_EQ(cache.resolve(0, getpid(), 0, RegionRef{}, 8), nullptr) << "region 0";
  EXPECT_EQ(cache.resolve(0, getpid(), 9999, RegionRef{1, 1, 0}, 8), nullptr) << "no such descriptor";
  RegionOwner owner;
  void* p = owner.allocate(100, 64);
  RegionRef ref;
  ASSERT_TRUE(owner.locate(p, 100, &ref));
  ref.offset = uint64_t{1} << 40;
  EXPECT_EQ(cache.resolve(0, getpid(), owner.descriptor(ref.region), ref, 8), nullptr) << "beyond the region";
  ref.offset = ~uint64_t{0} - 3;
  EXPECT_EQ(cache.resolve(0, getpid(), owner.descriptor(ref.region), ref, 8), nullptr) << "wraps";
}

}  // namespace
}  // namespace zh::copy
