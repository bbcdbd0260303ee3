// RegionCache against memory of RegionOwner: what a peer reads and writes, windows within a budget, pages mapped in.
// label one-thread: [.]RegionCache[.]
#include "copy/region_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "copy/regions.h"
#include "os/process.h"

namespace zh::copy {
namespace {

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

/// Where [ref.offset, +n) begins; null if it cannot be mapped.
std::byte* first_of(RegionCache& cache, uint32_t peer, int pid, int fd, const RegionRef& ref, uint64_t n,
                    Direction direction = Direction::kRead) {
  uint64_t run = 0;
  std::byte* const address = cache.resolve(peer, pid, fd, ref, n, direction, &run);
  if (address != nullptr && (run == 0 || run > n)) return nullptr;
  return address;
}

/// Calls `use(address, bytes)` for each piece of [ref.offset, +n); false if one cannot be mapped.
template <typename Use>
bool for_each_piece(RegionCache& cache, uint32_t peer, int pid, int fd, RegionRef ref, uint64_t n, Direction direction,
                    Use&& use) {
  while (n > 0) {
    uint64_t run = 0;
    std::byte* const address = cache.resolve(peer, pid, fd, ref, n, direction, &run);
    if (address == nullptr || run == 0 || run > n) return false;
    use(address, run);
    ref.offset += run;
    n -= run;
  }
  return true;
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
      RegionCache cache(2 * kWindowBytes);  // less than the largest buffer
      uint64_t wrong = 0;
      const bool read = for_each_piece(cache, 3, pid, fd, ref, n, Direction::kRead, [&](std::byte* q, uint64_t run) {
        if (reinterpret_cast<unsigned char*>(q) == p) ++wrong;
        for (uint64_t k = 0; k < run; ++k) wrong += q[k] != std::byte{7} ? 1 : 0;
      });
      if (!read || wrong != 0) return 1;
      const bool written = for_each_piece(cache, 3, pid, fd, ref, n, Direction::kWrite, [](std::byte* q, uint64_t run) {
        std::memset(q, 9, static_cast<size_t>(run));
      });
      if (!written) return 2;
      const std::byte* q = first_of(cache, 3, pid, fd, ref, std::min<uint64_t>(n, 64));
      return q == first_of(cache, 3, pid, fd, ref, std::min<uint64_t>(n, 64)) ? 0 : 3;
    });
    for (size_t k = 0; k < n; ++k) ASSERT_EQ(p[k], 9);
    EXPECT_TRUE(owner.free(p));
  }
}

TEST(RegionCache, APieceEndsWithItsWindow) {
  RegionOwner owner;
  RegionCache cache(256 << 20);
  const void* p = owner.allocate(3 * kWindowBytes, 64);
  RegionRef ref;
  ASSERT_TRUE(owner.locate(p, 1, &ref));
  uint64_t run = 0;
  ref.offset = (ref.offset / kWindowBytes + 1) * kWindowBytes - 100;
  ASSERT_NE(cache.resolve(0, getpid(), owner.descriptor(1), ref, 5000, Direction::kRead, &run), nullptr);
  EXPECT_EQ(run, 100U);
  EXPECT_EQ(cache.stats().mapped, 1U);
  EXPECT_EQ(cache.stats().pages, 1U);
}

TEST(RegionCache, MapsPagesInOnceAndMakesNone) {
  RegionOwner owner;
  RegionCache cache(256 << 20);
  auto* p = static_cast<std::byte*>(owner.allocate(1 << 20, 64));
  ASSERT_NE(p, nullptr);
  RegionRef ref;
  ASSERT_TRUE(owner.locate(p, 1 << 20, &ref));
  const int fd = owner.descriptor(ref.region);
  const uint64_t backed = owner.backed_bytes();
  for (int round = 0; round < 3; ++round) ASSERT_NE(first_of(cache, 0, getpid(), fd, ref, 64 << 10), nullptr);
  EXPECT_EQ(cache.stats().pages, 16U);
  RegionRef next = ref;
  next.offset += 32 << 10;  // half of it is there
  ASSERT_NE(first_of(cache, 0, getpid(), fd, next, 64 << 10), nullptr);
  EXPECT_EQ(cache.stats().pages, 24U);
  std::byte* q = first_of(cache, 0, getpid(), fd, ref, 64 << 10, Direction::kWrite);
  ASSERT_NE(q, nullptr);
  *q = std::byte{5};
  EXPECT_EQ(*p, std::byte{5});
  EXPECT_EQ(owner.backed_bytes(), backed);
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// Windows need no descriptor, and what was closed is opened again for the next one.
TEST(RegionCache, KeepsFewDescriptorsOfManyPeers) {
  constexpr uint32_t kPeers = 500;
  RegionOwner owner;
  RegionCache cache(uint64_t{64} << 30);
  auto* p = static_cast<std::byte*>(owner.allocate(3 * kWindowBytes, 64));
  ASSERT_NE(p, nullptr);
  *p = std::byte{7};
  RegionRef ref;
  ASSERT_TRUE(owner.locate(p, 1, &ref));
  const int fd = owner.descriptor(ref.region);
  const size_t before = open_descriptors();
  for (uint32_t peer = 0; peer < kPeers; ++peer) {
    const std::byte* q = first_of(cache, peer, getpid(), fd, ref, 64);
    ASSERT_NE(q, nullptr) << peer;
    EXPECT_EQ(*q, std::byte{7});
  }
  EXPECT_EQ(open_descriptors(), before + 32);
  RegionRef next = ref;
  next.offset += kWindowBytes;
  for (uint32_t peer = 0; peer < kPeers; ++peer) {
    ASSERT_NE(first_of(cache, peer, getpid(), fd, next, 64), nullptr) << peer;
    ASSERT_NE(first_of(cache, peer, getpid(), fd, ref, 64), nullptr) << peer;
  }
  EXPECT_EQ(open_descriptors(), before + 32);
  EXPECT_EQ(cache.stats().mapped, 2U * kPeers);
  EXPECT_EQ(cache.stats().refused, 0U);
  for (uint32_t peer = 0; peer < kPeers; ++peer) cache.forget(peer);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(RegionCache, SeesMemoryThatWasReleasedAndTakenAgain) {
  RegionOwner owner;
  RegionCache cache(256 << 20);
  RegionRef ref;
  for (int round = 0; round < 3; ++round) {
    auto* p = static_cast<unsigned char*>(owner.allocate(8 << 20, 64));
    std::memset(p, round + 1, 8 << 20);
    ASSERT_TRUE(owner.locate(p, 8 << 20, &ref));
    const std::byte* q = first_of(cache, 0, getpid(), owner.descriptor(ref.region), ref, 8 << 20);
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
    before = first_of(cache, 0, getpid(), owner.descriptor(ref.region), ref, 5000);
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
      const std::byte* q = first_of(cache, 0, getpid(), fd, at, 100);
      ASSERT_NE(q, nullptr);
      EXPECT_EQ(*q, p[w * kWindowBytes]);
      EXPECT_LE(cache.mapped_bytes(), 2 * kWindowBytes);
    }
  }
  cache.forget(0);
  EXPECT_EQ(cache.mapped_bytes(), 0U);
  EXPECT_EQ(cache.stats().mapped, cache.stats().unmapped);
}

TEST(RegionCache, RefusesWhatCannotBeMapped) {
  RegionCache cache(256 << 20);
  EXPECT_EQ(first_of(cache, 0, getpid(), 0, RegionRef{}, 8), nullptr) << "region 0";
  EXPECT_EQ(first_of(cache, 0, getpid(), 9999, RegionRef{1, 1, 0}, 8), nullptr) << "no such descriptor";
  RegionOwner owner;
  void* p = owner.allocate(100, 64);
  RegionRef ref;
  ASSERT_TRUE(owner.locate(p, 100, &ref));
  // The program has closed the descriptor and opened a file, which got its number.
  const int other = open("/proc/self/exe", O_RDONLY);
  EXPECT_EQ(first_of(cache, 0, getpid(), other, RegionRef{7, 1, 0}, 8), nullptr) << "another file";
  close(other);
  const RegionRef of_before{ref.region, ref.generation + 1, ref.offset};
  EXPECT_EQ(first_of(cache, 0, getpid(), owner.descriptor(ref.region), of_before, 8), nullptr) << "other memory";
  EXPECT_NE(first_of(cache, 0, getpid(), owner.descriptor(ref.region), ref, 8), nullptr) << "what is there now";
  ref.offset = uint64_t{1} << 40;
  EXPECT_EQ(first_of(cache, 0, getpid(), owner.descriptor(ref.region), ref, 8), nullptr) << "beyond the region";
  ref.offset = ~uint64_t{0} - 3;
  EXPECT_EQ(first_of(cache, 0, getpid(), owner.descriptor(ref.region), ref, 8), nullptr) << "wraps";
}

}  // namespace
}  // namespace zh::copy
