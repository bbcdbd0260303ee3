// Rings towards peers: made with the first message, grown with traffic.
#include <algorithm>
#include <cstring>

#include "base/crash_point.h"
#include "p2p/channels.h"

namespace zh::p2p {

namespace {
constexpr uint32_t kEnvelopesMax = 1024;
constexpr uint32_t kEnvelopesStep = 16;  // growth factor
constexpr uint64_t kPayloadFirst = 32 << 10;
constexpr uint64_t kPayloadStep = 4;  // growth factor
// A larger ring costs the time of its pages, 0.85 us a KiB; a message of 16 KiB takes 2.0 us through a small one and
// 0.8 through a large one (near, AMD).
constexpr uint64_t kLapsBeforeGrowth = 16;
constexpr uint32_t kFullBeforeGrowth = 4;
constexpr uint64_t kOverflowBytes = 4 << 20;
}  // namespace

bool Channels::connect(Channel& peer) {
  const uint64_t ring_bytes = shm::EnvelopeRingShm::size_bytes(first_slots());
  // Whoever has filled the rest, a first message finds room.
  Offset offset = arena_.allocate(ring_bytes);
  if (offset == kNoOffset) offset = arena_.allocate_reserve(ring_bytes, 0);
  if (offset == kNoOffset) return false;
  --unconnected_;
  auto* ring = at<shm::EnvelopeRingShm>(base_, offset);
  std::memset(static_cast<void*>(ring), 0, ring_bytes);
  ring->capacity = first_slots();
  if (peer.part->state.polled.fetch_add_relaxed(1) >= config_.polled_senders) {
    peer.bell = peer.part->bells(size()) + self_ / shm::BellShm::kSenders;
    ring->rings_bell = 1;
  }
  peer.out.attach(ring);
  ZH_CRASH_POINT("connect: ring made");
  // A0 -> A1: the ring's header before its offset.
  peer.part->in()[self_].store_release(offset);
  ZH_CRASH_POINT("connect: ring named");
  // A2 -> A3: the offset before the announcement.
  peer.part->state.announced.fetch_add_acq_rel(1);
  if (trace_) trace_->connected(rank_of(peer), peer.choice, peer.is_far);
  return true;
}

shm::EnvelopeShm* Channels::claim_when_full(Channel& peer) {
  ++counters().ring_full;
  if (++peer.full_streak < kFullBeforeGrowth || peer.out.capacity() >= kEnvelopesMax) return nullptr;
  grow_envelopes(peer);
  return peer.out.claim();
}

// The marker goes into the slot that claim() always keeps free, so the old ring always has room for it.
void Channels::grow_envelopes(Channel& peer) {
  peer.full_streak = 0;
  const uint32_t capacity = std::min(kEnvelopesMax, kEnvelopesStep * peer.out.capacity());
  const uint64_t bytes = shm::EnvelopeRingShm::size_bytes(capacity);
  const Offset offset = may_grow(bytes) ? arena_.allocate(bytes) : kNoOffset;
  if (offset == kNoOffset) return;
  auto* ring = at<shm::EnvelopeRingShm>(base_, offset);
  std::memset(static_cast<void*>(ring), 0, bytes);
  ring->capacity = capacity;
  ring->rings_bell = peer.bell != nullptr ? 1 : 0;
  shm::EnvelopeShm* marker = peer.out.claim(0);
  if (marker == nullptr) {
    arena_.free(offset, bytes);
    return;
  }
  marker->kind = shm::kRingMoved;
  marker->far.where = offset;
  ring->consumed.store_relaxed(peer.out.write_pos() + 2);  // positions go on behind the marker: each number is one's
  ZH_CRASH_POINT("grow: marker filled");
  peer.out.publish(marker);
  // The old ring is never used again: its consumer may still be peeking at it.
  peer.out.attach(ring);
  ++counters().rings_grown;
  if (trace_) trace_->grown(rank_of(peer), "envelope", capacity, "slots");
}

// For blocks of `wanted` bytes, of which two should fit.
void Channels::grow_payload(Channel& peer, uint64_t wanted) {
  const uint64_t most = std::max<uint64_t>(kPayloadFirst, peer.choice.ring_bytes_max);
  const uint64_t least = peer.payload.attached() ? peer.payload.size_bytes() * kPayloadStep : kPayloadFirst;
  uint64_t bytes = least;
  while (bytes < 2 * wanted && bytes < most && may_grow(bytes * kPayloadStep)) bytes *= kPayloadStep;
  bytes = std::min(bytes, most);
  if (peer.payload.attached() && (bytes <= peer.payload.size_bytes() || !may_grow(bytes))) return;
  const Offset offset = arena_.allocate(bytes);
  if (offset == kNoOffset) return;
  shm::PayloadRing larger;
  if (!larger.attach(base_, offset, bytes)) {
    arena_.free(offset, bytes);
    return;
  }
  if (peer.payload.attached()) {
    peer.old.push_back({peer.payload.memory(), peer.payload.size_bytes(), std::move(peer.payload)});
    ++counters().rings_grown;
  }
  peer.payload = std::move(larger);
  if (trace_) trace_->grown(rank_of(peer), "payload", bytes, "bytes");
}

void Channels::retire_old(Channel& peer) {
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
bool Channels::claim_block(Channel& peer, uint64_t bytes, shm::BlockShm* block, bool matched) {
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
bool Channels::claim_overflow(Channel& peer, uint64_t bytes, shm::BlockShm* block) {
  if (config_.skew == 0 || peer.part->state.skewed.load_relaxed() == 0) return false;
  if (!peer.overflow.attached()) {
    const Offset offset = may_grow(kOverflowBytes) ? arena_.allocate(kOverflowBytes) : kNoOffset;
    if (offset == kNoOffset) return false;
    if (!peer.overflow.attach(base_, offset, kOverflowBytes)) {
      arena_.free(offset, kOverflowBytes);
      return false;
    }
    if (trace_) trace_->grown(rank_of(peer), "overflow", kOverflowBytes, "bytes, since the peer lags");
  }
  last_ring_ = &peer.overflow;
  return peer.overflow.allocate(bytes, block);
}

}  // namespace zh::p2p
