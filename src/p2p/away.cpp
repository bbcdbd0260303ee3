// What a sender does for a receiver that sits in a call of the host: its queues grow on the sender's memory, small
// messages that it has not asked for are copied so that the program may go on, and its helper thread is called for what
// no peer can do (MPI standard 2.9, 3.5: whatever call a rank blocks in, what it has asked for arrives). Called from
// waits that last, and by a send that has found no room or no receive. Small messages are also copied for a receiver
// that waits for something else: hosts take any number of them, and programs count on it.
#include <cstdlib>
#include <new>

#include "base/crash_point.h"
#include "copy/kernels.h"
#include "os/clock.h"
#include "os/futex.h"
#include "p2p/endpoint.h"

namespace zh::p2p {

namespace {
constexpr uint64_t kBufferedMessageMax = 256 << 10;
constexpr uint64_t kBufferedMax = uint64_t{1} << 30;  // of one sender, towards all
constexpr uint64_t kCallEveryUs = 100;
}  // namespace

void Endpoint::help_sends(const RequestList& sends, bool in_vain) {
  for (Request* r = sends.head; r != nullptr;) {
    Request* next = r->next;
    Peer& peer = peers_[static_cast<uint32_t>(r->peer)];
    const bool host = in_host(peer);
    if (r->peer != static_cast<int32_t>(self_) && !peer.dead && (host || in_vain)) {
      const bool offered = at<TransferShm>(base_, r->transfer)->load_state() == TransferState::kOffered;  // T0 -> T1
      // Matched, but not moved by this end; or still in the ring, because this end may not turn those queues.
      if (host && (!offered || !peer.out.empty())) call_helper(peer);
      if (offered && may_buffer(r)) {
        peer.stalled = true;
        buffer_offered(r);
      }
    }
    r = next;
  }
}

void Endpoint::help_queued(bool in_vain) {
  for (const uint32_t dest : queued_peers_) {
    Peer& peer = peers_[dest];
    if (peer.dead || !(in_vain || in_host(peer))) continue;
    if (in_host(peer)) call_helper(peer);
    peer.stalled = true;
    buffer_queued(peer.waiting.ring);
    buffer_queued(peer.waiting.memory);
  }
}

// The helper takes the word back before it looks around, so that a call is never lost; one that comes too late for
// what it was about is repeated.
void Endpoint::call_helper(Peer& peer) {
  Atomic<uint32_t>& word = peer.part->state.helper;
  auto expected = static_cast<uint32_t>(Helper::kWaits);
  if (word.load_relaxed() != expected) return;
  const uint64_t now = os::ticks();
  if (now - peer.called_ticks < static_cast<uint64_t>(os::ticks_per_us()) * kCallEveryUs) return;
  if (!word.cas_relaxed(expected, static_cast<uint32_t>(Helper::kCalled))) return;
  peer.called_ticks = now;
  os::futex_wake(word, 1);
  ++counters().helpers_called;
}

// Entries stay with the receiver for good; they name memory of this rank's part, which outlives its process.
bool Endpoint::lend_entries(Peer& peer) {
  constexpr uint64_t kBytes = kMessageSlab * kMessageBytes;
  if (spare_entries_.empty()) {
    const Offset made = may_grow(kBytes) ? arena_.allocate(kBytes) : kNoOffset;
    if (made == kNoOffset) return false;
    spare_entries_.push_back(made);
  }
  if (!try_lock_peer(peer)) return false;
  const Offset slab = spare_entries_.back();
  spare_entries_.pop_back();
  Queues queues(base_, &peer.part->queues, nullptr);
  for (uint32_t i = kMessageSlab; i-- != 0;) {
    queues.give_free_message(static_cast<Ref>((slab + i * kMessageBytes) / kLineBytes));
  }
  ZH_CRASH_POINT("lend: entries given");
  peer.part->queues.lock.unlock();
  counters().entries_lent += kMessageSlab;
  return true;
}

bool Endpoint::may_buffer(const Request* r) const {
  return r->mode != SendMode::kSynchronous && !r->detached && r->own_copy == nullptr &&
         r->message_bytes <= kBufferedMessageMax && buffered_bytes_ + buffered_cost(r->message_bytes) <= kBufferedMax;
}

// A send of a copy, in nobody's list yet; null when there is no memory.
Request* Endpoint::stand_in(Request* r) {
  const uint64_t n = r->message_bytes;
  auto* copy = static_cast<std::byte*>(std::malloc(n + 1));
  Request* twin = copy != nullptr ? new_request() : nullptr;
  if (twin == nullptr) {
    std::free(copy);
    return nullptr;
  }
  copy::pack(r->buffer, 0, n, copy, copy::Store::kTemporal);
  twin->is_send = true;
  twin->detached = true;
  twin->mode = r->mode;
  twin->peer = r->peer;
  twin->source = r->source;
  twin->tag = r->tag;
  twin->context = r->context;
  twin->buffer = {copy, n, nullptr};
  twin->message_bytes = n;
  twin->own_copy = copy;
  twin->stage = r->stage;
  twin->starved = r->starved;
  ++pending_sends_;
  buffered_bytes_ += buffered_cost(n);
  counters().buffered.add(n);
  return twin;
}

void Endpoint::buffer_queued(RequestList& list) {
  for (Request* r = list.head; r != nullptr;) {
    Request* twin = r->stage == Stage::kQueued && may_buffer(r) ? stand_in(r) : nullptr;
    Request* next = r->next;
    if (twin != nullptr) {
      list.replace(r, twin);
      complete(r);
    }
    r = next;
  }
}

// Needs the receiver's lock. The ring may have moved on, marker by marker.
bool Endpoint::is_in_ring(Peer& peer, Offset transfer) const {
  auto* ring = at<shm::EnvelopeRingShm>(base_, peer.part->in()[self_].load_relaxed());
  for (uint32_t pos = ring->consumed.load_relaxed();;) {
    const shm::EnvelopeShm& slot = *ring->slot_at(pos);
    if (slot.seq.load_relaxed() != pos + 1) return false;  // this rank has written them all
    if (slot.kind == static_cast<uint8_t>(Kind::kTransfer) && slot.far.where == transfer) return true;
    pos = shm::EnvelopeRingShm::behind(pos, slot);
    if (slot.kind != shm::kRingMoved) continue;
    ring = at<shm::EnvelopeRingShm>(base_, slot.far.where);
    pos = ring->consumed.load_relaxed();
  }
}

// The transfer's description names the program's buffer. It may be changed as long as the receiver has not taken the
// message out of its queue, which only happens under its lock. What of it lies in cells stays there.
void Endpoint::buffer_offered(Request* r) {
  Peer& peer = peers_[static_cast<uint32_t>(r->peer)];
  auto* t = at<TransferShm>(base_, r->transfer);
  if (t->load_state() != TransferState::kOffered) return;  // T0 -> T1
  Request* twin = stand_in(r);
  if (twin == nullptr) return;
  bool ours = false;
  if (try_lock_peer(peer)) {
    Queues queues(base_, &peer.part->queues, nullptr);
    ours =
        is_in_ring(peer, r->transfer) || (peer.part->queues.private_entries == 0 &&
                                          queues.find_transfer(r->context, r->source, r->tag, r->transfer) != kNoRef);
    if (ours) {
      const uint64_t from = t->source.from();
      const uint64_t end = t->source.end();
      t->source = RemoteBufferShm{};
      t->source.address = reinterpret_cast<uint64_t>(twin->own_copy);
      t->source.bytes = twin->message_bytes;
      t->source.layout = kNoOffset;
      t->source.region_fd = -1;
      t->source.set_span(from, end);
      t->direct = static_cast<uint8_t>(peer.cma ? Direct::kReceiver : Direct::kCells);
      t->request = twin->index;
      ZH_CHECK_INVARIANT(t->broken_invariant());
      ZH_CRASH_POINT("buffer: offer changed");
    }
    peer.part->queues.lock.unlock();
  }
  if (!ours) {
    complete(twin);  // another time
    return;
  }
  twin->transfer = r->transfer;
  twin->parked = r->parked;
  twin->finished = r->finished;
  twin->carry[0] = r->carry[0];
  twin->carry[1] = r->carry[1];
  list_of(r).replace(r, twin);
  note_unpullable(twin, *t);
  complete(r);
}

}  // namespace zh::p2p
