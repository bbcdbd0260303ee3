// See nonblocking_staged.h.
#include "coll/team/nonblocking_staged.h"

#include <algorithm>
#include <utility>

#include "base/crash_point.h"
#include "base/invariant.h"
#include "coll/team/fold.h"
#include "coll/team/staged_slices.h"

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

// --- The steps (staged_slices.h). What is not combined is taken one step after it was put.

bool NonblockingStaged::plan(NonblockingCall* call) {
  const uint64_t e = call->reduces() ? call->how.element_bytes : 1;
  call->staged.room = kStagingHalf / places_of(call) / kLineBytes * kLineBytes;
  call->staged.piece_now = call->staged.room / e * e;
  if (call->staged.piece_now == 0) return false;
  uint64_t longest = call->bytes;
  if (call->reduces() && call->pieces == 1) {
    // The first slice is none shorter than others.
    const uint64_t count = call->bytes / e;
    const uint64_t unit = std::max<uint64_t>(1, kLineBytes / e);  // two slices of an aligned buffer share no line
    call->staged.slice = round_up((count + size_ - 1) / size_, unit) * e;
    longest = std::min(call->staged.slice, call->bytes);
  } else {
    call->staged.slice = call->bytes;
  }
  call->staged.rounds = static_cast<uint32_t>((longest + call->staged.piece_now - 1) / call->staged.piece_now);
  call->staged.steps = call->staged.rounds + (call->reduces() && call->pieces == 1 ? 2 : 1);
  // The result for this member would go over operands that others' slices still need.
  if (call->reduces() && call->pieces > 1 && call->out == call->give) return false;
  streamed_ = streamed_from_most(services_, ranks_, self_);
  return !call->reduces() || accumulator_.get(call->staged.piece_now) != nullptr;
}

auto NonblockingStaged::slices_of(const NonblockingCall* call) const {
  const uint64_t total = call->pieces * call->bytes;
  return StagedSlices{
      size_,
      self_,
      call->staged.room,
      call->staged.piece_now,
      streamed_,
      [total, slice = call->staged.slice](uint32_t i) { return std::min(total, i * slice); },
      [this](uint32_t i) { return at<std::byte>(services_.base(), block(i).area); },
  };
}

void NonblockingStaged::take_step(NonblockingCall* call) {
  const uint64_t step = call->staged.step;
  if (step < call->staged.rounds && call->gives) {
    const auto* const in = static_cast<const std::byte*>(call->give);
    if (places_of(call) == 1) {
      slices_of(call).put(step, 0, in);
    } else {
      slices_of(call).put_for_others(step, in);
    }
  }
  ZH_CRASH_POINT("staged: put");
  if (!call->reduces()) {
    if (step >= 1) take_pieces(call, step - 1);
    return;
  }
  const bool takes_results = call->pieces == 1 && call->first != call->end;
  if (step >= 2 && takes_results) slices_of(call).take(step - 2, static_cast<std::byte*>(call->out));
  if (step >= 1 && step <= call->staged.rounds) combine(call, step - 1);
}

void NonblockingStaged::take_pieces(const NonblockingCall* call, uint64_t round) {
  const auto slices = slices_of(call);
  const auto p = slices.piece_of(round, call->piece);
  if (p.bytes == 0) return;
  const uint64_t before = call->piece * call->bytes;  // bytes of other pieces
  for (uint32_t k = 0; k < size_; ++k) {
    const uint32_t i = after_self(k);
    if (i < call->first || i >= call->end) continue;
    std::byte* const out = static_cast<std::byte*>(call->out) + (i - call->first) * call->bytes + p.from - before;
    const auto* const own = static_cast<const std::byte*>(call->give) + p.from;
    if (i == self_ && own == out) continue;
    const std::byte* const from = i == self_ ? own : slices.room_of(round, i, call->piece);
    copy::copy_bytes(out, from, p.bytes, copy::Store::kTemporal);
  }
}

void NonblockingStaged::combine(const NonblockingCall* call, uint64_t round) {
  auto* const out = static_cast<std::byte*>(call->out);
  const bool is_vector = call->pieces == 1;
  const bool takes = is_vector && call->first != call->end;
  slices_of(call).combine(
      round, static_cast<const std::byte*>(call->give), takes ? out : nullptr, is_vector ? nullptr : out,
      accumulator_.get(call->staged.piece_now),
      [&](uint64_t n, std::byte* to, const auto& operand) { fold_by_kernel(0, size_ - 1, n, to, call->how, operand); });
}

}  // namespace zh::coll
