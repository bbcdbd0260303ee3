// The fixed head of a rank's part of the segment: its state as peers see it, its queues, and who sends to it.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/shm_types.h"
#include "p2p/activity.h"
#include "p2p/announced_calls.h"
#include "p2p/counters.h"
#include "p2p/queues.h"
#include "shm/access.h"
#include "shm/bell.h"

namespace zh::p2p {

/// Whether a rank sits in a call of the host, where it takes no messages, and who then does for it what no peer can.
enum class Helper : uint32_t {
  kNotInHost,    ///< the rank is with its program or inside zerohop
  kAloneInHost,  ///< in the host, and nothing is left that its peers could not do for it
  kWaits,        ///< in the host; its helper thread sleeps on this word until a peer calls it
  kCalled,       ///< in the host; a peer has called the helper
};

/// Which parked sends of a rank were matched (parked.cpp).
/// Writers: whoever matches one (a slot, any number at once), the owner (back to 0). Readers: the owner.
/// Invariant: a slot holds 0, or 1 + the index of a request that was a parked send when it was matched.
/// Wrap: `next` runs freely; kSlots divides 2^32. Crash: a hint may be lost, as when a slot is overwritten; the owner
/// looks at all its parked sends in time.
struct MatchedShm {
  static constexpr uint32_t kSlots = 16;
  Atomic<uint32_t> next;
  Atomic<uint32_t> slots[kSlots];

  /// Of the request at `index` in the owner's table.
  void tell(uint32_t index) {
    const uint32_t at = next.fetch_add_relaxed(1) % kSlots;
    // H0 -> H1: the match before the hint.
    slots[at].store_release(index + 1);
  }
  /// `requests`: how many its owner has made. For the owner (part_invariant.cpp).
  [[nodiscard]] const char* broken_invariant(uint32_t requests) const;
};
static_assert(kShmSafe<MatchedShm> && sizeof(MatchedShm) <= kPairBytes);

/// What a rank tells its peers about itself.
/// Writers: the owner, but for `announced` and `polled` (any sender), `skewed` (whoever drains, under the lock),
/// `helper` (peers turn kWaits into kCalled), `sleeping` (who wakes the owner adds 1), `sleepers` (every rank) and
/// `matched`. Readers: peers. Invariant: none across fields; each is a hint that the protocols survive when stale.
/// `helper` is one of Helper, `skewed` 0 or 1. Wrap: stamp is 64 bits wide; announced and sleeping are only compared
/// for change; polled counts ranks at most. Crash: hints of a dead rank are harmless; who died asleep stays counted, so
/// that the others look for sleepers more often; a place among the polled is not used again.
struct RankStateShm {
  alignas(kPairBytes) Atomic<uint64_t> stamp;  ///< clock ticks of the owner's latest turn
  Atomic<uint32_t> inside;                     ///< > 0 while the owner waits inside MPI
  Atomic<uint32_t> cpu;                        ///< 1 + the CPU on which the owner waited last; 0: it never did for long
  alignas(kPairBytes) Atomic<uint32_t> sleeping;   ///< futex word: odd while the owner sleeps or is about to
  Atomic<uint32_t> skewed;                         ///< 1 while this receiver lags behind its senders
  alignas(kPairBytes) Atomic<uint32_t> announced;  ///< senders that ever connected; changes tell the owner to look
  Atomic<uint32_t> polled;                         ///< senders that asked for a place among those that need not ring
  alignas(kPairBytes) Atomic<uint32_t> helper;     ///< Helper; futex word of the helper thread
  alignas(kPairBytes) MatchedShm matched;
  alignas(kPairBytes) Atomic<uint32_t> sleepers;  ///< of the node's first rank only: how many ranks sleep

  /// For anyone, at any time (part_invariant.cpp).
  [[nodiscard]] const char* broken_invariant() const;
};
static_assert(kShmSafe<RankStateShm>);

/// Head of a part; `Atomic<uint64_t> in[ranks]` follows: the ring that is consumed now, by sender (kNoOffset: none).
/// Behind them the bells of the senders, on lines of their own.
/// Writers: in[s] by sender s once, then by the holder of the lock at a ring's marker. Readers: owner, sender s.
/// Invariant: as the members'; in[s] is kNoOffset or the offset of a ring. Wrap: none. Crash: as the members'.
struct PartShm {
  RankStateShm state;
  shm::AccessShm access;
  QueuesShm queues;
  CallsShm calls;
  ActivityShm activity;
  alignas(kPairBytes) AccountShm account;

  [[nodiscard]] Atomic<uint64_t>* in() { return reinterpret_cast<Atomic<uint64_t>*>(this + 1); }
  [[nodiscard]] shm::BellShm* bells(uint32_t ranks) {
    return reinterpret_cast<shm::BellShm*>(reinterpret_cast<std::byte*>(this) + bells_at(ranks));
  }
  [[nodiscard]] static constexpr uint64_t bells_at(uint32_t ranks) {
    return round_up(sizeof(PartShm) + ranks * sizeof(Atomic<uint64_t>), kPairBytes);
  }
  [[nodiscard]] static constexpr uint64_t size_bytes(uint32_t ranks) {
    return bells_at(ranks) + shm::BellShm::words(ranks) * sizeof(shm::BellShm);
  }
  /// Of what needs no lock; for anyone, at any time (part_invariant.cpp). Under the lock: Queues, EnvelopeRingShm.
  [[nodiscard]] const char* broken_invariant(uint32_t ranks) const;
};
static_assert(kShmSafe<PartShm>);

}  // namespace zh::p2p
