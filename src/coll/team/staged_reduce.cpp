// Reductions of large inputs that are not all mapped: contributions and results go through staging areas in shared
// memory, piece by piece, so that nothing passes through the kernel. Each member combines one slice of all inputs, in
// rank order, and reads its own piece where it lies. (The partition of DPML, SC'17, inside one node. Accumulating in
// turn into one shared vector, as YHCCL does, SC'23, copies less in and gives up the rank order.)
#include <algorithm>

#include "coll/team/team_state.h"

namespace zh::coll {

namespace {
/// Of the staging area: a piece for every member, twice, since members are at most one step apart.
constexpr uint32_t kHalves = 2;
}  // namespace

// Where members share no cache, what each pushes past its own is there sooner than what the others fetch out of it.
bool Team::State::stages(uint32_t first, uint32_t last) const {
  uint32_t apart = 0;
  for (uint32_t i = 0; i < size; ++i) {
    if (!slot(i).source.mapped()) return true;
    if (first <= i && i < last && !slot(i).target.mapped()) return true;
    apart += slot(i).apart;
  }
  return 2 * apart > size;
}

Team::State::Piece Team::State::piece_of(const StagedReduce& call, uint64_t round, uint32_t slice) const {
  const uint64_t from = slices[slice] + round * call.piece;
  const uint64_t end_of_slice = slices[slice + 1];
  return {from, from < end_of_slice ? std::min(call.piece, end_of_slice - from) : 0};
}

std::byte* Team::State::room_of(const StagedReduce& call, uint64_t round, uint32_t member, uint32_t slice) const {
  std::byte* const area = at<std::byte>(services.base(), slot(member).staging);
  return area + ((round % kHalves) * size + slice) * call.room;
}

void Team::State::stage_round(const StagedReduce& call, uint64_t round) {
  for (uint32_t k = 1; k < size; ++k) {
    const uint32_t i = after_self(k);
    const Piece p = piece_of(call, round, i);
    if (p.bytes != 0) {
      copy::copy_bytes(room_of(call, round, self, i), call.in + p.from, p.bytes, store_of(p.bytes));
    }
  }
}

void Team::State::combine_round(const StagedReduce& call, uint64_t round) {
  const Piece p = piece_of(call, round, self);
  if (p.bytes == 0) return;
  // In place, an input must last until it has been combined.
  const bool straight = call.out != nullptr && call.out != call.in;
  std::byte* acc = chunk.get(call.piece);
  if (call.slice_out != nullptr) acc = call.slice_out + (p.from - slices[self]);
  if (straight) acc = call.out + p.from;
  fold(0, size - 1, p.bytes, acc, call.how,
       [&](uint32_t i) { return i == self ? call.in + p.from : room_of(call, round, i, self); });
  if (call.slice_out != nullptr) return;
  copy::copy_bytes(room_of(call, round, self, self), acc, p.bytes, store_of(p.bytes));
  if (call.out != nullptr && !straight) copy::copy_bytes(call.out + p.from, acc, p.bytes, copy::Store::kTemporal);
}

void Team::State::take_round(const StagedReduce& call, uint64_t round) {
  for (uint32_t k = 1; k < size; ++k) {
    const uint32_t i = after_self(k);
    const Piece p = piece_of(call, round, i);
    if (p.bytes != 0) copy::copy_bytes(call.out + p.from, room_of(call, round, i, i), p.bytes, copy::Store::kTemporal);
  }
}

// In step s every member stages round s of its input, takes the results of round s - 2 and combines round s - 1 of its
// slice. It begins when all have ended step s - 1: what is read was written one step ago, and its half of the area is
// written again one step later.
Code Team::State::staged_reduce(StagedReduce call, bool* served) {
  *served = false;
  const uint64_t e = call.how.element_bytes;
  call.room = kStagingBytes / (kHalves * size) / kLineBytes * kLineBytes;
  call.piece = call.room / e * e;
  if (call.piece == 0) return Code::kOk;
  uint64_t longest = 0;
  for (uint32_t i = 0; i < size; ++i) longest = std::max(longest, slices[i + 1] - slices[i]);
  call.rounds = (longest + call.piece - 1) / call.piece;

  const Offset area = chunk.get(call.piece) != nullptr ? pool.take_staging() : kNoOffset;
  slot(self).staging = area;
  const uint64_t steps = call.rounds + (call.slice_out == nullptr ? 2 : 1);
  bool everyone = true;
  for (uint64_t step = 0; step < steps; ++step) {
    for (uint32_t k = 1; k < size && step != 0; ++k) {
      if (const Code code = await_step(after_self(k), step); code != Code::kOk) return code;
    }
    if (step == 1) {
      for (uint32_t i = 0; i < size; ++i) everyone = everyone && slot(i).staging != kNoOffset;
      if (!everyone) break;
    }
    if (step < call.rounds && area != kNoOffset) stage_round(call, step);
    if (step >= 2 && call.out != nullptr) take_round(call, step - 2);
    if (step >= 1 && step <= call.rounds) combine_round(call, step - 1);
    ZH_CRASH_POINT("team: step of a staged reduction");
    reach_step(step + 1);
  }
  if (!everyone) {  // nobody looks into any area
    if (area != kNoOffset) pool.give_staging(area);
    return Code::kOk;
  }
  *served = true;
  services.count_staged(slices[size]);
  end();
  const Code code = await_done();
  if (code == Code::kOk) pool.give_staging(area);
  return code;
}

}  // namespace zh::coll
