// Reductions of large inputs: each member combines one slice of all inputs where they lie, in rank order, and writes
// the result straight into every output that wants it. No copy of an input is made, and no second pass over the
// results.
#include <algorithm>

#include "coll/team/team_state.h"

namespace zh::coll {

namespace {
constexpr uint64_t kBroken = UINT32_MAX;  // steps of a scan that does not happen

bool overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a);
  const auto y = reinterpret_cast<uintptr_t>(b);
  return x < y + b_bytes && y < x + a_bytes;
}
}  // namespace

// From the right: the accumulator is the second operand of each member before.
Code Team::State::fold_members(const std::byte* in, uint64_t from, uint64_t n, std::byte* acc, const Reduction& how) {
  const uint64_t count = n / how.element_bytes;
  const std::byte* const mine = in + from;
  const uint32_t last = size - 1;
  uint32_t next = last;  // members from here on are combined
  const std::byte* right = acc;
  if (self == last) {
    right = mine;
  } else if (self == last - 1 && how.kernel != nullptr) {
    if (const Code code = combine(Theirs::kRight, last, from, n, mine, acc, how); code != Code::kOk) return code;
    next = last - 1;
  } else if (const Code code = read(last, from, n, acc); code != Code::kOk) {
    return code;
  }
  while (next-- > 0) {
    if (next == self) {
      if (how.kernel != nullptr) {
        how.kernel(mine, right, acc, count);
      } else {
        std::byte* const left = incoming.get(n);
        if (left == nullptr) return Code::kNoMemory;
        std::memcpy(left, mine, n);
        how.user(how.context, left, acc, count);
      }
    } else if (const Code code = combine(Theirs::kLeft, next, from, n, right, acc, how); code != Code::kOk) {
      return code;
    }
    right = acc;
  }
  return Code::kOk;
}

// Asked for before anything is offered: others count on a member that has offered its memory.
bool Team::State::has_room(uint64_t bytes) { return chunk.get(bytes) != nullptr && incoming.get(bytes) != nullptr; }

// Every member has seen all lengths, so that those of large inputs do this alike, and nobody looks into any memory.
Code Team::State::give_up_together(bool to_all) {
  const Code code = to_all ? leave_allreduce() : Code::kOk;
  end();
  return code;
}

Code Team::State::single_copy_reduce(const void* in, void* out, uint64_t count, const Reduction& how, uint32_t root,
                                     bool to_all) {
  if (const Code code = begin(); code != Code::kOk) return code;
  const uint64_t e = how.element_bytes;
  const bool receives = to_all || self == root;
  const uint64_t per_chunk = std::max<uint64_t>(1, kChunkBytes / e);
  if (!has_room(per_chunk * e)) return decline(to_all);
  if (const Code code = offer(in, count * e, receives ? out : nullptr, count * e); code != Code::kOk) return code;
  if (const Code code = await_all(); code != Code::kOk) return code;
  if (!agree(0, size - 1, count * e)) [[unlikely]]
    return give_up_together(to_all);
  const uint64_t unit = std::max<uint64_t>(1, kLineBytes / e);  // two slices of an aligned buffer share no line
  const uint64_t slice = round_up((count + size - 1) / size, unit);
  for (uint32_t i = 0; i <= size; ++i) slices[i] = std::min(count, i * slice) * e;
  const StagingOrder order = !to_all           ? StagingOrder::kFree
                             : how.commutative ? staging_order
                                               : std::min(staging_order, StagingOrder::kParallel);
  if (order != StagingOrder::kFree || stages(to_all ? 0 : root, to_all ? size : root + 1)) {
    bool served = false;
    auto* const all = receives ? static_cast<std::byte*>(out) : nullptr;
    const Code code = staged_reduce(static_cast<const std::byte*>(in), all, nullptr, how, order, &served);
    if (served || code != Code::kOk) return code;
  }
  const uint64_t first = slices[self] / e;
  const uint64_t end_of_slice = slices[self + 1] / e;
  std::byte* const room = chunk.get(per_chunk * e);
  auto* const output = static_cast<std::byte*>(out);
  // In place, an input must last until it has been combined; of two members' only one operand is this one's.
  const bool straight = receives && (in != out || (size == 2 && how.kernel != nullptr));
  for (uint64_t element = first; element < end_of_slice; element += per_chunk) {
    const uint64_t n = std::min(per_chunk, end_of_slice - element) * e;
    const uint64_t from = element * e;
    std::byte* const acc = straight ? output + from : room;
    if (const Code code = fold_members(static_cast<const std::byte*>(in), from, n, acc, how); code != Code::kOk) {
      return code;
    }
    if (receives && !straight) copy::copy_bytes(output + from, room, n, copy::Store::kTemporal);
    ZH_CRASH_POINT("team: slice combined");
    for (uint32_t k = 1; k < size; ++k) {
      const uint32_t i = after_self(k);
      if (!to_all && i != root) continue;
      if (const Code code = write(i, from, n, acc); code != Code::kOk) return code;
    }
  }
  end();
  if (const Code code = await_done(); code != Code::kOk) return code;
  if (receives) {
    take_edges(0, slices[self]);
    take_edges(slices[self + 1], slices[size] - slices[self + 1]);
  }
  return Code::kOk;
}

Code Team::State::single_copy_reduce_scatter(const void* in, void* out, const uint64_t* counts, const Reduction& how) {
  if (const Code code = begin(); code != Code::kOk) return code;
  const uint64_t e = how.element_bytes;
  for (uint32_t i = 0; i < size; ++i) slices[i + 1] = slices[i] + counts[i] * e;
  const uint64_t total = slices[size];
  const uint64_t bytes = counts[self] * e;
  // Members have to agree on every slice, not only on their sum.
  uint64_t digest = 0;
  for (uint32_t i = 0; i < size; ++i) digest += slices[i + 1];
  const uint64_t per_chunk = std::max<uint64_t>(1, kChunkBytes / e) * e;
  const bool in_place = overlap(in, total, out, bytes);
  std::byte* const result = in_place ? prefix.get(bytes + 1) : static_cast<std::byte*>(out);
  if ((result == nullptr && bytes != 0) || !has_room(per_chunk)) return decline();
  if (const Code code = offer(in, total, nullptr, 0, digest, digest); code != Code::kOk) return code;
  if (const Code code = await_all(); code != Code::kOk) return code;
  if (!agree(0, size - 1, digest)) [[unlikely]]
    return give_up_together(false);
  bool served = false;
  Code code = Code::kOk;
  if (stages(0, 0))
    code = staged_reduce(static_cast<const std::byte*>(in), nullptr, result, how, StagingOrder::kFree, &served);
  if (!served && code == Code::kOk) {
    for (uint64_t at_byte = 0; at_byte < bytes && code == Code::kOk; at_byte += per_chunk) {
      const uint64_t n = std::min(per_chunk, bytes - at_byte);
      code = fold_members(static_cast<const std::byte*>(in), slices[self] + at_byte, n, result + at_byte, how);
    }
    if (code != Code::kOk) return code;
    end();
    code = await_done();
  }
  if (in_place && bytes != 0 && code == Code::kOk) std::memcpy(out, result, bytes);
  prefix.shrink();
  return code;
}

// The next member waits for steps, and learns there that none will come; before the first one, as everyone does who
// gives up.
Code Team::State::break_chain() {
  fail(Code::kInvalid);
  reach_step(kBroken);
  end();
  return Code::kOk;
}

// A chain, chunk by chunk: each member adds its input to what the one before has so far.
Code Team::State::single_copy_scan(const void* in, void* out, uint64_t count, const Reduction& how, bool exclusive) {
  if (const Code code = begin(); code != Code::kOk) return code;
  const uint64_t e = how.element_bytes;
  const uint64_t bytes = count * e;
  std::byte* const sums = exclusive ? prefix.get(bytes) : static_cast<std::byte*>(out);
  const uint64_t per_chunk = std::max<uint64_t>(1, kChunkBytes / e) * e;
  std::byte* const left = chunk.get(per_chunk);
  if (sums == nullptr || left == nullptr) return decline();
  if (sums != in) std::memcpy(sums, in, bytes);
  if (const Code code = offer(sums, bytes, nullptr, 0); code != Code::kOk) return code;
  if (self != 0) {
    if (const Code code = await(self - 1); code != Code::kOk) return code;
    if (!agree(self - 1, self - 1, bytes)) [[unlikely]]
      return break_chain();
  }
  uint64_t step = 0;
  for (uint64_t from = 0; from < bytes; from += per_chunk) {
    const uint64_t n = std::min(per_chunk, bytes - from);
    ++step;
    if (self != 0) {
      if (const Code code = await_step(self - 1, step); code != Code::kOk) return code;
      if (slot(self - 1).stage.load_relaxed() == stage_of(kBroken)) [[unlikely]]
        return break_chain();
      if (const Code code = read(self - 1, from, n, left); code != Code::kOk) return code;
      if (exclusive) std::memcpy(static_cast<std::byte*>(out) + from, left, n);
      how.combine(left, sums + from, n / e);
      renew_edges(from, n);
    }
    reach_step(step);
  }
  end();
  const Code code = await_done();
  prefix.shrink();
  return code;
}

}  // namespace zh::coll
