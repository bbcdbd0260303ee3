// This rank's buffers as peers reach them: where they can be mapped, published layouts, and keeping peers away while
// the process forks.
#include <algorithm>
#include <cstring>

#include "os/yield.h"
#include "p2p/endpoint.h"

namespace zh::p2p {

namespace {
constexpr uint64_t kLayoutMax = 16 << 10;  // longer descriptions are packed by their owner
constexpr uint32_t kSpinsBeforeYield = 1000;
constexpr uint32_t kYieldsBeforeDeathCheck = 64;
}  // namespace

bool Endpoint::may_be_mapped(const copy::Buffer& buffer, uint64_t bytes, int32_t peer) const {
  if (!memory_.any() || buffer.layout != nullptr || peer == static_cast<int32_t>(self_)) return false;
  const Peer& p = peers_[peer != kAnyPeer ? static_cast<uint32_t>(peer) : self_];
  return p.maps && bytes >= p.choice.mapped_min;
}

bool Endpoint::worth_mapping(const copy::MappedBuffer& mapped, uint64_t bytes, const tune::PairChoice& choice) {
  return mapped.from <= kEdgeMax && mapped.end <= bytes && bytes - mapped.end <= kEdgeMax &&
         mapped.end >= mapped.from + choice.mapped_min;
}

// Whether a message goes by mapped memory once its buffer is.
bool Endpoint::prefers_mapping(const copy::Buffer& buffer, uint64_t bytes, int32_t peer) const {
  if (!may_be_mapped(buffer, bytes, peer)) return false;
  const tune::PairChoice& choice = peers_[static_cast<uint32_t>(peer)].choice;
  return bytes > choice.eager_max || bytes >= choice.mapped_eager_min;
}

// An eager message is a use of its buffer as well, if enough of that are whole pages: libc's blocks begin and end
// inside some.
void Endpoint::count_use(const Peer& peer, const copy::Buffer& buffer) {
  if (buffer.bytes < 2 * uint64_t{peer.choice.mapped_min}) return;
  if (shm::is_closed(part_->access.epoch.load_relaxed())) return;
  copy::MappedBuffer unused;
  if (memory_.publish(buffer.base, buffer.bytes, true, true, &unused) == copy::Published::kFirstUse) {
    ++counters().first_uses;
  }
}

// Asks where the first `bytes` of a request's buffer can be mapped, once per message. The epoch comes first: a place
// that was found before the process forked must not go out with the epoch of after.
void Endpoint::look_up(Request* r, uint64_t bytes, bool exact) {
  // X1 -> X0: the memory as it was when it was opened.
  const uint32_t epoch = part_->access.epoch.load_acquire();
  if (r->looked_up && r->epoch == epoch) return;
  r->mapped = copy::MappedBuffer{};
  r->epoch = epoch;
  r->looked_up = false;
  if (shm::is_closed(epoch)) return;
  const copy::Published answer = memory_.publish(r->buffer.base, bytes, exact, true, &r->mapped);
  r->looked_up = answer != copy::Published::kAskAgain;
  if (answer == copy::Published::kFirstUse) ++counters().first_uses;
  if (trace_ && answer == copy::Published::kNot) trace_->stays_private(r->buffer.base, bytes, memory_.declined());
  // What is mapped must be worth it by itself: the edges go through cells.
  const tune::PairChoice& choice = peers_[r->peer != kAnyPeer ? static_cast<uint32_t>(r->peer) : self_].choice;
  if (!worth_mapping(r->mapped, bytes, choice)) r->mapped = copy::MappedBuffer{};
}

// How `peer` can reach a request's buffer, of which the message takes `bytes` (or at most, unless `exact`). A layout is
// published with the request and freed when it ends.
void Endpoint::describe(Request* r, int32_t peer, uint64_t bytes, bool exact, RemoteBufferShm* out) {
  const copy::Buffer& buffer = r->buffer;
  out->address = reinterpret_cast<uint64_t>(buffer.base);
  out->bytes = buffer.bytes;
  out->layout = kNoOffset;
  out->epoch = 0;
  out->region_fd = -1;
  out->region = copy::RegionRef{};
  out->set_span(0, buffer.bytes);
  if (buffer.layout != nullptr) {
    const tune::PairChoice& choice = peers_[peer != kAnyPeer ? static_cast<uint32_t>(peer) : self_].choice;
    const uint64_t size = buffer.layout->description_bytes();
    const bool large = buffer.bytes >= std::min<uint64_t>(choice.mapped_min, choice.eager_max);
    const Offset copy = large && size <= kLayoutMax ? arena_.allocate(size) : kNoOffset;
    if (copy == kNoOffset) {
      out->layout = kHiddenLayout;
      if (!r->is_send && !r->hidden) {
        r->hidden = true;
        ++hidden_;
      }
      return;
    }
    std::memcpy(base_ + copy, buffer.layout, size);
    r->layout = out->layout = copy;
    r->layout_bytes = size;
    return;
  }
  if (!may_be_mapped(buffer, bytes, peer)) return;
  look_up(r, bytes, exact);
  out->epoch = r->epoch;
  out->region_fd = r->mapped.fd;
  out->region = r->mapped.region;
  if (out->mapped()) out->set_span(r->mapped.from, r->mapped.end);
}

void Endpoint::close_memory() {
  shm::close_access(part_->access);
  for (uint32_t i = 0; i < peers_.size(); ++i) {
    if (i == self_) continue;
    const shm::AccessShm& access = peers_[i].part->access;
    for (uint32_t turns = 1; shm::still_accessed(access, self_); ++turns) {
      if (turns < kSpinsBeforeYield) {
        cpu_relax();
        continue;
      }
      // The peer may have lost its CPU, or its life.
      if (turns % kYieldsBeforeDeathCheck == 0 && node_.ended(i)) break;
      os::yield_cpu();
    }
  }
}

}  // namespace zh::p2p
