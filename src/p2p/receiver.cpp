#include "p2p/receiver.h"

#include <new>
#include <vector>

namespace zh::p2p {

// --- What has arrived

void Receiver::deliver(Request* r, const MessageShm& m) {
  r->peer = static_cast<int32_t>(m.sender);
  if (m.kind != Kind::kTransfer) {
    eager_.receive(m, r->buffer, &r->result);
    requests_.complete(r);
    return;
  }
  r->result = result_of(m, r->buffer.bytes);
  rendezvous_.join(r, m);
}

void Receiver::run_taken() {
  const bool watched = channels_.watched();
  Counters& counters = channels_.counters();
  Requests& requests = requests_;
  for (const auto& [r, m] : matcher_.taken()) {
    if (m.kind != Kind::kInline || r->buffer.layout != nullptr || watched) [[unlikely]] {
      deliver(r, m);
      continue;
    }
    r->peer = static_cast<int32_t>(m.sender);
    r->result.source = m.source;
    r->result.tag = m.tag;
    Eager::receive_short(m.payload, m.inline_bytes, r->buffer, counters, &r->result);
    requests.complete(r);
  }
  matcher_.clear_taken();
}

// Receives that another side matched while this rank was away.
bool Receiver::take_matched() {
  Ref ref = matcher_.take_matched();
  const bool any = ref != kNoRef;
  while (ref != kNoRef) {
    Matcher::Taken taken;
    ref = matcher_.unpack_matched(ref, &taken);
    deliver(taken.request, taken.message);
  }
  return any;
}

bool Receiver::collect() {
  matcher_.sources().update();
  bool moved = take_matched();
  for (const uint32_t sender : matcher_.sources().open()) {
    bool more = false;
    if (!matcher_.drain(sender, &more)) return moved;
    if (!more) continue;
    run_taken();
    moved = true;
  }
  return moved;
}

namespace {
// More would hold up the look at the ring.
constexpr uint32_t kLinesPerPoll = 8;
}  // namespace

bool Receiver::await_front(const RecvArgs& args, uint32_t polls, copy::WriteAhead* ahead) {
  shm::EnvelopeRingShm* ring = args.peer < 0 ? nullptr : channels_.ring_from(static_cast<uint32_t>(args.peer));
  for (uint32_t i = 0; i < polls && ring != nullptr; ++i) {
    if (shm::EnvelopeConsumer::ready(ring)) {
      if (i != 0) channels_.expect(true);
      return true;
    }
    ahead->step(kLinesPerPoll);
    // Loads in a row would all be run ahead of and thrown away when the line comes: a pause costs less than that.
    cpu_relax();
  }
  if (ring == nullptr) cpu_relax();
  channels_.expect(true);
  return false;
}

// --- Receives

Request* Receiver::irecv_unposted(const RecvArgs& args) {
  Request* r = requests_.make_receive(args);
  if (r != nullptr) r->arrivals_seen = ~uint64_t{0};
  return r;
}

Request* Receiver::irecv(const RecvArgs& args) {
  Request* r = irecv_unposted(args);
  if (r == nullptr) return r;
  // What has come needs no place in the queue.
  r->arrivals_seen = matcher_.arrivals_gone();
  if (args.peer >= 0) look(r);
  if (r->stage == Stage::kUnposted) post_or_fail(r);
  return r;
}

void Receiver::post_or_fail(Request* r) {
  post(r);
  if (r->stage == Stage::kUnposted && r->done.load_relaxed() == 0) requests_.fail(r, Code::kNoMemory);
}

void Receiver::look(Request* r) {
  matcher_.search(r);
  run_taken();
}

void Receiver::post(Request* r) {
  PostedShm* posted = matcher_.describe(r);
  if (posted == nullptr) return;  // stays unposted: look() goes on serving it
  rendezvous_.describe(r, r->peer, r->buffer.bytes, false, &posted->buffer);
  // Nothing more comes from a dead peer than what is in its ring.
  const bool dead = lost(r->peer, r->context);
  while (dead && collect()) {
  }
  switch (matcher_.post(r, !dead)) {
    case Matcher::Posted::kFound:
      run_taken();
      return;
    case Matcher::Posted::kQueued:
      return;
    case Matcher::Posted::kNothing:
      if (r->peer == kAnyPeer) deaths_.told(r->context);
      break;
    case Matcher::Posted::kBroken:
      break;
  }
  requests_.fail(r, Code::kPeerDead);
}

bool Receiver::cancel(Request* r) {
  if (r->stage != Stage::kPosted || !matcher_.unpost(r)) return false;
  r->result.cancelled = true;
  requests_.complete(r);
  return true;
}

// --- Probes

bool Receiver::iprobe(const RecvArgs& args, Result* out) {
  while (collect()) {
  }
  return matcher_.probe(args, out) || tell_lost(args, out);
}

Message* Receiver::improbe(const RecvArgs& args, Result* out) {
  while (collect()) {
  }
  *out = {};
  Message* message = nullptr;
  if (matcher_.take_probed(args)) {
    message = new (std::nothrow) Message;
    if (message != nullptr) matcher_.taken().front().message.copy_to(&message->entry);
    matcher_.clear_taken();
  }
  if (message == nullptr) {
    tell_lost(args, out);
    return nullptr;
  }
  *out = result_of(message->entry, message->entry.bytes());
  return message;
}

Request* Receiver::imrecv(Message* message, const copy::Buffer& buffer) {
  const MessageShm& m = message->entry;
  const RecvArgs args{static_cast<int32_t>(m.sender), m.source, m.tag, m.context, buffer};
  Request* r = irecv_unposted(args);
  if (r == nullptr) return nullptr;
  deliver(r, m);
  delete message;
  return r;
}

// --- Deaths

bool Receiver::lost(int32_t peer, uint64_t context) const {
  return peer == kAnyPeer ? deaths_.concern(context) : channels_[peer].dead;
}

// A receive that would wait for ever is told instead; so is a probe that finds nothing, of itself or of others.
bool Receiver::tell_lost(const RecvArgs& args, Result* out) {
  if (!lost(args.peer, args.context) && !broken_) return false;
  if (args.peer == kAnyPeer) deaths_.told(args.context);
  *out = {args.source, args.tag, 0, Code::kPeerDead, false};
  return true;
}

bool Receiver::note_broken() {
  if (!matcher_.broken() || broken_) return false;
  broken_ = true;
  return true;
}

// Whatever a dead peer sent before is in its ring, so that is drained first.
void Receiver::fail_lost() {
  while (collect()) {
  }
  const bool broken = broken_ = matcher_.broken();
  std::vector<uint64_t> told;
  requests_.for_each([&](Request* r) {
    if (r->stage != Stage::kPosted && r->stage != Stage::kUnposted) return;
    if (!broken && !lost(r->peer, r->context)) return;
    if (r->stage == Stage::kPosted && !broken && !matcher_.unpost(r)) return;
    if (r->stage == Stage::kPosted && broken) matcher_.give_up();
    requests_.fail(r, Code::kPeerDead);
    if (r->peer == kAnyPeer) told.push_back(r->context);
  });
  for (const uint64_t context : told) deaths_.told(context);
}

}  // namespace zh::p2p
