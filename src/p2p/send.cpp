// Starting sends: inline and eager messages at once, larger ones as transfers; rings that grow with traffic.
#include <algorithm>
#include <cstring>

#include "base/crash_point.h"
#include "copy/kernels.h"
#include "os/clock.h"
#include "os/futex.h"
#include "p2p/endpoint.h"
#include "p2p/skew.h"

namespace zh::p2p {

namespace {
constexpr uint32_t kEnvelopesFirst = 64;
constexpr uint32_t kEnvelopesMax = 1024;
constexpr uint64_t kPayloadFirst = 32 << 10;
constexpr uint64_t kPayloadStep = 4;  // growth factor
constexpr uint64_t kLapsBeforeGrowth = 4;
constexpr uint32_t kFullBeforeGrowth = 4;
constexpr uint32_t kStampEvery = 2 * 32;  // positions, two for each slot

/// The matching triple of a send (SendArgs or Request) into a claimed slot.
template <typename Send>
void address(shm::EnvelopeShm* slot, Kind kind, const Send& send) {
  slot->kind = static_cast<uint8_t>(kind);
  slot->stamped = 0;
  slot->source = send.source;
  slot->tag = send.tag;
  slot->context = send.context;
}

/// What a piped message's next step adds: the receiver begins early, then counts little, and has little left to copy
/// when the sender is ready.
uint64_t piped_step(const tune::PairChoice& choice, uint64_t from, uint64_t left) {
  const uint64_t least = choice.chunk_piped;
  const uint64_t most = std::min<uint64_t>({from, left / 2, choice.chunk_piped_most});
  return std::min(left, std::max(least, most / least * least));
}

copy::Store store_for(const tune::PairChoice& choice, uint64_t bytes) {
  return bytes >= choice.nontemporal_min ? copy::Store::kNonTemporal : copy::Store::kTemporal;
}
}  // namespace

bool Endpoint::connect(uint32_t dest) {
  Peer& peer = peers_[dest];
  const uint64_t ring_bytes = shm::EnvelopeRingShm::size_bytes(kEnvelopesFirst);
  // Whoever has filled the rest, a first message finds room.
  Offset offset = arena_.allocate(ring_bytes);
  if (offset == kNoOffset) offset = arena_.allocate_reserve(ring_bytes, 0);
  if (offset == kNoOffset) return false;
  --unconnected_;
  auto* ring = at<shm::EnvelopeRingShm>(base_, offset);
  std::memset(static_cast<void*>(ring), 0, ring_bytes);
  ring->capacity = kEnvelopesFirst;
  peer.out.attach(ring);
  ZH_CRASH_POINT("connect: ring made");
  // A0 -> A1: the ring's header before its offset.
  peer.part->in()[self_].store_release(offset);
  ZH_CRASH_POINT("connect: ring named");
  // A2 -> A3: the offset before the announcement.
  peer.part->state.announced.fetch_add_acq_rel(1);
  if (trace_) trace_->connected(dest, peer.choice, peer.is_far);
  return true;
}

// Several threads of the owner may sleep: each looks for itself when all are woken.
void Endpoint::wake(const Peer& peer) {
  Atomic<uint32_t>& word = peer.part->state.sleeping;
  uint32_t seen = word.load_relaxed();
  if (seen % 2 == 0 || !word.cas_relaxed(seen, seen + 1)) return;
  os::futex_wake(word, os::kWakeAll);
}

uint32_t Endpoint::announce_sleep() {
  peers_[0].part->state.sleepers.fetch_add_relaxed(1);
  const uint32_t word = part_->state.sleeping.fetch_or_relaxed(1) | 1;
  fence_seq_cst();  // Z1 -> Z1: the word is out before the rings and flags are looked at once more
  return word;
}

void Endpoint::end_sleep(uint32_t word, bool only_thread) {
  if (only_thread) part_->state.sleeping.cas_relaxed(word, word - 1);
  peers_[0].part->state.sleepers.fetch_add_relaxed(~0U);
}

bool Endpoint::away(const Peer& peer) const {
  const RankStateShm& s = peer.part->state;
  return s.inside.load_relaxed() == 0 ||
         static_cast<int64_t>(os::ticks() - s.stamp.load_relaxed()) > static_cast<int64_t>(ticks_away_);
}

shm::EnvelopeShm* Endpoint::claim_slot(Peer& peer, uint64_t inline_bytes) {
  shm::EnvelopeShm* slot = inline_bytes <= shm::kHalfLinePayload ? peer.out.claim_short() : peer.out.claim();
  if (slot != nullptr) return slot;
  ++counters().ring_full;
  if (++peer.full_streak >= kFullBeforeGrowth && peer.out.capacity() < kEnvelopesMax) {
    grow_envelopes(peer);
    slot = peer.out.claim();
  }
  return slot;
}

void Endpoint::publish(Peer& peer, shm::EnvelopeShm* slot, bool followed) {
  if (peer.out.write_pos() % kStampEvery == 0) [[unlikely]] {
    stamp(slot);
    followed = false;
  }
  peer.out.publish(slot, followed);
}

// Larger rings are a luxury: a part of the budget stays for first rings, queue entries and transfers.
bool Endpoint::may_grow(uint64_t bytes) const { return arena_.used_bytes() + bytes <= arena_.budget_bytes() / 2; }

// The marker goes into the slot that claim() always keeps free, so the old ring always has room for it.
void Endpoint::grow_envelopes(Peer& peer) {
  peer.full_streak = 0;
  const uint32_t capacity = kEnvelopesMax;
  const uint64_t bytes = shm::EnvelopeRingShm::size_bytes(capacity);
  const Offset offset = may_grow(bytes) ? arena_.allocate(bytes) : kNoOffset;
  if (offset == kNoOffset) return;
  auto* ring = at<shm::EnvelopeRingShm>(base_, offset);
  std::memset(static_cast<void*>(ring), 0, bytes);
  ring->capacity = capacity;
  shm::EnvelopeShm* marker = peer.out.claim(0);
  if (marker == nullptr) {
    arena_.free(offset, bytes);
    return;
  }
  marker->kind = shm::kRingMoved;
  marker->far.where = offset;
  ZH_CRASH_POINT("grow: marker filled");
  peer.out.publish(marker);
  // The old ring is never used again: its consumer may still be peeking at it.
  peer.out.attach(ring);
  ++counters().rings_grown;
  if (trace_) trace_->grown(rank_of(peer), "envelope", capacity, "slots");
}

// For blocks of `wanted` bytes, of which two should fit.
void Endpoint::grow_payload(Peer& peer, uint64_t wanted) {
  const uint64_t most = std::max<uint64_t>(kPayloadFirst, peer.choice.ring_bytes_max);
  const uint64_t least = peer.payload.attached() ? peer.payload.size_bytes() * kPayloadStep : kPayloadFirst;
  uint64_t bytes = least;
  while (bytes < 2 * wanted && bytes < most && may_grow(bytes * kPayloadStep)) bytes *= kPayloadStep;
  bytes = std::min(bytes, most);
  if (peer.payload.attached() && (bytes <= peer.payload.size_bytes() || !may_grow(bytes))) return;
  const Offset offset = arena_.allocate(bytes);
  if (offset == kNoOffset) return;
  if (peer.payload.attached()) {
    peer.old.push_back({peer.payload.memory(), peer.payload.size_bytes(), peer.payload});
    ++counters().rings_grown;
  }
  peer.payload.attach(base_, offset, bytes);
  if (trace_) trace_->grown(rank_of(peer), "payload", bytes, "bytes");
}

void Endpoint::retire_old(Peer& peer) {
  for (size_t i = 0; i < peer.old.size();) {
    OldRing& old = peer.old[i];
    if (!old.payload.idle()) {
      ++i;
      continue;
    }
    arena_.free(old.offset, old.bytes);
    peer.old.erase(peer.old.begin() + static_cast<ptrdiff_t>(i));
  }
}

// A block for n payload bytes. Unexpected messages may hold the ring for as long as the receiver likes; cells of a
// `matched` transfer, which are emptied promptly, then have a ring of their own, so that no message waits for another.
// That ring exists from the start, since memory may be used up by the time it is needed.
bool Endpoint::claim_block(Peer& peer, uint64_t bytes, shm::BlockShm* block, bool matched) {
  last_ring_ = &peer.payload;
  const bool got = peer.payload.attached() && peer.payload.allocate(bytes, block);
  if (got && (peer.payload.laps() < kLapsBeforeGrowth || peer.payload.size_bytes() >= peer.choice.ring_bytes_max)) {
    return true;
  }
  if (!peer.old.empty()) retire_old(peer);
  if (got) peer.payload.undo_last();
  grow_payload(peer, bytes);
  if (peer.payload.attached() && peer.payload.allocate(bytes, block)) return true;
  if (!matched) return claim_overflow(peer, bytes, block);
  last_ring_ = &matched_ring_;
  return matched_ring_.allocate(bytes, block);
}

// The skew switch shall release senders, so it needs room for the messages of a receiver that lags far behind.
bool Endpoint::claim_overflow(Peer& peer, uint64_t bytes, shm::BlockShm* block) {
  if (config_.skew == 0 || peer.part->state.skewed.load_relaxed() == 0) return false;
  if (!peer.overflow.attached()) {
    const Offset offset = may_grow(kOverflowBytes) ? arena_.allocate(kOverflowBytes) : kNoOffset;
    if (offset == kNoOffset) return false;
    peer.overflow.attach(base_, offset, kOverflowBytes);
    if (trace_) trace_->grown(rank_of(peer), "overflow", kOverflowBytes, "bytes, since the peer lags");
  }
  last_ring_ = &peer.overflow;
  return peer.overflow.allocate(bytes, block);
}

// A buffer that peers may map is looked up once, for the request of its message.
bool Endpoint::send_now(const SendArgs& args) {
  Peer& peer = peers_[args.dest];
  const uint64_t n = args.data.bytes;
  if (n > peer.choice.eager_max || !peer.waiting.lets(args.context)) return false;
  if (n > peer.choice.inline_max && prefers_mapping(args.data, n, static_cast<int32_t>(args.dest))) {
    if (memory_.contains(args.data.base, n)) return false;
    count_use(peer, args.data);
  }
  return send_small(peer, args, peer.choice.eager_max);
}

bool Endpoint::send_small(Peer& peer, const SendArgs& args, uint64_t most) {
  const uint64_t n = args.data.bytes;
  if (n > most || args.mode == SendMode::kSynchronous) return false;
  if (!peer.out.attached() && !connect(args.dest)) return false;
  if (n <= peer.choice.inline_max) {
    shm::EnvelopeShm* slot = claim_slot(peer, n);
    if (slot == nullptr) return false;
    address(slot, Kind::kInline, args);
    slot->inline_bytes = static_cast<uint8_t>(n);
    if (args.data.layout == nullptr) {
      copy::copy_small(slot->payload, args.data.base, n);
    } else {
      copy::pack(args.data, 0, n, slot->payload, copy::Store::kTemporal);
    }
    ZH_CRASH_POINT("inline: slot filled");
    // In a burst messages share lines. One that is answered, or waited for, has a line that this end holds already.
    publish(peer, slot, n <= shm::kHalfLinePayload && !peer.heard);
    peer.heard = false;
    counters().count_sent(Path::kInline, n);
    wake(peer);
    return true;
  }
  shm::EnvelopeShm* slot = claim_slot(peer);
  if (slot == nullptr) return false;
  shm::BlockShm block;
  const bool piped = n > peer.choice.piped_min;
  if (!claim_block(peer, piped ? n + sizeof(shm::PipedShm) : n, &block)) return false;
  const copy::Store store = store_for(peer.choice, n);
  if (piped) {
    send_piped(peer, args, slot, block, store);
    return true;
  }
  if (args.data.layout == nullptr) {
    copy::copy_bytes(base_ + block.payload, args.data.base, n, store);
  } else {
    copy::pack(args.data, 0, n, base_ + block.payload, store);
  }
  address(slot, Kind::kEager, args);
  slot->far.bytes = n;
  slot->far.block = block;
  ZH_CRASH_POINT("eager: slot and block filled");
  publish(peer, slot);
  count_sent(args.dest, Path::kEager, n);
  peer.stalled = false;
  wake(peer);
  return true;
}

// The envelope goes out with the first piece, so that the receiver copies out while the rest is copied in.
void Endpoint::send_piped(Peer& peer, const SendArgs& args, shm::EnvelopeShm* slot, const shm::BlockShm& block,
                          copy::Store store) {
  auto* head = at<shm::PipedShm>(base_, block.payload);
  auto* payload = reinterpret_cast<std::byte*>(head + 1);
  const uint64_t n = args.data.bytes;
  const uint64_t first = std::min<uint64_t>(peer.choice.chunk_piped, n);
  copy::pack(args.data, 0, first, payload, store);
  head->filled.store_relaxed(first);  // published with the envelope
  address(slot, Kind::kPiped, args);
  slot->far.bytes = n;
  slot->far.block = block;
  slot->far.where = first;
  publish(peer, slot);
  for (uint64_t from = first; from < n;) {
    const uint64_t piece = piped_step(peer.choice, from, n - from);
    copy::pack(args.data, from, piece, payload + from, store);
    from += piece;
    // F1 -> F0: the piece before its count.
    head->filled.store_release(from);
    ZH_CHECK_INVARIANT(head->broken_invariant(n));
  }
  count_sent(args.dest, Path::kEager, n);
  wake(peer);
}

Request* Endpoint::isend(const SendArgs& args) {
  if (send_now(args)) return &sent_;
  Request* r = new_request();
  if (r == nullptr) return nullptr;
  r->is_send = true;
  r->peer = static_cast<int32_t>(args.dest);
  r->source = args.source;
  r->tag = args.tag;
  r->context = args.context;
  r->buffer = args.data;
  r->mode = args.mode;
  r->message_bytes = args.data.bytes;
  r->stage = Stage::kQueued;
  ++pending_sends_;
  Peer& peer = peers_[args.dest];
  if (peer.dead) {
    r->result.code = Code::kPeerDead;
    complete(r);
    return r;
  }
  if (prefers_mapping(r->buffer, r->message_bytes, r->peer)) look_up(r, r->message_bytes, true);
  const bool first = peer.waiting.lets(r->context);
  if (first && submit(r) == Submitted::kYes) {
    if (r->stage == Stage::kTransfer && (peer.stalled || in_host(peer)) && may_buffer(r)) buffer_offered(r);
    return r;
  }
  // The ring is full: turn the receiver's queues if it is away, else wait in order.
  if (first && away(peer) && progress_peer(args.dest) != 0 && submit(r) == Submitted::kYes) return r;
  if (peer.waiting.empty()) queued_peers_.push_back(args.dest);
  // Behind others that the receiver does not take: not to be waited for.
  Request* twin = (peer.stalled || (!first && in_host(peer))) && may_buffer(r) ? stand_in(r) : nullptr;
  peer.waiting.ring.push_back(twin != nullptr ? twin : r);
  if (twin != nullptr) complete(r);
  return r;
}

// Up to which size a message goes through the ring when its buffer is private. Where one copy is not to be had two that
// overlap are the fastest way, and in one block they need no agreement.
uint64_t Endpoint::copied_max(const Peer& peer, uint64_t bytes) const {
  const tune::PairChoice& choice = peer.choice;
  const bool single = &peer == &peers_[self_] || (peer.cma && bytes >= choice.single_copy_min);
  return single ? choice.eager_max : std::max(choice.eager_max, choice.piped_max);
}

Endpoint::Submitted Endpoint::submit(Request* r) {
  const SendArgs args{static_cast<uint32_t>(r->peer), r->source, r->tag, r->context, r->buffer, r->mode};
  Peer& peer = peers_[args.dest];
  if (!peer.out.attached() && !connect(args.dest)) return Submitted::kNoRoom;
  if (r->mapped.region.region == 0 && send_small(peer, args, copied_max(peer, r->message_bytes))) {
    complete(r);
    return Submitted::kYes;
  }
  // What fits beside its envelope only lacked a place in the ring. There may be one by now, but as an offer it would
  // wait for its receive, which a program need not have posted.
  if (args.mode != SendMode::kSynchronous && r->message_bytes <= peer.choice.inline_max) return Submitted::kNoRoom;
  return start_transfer(r);
}

bool Endpoint::submit_queued(Peer& peer) {
  WaitingSends& waiting = peer.waiting;
  bool moved = false;
  while (Request* r = waiting.memory.head) {
    waiting.memory.remove(r);
    r->starved = false;
    if (submit(r) != Submitted::kYes) {
      r->starved = true;
      waiting.memory.push_front(r);
      break;
    }
    moved = true;
  }
  if (waiting.memory.empty()) waiting.fed();
  while (Request* r = waiting.ring.head) {
    waiting.ring.remove(r);
    Submitted submitted = Submitted::kNoMemory;
    if (!waiting.starves(r->context)) submitted = submit(r);
    if (submitted == Submitted::kNoRoom) {
      waiting.ring.push_front(r);
      break;
    }
    if (submitted == Submitted::kNoMemory) {
      waiting.starve(r);
    } else {
      moved = true;
    }
  }
  return moved;
}

// A program may start any number of sends that its receiver takes in another order, so the description of one must be
// had when nothing else is: short ones then, from the reserve and at last from the annex.
Offset Endpoint::take_transfer() {
  if (free_transfers_.empty() && free_short_transfers_.empty()) sweep_transfers();
  for (std::vector<Offset>* list : {&free_transfers_, &free_short_transfers_}) {
    if (list->empty()) continue;
    const Offset offset = list->back();
    list->pop_back();
    return offset;
  }
  uint16_t window = kCellWindow;
  Offset offset = may_grow(sizeof(TransferShm)) ? arena_.allocate(sizeof(TransferShm)) : kNoOffset;
  if (offset == kNoOffset) {
    window = kShortWindow;
    const uint64_t first_rings = unconnected_ * shm::EnvelopeRingShm::size_bytes(kEnvelopesFirst);
    offset = arena_.allocate_reserve(TransferShm::size_bytes(window), first_rings);
    if (offset == kNoOffset) offset = annex_.allocate(TransferShm::size_bytes(window));
  }
  if (offset != kNoOffset) at<TransferShm>(base_, offset)->window = window;
  return offset;
}

void Endpoint::give_transfer(Offset offset) {
  const bool whole = at<TransferShm>(base_, offset)->window == kCellWindow;
  (whole ? free_transfers_ : free_short_transfers_).push_back(offset);
}

// Whether the receiver can fetch what can be fetched by itself. What is mapped may be taken back by a fork, and the
// rank may then be away.
bool Endpoint::pullable(const TransferShm& t) const {
  const bool stays_mapped = t.source.mapped() && !memory_.revocable();
  return stays_mapped || (peers_[t.receiver].cma && t.source.reachable());
}

void Endpoint::note_unpullable(Request* r, const TransferShm& t) {
  const bool now = t.receiver != self_ && (!pullable(t) || r->carry_bytes() != 0);
  if (now != r->unpullable) unpullable_ += now ? 1 : -1;
  r->unpullable = now;
}

Endpoint::Submitted Endpoint::start_transfer(Request* r) {
  const auto dest = static_cast<uint32_t>(r->peer);
  Peer& peer = peers_[dest];
  shm::EnvelopeShm* slot = claim_slot(peer);
  if (slot == nullptr) return Submitted::kNoRoom;
  const Offset offset = take_transfer();
  if (offset == kNoOffset) return Submitted::kNoMemory;
  auto* t = at<TransferShm>(base_, offset);
  const uint64_t n = r->buffer.bytes;
  describe(r, r->peer, n, true, &t->source);
  t->sender = static_cast<uint16_t>(self_);
  t->receiver = static_cast<uint16_t>(dest);
  t->state.store_relaxed(static_cast<uint32_t>(TransferState::kOffered));
  t->released.store_relaxed(0);
  t->claim.reset(t->source.from());
  t->pushed.store_relaxed(0);
  t->published.store_relaxed(0);
  t->pulled.store_relaxed(0);
  t->consumed.store_relaxed(0);
  t->retry.store_relaxed(0);
  const bool reachable = t->source.reachable();
  const bool single = peer.cma && reachable && n >= peer.choice.single_copy_min;
  Direct direct = Direct::kCells;
  if ((dest == self_ && reachable) || t->source.mapped() || (single && n >= peer.choice.both_ends_min)) {
    direct = Direct::kBoth;
  } else if (single) {
    direct = peer.choice.sender_copies ? Direct::kSender : Direct::kReceiver;
  }
  if (direct != Direct::kCells && dest != self_ && config_.skew != 0 && n <= kSkewBytesMax &&
      peer.part->state.skewed.load_relaxed() != 0) {
    direct = Direct::kCells;
    ++counters().skew_detours;
  }
  t->direct = static_cast<uint8_t>(direct);
  // The edges of a mapped buffer follow the envelope at once, so that a receiver can take the rest alone.
  r->carry[0] = {0, t->source.from()};
  r->carry[1] = {t->source.end(), n - t->source.end()};
  counters().edge_bytes += r->carry_bytes();
  note_unpullable(r, *t);
  r->transfer = offset;
  r->stage = Stage::kTransfer;
  r->parked = sends_.size >= kSendsLookedAt;
  t->parked = r->parked ? 1 : 0;
  t->request = r->index;
  counters().parked += t->parked;
  address(slot, Kind::kTransfer, *r);
  slot->far.bytes = n;
  slot->far.where = offset;
  ZH_CHECK_INVARIANT(t->broken_invariant());
  ZH_CRASH_POINT("transfer: slot filled");
  publish(peer, slot);
  ZH_CRASH_POINT("transfer: offered");
  list_of(r).push_back(r);
  wake(peer);
  // The later arriver copies: a receive that waits there while its rank computes is served now.
  if (dest != self_ && away(peer)) progress_peer(dest);
  // A nonblocking send must not take the time of a whole long message that its receiver can copy as well; a blocking
  // one goes on when it waits.
  advance_send(r, pullable(*t) ? config_.push_at_start : kUnbounded);
  return Submitted::kYes;
}

}  // namespace zh::p2p
