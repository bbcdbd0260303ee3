// See nonblocking_staged.h.
#include "coll/team/nonblocking_staged.h"

#include <utility>

#include "base/crash_point.h"
#include "base/invariant.h"

namespace zh::coll {

// After a death somebody may still look at the area.
NonblockingStaged::~NonblockingStaged() {
  if (area_ != kNoOffset && !broken_) pool_.give_staging(area_);
  leave();
}

void NonblockingStaged::begin(NonblockingCall* call) {
  call->staged = {};
  add(call);
}

bool NonblockingStaged::advance(NonblockingCall* call) {
  if (call->ended || front() != call || try_step(call)) return call->ended;
  if (!look_for_deaths()) return false;
  // What the dead had finished is there.
  if (!try_step(call)) fail(call, Code::kPeerDead);
  return call->ended;
}

bool NonblockingStaged::try_step(NonblockingCall* call) {
  if (!is_open()) return false;
  if (call->staged.step == 0) return contribute(call);
  const bool is_last = call->staged.step == call->staged.steps;
  if (!all_did(seq_of(call), is_last ? kAllSteps : call->staged.step)) return false;
  if (is_last) {
    if (call->reduces()) services_.count_staged(call->pieces * call->bytes);
    before_ = seq_of(call);
    pool_.give_staging(std::exchange(area_, kNoOffset));
    remove(call);
    return true;
  }
  if (call->staged.step == 1 && !agree(call)) {
    call->unserved = true;
    before_ = seq_of(call);
    tell(call, kAllSteps);
    remove(call);
    return true;
  }
  take_step(call);
  ++call->staged.step;
  tell(call, call->staged.step == call->staged.steps ? kAllSteps : call->staged.step);
  return true;
}

// A call that others have given up is none of those that all take part in: they have read nothing of it.
bool NonblockingStaged::contribute(NonblockingCall* call) {
  if (before_ != 0 && !all_did(before_, kAllSteps)) return false;
  const bool is_able = call->able && plan(call);
  if (is_able && area_ == kNoOffset) area_ = pool_.take_staging();
  StagedBlockShm& mine = block(self_);
  mine.digest = call->digest;
  mine.bytes = call->bytes;
  mine.area = is_able ? area_ : kNoOffset;
  ZH_CRASH_POINT("staged: contributed");
  if (mine.area != kNoOffset) take_step(call);
  call->staged.step = 1;
  tell(call, 1);
  return true;
}

// One that is past a call's number has done it if this member has done its own steps, and else takes no part in it.
bool NonblockingStaged::all_did(uint64_t seq, uint64_t steps) const {
  for (uint32_t i = 0; i < size_; ++i) {
    if (i == self_) continue;
    const uint64_t stage = block(i).stage.load_acquire();  // SG1 <- SG0: what it put, and its last reads
    const bool is_past = stage >> kStageBits > seq;
    if (is_past ? steps != kAllSteps : stage < (seq << kStageBits | steps)) return false;
  }
  return true;
}

bool NonblockingStaged::agree(const NonblockingCall* call) const {
  for (uint32_t i = 0; i < size_; ++i) {
    const StagedBlockShm& theirs = block(i);
    if (theirs.digest != call->digest || theirs.bytes != call->bytes || theirs.area == kNoOffset) return false;
  }
  return true;
}

void NonblockingStaged::tell(NonblockingCall* call, uint64_t steps) {
  ZH_CRASH_POINT("staged: step taken");
  block(self_).stage.store_release(seq_of(call) << kStageBits | steps);  // SG0 -> SG1: what it put, and its reads
  ZH_CRASH_POINT("staged: step told");
  ZH_CHECK_INVARIANT(block(self_).broken_invariant(context()));
  wake_sleepers();
}

// The area of a call that was given up stays here for the next one, as nobody has come to read it; after a death
// somebody may.
void NonblockingStaged::fail(NonblockingCall* call, Code code) {
  broken_ = broken_ || code == Code::kPeerDead;
  call->code = code;
  remove(call);
}

}  // namespace zh::coll
