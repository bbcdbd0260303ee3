// A sender's ring of payload blocks towards one receiver: variable-size blocks in FIFO order, each freed by the receiver
// with one store. The whole ring is cycled through (never the hottest block again), because a block that the receiver has
// just read is the slow one to write (measured; docs/copying.md). It refuses to know messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/shm_types.h"

namespace zh::shm {

/// Header of a block, one line; the payload follows.
/// Writers: the sender (size, busy = 1), the receiver (busy = 0). Readers: the sender.
/// Invariant: between allocation and release busy == 1 and the bytes belong to the message.
/// Wrap: none. Crash: a dead receiver's blocks stay busy; the sender drops the ring with the peer.
struct BlockShm {
  Atomic<uint32_t> busy;
  uint32_t size_bytes;  ///< header and padding included
  uint64_t reserved[7];

  [[nodiscard]] std::byte* payload() { return reinterpret_cast<std::byte*>(this + 1); }
  /// Called by the receiver when it has copied the payload out.
  void release() {
    busy.store_release(0);  // B1 -> B0: the payload has been read.
  }
};
static_assert(kShmSafe<BlockShm> && sizeof(BlockShm) == kLineBytes);

/// The sender's private state; the memory is the sender's own part of the segment.
class PayloadRing {
 public:
  void attach(std::byte* memory, uint64_t size_bytes) {
    memory_ = memory;
    size_ = size_bytes;
    head_ = tail_ = 0;
  }
  [[nodiscard]] bool attached() const { return memory_ != nullptr; }
  [[nodiscard]] uint64_t size_bytes() const { return size_; }
  [[nodiscard]] std::byte* memory() const { return memory_; }
  [[nodiscard]] uint64_t laps() const { return size_ == 0 ? 0 : head_ / size_; }

  /// A busy block for n payload bytes, or null when the ring has no room now.
  [[nodiscard]] BlockShm* allocate(uint64_t n) {
    const uint64_t need = sizeof(BlockShm) + round_up(n, kLineBytes);
    if (need > size_) return nullptr;
    reclaim(2);
    const uint64_t at_head = head_ % size_;
    const uint64_t filler = at_head + need > size_ ? size_ - at_head : 0;
    if (head_ + filler + need - tail_ > size_) {
      reclaim(~0U);
      // An empty ring has room wherever its head stands: filler in front of the block would count against it.
      if (head_ == tail_) {
        tail_ = head_ += filler;
      } else if (head_ + filler + need - tail_ > size_) {
        return nullptr;
      }
    }
    if (head_ % size_ + need > size_) {
      put(at_head, filler, 0);
      head_ += filler;
    }
    BlockShm* block = put(head_ % size_, need, 1);
    last_ = head_;
    head_ += need;
    return block;
  }
  /// Undoes the latest allocate(); the block must not have been published.
  void undo_last() {
    head_ = last_;
  }
  [[nodiscard]] bool idle() {
    reclaim(~0U);
    return head_ == tail_;
  }
  [[nodiscard]] uint64_t in_use_bytes() const { return head_ - tail_; }

 private:
  BlockShm* put(uint64_t position, uint64_t size_bytes, uint32_t busy) {
    auto* block = reinterpret_cast<BlockShm*>(memory_ + position);
    block->size_bytes = static_cast<uint32_t>(size_bytes);
    block->busy.store_relaxed(busy);  // published with the envelope that names the block
    return block;
  }
  void reclaim(uint32_t limit) {
    while (tail_ != head_ && limit-- != 0) {
      auto* block = reinterpret_cast<BlockShm*>(memory_ + tail_ % size_);
      // B0 -> B1: the receiver has finished reading before the bytes are written again.
      if (block->busy.load_acquire() != 0) return;
      tail_ += block->size_bytes;
      __builtin_prefetch(memory_ + tail_ % size_);
    }
  }

  std::byte* memory_ = nullptr;
  uint64_t size_ = 0;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t last_ = 0;
};

}  // namespace zh::shm
