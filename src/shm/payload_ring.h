// A sender's ring of payload blocks towards one receiver: variable-size blocks in FIFO order, each freed by the
// receiver with one store. The whole ring is cycled through (never the hottest block again), because a line that the
// receiver has just read is the slow one to write (measured; docs/design/copying.md). What the receiver writes lies
// apart from what the sender writes, so that starting a block costs no exchange of lines. It refuses to know messages.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

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

/// A word that frees blocks of a ring; the ring's `words`, a power of two, lie in front of the payload.
/// Writers: the receiver; the sender once, before the ring is used. Readers: the sender.
/// Invariant: word n % words == n + 1 exactly when block n + 1 has been freed and block n + 1 + words has not; 0 until
/// the first one has.
/// Wrap: numbers run freely modulo 2^32; `words` divides it. Crash: a dead receiver's blocks stay busy; the sender
/// drops the ring with the peer.
struct ReleasedShm {
  static constexpr uint32_t kLeastWords = 256;
  static constexpr uint64_t kLeastBytes = kLeastWords * sizeof(uint32_t);
  Atomic<uint32_t> freed;

  /// Of a ring of so many bytes: a burst of messages of a KiB that nobody takes fills it.
  [[nodiscard]] static uint32_t words_of(uint64_t ring_bytes) {
    constexpr uint64_t kBlockBytes = 1 << 10;
    return std::max(kLeastWords, static_cast<uint32_t>(std::bit_floor(ring_bytes / kBlockBytes)));
  }
  /// What the word of a block holds while that block is busy; `word_now` is one of two in a ring's first lap.
  [[nodiscard]] static bool names_one_before(uint32_t number, uint32_t words, uint32_t word_now) {
    return word_now == number - words || (word_now == 0 && number <= words);
  }
};
static_assert(kShmSafe<ReleasedShm> && sizeof(ReleasedShm) == sizeof(uint32_t));

inline const char* BlockShm::broken_invariant(std::byte* base) const {
  if (released % sizeof(uint32_t) != 0) return "the word that frees a block is aligned";
  // How many words the ring has the block does not say.
  const uint32_t word_now = at<ReleasedShm>(base, released)->freed.load_relaxed();
  const uint32_t words = std::max(number - word_now, ReleasedShm::kLeastWords);
  return word_now == 0 || (std::has_single_bit(words) && ReleasedShm::names_one_before(number, words, word_now))
             ? nullptr
             : "a block is freed once, after the one that had its word before";
}

/// Called by the receiver when it has copied the payload out.
inline void release_block(std::byte* base, const BlockShm& block) {
  ZH_CHECK_INVARIANT(block.broken_invariant(base));
  at<ReleasedShm>(base, block.released)->freed.store_release(block.number);  // B1 -> B0: the payload has been read.
}

/// The sender's private state; the memory is the sender's own part of the segment.
class PayloadRing {
 public:
  /// `memory` is relative to `base`; `size_bytes` includes the words that free blocks. False if there is no memory for
  /// what the sender notes of each block; then nothing has changed.
  [[nodiscard]] bool attach(std::byte* base, Offset memory, uint64_t size_bytes) {
    const uint32_t words = ReleasedShm::words_of(size_bytes);
    std::unique_ptr<uint64_t[]> ends(new (std::nothrow) uint64_t[words]);
    if (ends == nullptr) return false;
    ends_ = std::move(ends);
    words_ = words;
    released_ = at<ReleasedShm>(base, memory);
    for (uint32_t i = 0; i < words; ++i) released_[i].freed.store_relaxed(0);  // before the receiver learns of a block
    memory_ = memory;
    size_ = size_bytes - words * sizeof(ReleasedShm);
    total_ = size_bytes;
    head_ = tail_ = 0;
    first_ = next_ = 0;
    return true;
  }
  [[nodiscard]] bool attached() const { return ends_ != nullptr; }
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
    const uint32_t slot = slot_of(next_);
    *out = {memory_ + words_ * sizeof(ReleasedShm) + head_ % size_, memory_ + slot * sizeof(ReleasedShm), ++next_, 0};
    head_ += need;
    ends_[slot] = head_;
    ZH_CHECK_INVARIANT(ReleasedShm::names_one_before(next_, words_, released_[slot].freed.load_relaxed())
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
  /// What the words promise, and that the busy blocks lie one behind the other in the ring. For the sender.
  [[nodiscard]] const char* broken_invariant() const {
    if (!attached()) return nullptr;
    if (head_ - tail_ > size_) return "the blocks in use are at most the ring";
    if (next_ - first_ > words_) return "a word frees one block at a time";
    uint64_t end = tail_;
    for (uint32_t n = first_; n != next_; ++n) {
      const uint32_t slot = slot_of(n);
      if (ends_[slot] <= end || ends_[slot] > head_) return "blocks lie one behind the other";
      end = ends_[slot];
      const uint32_t word = released_[slot].freed.load_relaxed();
      if (word != n + 1 && !ReleasedShm::names_one_before(n + 1, words_, word))
        return "a word frees no block but its own";
    }
    if (end != head_) return "nothing lies behind the latest block";
    for (uint32_t i = 0; i < words_; ++i) {
      const uint32_t freed = released_[i].freed.load_relaxed();
      if (freed != 0 && slot_of(freed - 1) != i) return "a word frees only blocks of its own place";
    }
    return nullptr;
  }

 private:
  [[nodiscard]] uint32_t slot_of(uint32_t block) const { return block & (words_ - 1); }
  [[nodiscard]] bool fits(uint64_t bytes) const { return next_ - first_ < words_ && head_ + bytes - tail_ <= size_; }
  void reclaim() {
    while (first_ != next_) {
      const uint32_t slot = slot_of(first_);
      // B0 -> B1: the receiver has finished reading before the bytes are written again.
      if (released_[slot].freed.load_acquire() != first_ + 1) return;
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
  uint32_t words_ = 0;
  std::unique_ptr<uint64_t[]> ends_;  ///< where each block ends, by its word
};

}  // namespace zh::shm
