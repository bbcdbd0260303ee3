// This rank's buffers as peers reach them: where they can be mapped, and published layouts.
#include <cstring>

#include "p2p/rendezvous.h"

namespace zh::p2p {

namespace {
constexpr uint64_t kLayoutMax = 16 << 10;  // longer descriptions are packed by their owner
/// Memory that is let in to is pinned: no more than this for a message that may be short.
constexpr uint64_t kUnsureMax = 4 << 20;
}  // namespace

bool Rendezvous::can_map(const copy::Buffer& buffer, int32_t peer) const {
  const auto self = static_cast<int32_t>(channels_.self());
  if (!memory_.own().any() || buffer.layout != nullptr || peer == self) return false;
  return memory_.maps(static_cast<uint32_t>(peer != kAnyPeer ? peer : self));
}

void Rendezvous::look_up(Request* r, uint64_t bytes, bool exact) {
  r->plain = false;
  const tune::PairChoice& choice = choice_for(r->peer);
  const copy::Published answer = memory_.look_up(r->buffer.base, bytes, exact, choice.mapped.saves_ns(bytes), &r->own);
  if (answer == copy::Published::kNot && channels_.trace() != nullptr) {
    channels_.trace()->stays_private(r->buffer.base, bytes, memory_.own().declined());
  }
}

void Rendezvous::publish_layout(Request* r, int32_t peer, copy::RemoteBufferShm* out) {
  const copy::Buffer& buffer = r->buffer;
  const tune::PairChoice& choice = choice_for(peer);
  const uint64_t size = buffer.layout->description_bytes();
  const bool by_cma = peer != static_cast<int32_t>(channels_.self()) && !memory_.lets_in(peer);
  const bool wanted = buffer.bytes >= choice.eager_max && !(by_cma && buffer.layout->short_blocks());
  const Offset copy = wanted && size <= kLayoutMax ? channels_.arena().allocate(size) : kNoOffset;
  if (copy == kNoOffset) {
    out->layout = copy::kHiddenLayout;
    if (!r->is_send) requests_.hide(r);
    return;
  }
  std::memcpy(channels_.base() + copy, buffer.layout, size);
  r->plain = false;
  r->layout = out->layout = copy;
  r->layout_bytes = size;
}

void Rendezvous::publish_memory(Request* r, uint64_t bytes, bool exact, copy::RemoteBufferShm* out) {
  look_up(r, bytes, exact);
  const copy::MappedBuffer& mapped = r->own.mapped;
  if (mapped.region.region != 0) out->set_mapped(mapped.region, mapped.fd, r->own.epoch, mapped.from, mapped.end);
}

// What the kernel's module has not been told of no peer tries to reach, but by CMA: one that this rank reaches so was
// most likely refused by another.
void Rendezvous::let_in(Request* r, int32_t peer, uint64_t bytes, bool exact, copy::RemoteBufferShm* out) {
  if (!out->reachable() || (out->mapped() && (peer >= 0 || !memory_.lets_in_mapped()))) return;
  const tune::PairChoice& choice = choice_for(peer);
  const bool wanted = bytes >= choice.single_copy_min && (exact || bytes <= kUnsureMax);
  if ((wanted && memory_.let_in(r->buffer, bytes, !r->is_send)) || out->mapped()) return;
  if (peer >= 0 && memory_.by_cma(static_cast<uint32_t>(peer))) return;
  out->layout = copy::kHiddenLayout;
  if (!r->is_send && bytes > choice.eager_max) requests_.hide(r);
}

}  // namespace zh::p2p
