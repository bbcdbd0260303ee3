// See staged_team.h.
#include "coll/team/staged_team.h"

#include <utility>

#include "base/crash_point.h"
#include "base/invariant.h"

namespace zh::coll {

StagedTeam::StagedTeam(Services& services, ControlBlockPool& pool, uint64_t context, std::vector<uint32_t> members,
                       uint32_t self)
    : services_(services),
      pool_(pool),
      context_(context),
      members_(services, std::move(members), self),
      size_(members_.size()),
      self_(self) {}

// A block that others may look at, and not know that this member is gone, is never used again. The same holds for an
// area.
StagedTeam::~StagedTeam() {
  if (area_ != kNoOffset && !broken_) pool_.give_staging(area_);
  if (!blocks_.empty() && under_way_.empty()) pool_.staged().give(context_, done_, own_, std::move(offsets_));
}

Offset StagedTeam::take_block() {
  own_ = pool_.staged().take(context_);
  return own_;
}

void StagedTeam::open(std::vector<Offset> blocks) {
  offsets_ = std::move(blocks);
  for (const Offset offset : offsets_) blocks_.push_back(at<StagedBlockShm>(services_.base(), offset));
  tell_done();
}

void StagedTeam::give_up() {
  if (own_ != kNoOffset) pool_.staged().give(context_, 0, own_, {});
  own_ = kNoOffset;
}

void StagedTeam::begin(StagedCall* call) {
  call->ended = false;
  call->unserved = false;
  call->code = Code::kOk;
  call->step = 0;
  latest_ = seq_of(call);
  under_way_.push_back(call);
  tell_done();
}

bool StagedTeam::advance(StagedCall* call) {
  if (call->ended || under_way_.front() != call || try_step(call)) return call->ended;
  if (!look_for_deaths()) return false;
  // What the dead had finished is there.
  if (!try_step(call)) fail(call, Code::kPeerDead);
  return call->ended;
}

bool StagedTeam::try_step(StagedCall* call) {
  if (blocks_.empty()) return false;
  if (call->step == 0) return contribute(call);
  const bool is_last = call->step == call->steps;
  if (!all_did(seq_of(call), is_last ? kAllSteps : call->step)) return false;
  if (is_last) {
    if (call->reduces()) services_.count_staged(call->pieces * call->bytes);
    before_ = seq_of(call);
    pool_.give_staging(std::exchange(area_, kNoOffset));
    end(call);
    return true;
  }
  if (call->step == 1 && !agree(call)) {
    call->unserved = true;
    before_ = seq_of(call);
    tell(call, kAllSteps);
    end(call);
    return true;
  }
  take_step(call);
  ++call->step;
  tell(call, call->step == call->steps ? kAllSteps : call->step);
  return true;
}

// A call that others have given up is none of those that all take part in: they have read nothing of it.
bool StagedTeam::contribute(StagedCall* call) {
  if (before_ != 0 && !all_did(before_, kAllSteps)) return false;
  const bool is_able = call->able && plan(call);
  if (is_able && area_ == kNoOffset) area_ = pool_.take_staging();
  StagedBlockShm& mine = block(self_);
  mine.digest = call->digest;
  mine.bytes = call->bytes;
  mine.area = is_able ? area_ : kNoOffset;
  ZH_CRASH_POINT("staged: contributed");
  if (mine.area != kNoOffset) take_step(call);
  call->step = 1;
  tell(call, 1);
  return true;
}

// One that is past a call's number has done it if this member has done its own steps, and else takes no part in it.
bool StagedTeam::all_did(uint64_t seq, uint64_t steps) const {
  for (uint32_t i = 0; i < size_; ++i) {
    if (i == self_) continue;
    const uint64_t stage = block(i).stage.load_acquire();  // SG1 <- SG0: what it put, and its last reads
    const bool is_past = stage >> kStageBits > seq;
    if (is_past ? steps != kAllSteps : stage < (seq << kStageBits | steps)) return false;
  }
  return true;
}

bool StagedTeam::agree(const StagedCall* call) const {
  for (uint32_t i = 0; i < size_; ++i) {
    const StagedBlockShm& theirs = block(i);
    if (theirs.digest != call->digest || theirs.bytes != call->bytes || theirs.area == kNoOffset) return false;
  }
  return true;
}

void StagedTeam::tell(StagedCall* call, uint64_t steps) {
  ZH_CRASH_POINT("staged: step taken");
  block(self_).stage.store_release(seq_of(call) << kStageBits | steps);  // SG0 -> SG1: what it put, and its reads
  ZH_CRASH_POINT("staged: step told");
  ZH_CHECK_INVARIANT(block(self_).broken_invariant(context_));
  members_.wake_sleepers();
}

// The area of a call that was given up stays here for the next one, as nobody has come to read it; after a death
// somebody may.
void StagedTeam::fail(StagedCall* call, Code code) {
  broken_ = broken_ || code == Code::kPeerDead;
  call->code = code;
  end(call);
}

void StagedTeam::end(StagedCall* call) {
  call->ended = true;
  std::erase(under_way_, call);
  tell_done();
}

void StagedTeam::tell_done() {
  const uint64_t done = under_way_.empty() ? latest_ : seq_of(under_way_.front()) - 1;
  if (done == done_ || blocks_.empty()) return;
  done_ = done;
  block(self_).done.store_release(done);  // SE0 -> SE1: this member's last reads
}

}  // namespace zh::coll
