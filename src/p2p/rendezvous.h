// Large messages: offered, matched, and moved chunk by chunk by whichever end is there - cells, single copy through the
// kernel, or mapped memory. A transfer's way is drawn in docs/design/point-to-point.md. It refuses to know queues and
// matching: an offer's envelope goes into a ring, and a match comes back in the transfer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "copy/peer_memory.h"
#include "p2p/channels.h"
#include "p2p/queues.h"
#include "p2p/requests.h"
#include "p2p/transfer.h"

namespace zh::p2p {

/// How putting a send into the ring ended.
enum class Submitted : uint8_t {
  kYes,
  kNoRoom,   ///< in the ring, or in memory that its consumer gives back; nothing has happened
  kNoMemory  ///< to describe it; nothing has happened
};

class Rendezvous {
 public:
  Rendezvous(Channels& channels, Requests& requests, copy::PeerMemory& memory)
      : channels_(channels), requests_(requests), memory_(memory) {}

  // describe.cpp: this rank's buffers as peers reach them.

  /// Whether a message goes by mapped memory once its buffer is.
  [[nodiscard]] bool may_be_mapped(const copy::Buffer& buffer, uint64_t bytes, int32_t peer) const {
    return bytes >= choice_for(peer).mapped.least && can_map(buffer, peer);
  }
  /// Where peers can map the first `bytes` of a request's buffer.
  void look_up(Request* request, uint64_t bytes, bool exact);
  /// How `peer` can reach a request's buffer, of which the message takes `bytes` (or at most, unless `exact`). A layout
  /// is published with the request and freed when it ends.
  void describe(Request* request, int32_t peer, uint64_t bytes, bool exact, copy::RemoteBufferShm* out) {
    out->set_private(request->buffer.base, request->buffer.bytes);
    if (request->buffer.layout != nullptr) {
      publish_layout(request, peer, out);
    } else if (may_be_mapped(request->buffer, bytes, peer)) {
      publish_memory(request, bytes, exact, out);
    }
    if (memory_.lets_in(peer)) let_in(request, peer, bytes, exact, out);
  }

  // rendezvous.cpp: a transfer's begin and end.

  /// Offers a queued send to its receiver.
  [[nodiscard]] Submitted offer(Request* send);
  /// The first turn of a send that was just offered: a nonblocking one must not take the time of a long message that
  /// its receiver can copy as well, and of several each end then copies others.
  void begin(Request* send);
  /// Joins a receive to the transfer that it has matched.
  void join(Request* receive, const MessageShm& message);
  /// The offer was withdrawn from the receiver's queues: all that it holds is free again.
  void drop(Request* send);
  /// `twin`, which owns a copy of the message, takes the place of an offered send, under its receiver's lock ...
  void offer_copy(TransferShm* transfer, const Request& twin);
  /// ... and after it.
  void replace(Request* send, Request* twin);
  /// Whether this rank has been waiting for long.
  void note_wait(bool in_vain) { in_vain_ = in_vain; }
  /// Requests with peers that have ended fail; what these have left in cells is received.
  void fail_dead();
  /// A description that can be used for a send.
  void give_transfer(Offset offset);

  // send_transfer.cpp, receive_transfer.cpp

  /// Moves on what this end can, and if it `begins` fills some cells at most. True if anything moved.
  bool advance_send(Request* send, bool begins = false);
  bool advance_receive(Request* receive);
  bool advance_receives();
  bool advance_sends();

  [[nodiscard]] const RequestList& sends() const { return sends_; }
  [[nodiscard]] const RequestList& parked() const { return parked_; }
  [[nodiscard]] bool receiving() const { return !recvs_.empty(); }
  [[nodiscard]] bool sending() const { return !sends_.empty() || !parked_.empty(); }
  /// A part of the parked sends as large as those that every turn looks at.
  [[nodiscard]] uint64_t parked_per_turn() const { return parked_.size / kSendsLookedAt; }
  [[nodiscard]] bool is_offered(const Request* send) const {
    return transfer_of(send).load_state() == TransferState::kOffered;  // T0 -> T1
  }

 private:
  static constexpr size_t kSendsLookedAt = 64;          ///< transfers that every turn looks at; later ones are parked
  static constexpr uint64_t kCellsAtStart = 128 << 10;  ///< bytes of one whose rest the receiver can fetch
  /// Why a message that was offered for single copy goes through cells all the same.
  enum class Detour : uint8_t {
    kNone,
    kReturned,  ///< the receiver could not pull, or asked for cells
    kLag        ///< it lags: cells release this sender
  };
  /// One look of a sender at its transfer.
  struct SendTurn {
    Request* request;
    TransferShm& t;
    Channel& peer;
    bool matched;
    Detour detour;
    bool begins;
  };
  enum class Step : uint8_t { kMoved, kAgain, kNothing };

  [[nodiscard]] TransferShm& transfer_of(const Request* r) const {
    return *at<TransferShm>(channels_.base(), r->transfer);
  }
  [[nodiscard]] RequestList& list_of(const Request* send) { return send->parked ? parked_ : sends_; }
  /// The choice of a pair, or this rank's own where any peer may come.
  [[nodiscard]] const tune::PairChoice& choice_for(int32_t peer) const {
    return channels_[peer != kAnyPeer ? static_cast<uint32_t>(peer) : channels_.self()].choice;
  }
  [[nodiscard]] bool can_map(const copy::Buffer& buffer, int32_t peer) const;
  /// Whether the peer of a transfer by cells is away for so long that this end moves its bytes.
  [[nodiscard]] bool gone(const Channel& peer) const;
  void publish_layout(Request* request, int32_t peer, copy::RemoteBufferShm* out);
  void publish_memory(Request* request, uint64_t bytes, bool exact, copy::RemoteBufferShm* out);

  void let_in(Request* request, int32_t peer, uint64_t bytes, bool exact, copy::RemoteBufferShm* out);
  [[nodiscard]] Path kernel_path(uint32_t peer) const { return memory_.by_module(peer) ? Path::kModule : Path::kCma; }

  [[nodiscard]] Offset take_transfer();
  void sweep();
  [[nodiscard]] Direct direct_for(const Request* send, const TransferShm& t);
  /// What an end claims at once.
  [[nodiscard]] uint64_t chunk_of(const TransferShm& t, const tune::PairChoice& choice) const;
  [[nodiscard]] bool pullable(const TransferShm& t) const;
  void note_unpullable(Request* send, const TransferShm& t);
  void finish_send(Request* send);
  void finish_receive(Request* receive);

  [[nodiscard]] Detour detour_of(Request* send, TransferShm& t, bool matched);
  Step send_step(SendTurn& turn);
  Step push_step(SendTurn& turn, copy::Reach reach);
  Step cell_step(SendTurn& turn);
  [[nodiscard]] bool is_sent(const SendTurn& turn) const;
  void push(Request* send, TransferShm& t, uint64_t from, uint64_t n, copy::Reach reach);
  [[nodiscard]] bool room_for_cell(Channel& peer, const TransferShm& t, uint64_t n, bool matched, shm::BlockShm* block);
  bool put_carry(Request* send, TransferShm& t, bool matched);
  void put_cell(Request* send, TransferShm& t, const SpanShm (&spans)[2], const shm::BlockShm& block);
  [[nodiscard]] copy::Reach can_push(const Request* send, const TransferShm& t) const;

  bool take_cells(Request* receive, TransferShm& t);
  Step pull_step(Request* receive, TransferShm& t);
  void pull(Request* receive, TransferShm& t, uint64_t from, uint64_t n, copy::Reach reach);
  [[nodiscard]] copy::Reach can_pull(const Request* receive, const TransferShm& t) const;

  // parked.cpp
  bool look_at_parked();
  void unpark(Request* send);

  Channels& channels_;
  Requests& requests_;
  copy::PeerMemory& memory_;
  RequestList sends_;   ///< transfers towards peers
  RequestList parked_;  ///< those that wait, behind many others, for their match
  RequestList recvs_;   ///< transfers from peers
  std::vector<Offset> free_transfers_;
  std::vector<Offset> free_short_transfers_;
  std::vector<Offset> ended_;  ///< complete for us, not yet released by the receiver
  bool in_vain_ = false;       ///< see note_wait()
};

// With others under way the other end can copy those, and a call of the kernel costs less for more bytes.
inline uint64_t Rendezvous::chunk_of(const TransferShm& t, const tune::PairChoice& choice) const {
  const uint64_t total = t.source.end() - t.source.from();
  if (t.whole()) return total;
  if (t.copiers() != Direct::kBoth) return choice.chunk_alone;
  if (t.source.mapped()) return tune::mapped_chunk(total, choice);
  const bool others = sends_.size + recvs_.size > 1;
  return others ? choice.chunk_alone : tune::kernel_chunk(t.claim.left(t.source.end()), choice);
}

// Whether the receiver can fetch what can be fetched by itself. What is mapped may be taken back by a fork, and the
// rank may then be away.
inline bool Rendezvous::pullable(const TransferShm& t) const {
  const bool stays_mapped = t.source.mapped() && !memory_.own().revocable();
  return stays_mapped || (memory_.kernel(t.receiver) && t.source.reachable());
}

inline void Rendezvous::note_unpullable(Request* r, const TransferShm& t) {
  // What the kernel's module was told may be evicted or revoked before the receiver comes.
  const bool may_go = memory_.lets_in(t.receiver) && !(t.source.mapped() && !memory_.own().revocable());
  requests_.set_unpullable(r, t.receiver != channels_.self() && (!pullable(t) || may_go || r->carry_bytes() != 0));
}

}  // namespace zh::p2p
