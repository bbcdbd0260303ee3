// The way of most messages, each call in one piece: short, contiguous, from or to one peer, with nothing unusual in
// sight. What is not so takes the general way (Sender, Receiver), which does the same and more. Called by engine::Rank
// where no other thread may call. Always in line and without a call of its own, so that all it needs is in registers;
// it refuses to wait, to ask for memory, and to tell anyone.
#pragma once

#include "base/crash_point.h"
#include "p2p/endpoint.h"

namespace zh::p2p {

/// Sends a message that fits beside its envelope. False if nothing has happened.
[[gnu::always_inline]] inline bool Endpoint::send_short(const SendArgs& args) {
  Channel& peer = channels_[args.dest];
  const uint64_t n = args.data.bytes;
  if (n > peer.choice.inline_max || args.data.layout != nullptr || args.mode == SendMode::kSynchronous) return false;
  if (!peer.waiting.empty() || peer.bell != nullptr || channels_.watched()) return false;
  const bool half = n <= shm::kHalfLinePayload;
  shm::EnvelopeShm* slot = peer.out.claim_at_once(half);
  if (slot == nullptr || channels_.stamps(peer)) return false;
  slot->kind = static_cast<uint8_t>(Kind::kInline);
  slot->stamped = 0;
  slot->inline_bytes = static_cast<uint8_t>(n);
  slot->source = args.source;
  slot->tag = args.tag;
  slot->context = args.context;
  copy::copy_in_line(slot->payload, args.data.base, n);
  ZH_CRASH_POINT("inline: slot filled");
  peer.out.publish(slot, half && !peer.heard);
  peer.heard = false;
  channels_.counters().count_sent(Path::kInline, static_cast<uint8_t>(n));
  Channels::wake(peer);
  return true;
}

/// Receives a message that has come beside its envelope, waits at the head of its ring, and is nobody else's. False if
/// nothing has happened. `kBlocks`: also one that has come in a block, or that somebody is told of, which takes calls;
/// else nobody may be.
template <bool kBlocks>
[[gnu::always_inline]] inline bool Endpoint::recv_short(const RecvArgs& args, Result* out) {
  if (args.peer < 0 || (!kBlocks && args.buffer.layout != nullptr)) return false;
  const auto sender = static_cast<uint32_t>(args.peer);
  shm::EnvelopeRingShm* ring = channels_.ring_from(sender);
  if (ring == nullptr) return false;
  shm::EnvelopeConsumer consumer(ring);
  const shm::EnvelopeShm* slot = consumer.published();
  shm::OwnerLockShm& lock = matcher_.guard().lock;
  if (slot == nullptr || !lock.try_lock(channels_.self())) return false;
  const PartShm& part = channels_.part();
  const QueuesShm& q = part.queues;
  constexpr Kind kLast = kBlocks ? Kind::kPiped : Kind::kInline;
  const bool alone =
      (q.posted_total.load_relaxed() | q.unexpected_count.load_relaxed() | part.state.skewed.load_relaxed()) == 0;
  if (!alone || !consumer.still_first() || slot->kind > static_cast<uint8_t>(kLast) ||
      (!kBlocks && slot->stamped != 0) || slot->context != args.context || slot->source != args.source ||
      (slot->tag != args.tag && args.tag != kAnyTag)) {
    lock.unlock();
    return false;
  }
  if (kBlocks) {
    channels_.note_heard(sender, *slot, ring);
  } else {
    channels_.note_heard(sender);
  }
  if (kBlocks &&
      (slot->kind != static_cast<uint8_t>(Kind::kInline) || args.buffer.layout != nullptr || channels_.watched())) {
    MessageShm message;
    Queues::fill(&message, *slot, sender);
    consumer.consume(slot);
    lock.unlock();
    eager_.receive(message, args.buffer, out);
    return true;
  }
  // Out of the slot first: the user's buffer may fault, which must not happen under the lock.
  std::byte payload[shm::kInlineBytes];
  const uint64_t n = slot->inline_bytes;
  out->source = args.source;
  out->tag = slot->tag;
  std::memcpy(payload, slot->payload, shm::kHalfLinePayload);
  if (n > shm::kHalfLinePayload) copy::copy_in_line(payload, slot->payload, n);
  consumer.read_ahead();
  consumer.consume(slot);
  lock.unlock();
  Eager::receive_short(payload, n, args.buffer, channels_.counters(), out);
  return true;
}

/// Starts a receive of which peers need to know no more than its address, and whose message has not come. Null if
/// nothing has happened.
[[gnu::always_inline]] inline Request* Endpoint::irecv_short(const RecvArgs& args) {
  if (args.buffer.bytes >= plain_receives_ || args.buffer.layout != nullptr) return nullptr;
  Queues& queues = matcher_.own_queues();
  QueuesShm& q = queues.shm();
  // What has come needs no place in the queue, unless others wait there before it.
  if (q.posted_total.load_relaxed() == 0 && args.peer >= 0) {
    shm::EnvelopeRingShm* ring = channels_.ring_from(static_cast<uint32_t>(args.peer));
    if (ring != nullptr && shm::EnvelopeConsumer::ready(ring)) return nullptr;
  }
  Request* r = requests_.first_free();
  if (r == nullptr || !is_shared(r->posted)) return nullptr;
  PostedShm* p = at<PostedShm>(channels_.base(), uint64_t{r->posted} * kLineBytes);
  p->context = args.context;
  p->source = args.source;
  p->tag = args.tag;
  p->buffer.set_private(args.buffer.base, args.buffer.bytes);
  r->begin_receive(args);
  r->stage = Stage::kFree;  // as long as it is
  shm::OwnerLockShm& lock = matcher_.guard().lock;
  if (!lock.try_lock(channels_.self())) return nullptr;
  if (q.unexpected_count.load_relaxed() != 0 || !queues.takes_at_once()) {
    lock.unlock();
    return nullptr;
  }
  queues.append(r->posted, p);
  lock.unlock();
  requests_.take_first();
  matcher_.count_queued();
  r->stage = Stage::kPosted;
  return r;
}

}  // namespace zh::p2p
