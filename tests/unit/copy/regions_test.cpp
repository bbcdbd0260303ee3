// Mappable memory: the owner's allocator and locate().
#include "copy/regions.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

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

// Copied, or above the limit mapped as the child's own: the child has what was there, and the parent keeps what it had.
TEST(RegionOwner, AForkedChildHasItsOwnMemory) {
  for (const uint64_t most : {uint64_t{64} << 20, uint64_t{0}}) {
    RegionOwner owner;
    EXPECT_FALSE(owner.used());
    auto* const small = static_cast<unsigned char*>(owner.allocate(100, 64));
    auto* const freed = static_cast<unsigned char*>(owner.allocate(40'000, 64));
    auto* const large = static_cast<unsigned char*>(owner.allocate(1 << 20, 64));
    ASSERT_TRUE(small != nullptr && freed != nullptr && large != nullptr);
    EXPECT_TRUE(owner.used());
    EXPECT_TRUE(owner.free(freed));
    std::memset(small, 1, 100);
    std::memset(large, 2, 1 << 20);
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      const bool copied = owner.copy_in_child(most);
      const bool same = small[99] == 1 && large[0] == 2 && large[(1 << 20) - 1] == 2;
      std::memset(small, 3, 100);
      std::memset(large, 4, 1 << 20);
      _exit(copied && same && small[0] == 3 && large[5000] == 4 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0) << most;
    EXPECT_TRUE(std::all_of(small, small + 100, [](unsigned char c) { return c == 1; }));
    EXPECT_TRUE(std::all_of(large, large + (1 << 20), [](unsigned char c) { return c == 2; }));
  }
}

}  // namespace
}  // namespace zh::copy
