// The v- and w-variants: nobody but a piece's two ends knows its size, so each member says with its contribution
// whether that is on its control block or in its memory, and where every other member's piece begins.
#include <algorithm>

#include "coll/team/team_state.h"

namespace zh::coll {

// A piece for each. Publishes them behind a table.
Code Team::State::list_offer_table(const Pieces& send) {
  ContributionShm* mine = nullptr;
  if (const Code code = own_slot(&mine); code != Code::kOk) return code;
  const uint64_t table_bytes = size * sizeof(PieceShm);
  uint64_t total = 0;
  bool plain = true;
  uintptr_t low = UINTPTR_MAX;
  uintptr_t high = 0;
  for (uint32_t i = 0; i < size; ++i) {
    const copy::Buffer piece = send[i];
    if (i == self || piece.bytes == 0) continue;
    total += piece.bytes;
    plain = plain && piece.layout == nullptr;
    low = std::min(low, reinterpret_cast<uintptr_t>(piece.base));
    high = std::max(high, reinterpret_cast<uintptr_t>(piece.base) + piece.bytes);
  }
  const bool fits = table_bytes + total <= facts.small();
  if (const Code code = claim_ring(fits ? table_bytes + total : table_bytes, mine); code != Code::kOk) return code;
  std::byte* const start = rings_of[self] + mine->ring_at;
  auto* table = reinterpret_cast<PieceShm*>(start);
  std::byte* room = nullptr;
  if (fits) {
    mine->way = ContributionWay::kRingTable;
    room = start;
  } else {
    mine->way = ContributionWay::kMemoryTable;
    if (!plain) room = packed.get(total);
    if (!plain && room == nullptr) return decline();
  }
  uint64_t next = fits ? table_bytes : 0;
  for (uint32_t i = 0; i < size; ++i) {
    const copy::Buffer piece = send[i];
    table[i] = {0, i == self ? 0 : piece.bytes};
    if (table[i].bytes == 0) continue;
    if (room != nullptr) {
      gather_bytes(room + next, piece, piece.bytes);
      table[i].from = next;
      next += piece.bytes;
    } else {
      table[i].from = reinterpret_cast<uintptr_t>(piece.base) - low;
    }
  }
  if (mine->way == ContributionWay::kMemoryTable) {
    offered_source = room != nullptr ? room : reinterpret_cast<const std::byte*>(low);
    offered_target = nullptr;
    const uint64_t span = room != nullptr ? total : high - low;
    services.memory().describe(offered_source, span, total, copy::Direction::kRead, room != nullptr, &mine->source);
    offer_edges(mine);
  }
  publish();
  return Code::kOk;
}

Code Team::State::list_take_piece(uint32_t member, const copy::Buffer& recv) {
  if (const Code code = await(member); code != Code::kOk) return code;
  const ContributionShm& theirs = slot(member);
  if (theirs.way != ContributionWay::kRingTable && theirs.way != ContributionWay::kMemoryTable) {
    fail(Code::kInvalid);
    return Code::kOk;
  }
  const PieceShm piece = reinterpret_cast<const PieceShm*>(contents(member))[self];
  const uint64_t n = fit(piece.bytes, recv.bytes);
  if (n == 0) return Code::kOk;
  if (theirs.way == ContributionWay::kMemoryTable) {
    return throttled(member, theirs.source, [&] { return read_into(member, piece.from, n, recv); });
  }
  scatter_bytes(recv, contents(member) + piece.from, n);
  return Code::kOk;
}

Code Team::State::list_gather(const copy::Buffer& send, const Pieces& recv, uint32_t root) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (self != root) {
    const Code code = give(send, send.bytes <= facts.small());
    return code == Code::kOk ? end_given() : code;
  }
  copy_own(recv[self], send);
  for (uint32_t i = 0; i < size; ++i) {
    if (i == self) continue;
    if (const Code code = take(i, recv[i], 0, 1); code != Code::kOk) return code;
  }
  all_arrived();
  end();
  return Code::kOk;
}

Code Team::State::list_scatter(const Pieces& send, const copy::Buffer& recv, uint32_t root) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (self != root) {
    const Code code = list_take_piece(root, recv);
    if (code == Code::kOk) end();
    return code;
  }
  if (const Code code = list_offer_table(send); code != Code::kOk) return code;
  copy_own(recv, send[self]);
  return end_given();
}

Code Team::State::list_alltoall(const Pieces& send, const Pieces& recv) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (const Code code = list_offer_table(send); code != Code::kOk) return code;
  copy_own(recv[self], send[self]);
  return take_from_others([&](uint32_t i) { return list_take_piece(i, recv[i]); });
}

}  // namespace zh::coll
