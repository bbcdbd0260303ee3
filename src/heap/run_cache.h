// Freed runs of pages kept whole, for the next allocation of the same size: spares the heap's one lock and the search.
// A few shards, chosen by thread, each with a lock that is only tried. It refuses to know what the pages hold.
#pragma once

#include <array>
#include <cstdint>

#include "base/atomic.h"
#include "heap/page_runs.h"
#include "os/yield.h"

namespace zh::heap {

class RunCache {
 public:
  static constexpr uint32_t kMaxPages = 256;  ///< of a run that is kept

  /// First page of a kept run of exactly `pages` pages; kNoPage if there is none at hand.
  [[nodiscard]] uint32_t take(uint32_t pages) {
    Shard& shard = mine();
    if (!shard.try_lock()) return kNoPage;
    uint32_t found = kNoPage;
    for (uint32_t i = shard.n; i-- > 0;) {
      if (shard.runs[i].pages != pages) continue;
      found = shard.runs[i].first;
      shard.runs[i] = shard.runs[--shard.n];
      break;
    }
    shard.unlock();
    return found;
  }

  /// False if there is no room.
  bool keep(Run run) {
    Shard& shard = mine();
    if (!shard.try_lock()) return false;
    const bool room = shard.n < kRuns;
    if (room) shard.runs[shard.n++] = run;
    shard.unlock();
    return room;
  }

  /// Calls visit(Run) for everything kept and forgets it. Waits for threads that are in a shard.
  template <typename Visit>
  void flush(Visit&& visit) {
    for (Shard& shard : shards_) {
      shard.lock();
      while (shard.n > 0) visit(shard.runs[--shard.n]);
      shard.unlock();
    }
  }
  /// Around a fork: nobody is inside a shard in between.
  void lock_all() {
    for (Shard& shard : shards_) shard.lock();
  }
  void unlock_all() {
    for (Shard& shard : shards_) shard.unlock();
  }

 private:
  static constexpr uint32_t kShards = 16;
  static constexpr uint32_t kRuns = 7;

  struct alignas(64) Shard {
    Atomic<uint32_t> held{0};
    uint32_t n = 0;
    std::array<Run, kRuns> runs{};

    bool try_lock() {
      uint32_t free = 0;
      return held.load_relaxed() == 0 && held.cas_acquire(free, 1);  // C1 <- C0: the runs
    }
    void lock() {
      while (!try_lock()) os::yield_cpu();
    }
    void unlock() { held.store_release(0); }  // C0 -> C1: the runs
  };

  Shard& mine() {
    // Thread control blocks are some pages apart; the multiplication spreads them.
    const auto thread = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
    return shards_[(thread >> 6) * 0x9E3779B97F4A7C15ULL >> 60];
  }

  std::array<Shard, kShards> shards_{};
};

}  // namespace zh::heap
