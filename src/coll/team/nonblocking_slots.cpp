// See nonblocking_slots.h.
#include "coll/team/nonblocking_slots.h"

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

void NonblockingSlots::begin(NonblockingCall* call) {
  call->slots = {};
  call->slots.next = call->first;
  const uint64_t seq = seq_of(call);
  if (call->gives) call->slots.before = std::exchange(latest_in_slot_[seq % kNonblockingSlots], seq);
  add(call);
}

bool NonblockingSlots::advance(NonblockingCall* call) {
  bool dead = false;
  while (!call->ended && !try_to_end(call)) {
    if (dead) {  // what the dead had finished was there
      fail(call, Code::kPeerDead);
    } else if (dead = look_for_deaths(); !dead) {
      return false;
    }
  }
  return true;
}

const Atomic<uint64_t>* NonblockingSlots::awaited(const NonblockingCall* call) const {
  const bool gave = is_open() && (!call->gives || call->slots.published);
  return gave && call->slots.next < call->end ? &slot(call->slots.next, seq_of(call)).seq : nullptr;
}

inline bool NonblockingSlots::try_to_end(NonblockingCall* call) {
  if (!is_open() || (call->gives && !publish(call))) return false;
  const uint64_t seq = seq_of(call);
  const uint64_t bytes = call->pieces * call->bytes;
  for (uint32_t next = call->slots.next; next < call->end; call->slots.next = ++next) {
    const CallSlotShm& theirs = slot(next, seq);
    if (theirs.seq.load_acquire() != seq) return false;  // SS1 <- SS0: the member's contribution
    if (theirs.bytes != bytes) call->slots.alike = false;
  }
  ask_for_next(call);
  take(call);
  end(call);
  return true;
}

// Members that only give run ahead, so what comes next may be there already. Where it is not, this member still has the
// line from the slot's last use, and asks for nothing.
void NonblockingSlots::ask_for_next(const NonblockingCall* call) const {
  if (call->end - call->first > kMostAsked) return;
  for (uint32_t i = call->first; i < call->end; ++i) {
    __builtin_prefetch(&block(i).slots[(seq_of(call) + 1) % kNonblockingSlots]);
  }
}

inline bool NonblockingSlots::publish(NonblockingCall* call) {
  if (call->slots.published) return true;
  if (!is_done(call->slots.before)) return false;
  const uint64_t seq = seq_of(call);
  CallSlotShm& mine = slot(self_, seq);
  mine.bytes = call->pieces * call->bytes;
  if (mine.bytes != 0) std::memcpy(mine.payload, call->give, mine.bytes);
  ZH_CRASH_POINT("started: contributed");
  ZH_CHECK_INVARIANT(mine.broken_invariant());
  mine.seq.store_release(seq);  // SS0 -> SS1: the contribution
  ZH_CRASH_POINT("started: published");
  ZH_CHECK_INVARIANT(block(self_).broken_invariant(context()));
  call->slots.published = true;
  wake_sleepers();
  return true;
}

// This member reads its own slot as the others do, and may have a call for it that has given nothing yet.
bool NonblockingSlots::is_done(uint64_t seq) {
  if (seq <= safe_) return true;
  uint64_t least = done();
  for (uint32_t i = 0; i < size_; ++i) {
    // SD1 <- SD0: the member's reads of what is written next.
    if (i != self_) least = std::min(least, block(i).done.load_acquire());
  }
  safe_ = least;
  return seq <= safe_;
}

inline void NonblockingSlots::take(NonblockingCall* call) {
  if (call->first == call->end) return;
  if (call->reduces()) {
    combine_pieces(call);
  } else {
    copy_pieces(call);
  }
}

// Pieces are of the length that their giver takes them for.
void NonblockingSlots::copy_pieces(NonblockingCall* call) {
  auto* out = static_cast<std::byte*>(call->out);
  const uint64_t seq = seq_of(call);
  for (uint32_t i = call->first; i < call->end; ++i, out += call->bytes) {
    const CallSlotShm& theirs = slot(i, seq);
    const uint64_t piece_bytes = theirs.bytes / call->pieces;
    const uint64_t n = std::min(piece_bytes, call->bytes);
    if (n != 0) std::memcpy(out, theirs.payload + call->piece * piece_bytes, n);
    if (piece_bytes > call->bytes) call->code = Code::kTruncated;
    if (piece_bytes < call->bytes && call->exact && call->code == Code::kOk) call->code = Code::kInvalid;
  }
}

void NonblockingSlots::combine_pieces(NonblockingCall* call) {
  const uint64_t seq = seq_of(call);
  if (!call->slots.alike) return tell_lengths(call);
  fold_by_kernel(call->first, call->end - 1, call->bytes, static_cast<std::byte*>(call->out), call->how,
                 [&](uint32_t i) { return slot(i, seq).payload + call->piece * call->bytes; });
}

// Those of a reduction differ.
void NonblockingSlots::tell_lengths(NonblockingCall* call) const {
  const uint64_t bytes = call->pieces * call->bytes;
  for (uint32_t i = call->first; i < call->end && call->code == Code::kOk; ++i) {
    const uint64_t theirs = slot(i, seq_of(call)).bytes;
    if (theirs != bytes) call->code = theirs > bytes ? Code::kTruncated : Code::kInvalid;
  }
}

void NonblockingSlots::fail(NonblockingCall* call, Code code) {
  call->code = code;
  end(call);
}

void NonblockingSlots::end(NonblockingCall* call) {
  ZH_CRASH_POINT("started: not yet done");
  remove(call);
}

}  // namespace zh::coll
