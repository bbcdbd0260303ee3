// The short lock around one receiver's matching queues: a plain compare-and-swap word that names its holder, so that
// the death of the holder can be told from a long wait. Taken by the receiver for every consumption and by a sender
// that drains on the receiver's behalf (LiMIC's medium-grained locking, paper section 4.4: no copy is ever made under
// it).
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/invariant.h"
#include "base/shm_types.h"

namespace zh::shm {

/// Writers: any rank of the node. Readers: any rank of the node.
/// Invariant: word_ is 0 (free) or holder index + 1; only the holder stores 0.
/// Wrap: none. Crash: the word keeps the dead holder's index; whoever waits finds the holder dead and marks the queues
/// broken instead of repairing them, never taking the lock over.
class OwnerLockShm {
 public:
  /// One attempt.
  [[nodiscard]] bool try_lock(uint32_t self) {
    uint32_t expected = 0;
    // K1 -> K2: what the previous holder wrote to the queues is visible.
    return word_.cas_acquire(expected, self + 1);
  }

  void unlock() {
    ZH_CHECK_INVARIANT(holder() != 0 ? nullptr : "only the holder of a lock gives it back");
    // K2 -> K1: the queues as this holder leaves them.
    word_.store_release(0);
  }

  /// Index + 1 of the holder, 0 if free; a hint, for the check of a dead holder.
  [[nodiscard]] uint32_t holder() const { return word_.load_relaxed(); }
  [[nodiscard]] const char* broken_invariant(uint32_t ranks) const {
    return holder() > ranks ? "a lock's word is 0 or its holder's index + 1" : nullptr;
  }

 private:
  Atomic<uint32_t> word_;
};

static_assert(kShmSafe<OwnerLockShm> && sizeof(OwnerLockShm) == 4);

}  // namespace zh::shm
