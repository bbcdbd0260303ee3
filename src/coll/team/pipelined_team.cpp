// See pipelined_team.h.
#include "coll/team/pipelined_team.h"

#include <utility>

#include "base/crash_point.h"
#include "base/invariant.h"

namespace zh::coll {

// After a death somebody may still look at the area.
PipelinedTeam::~PipelinedTeam() {
  if (area_ != kNoOffset && !broken_) pool_.give_staging(area_);
  leave();
}

void PipelinedTeam::begin(NodeCall* call) {
  call->pipelined = {};
  add(call);
}

bool PipelinedTeam::advance(NodeCall* call) {
  if (call->ended || front() != call || try_step(call)) return call->ended;
  if (!look_for_deaths()) return false;
  // What the dead had finished is there.
  if (!try_step(call)) fail(call, Code::kPeerDead);
  return call->ended;
}

bool PipelinedTeam::try_step(NodeCall* call) {
  if (!is_open()) return false;
  if (call->pipelined.step == 0) return contribute(call);
  const bool is_last = call->pipelined.step == call->pipelined.steps;
  if (!all_did(seq_of(call), is_last ? kAllSteps : call->pipelined.step)) return false;
  if (is_last) {
    if (call->reduces()) services_.count_staged(call->pieces * call->bytes);
    before_ = seq_of(call);
    pool_.give_staging(std::exchange(area_, kNoOffset));
    remove(call);
    return true;
  }
  if (call->pipelined.step == 1 && !agree(call)) {
    call->unserved = true;
    before_ = seq_of(call);
    tell(call, kAllSteps);
    remove(call);
    return true;
  }
  take_step(call);
  ++call->pipelined.step;
  tell(call, call->pipelined.step == call->pipelined.steps ? kAllSteps : call->pipelined.step);
  return true;
}

// A call that others have given up is none of those that all take part in: they have read nothing of it.
bool PipelinedTeam::contribute(NodeCall* call) {
  if (before_ != 0 && !all_did(before_, kAllSteps)) return false;
  const bool is_able = call->able && plan(call);
  if (is_able && area_ == kNoOffset) area_ = pool_.take_staging();
  PipelinedBlockShm& mine = block(self_);
  mine.digest = call->digest;
  mine.bytes = call->bytes;
  mine.area = is_able ? area_ : kNoOffset;
  ZH_CRASH_POINT("staged: contributed");
  if (mine.area != kNoOffset) take_step(call);
  call->pipelined.step = 1;
  tell(call, 1);
  return true;
}

// One that is past a call's number has done it if this member has done its own steps, and else takes no part in it.
bool PipelinedTeam::all_did(uint64_t seq, uint64_t steps) const {
  for (uint32_t i = 0; i < size_; ++i) {
    if (i == self_) continue;
    const uint64_t stage = block(i).stage.load_acquire();  // SG1 <- SG0: what it put, and its last reads
    const bool is_past = stage >> kStageBits > seq;
    if (is_past ? steps != kAllSteps : stage < (seq << kStageBits | steps)) return false;
  }
  return true;
}

bool PipelinedTeam::agree(const NodeCall* call) const {
  for (uint32_t i = 0; i < size_; ++i) {
    const PipelinedBlockShm& theirs = block(i);
    if (theirs.digest != call->digest || theirs.bytes != call->bytes || theirs.area == kNoOffset) return false;
  }
  return true;
}

void PipelinedTeam::tell(NodeCall* call, uint64_t steps) {
  ZH_CRASH_POINT("staged: step taken");
  block(self_).stage.store_release(seq_of(call) << kStageBits | steps);  // SG0 -> SG1: what it put, and its reads
  ZH_CRASH_POINT("staged: step told");
  ZH_CHECK_INVARIANT(block(self_).broken_invariant(context()));
  wake_sleepers();
}

// The area of a call that was given up stays here for the next one, as nobody has come to read it; after a death
// somebody may.
void PipelinedTeam::fail(NodeCall* call, Code code) {
  broken_ = broken_ || code == Code::kPeerDead;
  call->code = code;
  remove(call);
}

}  // namespace zh::coll
