// What a block of started collectives promises. Called by its owner where it hands something over in builds with
// assertions, and by tests.
#include "coll/team/slot_block.h"

namespace zh::coll {

const char* CallSlotShm::broken_invariant() const {
  return bytes > kSlotBytes ? "a contribution to a started collective fits its slot" : nullptr;
}

const char* SlotBlockShm::broken_invariant(uint64_t team) const {
  const uint64_t serves = context.load_relaxed();
  if (serves != 0 && serves != team) return nullptr;  // another team's by now
  for (uint32_t i = 0; i < kNonblockingSlots; ++i) {
    const uint64_t seq = slots[i].seq.load_relaxed();
    if (seq != 0 && seq % kNonblockingSlots != i) return "a started collective has one slot";
  }
  return nullptr;
}

}  // namespace zh::coll
