// How many members copy from or into one member's memory through the kernel at once. All of them would stand in line
// for the locks of its page table (Chakraborty et al., CLUSTER'17); a few at a time are faster than all together.
#pragma once

#include "base/atomic.h"
#include "base/invariant.h"
#include "base/shm_types.h"

namespace zh::coll {

/// Writers: every member that enters or leaves. Readers: the same. Invariant: `inside` is the number of those that have
/// entered and not left, at most the limit they brought. Wrap: none. Crash: a place stays taken; who waits for one sees
/// the death.
struct alignas(kPairBytes) ThrottleShm {
  Atomic<uint32_t> inside;

  /// False: `limit` are inside.
  [[nodiscard]] bool try_enter(uint32_t limit) {
    uint32_t now = inside.load_acquire();  // CH1 <- CH0
    while (now < limit) {
      if (inside.cas_acq_rel(now, now + 1)) return true;  // CH1 <- CH0: the copy of the one that left
    }
    return false;
  }
  void leave() {
    ZH_CHECK_INVARIANT(inside.load_relaxed() != 0 ? nullptr : "only who has entered a throttle leaves it");
    inside.fetch_sub_acq_rel(1);  // CH0 -> CH1
  }
  /// `most`: the largest limit that anyone brings.
  [[nodiscard]] const char* broken_invariant(uint32_t most) const {
    return inside.load_relaxed() > most ? "at most as many are inside as the limit says" : nullptr;
  }
};
static_assert(kShmSafe<ThrottleShm>);

}  // namespace zh::coll
