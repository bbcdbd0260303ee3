// Collectives of small contributions: each member writes its own into its control block, once, and reads the others'
// there. Payload lies beside its flag; no lock, no message. (Flat algorithms as MPICH's release_gather and XHC use
// them, and the collectives paper's single-reducer.)
#include <algorithm>

#include "coll/team/team_state.h"

namespace zh::coll {

namespace {
/// From this many members on one of them, the last to arrive, combines for all: everybody reading every control block
/// costs more lines than one more hand-over.
constexpr uint32_t kCountedMembers = std::min(5U, kGroupedMembers);
}  // namespace

Code Team::State::claim_ring(uint64_t bytes, ContributionShm* mine) {
  const auto blocks = static_cast<uint32_t>(std::max<uint64_t>(1, (bytes + kBlockBytes - 1) / kBlockBytes));
  if (next_block + blocks > ring_blocks) next_block = 0;
  mine->ring_at = next_block * kBlockBytes;
  uint32_t latest = block_users[next_block];
  for (uint32_t i = 0; i < blocks; ++i) {
    uint32_t& user = block_users[next_block++];
    if (static_cast<int32_t>(user - latest) > 0) latest = user;
    user = seq;
  }
  return await_past(latest);
}

Code Team::State::claim(uint64_t bytes, bool aligned, std::byte** room) {
  ContributionShm* mine = nullptr;
  if (const Code code = own_slot(&mine); code != Code::kOk) return code;
  mine->bytes = bytes;
  if (bytes <= kInlineBytes && !aligned) {
    mine->way = ContributionWay::kInline;
    *room = mine->payload;
    return Code::kOk;
  }
  mine->way = ContributionWay::kRing;
  const Code code = claim_ring(bytes, mine);
  *room = rings_of[self] + mine->ring_at;
  return code;
}

Code Team::State::contribute(const copy::Buffer& data, bool aligned) {
  std::byte* room = nullptr;
  const Code code = claim(data.bytes, aligned, &room);
  if (code == Code::kOk) gather_bytes(room, data, data.bytes, store_of(data.bytes));
  return code;
}

namespace {
copy::Buffer bytes_at(const void* p, uint64_t n) { return {static_cast<std::byte*>(const_cast<void*>(p)), n, nullptr}; }
}  // namespace

Code Team::State::small_barrier() {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (in_groups()) return grouped_allreduce(nullptr, nullptr, 0, Reduction{});
  if (size >= kCountedMembers || facts.crowded) return counted_allreduce(nullptr, nullptr, 0, Reduction{});
  if (const Code code = contribute({}, false); code != Code::kOk) return code;
  publish();
  if (const Code code = await_few(); code != Code::kOk) return code;
  end();
  return Code::kOk;
}

Code Team::State::small_reduce(const void* in, void* out, uint64_t bytes, const Reduction& how, uint32_t root) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (const Code code = contribute(bytes_at(in, bytes), how.kernel == nullptr); code != Code::kOk) return code;
  const bool by_groups = size >= kRelayedMembers && groups_are_blocks && in_blocks(bytes, how);
  if (by_groups) {
    if (const Code code = give_to_leader(bytes, how, root); code != Code::kOk) return code;
  }
  publish();
  if (self == root) {
    if (const Code code = by_groups ? await_groups() : await_all(); code != Code::kOk) return code;
    auto* const result = static_cast<std::byte*>(out);
    if (by_groups) {
      fold_groups(bytes, how, result);
    } else if (agree(0, size - 1, bytes)) {
      fold_slots(0, size - 1, 0, bytes, result, how);
    }
  }
  end();
  return Code::kOk;
}

Code Team::State::small_allreduce(const void* in, void* out, uint64_t bytes, const Reduction& how) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (counts()) return in_groups() ? grouped_allreduce(in, out, bytes, how) : counted_allreduce(in, out, bytes, how);
  if (const Code code = contribute(bytes_at(in, bytes), how.kernel == nullptr); code != Code::kOk) return code;
  publish();
  if (const Code code = await_few(); code != Code::kOk) return code;
  if (agree(0, size - 1, bytes)) fold_slots(0, size - 1, 0, bytes, static_cast<std::byte*>(out), how);
  end();
  return Code::kOk;
}

bool Team::State::counts() const { return size >= kCountedMembers || (facts.crowded && size > 2); }

// Members have to agree on who counts: all of them arrive here, or all agree to reduce what is large.
// Who has left without looking for the result may be ahead of members that have not arrived: arrivals must not mix.
Code Team::State::arrive(bool* last) {
  if (left_early) {
    const Code code = wait([&] { return control(0).result.seq.load_acquire() == left_at; }, kNobody);  // CR1 <- CR0
    if (code != Code::kOk) return code;
    left_early = false;
  }
  counted += size;
  // C1 -> C1: every contribution before its arrival, and everybody's last reads of the result before.
  *last = control(0).arrivals.fetch_add_acq_rel(1) + 1 == counted;
  return Code::kOk;
}

Code Team::State::arrive_in_vain() {
  bool last = false;
  if (const Code code = arrive(&last); code != Code::kOk) return code;
  if (last) {
    ResultShm& result = control(0).result;
    result.what = ResultShm::What::kNone;
    result.seq.store_release(seq);  // CR0 -> CR1: that there is none
  }
  left_early = !last;
  left_at = seq;
  return Code::kOk;
}

// Everyone adds one to a counter; who finds that all others have done so combines, and the others wait for one flag.
Code Team::State::counted_allreduce(const void* in, void* out, uint64_t bytes, const Reduction& how) {
  const bool aligned = bytes != 0 && how.kernel == nullptr;
  if (const Code code = contribute(bytes_at(in, bytes), aligned); code != Code::kOk) return code;
  publish();
  ResultShm& result = control(0).result;
  std::byte* const room = room_of_result(bytes, aligned);
  const bool reduces = how.element_bytes != 0;
  bool last = false;
  if (const Code code = arrive(&last); code != Code::kOk) return code;
  if (last) {
    const bool well = !reduces || agree(0, size - 1, bytes);
    result.what = well ? ResultShm::What::kHere : ResultShm::What::kNone;
    if (bytes != 0 && well) fold_slots(0, size - 1, 0, bytes, room, how);
    ZH_CHECK_INVARIANT(result.broken_invariant());
    ZH_CRASH_POINT("team: last to arrive");
    result.seq.store_release(seq);  // CR0 -> CR1: the result
  } else {
    auto has_come = [&] { return result.seq.load_acquire() == seq; };  // CR1 <- CR0
    const Code code = wait(has_come, kWhoHasNotCome);
    if (code != Code::kOk) return code;
  }
  if (result.what != ResultShm::What::kHere) [[unlikely]] {
    agree(0, size - 1, bytes);
  } else if (bytes != 0) {
    copy::copy_bytes(out, room, bytes, copy::Store::kTemporal);
  }
  all_arrived();
  end();
  return Code::kOk;
}

Code Team::State::small_reduce_scatter(const void* in, void* out, const uint64_t* counts, uint64_t bytes,
                                       const Reduction& how) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (const Code code = contribute(bytes_at(in, bytes), how.kernel == nullptr); code != Code::kOk) return code;
  publish();
  if (const Code code = await_all(); code != Code::kOk) return code;
  uint64_t from = 0;
  for (uint32_t i = 0; i < self; ++i) from += counts[i] * how.element_bytes;
  if (agree(0, size - 1, bytes)) {
    fold_slots(0, size - 1, from, counts[self] * how.element_bytes, static_cast<std::byte*>(out), how);
  }
  end();
  return Code::kOk;
}

Code Team::State::small_scan(const void* in, void* out, uint64_t bytes, const Reduction& how, bool exclusive) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (const Code code = contribute(bytes_at(in, bytes), how.kernel == nullptr); code != Code::kOk) return code;
  publish();
  for (uint32_t i = 0; i < self; ++i) {
    if (const Code code = await(i); code != Code::kOk) return code;
  }
  const uint32_t operands = exclusive ? self : self + 1;
  if (agree(0, self, bytes) && operands != 0) {
    fold_slots(0, operands - 1, 0, bytes, static_cast<std::byte*>(out), how);
  }
  end();
  return Code::kOk;
}

}  // namespace zh::coll
