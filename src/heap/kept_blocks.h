// Freed blocks whose pages are shared, kept for the next allocation of their size: a program that allocates and frees a
// buffer for every message would else make the same pages shared again each time. For the allocator behind it, a kept
// block is still allocated. Used under the heap's lock.
#pragma once

#include <array>
#include <cstdint>

#include "base/atomic.h"
#include "heap/limits.h"

namespace zh::heap {

struct KeptBlock {
  void* address = nullptr;
  uint64_t bytes = 0;  ///< usable
  uint64_t since_ns = 0;
};

class KeptBlocks {
 public:
  /// Without the lock: may there be one?
  [[nodiscard]] bool any() const { return n_seen_.load_relaxed() != 0; }
  /// Without the lock: may one of them serve an allocation of n bytes?
  [[nodiscard]] bool may_serve(uint64_t n) const {
    return n <= largest_.load_relaxed() && n + kPage + 2 * sizeof(size_t) > smallest_.load_relaxed();
  }
  [[nodiscard]] uint32_t blocks() const { return n_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

  [[nodiscard]] const KeptBlock& at(uint32_t i) const { return blocks_[i]; }
  [[nodiscard]] bool has_room(uint64_t bytes) const { return n_ < kKeptBlocks && bytes_ + bytes <= kKeptBytes; }

  [[nodiscard]] bool holds(const void* address) const {
    for (uint32_t i = 0; i < n_; ++i) {
      if (blocks_[i].address == address) return true;
    }
    return false;
  }
  /// There must be room for it.
  void keep(const KeptBlock& block) {
    blocks_[n_] = block;
    bytes_ += block.bytes;
    n_seen_.store_relaxed(++n_);
    note_sizes();
  }
  /// The block kept last that an allocation of n bytes would fill but for less than a page; false if there is none.
  bool take(uint64_t n, KeptBlock* out) {
    for (uint32_t i = n_; i-- > 0;) {
      if (blocks_[i].bytes < n || blocks_[i].bytes - n >= kPage + 2 * sizeof(size_t)) continue;
      *out = remove(i);
      return true;
    }
    return false;
  }
  /// Takes the oldest one out if there is no room for `bytes` more, or if nobody has asked for it for long.
  bool take_oldest(uint64_t bytes, uint64_t now_ns, KeptBlock* out) {
    if (n_ == 0) return false;
    if (has_room(bytes) && now_ns - blocks_[0].since_ns < kKeptNs) return false;
    *out = remove(0);
    return true;
  }

 private:
  void note_sizes() {
    uint64_t smallest = ~uint64_t{0};
    uint64_t largest = 0;
    for (uint32_t i = 0; i < n_; ++i) {
      if (blocks_[i].bytes < smallest) smallest = blocks_[i].bytes;
      if (blocks_[i].bytes > largest) largest = blocks_[i].bytes;
    }
    smallest_.store_relaxed(smallest);
    largest_.store_relaxed(largest);
  }
  KeptBlock remove(uint32_t i) {
    const KeptBlock block = blocks_[i];
    for (uint32_t k = i + 1; k < n_; ++k) blocks_[k - 1] = blocks_[k];
    bytes_ -= block.bytes;
    n_seen_.store_relaxed(--n_);
    note_sizes();
    return block;
  }

  std::array<KeptBlock, kKeptBlocks> blocks_{};  ///< in the order in which they came
  uint64_t bytes_ = 0;
  uint32_t n_ = 0;
  Atomic<uint32_t> n_seen_{0};
  Atomic<uint64_t> smallest_{~uint64_t{0}};
  Atomic<uint64_t> largest_{0};
};

}  // namespace zh::heap
