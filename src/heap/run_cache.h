// Freed runs of pages kept whole, for the next allocation of the same size: spares the heap's one lock and the search.
// A few shards, chosen by thread, each with a lock that is only tried and with counts of its own, so that threads share
// no line. It refuses to know what the pages hold.
#pragma once

#include <array>
#include <cstdint>

#include "base/atomic.h"
#include "heap/page_runs.h"
#include "os/mutex.h"
#include "os/yield.h"

namespace zh::heap {

class RunCache {
 public:
  /// First page of a kept run of exactly `pages` pages; kNoPage if there is none at hand.
  [[nodiscard]] uint32_t take(uint32_t pages) {
    Shard& shard = mine();
    if (!shard.try_lock()) return kNoPage;
    uint32_t found = kNoPage;
    for (uint32_t i = shard.n; i-- > 0;) {
      if (shard.runs[i].pages != pages) continue;
      found = shard.runs[i].first;
      shard.runs[i] = shard.runs[--shard.n];
      shard.count(1, pages);
      break;
    }
    shard.unlock();
    return found;
  }

  /// False if there is no room, or if the shard would keep more than `limit` pages.
  bool keep(Run run, uint64_t limit) {
    Shard& shard = mine();
    if (!shard.try_lock()) return false;
    const bool room = shard.n < kRuns && shard.kept.load_relaxed() + run.pages <= limit;
    if (room) {
      shard.runs[shard.n++] = run;
      shard.count(0, -uint64_t{run.pages});
    }
    shard.unlock();
    return room;
  }

  /// Calls visit(Run) for everything kept and forgets it; visit's pages then count elsewhere. Waits for threads that
  /// are in a shard.
  template <typename Visit>
  void flush(Visit&& visit) {
    for (Shard& shard : shards_) {
      if (shard.kept.load_relaxed() == 0) continue;
      shard.lock();
      while (shard.n > 0) visit(shard.runs[--shard.n]);
      shard.kept.store_relaxed(0);
      shard.unlock();
    }
  }
  /// Around a fork: nobody is inside a shard in between.
  void lock_all() {
    for (Shard& shard : shards_) {
      if (!shard.held_by_me()) shard.lock();
    }
  }
  /// `but_mine`: the shard of this thread was held before lock_all(), and stays so.
  void unlock_all(bool but_mine) {
    const Shard* kept = but_mine ? &mine() : nullptr;
    for (Shard& shard : shards_) {
      if (&shard != kept) shard.unlock();
    }
  }
  /// In a signal handler: has it interrupted this very thread in its shard?
  [[nodiscard]] bool held_by_me() { return mine().held_by_me(); }

  [[nodiscard]] uint64_t kept_pages() const { return sum(&Shard::kept); }
  /// Pages handed out minus pages kept, modulo 2^64.
  [[nodiscard]] uint64_t live_pages() const { return sum(&Shard::live); }
  [[nodiscard]] uint64_t hits() const { return sum(&Shard::hits); }

 private:
  static constexpr uint32_t kShards = 16;
  static constexpr uint32_t kRuns = 12;

  struct alignas(128) Shard {
    Atomic<uintptr_t> held{0};  ///< the thread that holds it
    uint32_t n = 0;
    // Written under the lock only; read by anyone.
    Atomic<uint64_t> kept{0};
    Atomic<uint64_t> live{0};
    Atomic<uint64_t> hits{0};
    std::array<Run, kRuns> runs{};

    bool try_lock() {
      uintptr_t free = 0;
      return held.load_relaxed() == 0 && held.cas_acquire(free, os::Mutex::this_thread());  // C1 <- C0: the runs
    }
    [[nodiscard]] bool held_by_me() const { return held.load_relaxed() == os::Mutex::this_thread(); }
    void lock() {
      while (!try_lock()) os::yield_cpu();
    }
    void unlock() { held.store_release(0); }  // C0 -> C1: the runs
    void count(uint64_t taken, uint64_t pages) {
      hits.store_relaxed(hits.load_relaxed() + taken);
      live.store_relaxed(live.load_relaxed() + pages);
      kept.store_relaxed(kept.load_relaxed() - pages);
    }
  };

  [[nodiscard]] uint64_t sum(Atomic<uint64_t> Shard::*which) const {
    uint64_t n = 0;
    for (const Shard& shard : shards_) n += (shard.*which).load_relaxed();
    return n;
  }

  Shard& mine() {
    // Thread control blocks are some pages apart; the multiplication spreads them.
    const auto thread = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
    return shards_[(thread >> 6) * 0x9E3779B97F4A7C15ULL >> 60];
  }

  std::array<Shard, kShards> shards_{};
};

}  // namespace zh::heap
