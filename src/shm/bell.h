// The bells of a rank that hears many senders: a bit for each of them, set once there may be something new in that
// sender's ring, so that the rank looks at a few words instead of at every ring. It refuses to know what a ring is.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/shm_types.h"

namespace zh::shm {

/// The bells of 64 senders.
/// Writers: each sender its bit, which it sets; the receiver, which takes all of them. Readers: both.
/// Invariant: what a sender published before ring() is seen by a receiver that looks behind the take() which returns
/// that sender's bit, and such a take() comes. A bit may be set for nothing. No bit is of a rank that there is not.
/// Wrap: none. Crash: of a sender that dies before it rings nobody hears; so the receiver looks at the rings of the
/// dead, and now and then at those of the silent.
struct alignas(kLineBytes) BellShm {
  static constexpr uint32_t kSenders = 64;
  Atomic<uint64_t> rung;

  [[nodiscard]] static constexpr uint32_t words(uint32_t ranks) { return (ranks + kSenders - 1) / kSenders; }

  /// For sender `index` of these, when it has published. A bell that still rings is left alone: its line stays with
  /// whoever has it.
  void ring(uint32_t index) {
    const uint64_t bit = uint64_t{1} << index;
    fence_seq_cst();  // BL0 -> BL0: either the bit is seen taken here, or the taker sees what was published
    if ((rung.load_relaxed() & bit) == 0) rung.fetch_or_relaxed(bit);
  }
  /// The senders that have rung, for the receiver.
  [[nodiscard]] uint64_t take() {
    if (rung.load_relaxed() == 0) return 0;
    const uint64_t taken = rung.fetch_and_relaxed(0);
    fence_seq_cst();  // BL0 -> BL0: the bits are taken before the rings are looked at
    return taken;
  }
  /// For anyone, at any time; of `ranks` senders.
  [[nodiscard]] const char* broken_invariant(uint32_t ranks) const {
    return ranks < kSenders && rung.load_relaxed() >> ranks != 0 ? "a bell is a rank's" : nullptr;
  }
};
static_assert(kShmSafe<BellShm>);

}  // namespace zh::shm
