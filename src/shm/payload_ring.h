// A sender's ring of payload blocks towards one receiver: variable-size blocks in FIFO order, each freed by the
// receiver with one store. The whole ring is cycled through (never the hottest block again), because a line that the
// receiver has just read is the slow one to write (measured; docs/design/copying.md). What the receiver writes lies
// apart from what the sender writes, so that starting a block costs no exchange of lines. It refuses to know messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/invariant.h"
#include "base/shm_types.h"

namespace zh::shm {

/// Names a block: travels in the envelope (or cell) that publishes it.
/// Invariant: until it is freed, the word that frees it names the block that had the word before.
struct BlockShm {
  Offset payload;
  Offset released;  ///< of the word that frees it
  uint32_t number;  ///< counts the ring's blocks from 1, modulo 2^32
  uint32_t reserved;

  /// Before it is freed.
  [[nodiscard]] const char* broken_invariant(std::byte* base) const;
};
static_assert(kShmSafe<BlockShm> && sizeof(BlockShm) == 24);

/// Head of a block whose payload is still being written while it is read; the payload follows.
/// Writers: the sender. Readers: the receiver. Invariant: payload[0, filled) is complete.
/// Wrap: none. Crash: `filled` stops short of the message; the receiver sees the sender's death.
struct PipedShm {
  Atomic<uint64_t> filled;
  uint64_t reserved[7];

  [[nodiscard]] const char* broken_invariant(uint64_t message_bytes) const {
    return filled.load_relaxed() > message_bytes ? "a piped message is filled at most to its end" : nullptr;
  }
};
static_assert(kShmSafe<PipedShm> && sizeof(PipedShm) == kLineBytes);

/// The words that free a ring's blocks, in front of the payload.
/// Writers: the receiver; the sender once, before the ring is used. Readers: the sender.
/// Invariant: word[n % kBlocks] == n + 1 exactly when block n + 1 has been freed and block n + 1 + kBlocks has not; 0
/// until the first one has.
/// Wrap: numbers run freely modulo 2^32; kBlocks divides it. Crash: a dead receiver's blocks stay busy; the sender
/// drops the ring with the peer.
struct ReleasedShm {
  static constexpr uint32_t kBlocks = 256;
  Atomic<uint32_t> word[kBlocks];

  /// What the word of a block holds while that block is busy; `word_now` is one of two in a ring's first lap.
  [[nodiscard]] static bool names_one_before(uint32_t number, uint32_t word_now) {
    return word_now == number - kBlocks || (word_now == 0 && number <= kBlocks);
  }
  [[nodiscard]] const char* broken_invariant() const {
    for (uint32_t i = 0; i < kBlocks; ++i) {
      const uint32_t freed = word[i].load_relaxed();
      if (freed != 0 && (freed - 1) % kBlocks != i) return "a word frees only blocks of its own place";
    }
    return nullptr;
  }
};
static_assert(kShmSafe<ReleasedShm>);

inline const char* BlockShm::broken_invariant(std::byte* base) const {
  if (released % sizeof(uint32_t) != 0) return "the word that frees a block is aligned";
  return ReleasedShm::names_one_before(number, at<Atomic<uint32_t>>(base, released)->load_relaxed())
             ? nullptr
             : "a block is freed once, after the one that had its word before";
}

/// Called by the receiver when it has copied the payload out.
inline void release_block(std::byte* base, const BlockShm& block) {
  ZH_CHECK_INVARIANT(block.broken_invariant(base));
  at<Atomic<uint32_t>>(base, block.released)->store_release(block.number);  // B1 -> B0: the payload has been read.
}

/// The sender's private state; the memory is the sender's own part of the segment.
class PayloadRing {
 public:
  /// `memory` is relative to `base`; `size_bytes` includes the words of ReleasedShm.
  void attach(std::byte* base, Offset memory, uint64_t size_bytes) {
    released_ = at<ReleasedShm>(base, memory);
    for (Atomic<uint32_t>& word : released_->word) word.store_relaxed(0);  // before any block is named to the receiver
    memory_ = memory;
    size_ = size_bytes - sizeof(ReleasedShm);
    total_ = size_bytes;
    head_ = tail_ = 0;
    first_ = next_ = 0;
  }
  [[nodiscard]] bool attached() const { return released_ != nullptr; }
  [[nodiscard]] uint64_t size_bytes() const { return total_; }
  [[nodiscard]] Offset memory() const { return memory_; }
  [[nodiscard]] uint64_t laps() const { return size_ == 0 ? 0 : head_ / size_; }

  /// A busy block for n payload bytes; false when the ring has no room now.
  [[nodiscard]] bool allocate(uint64_t n, BlockShm* out) {
    const uint64_t need = n == 0 ? kLineBytes : round_up(n, kLineBytes);
    if (need > size_) return false;
    uint64_t filler = head_ % size_ + need > size_ ? size_ - head_ % size_ : 0;
    if (!fits(filler + need)) {
      reclaim();
      // An empty ring has room wherever its head stands: filler in front of the block would count against it.
      if (head_ == tail_) {
        tail_ = head_ += filler;
        filler = 0;
      } else if (!fits(filler + need)) {
        return false;
      }
    }
    last_ = head_;
    head_ += filler;
    const uint32_t slot = next_ % ReleasedShm::kBlocks;
    *out = {memory_ + sizeof(ReleasedShm) + head_ % size_, memory_ + slot * sizeof(Atomic<uint32_t>), ++next_, 0};
    head_ += need;
    ends_[slot] = head_;
    ZH_CHECK_INVARIANT(ReleasedShm::names_one_before(next_, released_->word[slot].load_relaxed())
                           ? nullptr
                           : "a block is busy from its allocation on");
    return true;
  }
  /// Undoes the latest allocate(); the block must not have been published.
  void undo_last() {
    head_ = last_;
    --next_;
  }
  [[nodiscard]] bool idle() {
    reclaim();
    return head_ == tail_;
  }
  [[nodiscard]] uint64_t in_use_bytes() const { return head_ - tail_; }
  /// What the words promise, and that the busy blocks lie one behind the other in the ring. For the sender.
  [[nodiscard]] const char* broken_invariant() const {
    if (!attached()) return nullptr;
    if (head_ - tail_ > size_) return "the blocks in use are at most the ring";
    if (next_ - first_ > ReleasedShm::kBlocks) return "a word frees one block at a time";
    uint64_t end = tail_;
    for (uint32_t n = first_; n != next_; ++n) {
      const uint32_t slot = n % ReleasedShm::kBlocks;
      if (ends_[slot] <= end || ends_[slot] > head_) return "blocks lie one behind the other";
      end = ends_[slot];
      const uint32_t word = released_->word[slot].load_relaxed();
      if (word != n + 1 && !ReleasedShm::names_one_before(n + 1, word)) return "a word frees no block but its own";
    }
    if (end != head_) return "nothing lies behind the latest block";
    return released_->broken_invariant();
  }

 private:
  [[nodiscard]] bool fits(uint64_t bytes) const {
    return next_ - first_ < ReleasedShm::kBlocks && head_ + bytes - tail_ <= size_;
  }
  void reclaim() {
    while (first_ != next_) {
      const uint32_t slot = first_ % ReleasedShm::kBlocks;
      // B0 -> B1: the receiver has finished reading before the bytes are written again.
      if (released_->word[slot].load_acquire() != first_ + 1) return;
      tail_ = ends_[slot];
      ++first_;
    }
  }

  ReleasedShm* released_ = nullptr;
  Offset memory_ = kNoOffset;
  uint64_t size_ = 0;
  uint64_t total_ = 0;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t last_ = 0;
  uint32_t first_ = 0;  ///< blocks freed, modulo 2^32
  uint32_t next_ = 0;   ///< blocks ever allocated
  uint64_t ends_[ReleasedShm::kBlocks] = {};
};

}  // namespace zh::shm
