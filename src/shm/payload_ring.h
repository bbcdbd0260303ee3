// A sender's ring of payload blocks towards one receiver: variable-size blocks in FIFO order, each freed by the
// receiver with one store. The whole ring is cycled through (never the hottest block again), because a line that the
// receiver has just read is the slow one to write (measured; docs/design/copying.md). What the receiver writes lies
// apart from what the sender writes, so that starting a block costs no exchange of lines. It refuses to know messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/shm_types.h"

namespace zh::shm {

/// Names a block: travels in the envelope (or cell) that publishes it.
struct BlockShm {
  Offset payload;
  Offset released;  ///< of the word that frees it
  uint32_t number;  ///< counts the ring's blocks from 1, modulo 2^32
  uint32_t reserved;
};
static_assert(kShmSafe<BlockShm> && sizeof(BlockShm) == 24);

/// Head of a block whose payload is still being written while it is read; the payload follows.
/// Writers: the sender. Readers: the receiver. Invariant: payload[0, filled) is complete.
/// Wrap: none. Crash: `filled` stops short of the message; the receiver sees the sender's death.
struct PipedShm {
  Atomic<uint64_t> filled;
  uint64_t reserved[7];
};
static_assert(kShmSafe<PipedShm> && sizeof(PipedShm) == kLineBytes);

/// The words that free a ring's blocks, in front of the payload.
/// Writers: the receiver; the sender once, before the ring is used. Readers: the sender.
/// Invariant: word[n % kBlocks] == n + 1 exactly when block n + 1 has been freed and block n + 1 + kBlocks has not.
/// Wrap: numbers run freely modulo 2^32; kBlocks divides it. Crash: a dead receiver's blocks stay busy; the sender
/// drops the ring with the peer.
struct ReleasedShm {
  static constexpr uint32_t kBlocks = 256;
  Atomic<uint32_t> word[kBlocks];
};
static_assert(kShmSafe<ReleasedShm>);

/// Called by the receiver when it has copied the payload out.
inline void release_block(std::byte* base, const BlockShm& block) {
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
