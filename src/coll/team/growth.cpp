// Control blocks begin small, so that many communicators get one. A team that goes on being used grows: before
// collective kGrowAt each member makes a larger block, if there is memory to spare, and kFirstSlots collectives later
// all of them look whether all have one. They do so at the same number, and have seen the same words by then, so they
// agree without a message.
#include <algorithm>

#include "coll/team/team_state.h"

namespace zh::coll {

void Team::State::use(uint32_t member, ContributionShm* slots, std::byte* ring, std::byte* result) {
  slots_of[member] = slots;
  rings_of[member] = ring;
  if (member == 0) result_room = result;
}

// Who waits here has done all before, so nobody waits for it. What was contributed before lies where it was, for those
// that still read it.
Code Team::State::grow() {
  if (seq == kGrowAt) {
    Offset larger = control(self).larger.load_relaxed();
    if (larger == kNoOffset) larger = pool.make_larger();
    if (larger != kNoOffset) at<LargerBlockShm>(services.base(), larger)->reset();
    // The end of this collective publishes it.
    control(self).larger.store_relaxed(larger);
  }
  if (seq != kGrowAt + kFirstSlots) return Code::kOk;
  growth_is_over = true;
  if (const Code code = await_past(kGrowAt); code != Code::kOk) return code;
  for (uint32_t i = 0; i < size; ++i) {
    if (control(i).larger.load_relaxed() == kNoOffset) return Code::kOk;
  }
  for (uint32_t i = 0; i < size; ++i) {
    auto* larger = at<LargerBlockShm>(services.base(), control(i).larger.load_relaxed());
    use(i, larger->slots, larger->ring, larger->result);
  }
  facts.grown = true;
  slot_mask = kSlots - 1;
  ring_blocks = kRingBytes / kBlockBytes;
  next_block = 0;
  std::fill(std::begin(block_users), std::end(block_users), 0);
  return Code::kOk;
}

}  // namespace zh::coll
