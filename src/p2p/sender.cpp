#include "p2p/sender.h"

#include <algorithm>

namespace zh::p2p {

bool Sender::send_now(const SendArgs& args) {
  Channel& peer = channels_[args.dest];
  const uint64_t n = args.data.bytes;
  if (n > peer.choice.eager_max || !peer.waiting.lets(args.context)) return false;
  return eager_.send(peer, args, peer.choice.eager_max);
}

Request* Sender::make(const SendArgs& args) {
  Request* r = requests_.make_send();
  if (r == nullptr) return nullptr;
  r->peer = static_cast<int32_t>(args.dest);
  r->source = args.source;
  r->tag = args.tag;
  r->context = args.context;
  r->buffer = args.data;
  r->mode = args.mode;
  r->message_bytes = args.data.bytes;
  r->began_ticks = channels_.begun_ticks();
  return r;
}

Request* Sender::start(const SendArgs& args, bool waits) {
  Request* r = make(args);
  if (r == nullptr) return nullptr;
  Channel& peer = channels_[args.dest];
  if (peer.dead) {
    requests_.fail(r, Code::kPeerDead);
    return r;
  }
  r->is_cold = waits && has_cold_buffer(r);
  if (rendezvous_.may_be_mapped(r->buffer, r->message_bytes, r->peer)) rendezvous_.look_up(r, r->message_bytes, true);
  const bool first = peer.waiting.lets(r->context);
  if (first && submit(r, waits) == Submitted::kYes) {
    if (r->stage == Stage::kTransfer && (peer.stalled || peer.in_host()) && may_buffer(r)) buffer_offered(r);
    return r;
  }
  // The ring is full: turn the receiver's queues if it is away, else wait in order.
  if (first && channels_.away(peer) && matcher_.progress_peer(args.dest) != 0 && submit(r) == Submitted::kYes) return r;
  wait_in_queue(r, first);
  return r;
}

// What is behind others that the receiver does not take is not to be waited for.
void Sender::wait_in_queue(Request* r, bool first) {
  Channel& peer = channels_[r->peer];
  if (peer.waiting.empty()) queued_peers_.push_back(static_cast<uint32_t>(r->peer));
  Request* twin = (peer.stalled || (!first && peer.in_host())) && may_buffer(r) ? stand_in(r) : nullptr;
  peer.waiting.ring.push_back(twin != nullptr ? twin : r);
  if (twin != nullptr) requests_.complete(r);
}

// In a window of sends the kernel's copy is the faster one of such buffers as well: 1 MiB one way in 141 us, not 202.
bool Sender::has_cold_buffer(const Request* r) {
  const tune::PairChoice& choice = channels_[r->peer].choice;
  const bool matters = r->message_bytes >= choice.single_copy_min && r->message_bytes < choice.single_copy_min_cold;
  const auto to = static_cast<uint32_t>(r->peer);
  return matters && to != channels_.self() && !recent_.note(r->buffer.base, r->message_bytes);
}

uint64_t Sender::most_eager(const Request* r, bool waits) const {
  const auto to = static_cast<uint32_t>(r->peer);
  const tune::PairChoice& choice = channels_[to].choice;
  if (!waits) return r->is_cold ? choice.eager_max_cold : choice.eager_max;
  if (r->is_cold) return std::max(choice.eager_max_cold, choice.piped_max);
  return eager_.most(channels_[to], r->message_bytes, memory_.kernel(to));
}

// A block that is read while it is written keeps both ends busy for the whole message. Where the sender has other
// things to do, a window of sends say, one copy by either end is faster: 256 KiB one way in 14 us instead of 27 near.
Submitted Sender::submit(Request* r, bool waits) {
  const SendArgs args{static_cast<uint32_t>(r->peer), r->source, r->tag, r->context, r->buffer, r->mode};
  Channel& peer = channels_[args.dest];
  if (!channels_.connected(peer)) return Submitted::kNoRoom;
  if (r->own.mapped.region.region == 0 && eager_.send(peer, args, most_eager(r, waits))) {
    requests_.complete(r);
    return Submitted::kYes;
  }
  // What fits beside its envelope only lacked a place in the ring. There may be one by now, but as an offer it would
  // wait for its receive, which a program need not have posted.
  if (args.mode != SendMode::kSynchronous && r->message_bytes <= peer.choice.inline_max) return Submitted::kNoRoom;
  const Submitted submitted = rendezvous_.offer(r);
  if (submitted != Submitted::kYes) return submitted;
  // The later arriver copies: a receive that waits there while its rank computes is served now.
  const bool later = channels_.config().ablations.copier == Copier::kLater;
  if (args.dest != channels_.self() && (later || channels_.away(peer))) matcher_.progress_peer(args.dest);
  rendezvous_.begin(r);
  return Submitted::kYes;
}

bool Sender::submit_queued(Channel& peer) {
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

bool Sender::advance_queued() {
  bool moved = false;
  for (size_t i = 0; i < queued_peers_.size();) {
    Channel& peer = channels_[queued_peers_[i]];
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

bool Sender::cancel(Request* r) {
  if (r->stage == Stage::kQueued) {
    channels_[r->peer].waiting.list_of(r).remove(r);
  } else if (r->stage == Stage::kTransfer && matcher_.withdraw(r)) {
    rendezvous_.drop(r);
  } else {
    return false;
  }
  r->result.cancelled = true;
  requests_.complete(r);
  return true;
}

void Sender::fail_dead() {
  for (Channel& peer : channels_) {
    if (!peer.dead) continue;
    for (RequestList* list : {&peer.waiting.ring, &peer.waiting.memory}) {
      list->for_each([&](Request* r) {
        list->remove(r);
        requests_.fail(r, Code::kPeerDead);
      });
    }
  }
}

}  // namespace zh::p2p
