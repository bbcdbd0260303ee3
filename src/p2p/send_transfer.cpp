// The sender's end of a transfer.
#include <algorithm>

#include "base/crash_point.h"
#include "copy/kernels.h"
#include "p2p/rendezvous.h"
#include "p2p/skew.h"

namespace zh::p2p {

// Cells are faster than to stand in for a peer that comes back at once.
bool Rendezvous::gone(const Channel& peer) const { return peer.in_host() || channels_.long_away(peer); }

copy::Reach Rendezvous::can_push(const Request* r, const TransferShm& t) const {
  if (r->direct_broken || t.receiver == channels_.self()) return copy::Reach::kNone;
  const copy::Reach reach = memory_.reach(t.receiver, t.target);
  const Direct copiers = t.copiers();
  const bool mine = copiers == Direct::kBoth || copiers == Direct::kSender || copiers == Direct::kWaiter;
  const Channel& peer = channels_[uint32_t{t.receiver}];
  // Where it is the receiver's it comes to that by itself, but in a call of the host.
  const bool stands_in = t.whole() ? peer.in_host() : copiers == Direct::kCells ? gone(peer) : channels_.away(peer);
  return mine || stands_in ? reach : copy::Reach::kNone;
}

// Writes claimed bytes into the receiver's buffer. If that ends early the rest goes through cells, as do the edges of a
// mapped buffer, first, so that the receiver takes them while this end copies on.
void Rendezvous::push(Request* r, TransferShm& t, uint64_t from, uint64_t n, copy::Reach reach) {
  const uint64_t end = from + n;
  const uint64_t fits = std::min(end, std::max(from, t.target.bytes));  // [from, fits) has room there
  uint64_t first = from;  // the next byte to be written; none behind `last`
  uint64_t last = fits;
  Counters& counters = channels_.counters();
  if (reach == copy::Reach::kMapped) {
    first = std::clamp(t.target.from(), from, fits);
    last = std::clamp(t.target.end(), first, fits);
    r->carry[0] = {from, first - from};
    r->carry[1] = {last, fits - last};
    counters.edge_bytes += r->carry_bytes();
    if (r->carry_bytes() != 0) put_carry(r, t, true);
  }
  const uint64_t written = memory_.copy_out(t.receiver, t.target, first, last - first, r->buffer, &reach);
  const uint64_t at_byte = first + written;
  if (reach == copy::Reach::kMapped) {
    r->path = Path::kMapped;
  } else if (first != last) {
    r->path = kernel_path(t.receiver);
  }
  // What the receiver's buffer has no room for counts as moved.
  const uint64_t moved = written + (end - fits);
  counters.bytes_by_sender += written;
  r->finished += moved;
  r->moved_direct += moved;
  ZH_CRASH_POINT("push: copied");
  // W0 -> W1: the receiver's bytes have been written.
  t.pushed.store_release(t.pushed.load_relaxed() + moved);
  if (at_byte == last) return;
  ++counters.push_failed;
  r->direct_broken = true;
  if (r->carry[0].bytes == 0) {
    r->carry[0] = {at_byte, last - at_byte};
  } else {  // then the second one was not begun, and follows
    r->carry[1] = {at_byte, last - at_byte + r->carry[1].bytes};
  }
}

bool Rendezvous::room_for_cell(Channel& peer, const TransferShm& t, uint64_t n, bool matched, shm::BlockShm* block) {
  // V0 -> V1: the receiver has emptied the cell that this one replaces.
  if (t.published.load_relaxed() - t.consumed.load_acquire() >= t.window) return false;
  return channels_.claim_block(peer, n, block, matched);
}

// Puts what must go through cells into one. False if there is no room for it now.
bool Rendezvous::put_carry(Request* r, TransferShm& t, bool matched) {
  Channel& peer = channels_[uint32_t{t.receiver}];
  uint64_t left = std::min<uint64_t>(peer.choice.chunk_cells, r->carry_bytes());
  shm::BlockShm block;
  if (!room_for_cell(peer, t, left, matched, &block)) return false;
  SpanShm spans[2];
  for (uint32_t i = 0; i < 2; ++i) {
    const uint64_t n = std::min(left, r->carry[i].bytes);
    spans[i] = {r->carry[i].from, n};
    r->carry[i] = {r->carry[i].from + n, r->carry[i].bytes - n};
    left -= n;
  }
  ZH_CRASH_POINT("cell: claimed");
  put_cell(r, t, spans, block);
  return true;
}

void Rendezvous::put_cell(Request* r, TransferShm& t, const SpanShm (&spans)[2], const shm::BlockShm& block) {
  const tune::PairChoice& choice = channels_[r->peer].choice;
  const copy::Store store =
      r->message_bytes >= choice.nontemporal_min ? copy::Store::kNonTemporal : copy::Store::kTemporal;
  std::byte* room = channels_.base() + block.payload;
  for (const SpanShm& span : spans) {
    if (span.bytes == 0) continue;
    copy::pack(r->buffer, span.from, span.bytes, room, store);
    room += span.bytes;
    r->finished += span.bytes;
  }
  const uint32_t published = t.published.load_relaxed();
  t.cells[published % t.window] = {{spans[0], spans[1]}, block};
  ZH_CRASH_POINT("cell: filled");
  // P1 -> P0: the cell and its payload.
  t.published.store_release(published + 1);
  channels_.show_presence();
  ZH_CHECK_INVARIANT(t.broken_invariant());
}

Rendezvous::Detour Rendezvous::detour_of(Request* r, TransferShm& t, bool matched) {
  // What this end has to carry itself goes first.
  if (r->carry_bytes() == 0) t.take_back(&r->carry[0]);
  if (t.returned.load_relaxed() == static_cast<uint32_t>(Returned::kTaken)) return Detour::kReturned;
  const auto dest = static_cast<uint32_t>(r->peer);
  if (t.offered() == Direct::kCells || matched || dest == channels_.self()) return Detour::kNone;
  const Channel& peer = channels_[dest];
  const EndpointConfig& config = channels_.config();
  const bool lags =
      config.skew != 0 && r->message_bytes <= kSkewBytesMax && peer.part->state.skewed.load_relaxed() != 0;
  return lags ? Detour::kLag : Detour::kNone;
}

bool Rendezvous::advance_send(Request* r, bool begins) {
  TransferShm& t = transfer_of(r);
  const bool matched = t.load_state() != TransferState::kOffered;  // T0 -> T1
  SendTurn turn{r, t, channels_[r->peer], matched, detour_of(r, t, matched), begins};
  bool moved = false;
  for (Step step = send_step(turn); step != Step::kNothing; step = send_step(turn)) {
    if (step == Step::kAgain) continue;
    moved = true;
    // The receive may have come meanwhile, with a buffer that can be written directly.
    if (!turn.matched) turn.matched = t.load_state() != TransferState::kOffered;  // T0 -> T1
  }
  if (moved) Channels::wake(turn.peer);
  note_unpullable(r, t);
  if (!is_sent(turn)) return moved;
  // The target of a send that went through cells before its receive came is not known.
  if (turn.matched && memory_.revoked(t.receiver, t.target)) ++channels_.counters().revoked;
  finish_send(r);
  return true;
}

Rendezvous::Step Rendezvous::send_step(SendTurn& turn) {
  Request* const r = turn.request;
  TransferShm& t = turn.t;
  if (r->carry_bytes() != 0) return put_carry(r, t, turn.matched) ? Step::kMoved : Step::kNothing;
  if (t.claim.left(t.source.end()) == 0) return Step::kNothing;
  const copy::Reach reach = turn.matched ? can_push(r, t) : copy::Reach::kNone;
  return reach != copy::Reach::kNone ? push_step(turn, reach) : cell_step(turn);
}

Rendezvous::Step Rendezvous::push_step(SendTurn& turn, copy::Reach reach) {
  TransferShm& t = turn.t;
  if (turn.begins) return Step::kNothing;
  const shm::Access access = memory_.announce(t.receiver, t.target, reach);
  if (!access.granted()) return Step::kAgain;
  uint64_t from = 0;
  const uint64_t n = t.claim.claim(chunk_of(t, turn.peer.choice), t.source.end(), &from);
  if (n == 0) return Step::kNothing;
  ZH_CRASH_POINT("push: claimed");
  push(turn.request, t, from, n, reach);
  return Step::kMoved;
}

Rendezvous::Step Rendezvous::cell_step(SendTurn& turn) {
  Request* const r = turn.request;
  TransferShm& t = turn.t;
  const Direct copiers = turn.matched ? t.copiers() : t.offered();
  // Also what this end alone should copy and cannot.
  const bool cells = copiers == Direct::kCells || (copiers == Direct::kSender && turn.matched && t.target.reachable());
  if (!cells && turn.detour == Detour::kNone && !r->direct_broken) return Step::kNothing;
  if (turn.begins && r->finished >= kCellsAtStart) return Step::kNothing;
  const uint64_t want = std::min<uint64_t>(turn.peer.choice.chunk_cells, r->message_bytes);
  shm::BlockShm block;
  if (!room_for_cell(turn.peer, t, want, turn.matched, &block)) return Step::kNothing;
  uint64_t from = 0;
  const uint64_t n = t.claim.claim(want, t.source.end(), &from);
  if (n == 0) {
    channels_.undo_block();
    return Step::kNothing;
  }
  ZH_CRASH_POINT("cell: claimed");
  put_cell(r, t, {{from, n}, {}}, block);
  if (turn.detour == Detour::kLag) ++channels_.counters().skew_detours;
  return Step::kMoved;
}

bool Rendezvous::is_sent(const SendTurn& turn) const {
  const Request* const r = turn.request;
  const TransferShm& t = turn.t;
  return r->carry_bytes() == 0 && t.returned.load_relaxed() != static_cast<uint32_t>(Returned::kAsked) &&
         (turn.matched || r->mode != SendMode::kSynchronous) &&
         // U1 -> U0: the receiver has read its share.
         r->finished + t.pulled.load_acquire() == r->message_bytes;
}

bool Rendezvous::advance_sends() {
  bool moved = !parked_.empty() && look_at_parked();
  sends_.for_each([&](Request* r) { moved = advance_send(r) || moved; });
  return moved;
}

}  // namespace zh::p2p
