#include "p2p/eager.h"

#include <algorithm>

#include "base/crash_point.h"
#include "copy/kernels.h"
#include "os/yield.h"

namespace zh::p2p {

namespace {
constexpr uint32_t kFullRingSpins = 1000;
constexpr uint32_t kFullRingLooksPerDeathCheck = 256;

/// What a piped message's next step adds: the receiver begins early, then counts little, and has little left to copy
/// when the sender is ready.
uint64_t piped_step(const tune::PairChoice& choice, uint64_t from, uint64_t left) {
  const uint64_t least = choice.chunk_piped;
  const uint64_t most = std::min<uint64_t>({from, left / 2, choice.chunk_piped_most});
  return std::min(left, std::max(least, most / least * least));
}
}  // namespace

bool Eager::send_inline(Channel& peer, const SendArgs& args) {
  const uint64_t n = args.data.bytes;
  shm::EnvelopeShm* slot = channels_.claim_slot(peer, n);
  if (slot == nullptr) return false;
  address(slot, Kind::kInline, args);
  slot->inline_bytes = static_cast<uint8_t>(n);
  copy::pack(args.data, 0, n, slot->payload, copy::Store::kTemporal);
  ZH_CRASH_POINT("inline: slot filled");
  channels_.note(Event::Kind::kSent, Path::kInline, args.dest, args, n, peer.out.write_pos() + 1);
  // In a burst messages share lines. One that is answered, or waited for, has a line that this end holds already.
  channels_.publish(peer, slot, n <= shm::kHalfLinePayload && !peer.heard);
  peer.heard = false;
  channels_.counters().count_sent(Path::kInline, n);
  Channels::wake(peer);
  return true;
}

bool Eager::send_block(Channel& peer, const SendArgs& args) {
  const uint64_t n = args.data.bytes;
  shm::EnvelopeShm* slot = channels_.claim_slot(peer);
  if (slot == nullptr) return false;
  shm::BlockShm block;
  const bool piped = n > peer.choice.piped_min;
  if (!channels_.claim_block(peer, piped ? n + sizeof(shm::PipedShm) : n, &block)) return false;
  const copy::Store store = n >= peer.choice.nontemporal_min ? copy::Store::kNonTemporal : copy::Store::kTemporal;
  if (piped) {
    send_piped(peer, args, slot, block, store);
    return true;
  }
  std::byte* const payload = channels_.base() + block.payload;
  if (args.data.layout == nullptr) {
    copy::copy_bytes(payload, args.data.base, n, store);
  } else {
    copy::pack(args.data, 0, n, payload, store);
  }
  address(slot, Kind::kEager, args);
  slot->far.bytes = n;
  slot->far.block = block;
  ZH_CRASH_POINT("eager: slot and block filled");
  channels_.note(Event::Kind::kSent, Path::kEager, args.dest, args, n, peer.out.write_pos() + 1);
  channels_.publish(peer, slot);
  channels_.count_sent(args.dest, Path::kEager, n);
  peer.stalled = false;
  Channels::wake(peer);
  return true;
}

// The envelope goes out with the first piece, so that the receiver copies out while the rest is copied in.
void Eager::send_piped(Channel& peer, const SendArgs& args, shm::EnvelopeShm* slot, const shm::BlockShm& block,
                       copy::Store store) {
  auto* head = at<shm::PipedShm>(channels_.base(), block.payload);
  auto* payload = reinterpret_cast<std::byte*>(head + 1);
  const uint64_t n = args.data.bytes;
  const uint64_t first = std::min<uint64_t>(peer.choice.chunk_piped, n);
  copy::pack(args.data, 0, first, payload, store);
  head->filled.store_relaxed(first);  // published with the envelope
  address(slot, Kind::kPiped, args);
  slot->far.bytes = n;
  slot->far.block = block;
  slot->far.where = first;
  channels_.note(Event::Kind::kSent, Path::kEager, args.dest, args, n, peer.out.write_pos() + 1);
  channels_.publish(peer, slot);
  for (uint64_t from = first; from < n;) {
    const uint64_t piece = piped_step(peer.choice, from, n - from);
    copy::pack(args.data, from, piece, payload + from, store);
    from += piece;
    // F1 -> F0: the piece before its count.
    head->filled.store_release(from);
    ZH_CHECK_INVARIANT(head->broken_invariant(n));
  }
  channels_.count_sent(args.dest, Path::kEager, n);
  Channels::wake(peer);
}

void Eager::receive_block(const MessageShm& m, const copy::Buffer& buffer, Result* out) {
  const uint64_t n = out->bytes;
  if (m.kind == Kind::kEager) {
    copy::unpack(buffer, 0, n, channels_.base() + m.far.block.payload, copy::Store::kTemporal);
  } else if (!copy_piped(buffer, n, m.far, m.sender)) {
    out->code = Code::kPeerDead;
    return;
  }
  count_received(Path::kEager, m, m.bytes());
  channels_[m.sender].note_written(n);
  ZH_CRASH_POINT("eager: copied, not released");
  shm::release_block(channels_.base(), m.far.block);
}

bool Eager::copy_piped(const copy::Buffer& buffer, uint64_t n, const shm::FarShm& far, uint32_t sender) {
  const auto* head = at<shm::PipedShm>(channels_.base(), far.block.payload);
  const auto* payload = reinterpret_cast<const std::byte*>(head + 1);
  uint64_t done = 0;
  // The first piece came with the envelope: no line of the head is fetched for it.
  uint64_t ready = std::min<uint64_t>(far.where, n);
  os::Backoff backoff(kFullRingSpins, kFullRingLooksPerDeathCheck);
  for (; done < n; ready = std::min(head->filled.load_acquire(), n)) {  // F0 -> F1: the piece after
    if (ready > done) {
      copy::unpack(buffer, done, ready - done, payload + done, copy::Store::kTemporal);
      done = ready;
      backoff.reset();
      continue;
    }
    const bool look = backoff.pause() && sender != channels_.self();
    if (look && !channels_.node().alive(sender) && head->filled.load_relaxed() <= done) return false;
  }
  return true;
}

}  // namespace zh::p2p
