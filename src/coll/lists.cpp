// The v- and w-variants: nobody but a piece's two ends knows its size, so each member says with its contribution
// whether that is on its board or in its memory, and where every other member's piece begins.
#include <algorithm>

#include "coll/team_state.h"

namespace zh::coll {

// One piece for all. Publishes it.
Code Team::State::list_offer(const copy::Buffer& send) {
  if (send.bytes > kSmallBytes) {
    const std::byte* const source = contiguous(send);
    return source == nullptr ? Code::kNoMemory : offer(source, send.bytes, nullptr, 0);
  }
  if (const Code code = contribute(send, false); code != Code::kOk) return code;
  publish();
  return Code::kOk;
}

Code Team::State::list_take(uint32_t member, const copy::Buffer& recv) {
  if (const Code code = await(member); code != Code::kOk) return code;
  const SlotShm& theirs = slot(member);
  if (theirs.way == Way::kMemory) return read_into(member, 0, std::min(recv.bytes, theirs.source.bytes), recv);
  scatter_bytes(recv, contents(member), std::min<uint64_t>(recv.bytes, theirs.bytes));
  return Code::kOk;
}

// A piece for each. Publishes them behind a table.
Code Team::State::list_offer_table(const Pieces& send) {
  SlotShm* mine = nullptr;
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
  const bool small = table_bytes + total <= kSmallBytes;
  if (const Code code = claim_ring(small ? table_bytes + total : table_bytes, mine); code != Code::kOk) return code;
  std::byte* const start = board(self).ring + mine->ring_at;
  auto* table = reinterpret_cast<PieceShm*>(start);
  std::byte* room = nullptr;
  if (small) {
    mine->way = Way::kRingTable;
    room = start;
  } else {
    mine->way = Way::kMemoryTable;
    if (!plain) room = packed.get(total);
    if (!plain && room == nullptr) return Code::kNoMemory;
  }
  uint64_t next = small ? table_bytes : 0;
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
  if (mine->way == Way::kMemoryTable) {
    offered_source = room != nullptr ? room : reinterpret_cast<const std::byte*>(low);
    offered_target = nullptr;
    services.describe(offered_source, room != nullptr ? total : high - low, room != nullptr, &mine->source);
    offer_edges(mine);
  }
  publish();
  return Code::kOk;
}

Code Team::State::list_take_piece(uint32_t member, const copy::Buffer& recv) {
  if (const Code code = await(member); code != Code::kOk) return code;
  const SlotShm& theirs = slot(member);
  const PieceShm piece = reinterpret_cast<const PieceShm*>(contents(member))[self];
  const uint64_t n = std::min(piece.bytes, recv.bytes);
  if (n == 0) return Code::kOk;
  if (theirs.way == Way::kMemoryTable) {
    return throttled(member, theirs.source, [&] { return read_into(member, piece.from, n, recv); });
  }
  scatter_bytes(recv, contents(member) + piece.from, n);
  return Code::kOk;
}

// Ends the collective; a member whose memory is read stays until that is over.
Code Team::State::list_end(bool offered) {
  const Way way = slot(self).way;
  end();
  if (!offered || (way != Way::kMemory && way != Way::kMemoryTable)) return Code::kOk;
  const Code code = await_done();
  packed.shrink();
  return code;
}

Code Team::State::list_gather(const copy::Buffer& send, const Pieces& recv, uint32_t root) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (self != root) {
    const Code code = list_offer(send);
    return code == Code::kOk ? list_end(true) : code;
  }
  copy_own(recv[self], send);
  for (uint32_t i = 0; i < size; ++i) {
    if (i == self) continue;
    if (const Code code = list_take(i, recv[i]); code != Code::kOk) return code;
  }
  all_arrived();
  return list_end(false);
}

Code Team::State::list_scatter(const Pieces& send, const copy::Buffer& recv, uint32_t root) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (self != root) {
    const Code code = list_take_piece(root, recv);
    return code == Code::kOk ? list_end(false) : code;
  }
  if (const Code code = list_offer_table(send); code != Code::kOk) return code;
  copy_own(recv, send[self]);
  return list_end(true);
}

Code Team::State::list_allgather(const copy::Buffer& send, const Pieces& recv) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (const Code code = list_offer(send); code != Code::kOk) return code;
  copy_own(recv[self], send);
  for (uint32_t k = 1; k < size; ++k) {
    const uint32_t i = after_self(k);
    if (const Code code = list_take(i, recv[i]); code != Code::kOk) return code;
  }
  all_arrived();
  return list_end(true);
}

Code Team::State::list_alltoall(const Pieces& send, const Pieces& recv) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (const Code code = list_offer_table(send); code != Code::kOk) return code;
  copy_own(recv[self], send[self]);
  for (uint32_t k = 1; k < size; ++k) {
    const uint32_t i = after_self(k);
    if (const Code code = list_take_piece(i, recv[i]); code != Code::kOk) return code;
  }
  all_arrived();
  return list_end(true);
}

}  // namespace zh::coll
