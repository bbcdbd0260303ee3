// Messages that are copied in and out at once: beside their envelope, or in a block of a ring, long ones while they are
// still being copied in. It refuses to know who waits for them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/crash_point.h"
#include "copy/kernels.h"
#include "p2p/channels.h"
#include "p2p/queues.h"
#include "p2p/types.h"

namespace zh::p2p {

class Eager {
 public:
  explicit Eager(Channels& channels) : channels_(channels) {}

  /// Sends a message of at most `most` bytes, if it finds room; else nothing has happened.
  [[nodiscard]] bool send(Channel& peer, const SendArgs& args, uint64_t most) {
    const uint64_t n = args.data.bytes;
    if (n > most || args.mode == SendMode::kSynchronous || !channels_.connected(peer)) return false;
    return n <= peer.choice.inline_max ? send_inline(peer, args) : send_block(peer, args);
  }
  /// Up to which size a message goes through the ring when its buffer is private. Where one copy is not to be had two
  /// that overlap are the fastest way, and in one block they need no agreement. `kernel`: to `peer` there is one.
  [[nodiscard]] uint64_t most(const Channel& peer, uint64_t bytes, bool kernel) const;

  /// Receives `n` bytes that came beside their envelope into contiguous memory; tells nobody. `out` names its message,
  /// and no error.
  [[gnu::always_inline]] static void receive_short(const std::byte* payload, uint64_t n, const copy::Buffer& buffer,
                                                   Counters& counters, Result* out) {
    counters.count_received(Path::kInline, n);
    if (n > buffer.bytes) [[unlikely]] {
      out->code = Code::kTruncated;
      n = buffer.bytes;
    }
    out->bytes = n;
    copy::copy_in_line(buffer.base, payload, n);
  }
  /// Copies what fits of a message that is not a transfer's into `buffer`, fills `out`, and frees the message's memory.
  /// kPeerDead if the sender died while it was writing.
  void receive(const MessageShm& m, const copy::Buffer& buffer, Result* out) {
    *out = result_of(m, buffer.bytes);
    if (m.kind != Kind::kInline) return receive_block(m, buffer, out);
    if (buffer.layout == nullptr) {
      copy::copy_small(buffer.base, m.payload, out->bytes);
    } else {
      copy::unpack(buffer, 0, out->bytes, m.payload, copy::Store::kTemporal);
    }
    count_received(Path::kInline, m, m.inline_bytes);
  }

 private:
  [[nodiscard]] bool send_inline(Channel& peer, const SendArgs& args);
  [[nodiscard]] bool send_block(Channel& peer, const SendArgs& args);
  void receive_block(const MessageShm& message, const copy::Buffer& buffer, Result* out);
  void count_received(Path path, const MessageShm& m, uint64_t bytes) {
    channels_.counters().count_received(path, bytes);
    channels_.note(Event::Kind::kReceived, path, m.sender, m, bytes, m.number);
  }
  void send_piped(Channel& peer, const SendArgs& args, shm::EnvelopeShm* slot, const shm::BlockShm& block,
                  copy::Store store);
  [[nodiscard]] bool copy_piped(const copy::Buffer& buffer, uint64_t n, const shm::FarShm& far, uint32_t sender);

  Channels& channels_;
};

/// The matching triple of a send (SendArgs or Request) into a claimed slot.
template <typename Send>
void address(shm::EnvelopeShm* slot, Kind kind, const Send& send) {
  slot->kind = static_cast<uint8_t>(kind);
  slot->stamped = 0;
  slot->source = send.source;
  slot->tag = send.tag;
  slot->context = send.context;
}

inline uint64_t Eager::most(const Channel& peer, uint64_t bytes, bool kernel) const {
  const tune::PairChoice& choice = peer.choice;
  const bool single = &peer == &channels_[channels_.self()] || (kernel && bytes >= choice.single_copy_min);
  return single ? choice.eager_max : std::max(choice.eager_max, choice.piped_max);
}

}  // namespace zh::p2p
