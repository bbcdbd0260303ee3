// Which collectives a rank has begun, for members that wait long and ask whether all are in the same one. Written and
// read through RunTransport; refuses to know what a digest is made of.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/invariant.h"
#include "base/shm_types.h"

namespace zh::p2p {

/// Writers: the owner, one thread at a time. Readers: peers.
/// Invariant: where `context` reads the same before and after `call`, both are of one entry: of the place that context
/// and number choose.
/// Wrap: a call takes the place of the one that was kEntries before it, and is forgotten then; numbers keep 40 bits.
/// Crash: a dead rank's entries stay true.
struct CallsShm {
  static constexpr uint32_t kEntries = 64;
  static constexpr uint32_t kDigestBits = 24;
  struct {
    Atomic<uint64_t> context;  ///< 0: none
    Atomic<uint64_t> call;     ///< number << kDigestBits | digest
  } entries[kEntries];

  void announce(uint64_t context, uint64_t number, uint32_t digest) {
    auto& e = entries[(context + number) % kEntries];
    e.context.store_relaxed(0);
    e.call.store_release((number << kDigestBits) | digest);  // CL0 -> CL1: the old context is gone
    e.context.store_release(context);                        // CL2 -> CL3: the call
    ZH_CHECK_INVARIANT(broken_invariant());
  }

  /// For anyone, at any time (part_invariant.cpp).
  [[nodiscard]] const char* broken_invariant() const;

  /// Whether the owner has announced another digest under that number.
  [[nodiscard]] bool contradicts(uint64_t context, uint64_t number, uint32_t digest) const {
    const auto& e = entries[(context + number) % kEntries];
    if (e.context.load_acquire() != context) return false;  // CL3 <- CL2
    const uint64_t call = e.call.load_acquire();            // CL1 <- CL0
    if (e.context.load_relaxed() != context) return false;
    const uint64_t here = (number << kDigestBits) | digest;
    return (call ^ here) >> kDigestBits == 0 && call != here;
  }
};
static_assert(kShmSafe<CallsShm>);

}  // namespace zh::p2p
