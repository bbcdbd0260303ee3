// How often messages have used a buffer: the table by which a buffer becomes shared that is used again and again, and
// not one that is used a few times. Lock-free; two buffers that fall on one entry, and threads that count at once, make
// it forget, and nothing else.
#pragma once

#include <array>
#include <cstdint>

#include "base/atomic.h"

namespace zh::heap {

class UseCounts {
 public:
  /// Counts one more use of the buffer that begins in this page; true once there are as many as wanted: `wanted`, and
  /// twice as many each time that it was shared and became private again, for then it will again.
  bool count(uint64_t page, uint32_t wanted) {
    Entry& entry = entry_of(page);
    const uint32_t uses = entry.uses.load_relaxed();
    if (entry.page.load_relaxed() == page) {
      entry.uses.store_relaxed(uses + 1);
      return uses + 1 >= wanted << entry.returns.load_relaxed();
    }
    // Another one has the entry. It keeps it for half as many uses of others as it had itself.
    if (uses > 1) {
      entry.uses.store_relaxed(uses / 2);
    } else {
      entry.page.store_relaxed(page);
      entry.uses.store_relaxed(1);
      entry.returns.store_relaxed(0);
    }
    return false;
  }
  void returned(uint64_t page) {
    Entry& entry = entry_of(page);
    if (entry.page.load_relaxed() != page) return;
    entry.uses.store_relaxed(0);
    const uint32_t returns = entry.returns.load_relaxed();
    if (returns < kMaxReturns) entry.returns.store_relaxed(returns + 1);
  }
  void forget(uint64_t page) {
    Entry& entry = entry_of(page);
    if (entry.page.load_relaxed() == page) entry.uses.store_relaxed(0);
  }

 private:
  struct Entry {
    Atomic<uint64_t> page{0};
    Atomic<uint32_t> uses{0};
    Atomic<uint32_t> returns{0};
  };
  static constexpr uint32_t kMaxReturns = 7;
  static constexpr unsigned kBits = 10;

  Entry& entry_of(uint64_t page) { return entries_[page * 0x9e3779b97f4a7c15U >> (64 - kBits)]; }

  std::array<Entry, 1 << kBits> entries_{};
};

}  // namespace zh::heap
