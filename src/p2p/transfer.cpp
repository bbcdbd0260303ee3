// Moving the bytes of matched messages: out of the envelope, out of an eager block, or, for a transfer, chunk by chunk
// by whichever end is there - cells, single copy through the kernel, or mapped memory.
#include <algorithm>

#include "base/crash_point.h"
#include "copy/cma.h"
#include "copy/kernels.h"
#include "os/yield.h"
#include "p2p/endpoint.h"
#include "p2p/skew.h"

namespace zh::p2p {

namespace {

constexpr uint32_t kSpinsBeforeYield = 1000;
constexpr uint32_t kYieldsBeforeDeathCheck = 256;

uint64_t chunk_of(const TransferShm& t, const tune::PairChoice& choice) {
  if (t.copiers() != Direct::kBoth) return choice.chunk_alone;
  const uint64_t total = t.source.end() - t.source.from();
  if (t.source.mapped()) return tune::mapped_chunk(total, choice);
  const uint64_t eighth = round_up(total / 8, 4096);
  return std::clamp<uint64_t>(eighth, 16 << 10, choice.chunk_both);
}

}  // namespace

// Copies the first n bytes of an eager block out and frees it. False if the sender died while it was writing.
bool Endpoint::copy_out(const copy::Buffer& buffer, uint64_t n, Kind kind, const shm::FarShm& far, uint32_t sender) {
  counters().count_received(Path::kEager, far.bytes);
  if (kind == Kind::kEager) {
    copy::unpack(buffer, 0, n, base_ + far.block.payload, copy::Store::kTemporal);
  } else {
    const auto* head = at<shm::PipedShm>(base_, far.block.payload);
    const auto* payload = reinterpret_cast<const std::byte*>(head + 1);
    uint64_t done = 0;
    // The first piece came with the envelope: no line of the head is fetched for it.
    uint64_t ready = std::min<uint64_t>(far.where, n);
    for (uint32_t idle = 0; done < n; ready = std::min(head->filled.load_acquire(), n)) {  // F0 -> F1: the piece after
      if (ready > done) {
        copy::unpack(buffer, done, ready - done, payload + done, copy::Store::kTemporal);
        done = ready;
        idle = 0;
        continue;
      }
      // The sender is in the middle of a copy: it comes back soon unless it has lost its CPU, or its life.
      if (++idle < kSpinsBeforeYield) {
        cpu_relax();
        continue;
      }
      os::yield_cpu();
      const bool look = idle % kYieldsBeforeDeathCheck == 0 && sender != self_;
      if (look && !node_.alive(sender) && head->filled.load_relaxed() <= done) return false;
    }
  }
  ZH_CRASH_POINT("eager: copied, not released");
  shm::release_block(base_, far.block);
  return true;
}

void Endpoint::deliver(Request* r, const MessageShm& m) {
  const uint64_t bytes = m.bytes();
  const uint64_t n = std::min(bytes, r->buffer.bytes);
  r->result.source = m.source;
  r->result.tag = m.tag;
  r->result.bytes = n;
  if (bytes > n) r->result.code = Code::kTruncated;
  r->message_bytes = bytes;
  r->peer = static_cast<int32_t>(m.sender);
  if (m.kind == Kind::kInline) {
    if (r->buffer.layout == nullptr) {
      copy::copy_small(r->buffer.base, m.payload, n);
    } else {
      copy::unpack(r->buffer, 0, n, m.payload, copy::Store::kTemporal);
    }
    counters().count_received(Path::kInline, bytes);
    complete(r);
    return;
  }
  if (m.kind == Kind::kEager || m.kind == Kind::kPiped) {
    if (!copy_out(r->buffer, n, m.kind, m.far, m.sender)) r->result.code = Code::kPeerDead;
    complete(r);
    return;
  }
  join_transfer(r, m);
}

void Endpoint::join_transfer(Request* r, const MessageShm& m) {
  if (!node_.open(m.far.where)) {
    r->result.code = Code::kNoMemory;
    complete(r);
    return;
  }
  auto* t = at<TransferShm>(base_, m.far.where);
  prefetch_for_write(&t->target);
  r->transfer = m.far.where;
  r->stage = Stage::kTransfer;
  if (t->load_state() == TransferState::kOffered) {  // T0 -> T1
    if (r->layout != kNoOffset) {
      arena_.free(r->layout, r->layout_bytes);
      r->layout = kNoOffset;
    }
    describe(r, r->peer, std::min(r->message_bytes, r->buffer.bytes), true, &t->target);
    ZH_CRASH_POINT("transfer: target described");
    t->store_matched();  // T1 -> T0
    if (t->parked != 0) tell_matched(*t);
    wake(peers_[m.sender]);
  }
  recvs_.push_back(r);
  advance_recv(r);
  if (r->stage == Stage::kTransfer && peers_[m.sender].dead) {
    recvs_.remove(r);
    fail(r, Code::kPeerDead);
  }
}

copy::Buffer Endpoint::remote_buffer(const RemoteBufferShm& remote) const {
  return {reinterpret_cast<std::byte*>(remote.address), remote.bytes,
          remote.layout != kNoOffset ? at<copy::LayoutShm>(base_, remote.layout) : nullptr};
}

// How this end could reach a buffer of `owner` now. A hint: what the owner says may change until an access is
// announced.
Endpoint::Reach Endpoint::reach_of(uint32_t owner, const RemoteBufferShm& buffer) const {
  if (!buffer.reachable()) return Reach::kNone;
  if (owner == self_) return Reach::kSelf;
  const Peer& peer = peers_[owner];
  const uint32_t epoch = peer.part->access.epoch.load_relaxed();
  if (buffer.mapped() && peer.maps && epoch == buffer.epoch) return Reach::kMapped;
  return peer.cma && !shm::is_closed(epoch) ? Reach::kKernel : Reach::kNone;
}

// The epoch under which such an access is begun. The kernel finds a buffer by its address, whatever happened before.
uint32_t Endpoint::epoch_for(uint32_t owner, const RemoteBufferShm& buffer, Reach reach) const {
  if (reach == Reach::kSelf) return 0;
  return reach == Reach::kMapped ? buffer.epoch : peers_[owner].part->access.epoch.load_relaxed();
}

Endpoint::Reach Endpoint::can_pull(const Request* r, const TransferShm& t) const {
  if (r->direct_broken) return Reach::kNone;
  const Reach reach = reach_of(t.sender, t.source);
  if (reach == Reach::kNone || reach == Reach::kSelf) return reach;
  // The sender copies one message at a time: what waits behind another one of its is this end's as well.
  const bool behind = r->prev != nullptr && r->prev->peer == r->peer;
  const Direct copiers = t.copiers();
  const bool mine = copiers == Direct::kBoth || copiers == Direct::kReceiver || !t.target.reachable() || behind;
  const bool offered = t.offered() != Direct::kCells || t.source.mapped();
  return (mine && offered) || away(peers_[t.sender]) ? reach : Reach::kNone;
}

Endpoint::Reach Endpoint::can_push(const Request* r, const TransferShm& t) const {
  if (r->direct_broken || t.receiver == self_) return Reach::kNone;
  const Reach reach = reach_of(t.receiver, t.target);
  const Direct copiers = t.copiers();
  const bool mine = copiers == Direct::kBoth || copiers == Direct::kSender;
  return mine || away(peers_[t.receiver]) ? reach : Reach::kNone;
}

// Moves bytes [from, from + n) of a message by `move(address, from, n)` on a peer's mapped buffer, piece by piece as
// its windows lie. Returns how many were moved.
template <typename Move>
uint64_t Endpoint::move_mapped(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                               copy::Direction direction, Move&& move) {
  uint64_t done = 0;
  while (done < n) {
    copy::RegionRef ref = remote.region;
    ref.offset += from + done;
    uint64_t run = 0;
    std::byte* const address =
        region_cache_.resolve(owner, node_.pid(owner), remote.region_fd, ref, n - done, direction, &run);
    if (address == nullptr) {
      note_map_failure(owner);
      break;
    }
    move(address, from + done, run);
    done += run;
  }
  return done;
}

// Reads claimed bytes [from, from + n) out of the sender's buffer. False if that ended early; the rest is the sender's
// again.
bool Endpoint::pull(Request* r, TransferShm& t, uint64_t from, uint64_t n, Reach reach) {
  const uint64_t capacity = r->buffer.bytes;
  const uint64_t want = from < capacity ? std::min(n, capacity - from) : 0;
  Peer& peer = peers_[t.sender];
  uint64_t done = 0;
  if (reach == Reach::kSelf) {
    copy::copy_range(r->buffer, remote_buffer(t.source), from, want, copy::Store::kTemporal);
    done = want;
    r->path = Path::kSelf;
  } else if (reach == Reach::kMapped) {
    done = move_mapped(t.sender, t.source, from, want, copy::Direction::kRead,
                       [r](const std::byte* address, uint64_t at_byte, uint64_t bytes) {
                         copy::unpack(r->buffer, at_byte, bytes, address, copy::Store::kTemporal);
                       });
    r->path = Path::kMapped;
  }
  if (done != want && peer.cma) {
    uint64_t rest = 0;
    const Status s =
        copy::cma_read(node_.pid(t.sender), r->buffer, remote_buffer(t.source), from + done, want - done, &rest);
    if (!s.ok()) note_cma_failure(t.sender, s, rest, want - done);
    done += rest;
    r->path = Path::kCma;
  }
  const bool ok = done == want;
  const uint64_t moved = ok ? n : done;
  counters().bytes_by_receiver += done;
  r->finished += moved;
  r->moved_direct += moved;
  ZH_CRASH_POINT("pull: copied");
  // U0 -> U1: the sender's bytes have been read.
  t.pulled.store_release(t.pulled.load_relaxed() + moved);
  if (ok) return true;
  ++counters().pull_failed;
  r->direct_broken = true;
  t.retry_from = from + done;
  t.retry_bytes = n - done;
  ZH_CRASH_POINT("pull: handing back");
  // R0 -> R1: the range before the flag.
  t.retry.store_release(1);
  return false;
}

// Writes claimed bytes into the receiver's buffer. False if that ended early; the rest then goes through cells, as do
// the edges of a mapped buffer, first, so that the receiver takes them while this end copies on.
bool Endpoint::push(Request* r, TransferShm& t, uint64_t from, uint64_t n, Reach reach) {
  const uint64_t end = from + n;
  const uint64_t fits = std::min(end, std::max(from, t.target.bytes));  // [from, fits) has room there
  Peer& peer = peers_[t.receiver];
  uint64_t at_byte = from;  // the next one to be written; none behind `last`
  uint64_t last = fits;
  if (reach == Reach::kMapped) {
    at_byte = std::clamp(t.target.from(), from, fits);
    last = std::clamp(t.target.end(), at_byte, fits);
    r->carry[0] = {from, at_byte - from};
    r->carry[1] = {last, fits - last};
    counters().edge_bytes += r->carry_bytes();
    if (r->carry_bytes() != 0) put_carry(r, t, true);
  }
  const uint64_t first = at_byte;
  if (reach == Reach::kMapped) {
    at_byte += move_mapped(t.receiver, t.target, at_byte, last - at_byte, copy::Direction::kWrite,
                           [r](std::byte* address, uint64_t where, uint64_t bytes) {
                             copy::pack(r->buffer, where, bytes, address, copy::Store::kTemporal);
                           });
    r->path = Path::kMapped;
  }
  if (at_byte != last && peer.cma) {
    uint64_t rest = 0;
    const Status s =
        copy::cma_write(node_.pid(t.receiver), r->buffer, remote_buffer(t.target), at_byte, last - at_byte, &rest);
    if (!s.ok()) note_cma_failure(t.receiver, s, rest, last - at_byte);
    at_byte += rest;
    r->path = Path::kCma;
  }
  const bool ok = at_byte == last;
  // What the receiver's buffer has no room for counts as moved.
  const uint64_t moved = at_byte - first + (end - fits);
  counters().bytes_by_sender += at_byte - first;
  r->finished += moved;
  r->moved_direct += moved;
  ZH_CRASH_POINT("push: copied");
  // W0 -> W1: the receiver's bytes have been written.
  t.pushed.store_release(t.pushed.load_relaxed() + moved);
  if (ok) return true;
  ++counters().push_failed;
  r->direct_broken = true;
  if (r->carry[0].bytes == 0) {
    r->carry[0] = {at_byte, last - at_byte};
  } else {  // then the second one was not begun, and follows
    r->carry[1] = {at_byte, last - at_byte + r->carry[1].bytes};
  }
  return false;
}

bool Endpoint::room_for_cell(Peer& peer, const TransferShm& t, uint64_t n, bool matched, shm::BlockShm* block) {
  // V0 -> V1: the receiver has emptied the cell that this one replaces.
  if (t.published.load_relaxed() - t.consumed.load_acquire() >= t.window) return false;
  return claim_block(peer, n, block, matched);
}

// Puts what must go through cells into one. False if there is no room for it now.
bool Endpoint::put_carry(Request* r, TransferShm& t, bool matched) {
  Peer& peer = peers_[t.receiver];
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

void Endpoint::put_cell(Request* r, TransferShm& t, const SpanShm (&spans)[2], const shm::BlockShm& block) {
  const tune::PairChoice& choice = peers_[static_cast<uint32_t>(r->peer)].choice;
  const copy::Store store =
      r->message_bytes >= choice.nontemporal_min ? copy::Store::kNonTemporal : copy::Store::kTemporal;
  std::byte* room = base_ + block.payload;
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
  ZH_CHECK_INVARIANT(t.broken_invariant());
}

bool Endpoint::advance_send(Request* r, uint64_t push_most) {
  auto* t = at<TransferShm>(base_, r->transfer);
  const auto dest = static_cast<uint32_t>(r->peer);
  Peer& peer = peers_[dest];
  const uint64_t total = r->message_bytes;
  bool matched = t->load_state() == TransferState::kMatched;  // T0 -> T1
  bool moved = false;
  // R1 -> R0: the range after the flag.
  uint32_t retry = t->retry.load_acquire();
  if (retry == 1 && r->carry_bytes() == 0) {  // what this end has to carry itself goes first
    r->carry[0] = {t->retry_from, t->retry_bytes};
    retry = 2;
    t->retry.store_relaxed(retry);
  }
  const bool lagging = t->offered() != Direct::kCells && !matched && config_.skew != 0 && dest != self_ &&
                       total <= kSkewBytesMax && peer.part->state.skewed.load_relaxed() != 0;
  // A message that would be eager were its buffer private must not bind its sender to a receiver that does not come.
  const bool late = t->offered() != Direct::kCells && !matched && dest != self_ && total <= peer.choice.eager_max &&
                    r->mode != SendMode::kSynchronous && ++r->turns_offered > config_.turns_offered;
  const bool asked = retry == 2 || lagging || late;
  for (;;) {
    // The receive may have come meanwhile, with a buffer that can be written directly.
    if (moved && !matched) matched = t->load_state() == TransferState::kMatched;  // T0 -> T1
    if (r->carry_bytes() != 0) {
      if (!put_carry(r, *t, matched)) break;
      moved = true;
      continue;
    }
    if (t->claim.exhausted(t->source.end())) break;
    const Direct copiers = matched ? t->copiers() : t->offered();
    const Reach reach = matched ? can_push(r, *t) : Reach::kNone;
    if (reach != Reach::kNone) {
      if (push_most == 0) break;
      const shm::Access access(part_->access, peer.part->access, dest, epoch_for(dest, t->target, reach));
      if (!access.granted()) continue;
      uint64_t from = 0;
      const uint64_t n = t->claim.claim(std::min(push_most, chunk_of(*t, peer.choice)), t->source.end(), &from);
      if (n == 0) break;
      push_most -= n;
      ZH_CRASH_POINT("push: claimed");
      push(r, *t, from, n, reach);
      moved = true;
      continue;
    }
    // Also what this end alone should copy and cannot.
    const bool cells = copiers == Direct::kCells || (copiers == Direct::kSender && matched && t->target.reachable());
    if (!cells && !asked && !r->direct_broken) break;
    const uint64_t want = std::min<uint64_t>(peer.choice.chunk_cells, total);
    shm::BlockShm block;
    if (!room_for_cell(peer, *t, want, matched, &block)) break;
    uint64_t from = 0;
    const uint64_t n = t->claim.claim(want, t->source.end(), &from);
    if (n == 0) {
      last_ring_->undo_last();
      break;
    }
    ZH_CRASH_POINT("cell: claimed");
    put_cell(r, *t, {{from, n}, {}}, block);
    if (lagging) ++counters().skew_detours;
    moved = true;
  }
  if (moved) wake(peer);
  note_unpullable(r, *t);
  if (r->carry_bytes() == 0 && t->retry.load_relaxed() != 1 && (matched || r->mode != SendMode::kSynchronous) &&
      // U1 -> U0: the receiver has read its share.
      r->finished + t->pulled.load_acquire() == total) {
    // The target of a send that went through cells before its receive came is not known.
    if (matched && revoked(t->receiver, t->target)) ++counters().revoked;
    finish_send(r);
    return true;
  }
  return moved;
}

void Endpoint::finish_send(Request* r) {
  auto* t = at<TransferShm>(base_, r->transfer);
  const uint64_t pulled = t->pulled.load_relaxed();
  if (r->moved_direct != 0 && pulled != 0) {
    ++counters().copies_by_both;
  } else if (r->moved_direct != 0) {
    ++counters().copies_by_sender;
  } else if (pulled != 0) {
    ++counters().copies_by_receiver;
  }
  Path path = r->path;
  if (pulled != 0 && r->moved_direct == 0) {
    path = t->sender == t->receiver ? Path::kSelf : t->source.mapped() ? Path::kMapped : Path::kCma;
  }
  if (path == Path::kMapped)
    ++(r->moved_direct != 0 && pulled != 0 ? counters().mapped_by_both : counters().mapped_by_one);
  count_sent(static_cast<uint32_t>(r->peer), path, r->message_bytes);
  list_of(r).remove(r);
  ended_.push_back(r->transfer);
  complete(r);
}

// Transfers that both ends have left can be used again.
void Endpoint::sweep_transfers() {
  for (size_t i = 0; i < ended_.size();) {
    // L1 -> L0: the receiver's last access.
    if (at<TransferShm>(base_, ended_[i])->released.load_acquire() == 0) {
      ++i;
      continue;
    }
    ZH_CHECK_INVARIANT(at<TransferShm>(base_, ended_[i])->broken_invariant());
    give_transfer(ended_[i]);
    ended_[i] = ended_.back();
    ended_.pop_back();
  }
}

bool Endpoint::advance_recv(Request* r) {
  auto* t = at<TransferShm>(base_, r->transfer);
  const uint64_t total = r->message_bytes;
  const uint64_t capacity = r->buffer.bytes;
  bool moved = false;
  for (;;) {
    // P0 -> P1: the cell and its payload.
    while (r->cells_seen != t->published.load_acquire()) {
      const CellShm cell = t->cells[r->cells_seen % t->window];
      const std::byte* payload = base_ + cell.block.payload;
      for (const SpanShm& span : cell.spans) {
        const uint64_t fits = span.from < capacity ? std::min(span.bytes, capacity - span.from) : 0;
        if (fits != 0) copy::unpack(r->buffer, span.from, fits, payload, copy::Store::kTemporal);
        payload += span.bytes;
        r->finished += span.bytes;
      }
      ZH_CRASH_POINT("cell: copied, not released");
      shm::release_block(base_, cell.block);
      ++r->cells_seen;
      // V1 -> V0: the cell is empty.
      t->consumed.store_release(r->cells_seen);
      moved = true;
    }
    const Reach reach = can_pull(r, *t);
    const bool senders = t->copiers() == Direct::kSender && t->target.reachable() && !r->direct_broken;
    if (reach == Reach::kNone && senders)
      break;  // without a look at `claim`, which would take its line from the sender
    if (t->claim.exhausted(t->source.end())) break;
    if (reach == Reach::kNone) {
      if (t->copiers() != Direct::kCells && t->retry.load_relaxed() == 0) {
        // Offered for single copy, but there is no way to it: ask for cells.
        t->retry_from = t->retry_bytes = 0;
        t->retry.store_release(1);  // R0 -> R1
      }
      break;
    }
    const shm::Access access(part_->access, peers_[t->sender].part->access, t->sender,
                             epoch_for(t->sender, t->source, reach));
    if (!access.granted()) continue;
    uint64_t from = 0;
    const uint64_t n = t->claim.claim(chunk_of(*t, peers_[t->sender].choice), t->source.end(), &from);
    if (n == 0) break;
    moved = true;
    ZH_CRASH_POINT("pull: claimed");
    if (!pull(r, *t, from, n, reach)) break;
  }
  // W1 -> W0: what the sender wrote is visible.
  if (r->finished + t->pushed.load_acquire() != total) {
    if (moved) wake(peers_[t->sender]);
    return moved;
  }
  const bool direct = r->moved_direct != 0 || t->pushed.load_relaxed() != 0;
  const Path path = !direct                                    ? Path::kCells
                    : t->sender == self_                       ? Path::kSelf
                    : t->source.mapped() || t->target.mapped() ? Path::kMapped
                                                               : Path::kCma;
  counters().count_received(path, total);
  if (revoked(t->sender, t->source)) ++counters().revoked;
  recvs_.remove(r);
  ZH_CHECK_INVARIANT(t->broken_invariant());
  ZH_CRASH_POINT("transfer: not yet left");
  Peer& sender = peers_[t->sender];
  // L0 -> L1: the last access to the transfer.
  t->released.store_release(1);
  wake(sender);
  complete(r);
  return true;
}

bool Endpoint::turn() {
  bool moved = collect();
  for (Request* r = recvs_.head; r != nullptr;) {
    Request* next = r->next;
    moved = advance_recv(r) || moved;
    r = next;
  }
  if (!parked_.empty()) moved = look_at_parked() || moved;
  for (Request* r = sends_.head; r != nullptr;) {
    Request* next = r->next;
    moved = advance_send(r) || moved;
    r = next;
  }
  for (size_t i = 0; i < queued_peers_.size();) {
    Peer& peer = peers_[queued_peers_[i]];
    moved = submit_queued(peer) || moved;
    if (peer.waiting.empty()) {
      queued_peers_[i] = queued_peers_.back();
      queued_peers_.pop_back();
    } else {
      ++i;
    }
  }
  return moved;
}

}  // namespace zh::p2p
