// What a sender does in the queues of its receiver, under their lock.
#include "base/crash_point.h"
#include "os/yield.h"
#include "p2p/matcher.h"
#include "p2p/skew.h"
#include "p2p/transfer.h"

namespace zh::p2p {

namespace {
constexpr uint32_t kPeerLockAttempts = 32;
}  // namespace

bool Matcher::try_lock_peer(Channel& peer) const {
  QueuesShm& guard = *peer.guard;
  if (guard.broken.load_relaxed() != 0) return false;
  for (uint32_t i = 0; i < kPeerLockAttempts; ++i) {
    if (guard.lock.try_lock(channels_.self())) return true;
    cpu_relax();
  }
  return false;
}

void Matcher::match_transfer(const MessageShm& message, const PostedShm& posted) {
  if (message.kind != Kind::kTransfer || !channels_.node().open(message.far.where)) return;
  auto* t = at<TransferShm>(channels_.base(), message.far.where);
  t->target = posted.buffer;
  t->store_matched();  // T1 -> T0: see TransferShm
  if (t->parked != 0) channels_[uint32_t{t->sender}].part->state.matched.tell(t->request);
}

// Envelopes of this rank's ring go where the receiver itself would put them.
Matcher::Placed Matcher::place_for_peer(const shm::EnvelopeShm& slot, uint32_t dest, Queues& queues,
                                        bool* short_of_entries) {
  PartShm& part = *channels_[dest].part;
  const Ref entry = queues.take_free_message();
  if (entry == kNoRef) {
    *short_of_entries = true;
    return Placed::kNot;
  }
  MessageShm* message = queues.message(entry);
  Queues::fill(message, slot, channels_.self());
  ZH_CRASH_POINT("peer: entry filled");
  const Ref ref = queues.match_posted(slot.context, slot.source, slot.tag);
  if (ref == kNoRef) {
    queues.add_unexpected(entry);
    if (note_unexpected(part)) channels_.count_lag(dest, true);
  } else {
    queues.unpost(ref);
    ZH_CRASH_POINT("peer: unposted");
    PostedShm* p = queues.posted(ref);
    p->message = entry;
    match_transfer(*message, *p);
    queues.push_matched(ref);
    if (note_match(part)) channels_.count_lag(dest, false);
  }
  ZH_CRASH_POINT("peer: matched, not consumed");
  return Placed::kDone;
}

uint32_t Matcher::drain_peer(uint32_t dest, Queues& queues, bool* short_of_entries) {
  Atomic<uint64_t>& in = channels_[dest].part->in()[channels_.self()];
  return drain_ring(in, 2 * kDrainBudget,
                    [&](const shm::EnvelopeShm& slot) { return place_for_peer(slot, dest, queues, short_of_entries); });
}

uint32_t Matcher::progress_peer(uint32_t dest) {
  Channel& peer = channels_[dest];
  if (dest == channels_.self() || peer.dead || !peer.out.attached()) return 0;
  QueuesShm& q = peer.part->queues;
  uint32_t moved = 0;
  for (bool again = true; again;) {
    if (!try_lock_peer(peer)) break;
    bool short_of_entries = false;
    if (q.private_entries == 0) {
      Queues queues(channels_.base(), &q, nullptr);
      moved += drain_peer(dest, queues, &short_of_entries);
    }
    peer.guard->lock.unlock();
    again = short_of_entries && lend_entries(peer);
  }
  if (moved != 0) {
    ++channels_.counters().peer_turns;
    channels_.counters().peer_envelopes += moved;
    Channels::wake(peer);
    channels_.call_helper(peer);  // what came may be what its collectives wait for
  }
  return moved;
}

// Entries stay with the receiver for good; they name memory of this rank's part, which outlives its process.
bool Matcher::lend_entries(Channel& peer) {
  constexpr uint64_t kBytes = kMessageSlab * kMessageBytes;
  if (spare_entries_.empty()) {
    const Offset made = channels_.may_grow(kBytes) ? channels_.arena().allocate(kBytes) : kNoOffset;
    if (made == kNoOffset) return false;
    spare_entries_.push_back(made);
  }
  if (!try_lock_peer(peer)) return false;
  const Offset slab = spare_entries_.back();
  spare_entries_.pop_back();
  Queues queues(channels_.base(), &peer.part->queues, nullptr);
  give_slab(queues, slab);
  ZH_CRASH_POINT("lend: entries given");
  peer.guard->lock.unlock();
  channels_.counters().entries_lent += kMessageSlab;
  return true;
}

bool Matcher::withdraw(const Request* r) {
  Channel& peer = channels_[r->peer];
  const auto dest = static_cast<uint32_t>(r->peer);
  while (!try_lock_peer(peer)) {
    if (peer.dead || broken_for_good(*peer.guard)) return false;
    os::yield_cpu();
  }
  const auto* t = at<TransferShm>(channels_.base(), r->transfer);
  Queues queues(channels_.base(), &peer.part->queues, nullptr);
  Ref ref = kNoRef;
  if (peer.part->queues.private_entries == 0) {
    bool short_of_entries = false;
    if (dest != channels_.self()) drain_peer(dest, queues, &short_of_entries);
    if (t->load_state() == TransferState::kOffered) {  // T0 -> T1: under the lock, so it stays so
      ref = queues.find_transfer(r->context, r->source, r->tag, r->transfer);
    }
    if (ref != kNoRef) {
      queues.remove_unexpected(ref);
      queues.give_free_message(ref);
    }
  }
  peer.guard->lock.unlock();
  return ref != kNoRef;
}

// Needs the receiver's lock, as does is_in_ring().
bool Matcher::holds_offer(Channel& peer, const Request* r) const {
  const Queues queues(channels_.base(), &peer.part->queues, nullptr);
  return is_in_ring(peer, r->transfer) || (peer.part->queues.private_entries == 0 &&
                                           queues.find_transfer(r->context, r->source, r->tag, r->transfer) != kNoRef);
}

// The ring may have moved on, marker by marker.
bool Matcher::is_in_ring(Channel& peer, Offset transfer) const {
  auto* ring = at<shm::EnvelopeRingShm>(channels_.base(), peer.part->in()[channels_.self()].load_relaxed());
  for (uint32_t pos = ring->consumed.load_relaxed();;) {
    const shm::EnvelopeShm& slot = *ring->slot_at(pos);
    if (slot.seq.load_relaxed() != pos + 1) return false;  // this rank has written them all
    if (slot.kind == static_cast<uint8_t>(Kind::kTransfer) && slot.far.where == transfer) return true;
    pos = shm::EnvelopeRingShm::behind(pos, slot);
    if (slot.kind != shm::kRingMoved) continue;
    ring = at<shm::EnvelopeRingShm>(channels_.base(), slot.far.where);
    pos = ring->consumed.load_relaxed();
  }
}

}  // namespace zh::p2p
