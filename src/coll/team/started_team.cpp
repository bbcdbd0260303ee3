// See started_team.h.
#include "coll/team/started_team.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/crash_point.h"
#include "base/invariant.h"
#include "coll/team/fold.h"

namespace zh::coll {

namespace {
/// Members whose next contributions are asked for ahead: a cache's open misses.
constexpr uint32_t kMostAsked = 8;
}  // namespace

StartedTeam::StartedTeam(Services& services, ControlBlockPool& pool, uint64_t context, std::vector<uint32_t> members,
                         uint32_t self)
    : services_(services),
      pool_(pool),
      context_(context),
      members_(services, std::move(members), self),
      size_(members_.size()),
      self_(self) {}

// A block that others may look at, and not know that this member is gone, is never used again.
StartedTeam::~StartedTeam() {
  if (!blocks_.empty() && under_way_.empty()) pool_.started().give(context_, done_, own_, std::move(offsets_));
}

Offset StartedTeam::take_block() {
  own_ = pool_.started().take(context_);
  return own_;
}

void StartedTeam::open(std::vector<Offset> blocks) {
  offsets_ = std::move(blocks);
  for (const Offset offset : offsets_) blocks_.push_back(at<StartedBlockShm>(services_.base(), offset));
  tell_done();
}

void StartedTeam::give_up() {
  if (own_ != kNoOffset) pool_.started().give(context_, 0, own_, {});
  own_ = kNoOffset;
}

void StartedTeam::begin(StartedCall* call) {
  call->published = false;
  call->ended = false;
  call->next = call->first;
  call->code = Code::kOk;
  latest_ = seq_of(call);
  under_way_.push_back(latest_);
  if (call->gives) call->before = std::exchange(latest_in_slot_[latest_ % kStartedSlots], latest_);
  // Where calls between were none of these, or none of this member's, others may wait to hear that it is past them.
  tell_done();
}

bool StartedTeam::advance(StartedCall* call) {
  if (call->ended || try_to_end(call)) return true;
  if (!look_for_deaths()) return false;
  // What the dead had finished is there.
  if (!try_to_end(call)) fail(call, Code::kPeerDead);
  return true;
}

const Atomic<uint64_t>* StartedTeam::awaited(const StartedCall* call) const {
  const bool gave = !blocks_.empty() && (!call->gives || call->published);
  return gave && call->next < call->end ? &slot(call->next, call).seq : nullptr;
}

bool StartedTeam::try_to_end(StartedCall* call) {
  if (blocks_.empty() || (call->gives && !publish(call))) return false;
  for (; call->next < call->end; ++call->next) {
    // SS1 <- SS0: the member's contribution.
    if (slot(call->next, call).seq.load_acquire() != seq_of(call)) return false;
  }
  ask_for_next(call);
  take(call);
  end(call);
  return true;
}

// Members that only give run ahead, so what comes next may be there already. Where it is not, this member still has the
// line from the slot's last use, and asks for nothing.
void StartedTeam::ask_for_next(const StartedCall* call) const {
  if (call->end - call->first > kMostAsked) return;
  for (uint32_t i = call->first; i < call->end; ++i) {
    __builtin_prefetch(&blocks_[i]->slots[(seq_of(call) + 1) % kStartedSlots]);
  }
}

bool StartedTeam::publish(StartedCall* call) {
  if (call->published) return true;
  if (!is_done(call->before)) return false;
  StartedSlotShm& mine = slot(self_, call);
  mine.bytes = call->pieces * call->bytes;
  if (mine.bytes != 0) std::memcpy(mine.payload, call->give, mine.bytes);
  ZH_CRASH_POINT("started: contributed");
  ZH_CHECK_INVARIANT(mine.broken_invariant());
  mine.seq.store_release(seq_of(call));  // SS0 -> SS1: the contribution
  ZH_CRASH_POINT("started: published");
  ZH_CHECK_INVARIANT(block(self_).broken_invariant(context_));
  call->published = true;
  members_.wake_sleepers();
  return true;
}

// This member reads its own slot as the others do, and may have a call for it that has given nothing yet.
bool StartedTeam::is_done(uint64_t seq) {
  if (seq <= safe_) return true;
  uint64_t least = done_;
  for (uint32_t i = 0; i < size_; ++i) {
    // SD1 <- SD0: the member's reads of what is written next.
    if (i != self_) least = std::min(least, block(i).done.load_acquire());
  }
  safe_ = least;
  return seq <= safe_;
}

void StartedTeam::take(StartedCall* call) {
  if (call->first == call->end) return;
  if (call->how.kernel != nullptr) {
    combine_pieces(call);
  } else {
    copy_pieces(call);
  }
}

// Pieces are of the length that their giver takes them for.
void StartedTeam::copy_pieces(StartedCall* call) {
  auto* out = static_cast<std::byte*>(call->out);
  for (uint32_t i = call->first; i < call->end; ++i, out += call->bytes) {
    const StartedSlotShm& theirs = slot(i, call);
    const uint64_t piece_bytes = theirs.bytes / call->pieces;
    const uint64_t n = std::min(piece_bytes, call->bytes);
    if (n != 0) std::memcpy(out, theirs.payload + call->piece * piece_bytes, n);
    if (piece_bytes > call->bytes) call->code = Code::kTruncated;
    if (piece_bytes < call->bytes && call->exact && call->code == Code::kOk) call->code = Code::kInvalid;
  }
}

void StartedTeam::combine_pieces(StartedCall* call) {
  const uint64_t bytes = call->pieces * call->bytes;
  for (uint32_t i = call->first; i < call->end && call->code == Code::kOk; ++i) {
    const uint64_t theirs = slot(i, call).bytes;
    if (theirs != bytes) call->code = theirs > bytes ? Code::kTruncated : Code::kInvalid;
  }
  if (call->code != Code::kOk) return;
  fold_by_kernel(call->first, call->end - 1, call->bytes, static_cast<std::byte*>(call->out), call->how,
                 [&](uint32_t i) { return slot(i, call).payload + call->piece * call->bytes; });
}

void StartedTeam::fail(StartedCall* call, Code code) {
  call->code = code;
  end(call);
}

void StartedTeam::end(StartedCall* call) {
  ZH_CRASH_POINT("started: not yet done");
  call->ended = true;
  under_way_.erase(std::find(under_way_.begin(), under_way_.end(), seq_of(call)));
  tell_done();
}

void StartedTeam::tell_done() {
  const uint64_t done = under_way_.empty() ? latest_ : under_way_.front() - 1;
  if (done == done_ || blocks_.empty()) return;
  done_ = done;
  block(self_).done.store_release(done);  // SD0 -> SD1: this member's last reads
  ZH_CHECK_INVARIANT(block(self_).broken_invariant(context_));
  members_.wake_sleepers();
}

}  // namespace zh::coll
