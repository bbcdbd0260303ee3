// The steps of staged collectives: what a member puts into its area in a round, combines and takes. In step s it puts
// round s, combines or takes the pieces of round s - 1 and takes the results of round s - 2, when all have ended step
// s - 1: what is read was written one step ago, and its half of the area is written again one step later.
#include <algorithm>
#include <cstring>

#include "base/crash_point.h"
#include "coll/team/fold.h"
#include "coll/team/nonblocking_staged.h"
#include "copy/kernels.h"

namespace zh::coll {

namespace {
constexpr uint64_t kHalf = kStagingBytes / 2;
}  // namespace

bool NonblockingStaged::plan(NonblockingCall* call) {
  const uint64_t e = call->reduces() ? call->how.element_bytes : 1;
  call->staged.room = kHalf / places_of(call) / kLineBytes * kLineBytes;
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

NonblockingStaged::Piece NonblockingStaged::slice_of(const NonblockingCall* call, uint64_t round,
                                                     uint32_t slice) const {
  const uint64_t total = call->pieces * call->bytes;
  const uint64_t first = std::min(total, slice * call->staged.slice);
  const uint64_t end = std::min(total, first + call->staged.slice);
  const uint64_t from = first + round * call->staged.piece_now;
  return {from, from < end ? std::min(call->staged.piece_now, end - from) : 0};
}

NonblockingStaged::Piece NonblockingStaged::piece_of(const NonblockingCall* call, uint64_t round) {
  const uint64_t from = round * call->staged.piece_now;
  return {from, from < call->bytes ? std::min(call->staged.piece_now, call->bytes - from) : 0};
}

std::byte* NonblockingStaged::room_of(const NonblockingCall* call, uint64_t round, uint32_t member,
                                      uint32_t place) const {
  return at<std::byte>(services_.base(), block(member).area) + round % 2 * kHalf + place * call->staged.room;
}

void NonblockingStaged::take_step(NonblockingCall* call) {
  const uint64_t step = call->staged.step;
  if (step < call->staged.rounds) put_round(call, step);
  ZH_CRASH_POINT("staged: put");
  if (!call->reduces()) {
    if (step >= 1) take_pieces(call, step - 1);
    return;
  }
  const bool takes_results = call->pieces == 1 && call->first != call->end;
  if (step >= 2 && takes_results) take_results(call, step - 2);
  if (step >= 1 && step <= call->staged.rounds) combine_round(call, step - 1);
}

void NonblockingStaged::put_round(const NonblockingCall* call, uint64_t round) {
  const auto* const in = static_cast<const std::byte*>(call->give);
  if (!call->gives) return;
  if (places_of(call) == 1) {
    const Piece p = piece_of(call, round);
    copy::copy_bytes(room_of(call, round, self_, 0), in + p.from, p.bytes, store_of(p.bytes));
    return;
  }
  for (uint32_t k = 1; k < size_; ++k) {
    const uint32_t i = after_self(k);
    // Members' pieces are slices of what is given, whether they are combined or not.
    const Piece p = slice_of(call, round, i);
    if (p.bytes != 0) copy::copy_bytes(room_of(call, round, self_, i), in + p.from, p.bytes, store_of(p.bytes));
  }
}

void NonblockingStaged::take_pieces(const NonblockingCall* call, uint64_t round) {
  const Piece p = piece_of(call, round);
  for (uint32_t k = 0; k < size_; ++k) {
    const uint32_t i = after_self(k);
    if (i < call->first || i >= call->end) continue;
    std::byte* const out = static_cast<std::byte*>(call->out) + (i - call->first) * call->bytes + p.from;
    const auto* const own = static_cast<const std::byte*>(call->give) + call->piece * call->bytes + p.from;
    if (i == self_ && own == out) continue;
    const std::byte* const from = i == self_ ? own : room_of(call, round, i, call->piece);
    copy::copy_bytes(out, from, p.bytes, copy::Store::kTemporal);
  }
}

void NonblockingStaged::combine_round(const NonblockingCall* call, uint64_t round) {
  const Piece p = slice_of(call, round, self_);
  if (p.bytes == 0) return;
  const auto* const in = static_cast<const std::byte*>(call->give);
  const bool is_vector = call->pieces == 1;
  auto* const out = is_vector && call->first == call->end ? nullptr : static_cast<std::byte*>(call->out);
  // In place, an input must last until it has been combined.
  const bool straight = out != nullptr && out != in;
  std::byte* acc = accumulator_.get(call->staged.piece_now);
  if (straight) acc = out + (is_vector ? p.from : round * call->staged.piece_now);
  fold_by_kernel(0, size_ - 1, p.bytes, acc, call->how,
                 [&](uint32_t i) { return i == self_ ? in + p.from : room_of(call, round, i, self_); });
  if (!is_vector) return;
  copy::copy_bytes(room_of(call, round, self_, self_), acc, p.bytes, store_of(p.bytes));
  if (out != nullptr && !straight) copy::copy_bytes(out + p.from, acc, p.bytes, copy::Store::kTemporal);
}

void NonblockingStaged::take_results(const NonblockingCall* call, uint64_t round) {
  for (uint32_t k = 1; k < size_; ++k) {
    const uint32_t i = after_self(k);
    const Piece p = slice_of(call, round, i);
    std::byte* const out = static_cast<std::byte*>(call->out) + p.from;
    if (p.bytes != 0) copy::copy_bytes(out, room_of(call, round, i, i), p.bytes, copy::Store::kTemporal);
  }
}

}  // namespace zh::coll
