// A member's block of started collectives: what it gives to those that are under way, in shared memory. Written and
// read by NonblockingSlots only; the blocks of blocking collectives are control_block.h's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/shm_types.h"
#include "coll/sizes.h"

namespace zh::coll {

/// Started collectives that a member may be ahead of another, if they follow each other.
#ifdef ZH_MODEL_CHECK
constexpr uint32_t kNonblockingSlots = 2;  // every reuse is met soon
#else
constexpr uint32_t kNonblockingSlots = 16;
#endif

/// A member's contribution to started collective number `seq`.
/// Writers: its owner, once every member has done all collectives up to the one that used the slot last. Readers:
/// members that are in that collective, once `seq` is its number. Invariant: the rest is immutable from the store of
/// `seq` until all members have done that collective. Wrap: none, 64 bits. Crash: a flag that does not come; who waits
/// sees the death.
struct alignas(kPairBytes) CallSlotShm {
  Atomic<uint64_t> seq;  ///< from 1 on
  uint64_t bytes;
  std::byte payload[kSlotBytes];

  /// For the owner before it publishes, and for members after.
  [[nodiscard]] const char* broken_invariant() const {
    return bytes > kSlotBytes ? "a contribution to a started collective fits its slot" : nullptr;
  }
};
static_assert(kShmSafe<CallSlotShm> && sizeof(CallSlotShm) == 5 * kPairBytes);

/// Writers: the owner. Readers: all members. Invariant: `done` never goes back while `context` stays; `context` is 0 or
/// names the team that the block serves. A collective whose number mod kNonblockingSlots is i has slot i. Wrap: none,
/// 64 bits. Crash: nobody uses the team any more.
struct SlotBlockShm {
  alignas(kPairBytes) Atomic<uint64_t> context;
  /// The owner needs nothing from others any more for collectives up to this number.
  Atomic<uint64_t> done;
  CallSlotShm slots[kNonblockingSlots];

  /// For the owner, while it serves no team: nothing is done.
  void reset() {
    done.store_relaxed(0);
    for (CallSlotShm& slot : slots) slot.seq.store_relaxed(0);
  }
  /// For any member.
  [[nodiscard]] const char* broken_invariant(uint64_t team) const {
    const uint64_t serves = context.load_relaxed();
    if (serves != 0 && serves != team) return nullptr;  // another team's by now
    for (uint32_t i = 0; i < kNonblockingSlots; ++i) {
      const uint64_t seq = slots[i].seq.load_relaxed();
      if (seq != 0 && seq % kNonblockingSlots != i) return "a started collective has one slot";
    }
    return nullptr;
  }
};
static_assert(kShmSafe<SlotBlockShm>);

}  // namespace zh::coll
