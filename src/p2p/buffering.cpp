// What a sender does for a receiver that does not take its messages: it turns the receiver's queues, small messages
// that the receiver has not asked for are copied so that the program may go on, and the helper thread of one that sits
// in a call of the host is called for what no peer can do (MPI standard 2.9, 3.5: whatever call a rank blocks in, what
// it has asked for arrives). Called from waits that last, and by a send that has found no room or no receive. Small
// messages are also copied for a receiver that waits for something else: hosts take any number of them, and programs
// count on it.
#include <cstdlib>

#include "copy/kernels.h"
#include "p2p/sender.h"

namespace zh::p2p {

namespace {
constexpr uint64_t kBufferedMessageMax = 256 << 10;
constexpr uint64_t kBufferedMax = uint64_t{1} << 30;  // of one sender, towards all
}  // namespace

void Sender::help(bool in_vain) {
  // All of the parked ones, as seldom as makes them cost no more than the others.
  const bool all = ++helped_ % (1 + rendezvous_.parked_per_turn()) == 0;
  progress_receivers(rendezvous_.sends());
  if (all) progress_receivers(rendezvous_.parked());
  for (const uint32_t dest : queued_peers_) {
    if (channels_.away(channels_[dest])) matcher_.progress_peer(dest);
  }
  help_offered(rendezvous_.sends(), in_vain);
  if (all) help_offered(rendezvous_.parked(), in_vain);
  help_queued(in_vain);
}

void Sender::progress_receivers(const RequestList& sends) {
  sends.for_each([this](Request* r) {
    if (rendezvous_.is_offered(r) && channels_.away(channels_[r->peer]) &&
        matcher_.progress_peer(static_cast<uint32_t>(r->peer)) != 0) {
      rendezvous_.advance_send(r);
    }
  });
}

void Sender::help_offered(const RequestList& sends, bool in_vain) {
  sends.for_each([&](Request* r) {
    Channel& peer = channels_[r->peer];
    const bool host = peer.in_host();
    if (r->peer == static_cast<int32_t>(channels_.self()) || peer.dead || !(host || in_vain)) return;
    const bool offered = rendezvous_.is_offered(r);
    // Matched, but not moved by this end; or still in the ring, because this end may not turn those queues.
    if (host && (!offered || !peer.out.empty())) channels_.call_helper(peer);
    if (offered && may_buffer(r)) {
      peer.stalled = true;
      buffer_offered(r);
    }
  });
}

void Sender::help_queued(bool in_vain) {
  for (const uint32_t dest : queued_peers_) {
    Channel& peer = channels_[dest];
    if (peer.dead || !(in_vain || peer.in_host())) continue;
    if (peer.in_host()) channels_.call_helper(peer);
    peer.stalled = true;
    buffer_queued(peer.waiting.ring);
    buffer_queued(peer.waiting.memory);
  }
}

bool Sender::may_buffer(const Request* r) const {
  if (!channels_.config().ablations.keep_copies) return false;
  return r->mode != SendMode::kSynchronous && !r->detached && r->own_copy == nullptr &&
         r->message_bytes <= kBufferedMessageMax &&
         requests_.buffered_bytes() + Requests::buffered_cost(r->message_bytes) <= kBufferedMax;
}

// A send of a copy, in nobody's list yet; null when there is no memory.
Request* Sender::stand_in(Request* r) {
  const uint64_t n = r->message_bytes;
  auto* copy = static_cast<std::byte*>(std::malloc(n + 1));
  const SendArgs args{static_cast<uint32_t>(r->peer), r->source, r->tag, r->context, {copy, n, nullptr}, r->mode};
  Request* twin = copy != nullptr ? make(args) : nullptr;
  if (twin == nullptr) {
    std::free(copy);
    return nullptr;
  }
  copy::pack(r->buffer, 0, n, copy, copy::Store::kTemporal);
  twin->detached = true;
  twin->stage = r->stage;
  twin->starved = r->starved;
  requests_.give_copy(twin, copy, n);
  channels_.counters().buffered.add(n);
  return twin;
}

void Sender::buffer_queued(RequestList& list) {
  list.for_each([&](Request* r) {
    Request* twin = r->stage == Stage::kQueued && may_buffer(r) ? stand_in(r) : nullptr;
    if (twin == nullptr) return;
    list.replace(r, twin);
    requests_.complete(r);
  });
}

void Sender::buffer_offered(Request* r) {
  if (!rendezvous_.is_offered(r)) return;
  Request* twin = stand_in(r);
  if (twin == nullptr) return;
  auto* t = at<TransferShm>(channels_.base(), r->transfer);
  if (!matcher_.while_offered(r, [&] { rendezvous_.offer_copy(t, *twin); })) {
    requests_.complete(twin);  // another time
    return;
  }
  rendezvous_.replace(r, twin);
  requests_.complete(r);
}

}  // namespace zh::p2p
