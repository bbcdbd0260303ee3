// Keeping peers away from a rank's memory: a peer announces each access to it, and the rank can close its memory and
// wait until nobody is inside (a process that forks must not be read or written meanwhile). Called by point-to-point
// around every direct copy; it refuses to know what is copied and why the memory is closed.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/invariant.h"
#include "base/shm_types.h"

namespace zh::shm {

/// One rank's words.
/// Writers: the rank itself, `epoch` from any of its threads (one at a time), `accessing` from the one that copies.
/// Readers: all ranks of the node. Invariant: while `epoch` is odd, or has another value than an access was begun for,
/// no access to this rank's memory begins; `accessing` names the rank whose memory this one may be touching. So while
/// an access lasts its owner's epoch is that for which it was begun, open or closed by now, but never a later one.
/// Wrap: `epoch` leaves 0 out; an access with an epoch of 2^31 closures ago would be let in. Crash: `accessing` of a
/// dead rank stays; who waits for it sees the death. A rank that dies closed stays closed.
struct AccessShm {
  alignas(kPairBytes) Atomic<uint32_t> epoch;      ///< 0: never closed, nobody announces; even: open; odd: closed
  alignas(kPairBytes) Atomic<uint32_t> accessing;  ///< index + 1 of the rank whose memory this one touches; 0: none

  [[nodiscard]] const char* broken_invariant(uint32_t ranks) const {
    return accessing.load_relaxed() > ranks ? "`accessing` is 0 or the index + 1 of a rank" : nullptr;
  }
};
static_assert(kShmSafe<AccessShm>);

constexpr bool is_closed(uint32_t epoch) { return (epoch & 1) != 0; }

/// Lets accesses of the new epoch in.
inline void open_access(AccessShm& own) {
  const uint32_t now = own.epoch.load_relaxed();
  const uint32_t next = now + (is_closed(now) ? 1 : 2);
  // X0 -> X1: what the rank did to its memory while it was closed.
  own.epoch.store_release(next != 0 ? next : 2);
}

/// From now on no access begins, also if it is closed already. Those that had begun are over when still_accessed() is
/// false for every live peer.
inline void close_access(AccessShm& own) {
  own.epoch.store_relaxed(own.epoch.load_relaxed() | 1);
  fence_seq_cst();  // Y1 -> Y1: either the peer sees the closed epoch, or its announcement is seen below
}

[[nodiscard]] inline bool still_accessed(const AccessShm& peer, uint32_t self) {
  // X2 -> X3: the peer's last access.
  return peer.accessing.load_acquire() == self + 1;
}

/// One announced access of this rank to the memory of `owner`. At most one exists at a time.
class Access {
 public:
  /// `epoch` is the owner's when it told of its memory, or read from its word before.
  Access(AccessShm& own, const AccessShm& owners, uint32_t owner, uint32_t epoch)
      : own_(own), owners_(owners), epoch_(epoch) {
    if (epoch == 0) return;
    own_.accessing.store_relaxed(owner + 1);
    // Y1 -> Y1: the announcement is out before the epoch is looked at.
    // X1 -> X0: and what the owner did before it opened its memory with the epoch that the caller has read is visible.
    fence_seq_cst();
    announced_ = true;
    granted_ = owners.epoch.load_relaxed() == epoch && !is_closed(epoch);
  }
  ~Access() {
    ZH_CHECK_INVARIANT(broken_invariant());
    // X3 -> X2: this access is over.
    if (announced_) own_.accessing.store_release(0);
  }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  [[nodiscard]] bool granted() const { return granted_; }
  [[nodiscard]] const char* broken_invariant() const {
    if (!announced_) return nullptr;
    if (own_.accessing.load_relaxed() == 0) return "an access is announced while it lasts, and only one at a time";
    const uint32_t now = owners_.epoch.load_relaxed();
    return granted_ && (now | 1) != (epoch_ | 1) ? "nobody opens memory anew while an access of before lasts" : nullptr;
  }

 private:
  AccessShm& own_;
  const AccessShm& owners_;
  uint32_t epoch_;
  bool announced_ = false;
  bool granted_ = true;
};

}  // namespace zh::shm
