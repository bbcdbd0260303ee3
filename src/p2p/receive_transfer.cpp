// The receiver's end of a transfer.
#include <algorithm>

#include "base/crash_point.h"
#include "copy/kernels.h"
#include "p2p/rendezvous.h"

namespace zh::p2p {

copy::Reach Rendezvous::can_pull(const Request* r, const TransferShm& t) const {
  using copy::Reach;
  if (r->direct_broken) return Reach::kNone;
  const Reach reach = memory_.reach(t.sender, t.source);
  if (reach == Reach::kNone || reach == Reach::kSelf) return reach;
  // The sender copies one message at a time: what waits behind another one of its is this end's as well.
  const bool behind = r->prev != nullptr && r->prev->peer == r->peer;
  const Direct copiers = t.copiers();
  const bool mine =
      (copiers != Direct::kCells && copiers != Direct::kSender) || !t.target.reachable() || (behind && !t.whole());
  const bool offered = t.offered() != Direct::kCells || t.source.mapped();
  // A sender that came later is about to copy, and seems away meanwhile.
  const Channel& sender = channels_[uint32_t{t.sender}];
  const bool stands_in = t.whole() ? in_vain_ : copiers == Direct::kCells ? gone(sender) : channels_.away(sender);
  return (mine && offered) || stands_in ? reach : Reach::kNone;
}

// Reads claimed bytes [from, from + n) out of the sender's buffer. If that ends early the rest is the sender's again.
void Rendezvous::pull(Request* r, TransferShm& t, uint64_t from, uint64_t n, copy::Reach reach) {
  const uint64_t capacity = r->buffer.bytes;
  const uint64_t want = from < capacity ? std::min(n, capacity - from) : 0;
  const uint64_t done = memory_.copy_in(t.sender, t.source, from, want, r->buffer, &reach);
  const bool ok = done == want;
  const uint64_t moved = ok ? n : done;
  Counters& counters = channels_.counters();
  counters.bytes_by_receiver += done;
  r->finished += moved;
  r->moved_direct += moved;
  ZH_CRASH_POINT("pull: copied");
  // U0 -> U1: the sender's bytes have been read.
  t.pulled.store_release(t.pulled.load_relaxed() + moved);
  if (ok) return;
  ++counters.pull_failed;
  r->direct_broken = true;
  t.give_back(from + done, n - done);
}

bool Rendezvous::take_cells(Request* r, TransferShm& t) {
  const uint64_t capacity = r->buffer.bytes;
  const uint32_t least = channels_[uint32_t{t.sender}].choice.receive_nontemporal_min;
  const copy::Store store = r->message_bytes >= least ? copy::Store::kNonTemporal : copy::Store::kTemporal;
  bool moved = false;
  // P0 -> P1: the cell and its payload.
  while (r->cells_seen != t.published.load_acquire()) {
    const CellShm cell = t.cells[r->cells_seen % t.window];
    const std::byte* payload = channels_.base() + cell.block.payload;
    for (const SpanShm& span : cell.spans) {
      const uint64_t fits = span.from < capacity ? std::min(span.bytes, capacity - span.from) : 0;
      if (fits != 0) copy::unpack(r->buffer, span.from, fits, payload, store);
      payload += span.bytes;
      r->finished += span.bytes;
    }
    ZH_CRASH_POINT("cell: copied, not released");
    shm::release_block(channels_.base(), cell.block);
    ++r->cells_seen;
    // V1 -> V0: the cell is empty.
    t.consumed.store_release(r->cells_seen);
    channels_.show_presence();
    moved = true;
  }
  return moved;
}

Rendezvous::Step Rendezvous::pull_step(Request* r, TransferShm& t) {
  const copy::Reach reach = can_pull(r, t);
  const Direct copiers = t.copiers();
  const bool senders =
      copiers == Direct::kCells || (copiers == Direct::kSender && t.target.reachable() && !r->direct_broken);
  // Without a look at `claim`, which would take its line from the sender.
  if (reach == copy::Reach::kNone && senders) return Step::kNothing;
  if (t.claim.left(t.source.end()) == 0) return Step::kNothing;
  if (reach == copy::Reach::kNone) {
    // Offered for single copy, but there is no way to it: ask for cells.
    if (!t.has_returned()) t.give_back(0, 0);
    return Step::kNothing;
  }
  const shm::Access access = memory_.announce(t.sender, t.source, reach);
  if (!access.granted()) return Step::kAgain;
  uint64_t from = 0;
  const uint64_t n = t.claim.claim(chunk_of(t, channels_[uint32_t{t.sender}].choice), t.source.end(), &from);
  if (n == 0) return Step::kNothing;
  ZH_CRASH_POINT("pull: claimed");
  pull(r, t, from, n, reach);
  return Step::kMoved;
}

bool Rendezvous::advance_receive(Request* r) {
  TransferShm& t = transfer_of(r);
  bool moved = take_cells(r, t);
  for (Step step = pull_step(r, t); step != Step::kNothing; step = pull_step(r, t)) {
    moved = moved || step == Step::kMoved;
    if (r->direct_broken) break;
    moved = take_cells(r, t) || moved;
  }
  // W1 -> W0: what the sender wrote is visible.
  if (r->finished + t.pushed.load_acquire() != r->message_bytes) {
    if (moved) Channels::wake(channels_[uint32_t{t.sender}]);
    return moved;
  }
  finish_receive(r);
  return true;
}

bool Rendezvous::advance_receives() {
  bool moved = false;
  recvs_.for_each([&](Request* r) { moved = advance_receive(r) || moved; });
  return moved;
}

}  // namespace zh::p2p
