// Progress of queues: moving envelopes from rings into a receiver's queues, matching them, and handing what was matched
// to its request - by the receiver for itself, or by a sender for a receiver that is away. Lock sections are short and
// bounded: no copy of payload, no system call, no memory request happens in them.
#include <algorithm>

#include "base/crash_point.h"
#include "copy/kernels.h"
#include "os/clock.h"
#include "os/yield.h"
#include "p2p/endpoint.h"
#include "p2p/skew.h"

namespace zh::p2p {

namespace {
constexpr uint32_t kSpinsBeforeYield = 64;
constexpr uint32_t kYieldsBeforeDeathCheck = 1024;
constexpr uint32_t kPeerLockAttempts = 32;
}  // namespace

// False when the queues are broken for good: their lock's holder died.
bool Endpoint::lock() {
  shm::OwnerLockShm& lock = part_->queues.lock;
  if (lock.try_lock(self_)) return true;
  if (part_->queues.broken.load_relaxed() != 0) return false;
  for (uint32_t turns = 1;; ++turns) {
    if (lock.try_lock(self_)) return true;
    if (turns < kSpinsBeforeYield) {
      cpu_relax();
      continue;
    }
    // The holder may have lost its CPU, or its life.
    os::yield_cpu();
    if (turns % kYieldsBeforeDeathCheck == 0 && broken_for_good(part_->queues)) return false;
  }
}

// Also looks whether whoever holds the lock has died: then it is broken from now on.
bool Endpoint::broken_for_good(QueuesShm& queues) {
  if (queues.broken.load_relaxed() != 0) return true;
  const uint32_t holder = queues.lock.holder();
  if (holder == 0 || holder == self_ + 1 || node_.alive(holder - 1)) return false;
  queues.broken.store_relaxed(1);
  return true;
}

bool Endpoint::try_lock_peer(Peer& peer) {
  QueuesShm& q = peer.part->queues;
  if (q.broken.load_relaxed() != 0) return false;
  for (uint32_t i = 0; i < kPeerLockAttempts; ++i) {
    if (q.lock.try_lock(self_)) return true;
    cpu_relax();
  }
  return false;
}

bool Endpoint::discover_sources() {
  // A3 -> A2: rings announced before are seen below.
  const uint32_t announced = part_->state.announced.load_acquire();
  if (announced == announced_seen_) return false;
  announced_seen_ = announced;
  for (uint32_t i = 0; i < peers_.size(); ++i) {
    // A1 -> A0: the ring's header after its offset.
    if (peers_[i].listening || part_->in()[i].load_acquire() == kNoOffset) continue;
    peers_[i].listening = true;
    sources_.push_back(i);
  }
  return true;
}

// Needs the lock. Returns the envelopes moved; stops early once `extra` (a receive outside the queue, posted last of
// all) has its message, or, with `matched_only`, before the first message that nobody waits for.
uint32_t Endpoint::drain(uint32_t sender, uint32_t budget, Request* extra, bool matched_only) {
  auto* ring = at<shm::EnvelopeRingShm>(base_, part_->in()[sender].load_relaxed());
  uint32_t moved = 0;
  while (moved < budget && taken_count_ < taken_.size()) {
    shm::EnvelopeShm* slot = shm::EnvelopeConsumer::front(ring);
    if (slot == nullptr) break;
    if (slot->kind == shm::kRingMoved) {
      const Offset next = slot->far.where;
      ZH_CRASH_POINT("drain: at the marker");
      // A0 -> A1: the new ring is made.
      part_->in()[sender].store_release(next);
      ring = at<shm::EnvelopeRingShm>(base_, next);
      continue;
    }
    if (moved == 0) {
      if (slot->stamped != 0) [[unlikely]]
        note_age(sender, *slot, ring);
      expect(false);
      peers_[sender].heard = true;
    }
    const Ref ref = queues_.match_posted(slot->context, slot->source, slot->tag);
    bool last = false;
    if (ref != kNoRef) {
      Taken& taken = taken_[taken_count_++];
      taken.request = request_at(queues_.posted(ref)->request);
      queues_.unpost(ref);
      Queues::fill(&taken.message, *slot, sender);
      if (note_match(*part_)) count_lag(self_, false);
    } else if (extra != nullptr && wants(extra, *slot)) {
      Taken& taken = taken_[taken_count_++];
      taken.request = extra;
      Queues::fill(&taken.message, *slot, sender);
      if (note_match(*part_)) count_lag(self_, false);
      last = true;
    } else if (matched_only) {
      break;
    } else {
      const Ref entry = take_entry();
      if (entry == kNoRef) break;
      Queues::fill(queues_.message(entry), *slot, sender);
      queues_.add_unexpected(entry);
      if (note_unexpected(*part_)) count_lag(self_, true);
    }
    ZH_CRASH_POINT("drain: matched, not consumed");
    shm::EnvelopeConsumer::read_ahead(ring);
    shm::EnvelopeConsumer::consume(ring);
    ++moved;
    if (last) break;
  }
  return moved;
}

// Needs the lock.
void Endpoint::take_unexpected(Request* request, Ref ref) {
  Taken& taken = taken_[taken_count_++];
  taken.request = request;
  queues_.message(ref)->copy_to(&taken.message);
  queues_.remove_unexpected(ref);
  free_message(ref);
  if (note_match(*part_)) count_lag(self_, false);
}

void Endpoint::run_taken() {
  for (uint32_t i = 0; i < taken_count_; ++i) {
    Request* r = taken_[i].request;
    if (r->posted != kNoRef) {
      free_posted_.push_back(r->posted);
      r->posted = kNoRef;
    }
    deliver(r, taken_[i].message);
  }
  taken_count_ = 0;
}

// Receives that another side matched while this rank was away.
bool Endpoint::take_matched() {
  if (!lock()) return false;
  Ref ref = queues_.take_matched();
  part_->queues.lock.unlock();
  while (ref != kNoRef) {
    // Both entries are out of every queue, so they are this rank's alone now.
    PostedShm* p = queues_.posted(ref);
    const Ref next = p->link.next;
    const Ref entry = p->message;
    Request* r = request_at(p->request);
    MessageShm message;
    queues_.message(entry)->copy_to(&message);
    r->posted = kNoRef;
    free_posted_.push_back(ref);
    if (lock()) {
      queues_.give_free_message(entry);  // made by another side, so never private
      part_->queues.lock.unlock();
    }
    deliver(r, message);
    ref = next;
  }
  return true;
}

// Empties the rings (up to a budget each). True if anything moved.
bool Endpoint::collect() {
  discover_sources();
  bool moved = false;
  if (part_->queues.matched.load_relaxed() != kNoRef) moved = take_matched();
  for (const uint32_t s : sources_) {
    // A1 -> A0: the ring's header after its offset; a sender may just have moved it on this rank's behalf.
    auto* ring = at<shm::EnvelopeRingShm>(base_, part_->in()[s].load_acquire());
    if (!shm::EnvelopeConsumer::ready(ring)) continue;
    if (part_->queues.free_message_count.load_relaxed() < kDrainBudget) refill_messages();
    if (!lock()) return moved;
    const uint32_t n = drain(s, kDrainBudget, nullptr);
    part_->queues.lock.unlock();
    run_taken();
    moved = moved || n != 0;
  }
  return moved;
}

bool Endpoint::take_front(const RecvArgs& args, Result* out) {
  QueuesShm& q = part_->queues;
  if (!q.lock.try_lock(self_)) return false;
  auto* ring = at<shm::EnvelopeRingShm>(base_, part_->in()[args.peer].load_relaxed());
  shm::EnvelopeShm* slot = shm::EnvelopeConsumer::front(ring);
  shm::EnvelopeConsumer::read_ahead(ring);
  if (q.posted_total.load_relaxed() != 0 || q.unexpected_count.load_relaxed() != 0 || slot == nullptr ||
      part_->state.skewed.load_relaxed() != 0 || slot->kind > static_cast<uint8_t>(Kind::kPiped) ||
      slot->context != args.context || (args.tag != slot->tag && args.tag != kAnyTag) ||
      (args.source != slot->source && args.source != kAnySource)) {
    q.lock.unlock();
    return false;
  }
  if (slot->stamped != 0) [[unlikely]]
    note_age(static_cast<uint32_t>(args.peer), *slot, ring);
  expect(false);
  peers_[static_cast<uint32_t>(args.peer)].heard = true;
  out->source = slot->source;
  out->tag = slot->tag;
  if (slot->kind == static_cast<uint8_t>(Kind::kInline)) {
    // Out of the slot first: the user's buffer may fault, which must not happen under the lock.
    alignas(kLineBytes) std::byte payload[shm::kInlineBytes];
    const uint32_t bytes = slot->inline_bytes;
    copy::copy_small(payload, slot->payload, bytes);
    shm::EnvelopeConsumer::consume(ring);
    q.lock.unlock();
    const uint64_t n = std::min<uint64_t>(bytes, args.buffer.bytes);
    copy::unpack(args.buffer, 0, n, payload, copy::Store::kTemporal);
    out->bytes = n;
    out->code = bytes > n ? Code::kTruncated : Code::kOk;
    counters().count_received(Path::kInline, bytes);
    return true;
  }
  const shm::FarShm far = slot->far;
  const auto kind = static_cast<Kind>(slot->kind);
  shm::EnvelopeConsumer::consume(ring);
  q.lock.unlock();
  const uint64_t n = std::min(far.bytes, args.buffer.bytes);
  out->bytes = n;
  out->code = far.bytes > n ? Code::kTruncated : Code::kOk;
  if (!copy_out(args.buffer, n, kind, far, static_cast<uint32_t>(args.peer))) out->code = Code::kPeerDead;
  return true;
}

Request* Endpoint::irecv_unposted(const RecvArgs& args) {
  Request* r = new_request();
  if (r == nullptr) return nullptr;
  r->is_send = false;
  r->peer = args.peer;
  r->source = args.source;
  r->tag = args.tag;
  r->context = args.context;
  r->buffer = args.buffer;
  r->stage = Stage::kUnposted;
  return r;
}

void Endpoint::look(Request* r) {
  QueuesShm& q = part_->queues;
  if (part_->state.announced.load_relaxed() != announced_seen_) discover_sources();
  bool ready = q.arrivals.load_relaxed() != r->arrivals_seen;
  if (r->peer != kAnyPeer) {
    // A1 -> A0: see collect().
    const Offset in = part_->in()[r->peer].load_acquire();
    ready = ready || (in != kNoOffset && shm::EnvelopeConsumer::ready(at<shm::EnvelopeRingShm>(base_, in)));
  } else {
    for (const uint32_t s : sources_) {
      // A1 -> A0: see collect().
      ready = ready || shm::EnvelopeConsumer::ready(at<shm::EnvelopeRingShm>(base_, part_->in()[s].load_acquire()));
    }
  }
  if (!ready) return;
  if (q.free_message_count.load_relaxed() < 2 * kDrainBudget) refill_messages();
  if (!lock()) return;
  if (q.arrivals.load_relaxed() != r->arrivals_seen) {
    if (const Ref ref = queues_.match_unexpected(r->context, r->source, r->tag); ref != kNoRef) {
      take_unexpected(r, ref);
    }
  }
  if (taken_count_ == 0) {
    if (r->peer != kAnyPeer) {
      if (peers_[static_cast<uint32_t>(r->peer)].listening) drain(static_cast<uint32_t>(r->peer), kDrainBudget, r);
    } else {
      // Start behind the source served last, so that none starves.
      const auto n = static_cast<uint32_t>(sources_.size());
      for (uint32_t i = 0; i < n; ++i) {
        const uint32_t k = (next_source_ + i) % n;
        drain(sources_[k], kDrainBudget, r);
        if (taken_count_ != 0 && taken_[taken_count_ - 1].request == r) {
          next_source_ = (k + 1) % n;
          break;
        }
      }
    }
  }
  // What was queued just now was compared with this receive first.
  r->arrivals_seen = q.arrivals.load_relaxed();
  q.lock.unlock();
  run_taken();
}

void Endpoint::post(Request* r) {
  const Ref ref = new_posted();
  if (ref == kNoRef) return;  // stays unposted: look() goes on serving it
  PostedShm* p = queues_.posted(ref);
  p->request = r->index;
  p->context = r->context;
  p->source = r->source;
  p->tag = r->tag;
  describe(r, r->peer, r->buffer.bytes, false, &p->buffer);
  r->posted = ref;
  // Nothing more comes from a dead peer than what is in its ring.
  const bool dead = lost(r->peer, r->context);
  while (dead && collect()) {
  }
  if (!lock()) {
    fail(r, Code::kPeerDead);
    return;
  }
  // It may have come since; an unexpected message that matches must not be overtaken.
  const Ref message = queues_.match_unexpected(r->context, r->source, r->tag);
  if (message != kNoRef) {
    take_unexpected(r, message);
  } else if (!dead) {
    queues_.post(ref);
    r->stage = Stage::kPosted;
  }
  part_->queues.lock.unlock();
  if (message != kNoRef) {
    run_taken();
  } else if (dead) {
    if (r->peer == kAnyPeer) deaths_.told(r->context);
    fail(r, Code::kPeerDead);
  }
}

// Whether a receive for which nothing has come must not wait.
bool Endpoint::lost(int32_t peer, uint64_t context) const {
  return peer == kAnyPeer ? deaths_.concern(context) : peers_[static_cast<uint32_t>(peer)].dead;
}

// The same for a probe that has found nothing; tells of it.
bool Endpoint::tell_lost(const RecvArgs& args, Result* out) {
  if (!lost(args.peer, args.context) && !broken_) return false;
  if (args.peer == kAnyPeer) deaths_.told(args.context);
  *out = {args.source, args.tag, 0, Code::kPeerDead, false};
  return true;
}

// What has arrived is received without a place in the queue, which costs three times as much: first by the receives
// that were posted before, then by this one.
bool Endpoint::take_arrived(const RecvArgs& args, Result* out) {
  if (args.peer < 0) return false;
  // A1 -> A0: the ring's header after its offset.
  const Offset in = part_->in()[args.peer].load_acquire();
  if (in == kNoOffset) return false;
  auto* ring = at<shm::EnvelopeRingShm>(base_, in);
  if (!shm::EnvelopeConsumer::ready(ring)) return false;
  if (part_->queues.posted_total.load_relaxed() != 0) serve_posted(static_cast<uint32_t>(args.peer));
  return take_front(args, out);
}

Request* Endpoint::irecv(const RecvArgs& args) {
  Request* r = irecv_unposted(args);
  if (r == nullptr) return r;
  if (take_arrived(args, &r->result)) {
    complete(r);
  } else {
    post(r);
  }
  return r;
}

// Takes envelopes of one ring as long as a posted receive matches the first of them.
void Endpoint::serve_posted(uint32_t sender) {
  if (!lock()) return;
  const uint32_t taken = drain(sender, kDrainBudget, nullptr, true);
  part_->queues.lock.unlock();
  if (taken != 0) run_taken();
}

// Needs the receiver's lock. Envelopes of this rank's ring go where the receiver itself would put them.
uint32_t Endpoint::drain_for(uint32_t dest, const Queues& const_queues, bool* short_of_entries) {
  Queues queues = const_queues;
  PartShm& part = *peers_[dest].part;
  auto* ring = at<shm::EnvelopeRingShm>(base_, part.in()[self_].load_relaxed());
  uint32_t moved = 0;
  while (moved < 2 * kDrainBudget) {
    shm::EnvelopeShm* slot = shm::EnvelopeConsumer::front(ring);
    if (slot == nullptr) break;
    if (slot->kind == shm::kRingMoved) {
      const Offset next = slot->far.where;
      // A0 -> A1: the new ring is made.
      part.in()[self_].store_release(next);
      ring = at<shm::EnvelopeRingShm>(base_, next);
      continue;
    }
    const Ref entry = queues.take_free_message();
    if (entry == kNoRef) {
      *short_of_entries = true;
      break;
    }
    MessageShm* message = queues.message(entry);
    Queues::fill(message, *slot, self_);
    ZH_CRASH_POINT("peer: entry filled");
    const Ref ref = queues.match_posted(slot->context, slot->source, slot->tag);
    if (ref == kNoRef) {
      queues.add_unexpected(entry);
      if (note_unexpected(part)) count_lag(dest, true);
    } else {
      queues.unpost(ref);
      ZH_CRASH_POINT("peer: unposted");
      PostedShm* p = queues.posted(ref);
      p->message = entry;
      if (message->kind == Kind::kTransfer && node_.open(message->far.where)) {
        auto* t = at<TransferShm>(base_, message->far.where);
        t->target = p->buffer;
        t->store_matched();  // T1 -> T0: see TransferShm
        if (t->parked != 0) tell_matched(*t);
      }
      queues.push_matched(ref);
      if (note_match(part)) count_lag(dest, false);
    }
    ZH_CRASH_POINT("peer: matched, not consumed");
    shm::EnvelopeConsumer::consume(ring);
    ++moved;
  }
  return moved;
}

// Turns the queues of a receiver that is away, on its behalf; returns the envelopes moved. Entries that its queues lack
// come out of this rank's memory.
uint32_t Endpoint::progress_peer(uint32_t dest) {
  Peer& peer = peers_[dest];
  if (dest == self_ || peer.dead || !peer.out.attached()) return 0;
  QueuesShm& q = peer.part->queues;
  uint32_t moved = 0;
  for (bool again = true; again;) {
    if (!try_lock_peer(peer)) break;
    bool short_of_entries = false;
    if (q.private_entries == 0) moved += drain_for(dest, Queues(base_, &q, nullptr), &short_of_entries);
    q.lock.unlock();
    again = short_of_entries && lend_entries(peer);
  }
  if (moved != 0) {
    ++counters().peer_turns;
    counters().peer_envelopes += moved;
    wake(peer);
    call_helper(peer);  // what came may be what its collectives wait for
  }
  return moved;
}

void Endpoint::progress_receivers(const RequestList& sends) {
  for (Request* r = sends.head; r != nullptr;) {
    Request* next = r->next;
    const auto dest = static_cast<uint32_t>(r->peer);
    const auto* t = at<TransferShm>(base_, r->transfer);
    if (t->load_state() == TransferState::kOffered && away(peers_[dest]) && progress_peer(dest) != 0) {  // T0 -> T1
      advance_send(r);
    }
    r = next;
  }
}

void Endpoint::help_peers(bool in_vain) {
  // All of the parked ones, as seldom as makes them cost no more than the others.
  const bool all = ++helped_ % (1 + parked_.size / kSendsLookedAt) == 0;
  progress_receivers(sends_);
  if (all) progress_receivers(parked_);
  for (const uint32_t dest : queued_peers_) {
    if (away(peers_[dest])) progress_peer(dest);
  }
  help_sends(sends_, in_vain);
  if (all) help_sends(parked_, in_vain);
  help_queued(in_vain);
}

bool Endpoint::iprobe(const RecvArgs& args, Result* out) {
  while (collect()) {
  }
  if (!lock()) return tell_lost(args, out);
  const Ref ref = queues_.match_unexpected(args.context, args.source, args.tag);
  if (ref != kNoRef) {
    const MessageShm* m = queues_.message(ref);
    *out = {m->source, m->tag, m->bytes(), Code::kOk, false};
  }
  part_->queues.lock.unlock();
  return ref != kNoRef || tell_lost(args, out);
}

Message* Endpoint::improbe(const RecvArgs& args, Result* out) {
  while (collect()) {
  }
  *out = {};
  if (!lock()) {
    tell_lost(args, out);
    return nullptr;
  }
  Message* taken = nullptr;
  if (const Ref ref = queues_.match_unexpected(args.context, args.source, args.tag); ref != kNoRef) {
    take_unexpected(nullptr, ref);
  }
  part_->queues.lock.unlock();
  if (taken_count_ != 0) {
    taken = new (std::nothrow) Message;
    if (taken != nullptr) taken_[0].message.copy_to(&taken->entry);
    taken_count_ = 0;
  }
  if (taken != nullptr) {
    *out = {taken->entry.source, taken->entry.tag, taken->entry.bytes(), Code::kOk, false};
  } else {
    tell_lost(args, out);
  }
  return taken;
}

Request* Endpoint::imrecv(Message* message, const copy::Buffer& buffer) {
  RecvArgs args;
  args.source = message->entry.source;
  args.tag = message->entry.tag;
  args.context = message->entry.context;
  args.peer = static_cast<int32_t>(message->entry.sender);
  args.buffer = buffer;
  Request* r = irecv_unposted(args);
  if (r == nullptr) return nullptr;
  deliver(r, message->entry);
  delete message;
  return r;
}

bool Endpoint::cancel(Request* r) {
  if (r->stage == Stage::kDone) return false;
  if (r->is_send) return cancel_send(r);
  if (r->stage != Stage::kPosted) return false;
  if (!lock()) return false;
  // A receive that another side has matched is on the matched list and names its message.
  const bool queued = queues_.posted(r->posted)->message == kNoRef;
  if (queued) queues_.unpost(r->posted);
  part_->queues.lock.unlock();
  if (!queued) return false;
  free_posted_.push_back(r->posted);
  r->posted = kNoRef;
  r->result.cancelled = true;
  complete(r);
  return true;
}

void Endpoint::take_back_sends() {
  for (auto& slab : request_slabs_) {
    for (Request* r = slab.get(); r != slab.get() + kRequestSlab; ++r) {
      if (r->is_send && (r->stage == Stage::kQueued || r->stage == Stage::kTransfer)) cancel(r);
    }
  }
}

bool Endpoint::cancel_send(Request* r) {
  const auto dest = static_cast<uint32_t>(r->peer);
  Peer& peer = peers_[dest];
  if (r->stage == Stage::kQueued) {
    peer.waiting.list_of(r).remove(r);
    r->result.cancelled = true;
    complete(r);
    return true;
  }
  if (r->stage != Stage::kTransfer) return false;
  if (dest == self_) collect();
  auto* t = at<TransferShm>(base_, r->transfer);
  while (!try_lock_peer(peer)) {
    if (peer.dead || broken_for_good(peer.part->queues)) return false;
    os::yield_cpu();
  }
  Queues queues(base_, &peer.part->queues, nullptr);
  Ref ref = kNoRef;
  if (peer.part->queues.private_entries == 0) {
    bool short_of_entries = false;
    if (dest != self_) drain_for(dest, queues, &short_of_entries);
    if (t->load_state() == TransferState::kOffered) {  // T0 -> T1: under the lock, so it stays so
      ref = queues.find_transfer(r->context, r->source, r->tag, r->transfer);
    }
    if (ref != kNoRef) {
      queues.remove_unexpected(ref);
      queues.give_free_message(ref);
    }
  }
  peer.part->queues.lock.unlock();
  if (ref == kNoRef) return false;
  // P0 -> P1: own writes; the label pairs with put_cell().
  const uint32_t published = t->published.load_acquire();
  for (uint32_t i = 0; i < published; ++i) shm::release_block(base_, t->cells[i % t->window].block);
  list_of(r).remove(r);
  give_transfer(r->transfer);
  r->result.cancelled = true;
  complete(r);
  return true;
}

}  // namespace zh::p2p
