// What the stress tests share: memory that all ranks see, each at an address of its own; how long to run; the seed.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "os/process.h"
#include "support/fork_world.h"

namespace zh::test {

/// Times the default amount of work: ZH_STRESS, default 1.
inline uint64_t stress_factor() {
  const char* given = std::getenv("ZH_STRESS");
  return given != nullptr ? std::max<uint64_t>(1, std::strtoull(given, nullptr, 10)) : 1;
}

inline WorldOptions stress_options() {
  WorldOptions o;
  o.timeout_s = static_cast<int>(std::min<uint64_t>(100 * stress_factor(), 1'000'000));
  return o;
}

/// Seed of this run: ZH_TEST_SEED, else drawn; printed, so that a failure can be repeated.
inline uint64_t stress_seed() {
  const char* given = std::getenv("ZH_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : os::random_token() % 1'000'000'000;
  std::printf("seed %llu (repeat with ZH_TEST_SEED)\n", static_cast<unsigned long long>(seed));
  return seed;
}

/// Zeroed memory, made before the ranks start.
class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes) : bytes_(bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) std::abort();
    base_ = static_cast<std::byte*>(p);
  }
  ~SharedMemory() { munmap(base_, bytes_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Where this rank sees it. Processes map it once more, so that a pointer left in it would be found out; it goes with
  /// the process. Threads use one mapping, so that ThreadSanitizer can relate their accesses.
  [[nodiscard]] std::byte* view(World kind) const {
    if (kind == World::kThreads) return base_;
    void* p = mremap(base_, 0, bytes_, MREMAP_MAYMOVE);
    if (p == MAP_FAILED) std::abort();
    munmap(base_, bytes_);
    return static_cast<std::byte*>(p);
  }
  /// For the test itself, before and after the ranks run.
  [[nodiscard]] std::byte* base() const { return base_; }

 private:
  std::byte* base_ = nullptr;
  size_t bytes_;
};

}  // namespace zh::test
