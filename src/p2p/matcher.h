// Matching: envelopes out of rings into a receiver's queues, receives and messages joined in MPI's order, by the
// receiver for itself or by a sender for a receiver that is away (LiMIC paper, sections 4.3-4.5). Each call is one
// short section under the lock of the queues: no copy of payload but a short message's, no system call, no memory
// request happens in it. It refuses to know what becomes of a matched message: that is in taken().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/crash_point.h"
#include "os/room.h"
#include "p2p/channels.h"
#include "p2p/queues.h"
#include "p2p/requests.h"
#include "p2p/sources.h"
#include "p2p/types.h"

namespace zh::p2p {

class Matcher {
 public:
  /// A message taken from a ring or queue together with the request it belongs to; null: MPI_Mprobe's.
  struct Taken {
    Request* request;
    MessageShm message;
  };
  /// How posting a receive ended.
  enum class Posted : uint8_t {
    kQueued,
    kFound,    ///< its message was there: taken() has it
    kNothing,  ///< not queued, as was asked for
    kBroken
  };

  Matcher(Channels& channels, Requests& requests);
  Status open();

  // This rank's own queues. False, where a call says whether it was done: the queues are broken for good.

  [[nodiscard]] QueuesShm& queues() const { return channels_.part().queues; }
  /// ... and whose lock covers them.
  [[nodiscard]] QueuesShm& guard() const { return *guard_; }
  [[nodiscard]] Sources& sources() { return sources_; }
  /// Moves the envelopes of one ring, up to a budget, if there are any; `*moved` says whether.
  [[nodiscard]] bool drain(uint32_t sender, bool* moved) {
    *moved = false;
    return !sources_.arrived(sender) || drain_arrived(sender, moved);
  }
  /// Up to which arrival no unexpected message is left; a number of none where some are. A hint: a message that comes
  /// now may be taken for gone, until the next one comes or the receive is posted.
  [[nodiscard]] uint64_t arrivals_gone() const {
    const uint64_t arrivals = queues().arrivals.load_relaxed();
    return queues().unexpected_count.load_relaxed() == 0 ? arrivals : ~uint64_t{0};
  }
  /// Searches for an unposted receive's message. Cheap when nothing has arrived.
  void search(Request* request);
  /// A receive's description for peers, which post() queues; null when there is no memory.
  [[nodiscard]] PostedShm* describe(Request* request);
  /// Queues it, unless an unexpected message matches it, which must not be overtaken. `wait` false: it is not queued.
  [[nodiscard]] Posted post(Request* request, bool wait);
  /// For the short way, which queues by itself, under the lock.
  [[nodiscard]] Queues& own_queues() { return queues_; }
  void count_queued() { ++queued_; }
  /// Takes a receive out of the queue. False if it has been matched.
  [[nodiscard]] bool unpost(Request* request);
  /// A receive that was queued when the queues broke is nothing to wait for any more.
  void give_up() { --queued_; }
  /// The first unexpected message that matches; false if there is none.
  [[nodiscard]] bool probe(const RecvArgs& args, Result* out);
  /// The same, taken out: in taken().
  [[nodiscard]] bool take_probed(const RecvArgs& args);
  /// The first of the receives that another side has matched, all of them at once; kNoRef if there is none.
  [[nodiscard]] Ref take_matched() { return queues().matched.load_relaxed() == kNoRef ? kNoRef : take_all_matched(); }
  /// Frees what such a receive holds in the queues, says what it is, and returns the next one.
  Ref unpack_matched(Ref ref, Taken* out);

  /// What the latest call has taken; clear it before the next one.
  [[nodiscard]] std::span<const Taken> taken() const { return {taken_.data(), taken_end_}; }
  void clear_taken() { taken_end_ = taken_.data(); }

  /// Receives are queued, or have been matched by another side.
  [[nodiscard]] bool holds_receives() const { return queued_ != 0; }
  /// The lock's holder has died; from now on also if it was seen only now.
  bool broken_for_good(QueuesShm& guard);
  /// That is so for this rank's queues.
  [[nodiscard]] bool broken() const { return guard_->broken.load_relaxed() != 0; }

  // peer_queues.cpp: a peer's queues, on its behalf or about this rank's own messages in them.

  /// Matches this rank's messages to a receiver that is away; returns how many. Entries that its queues lack come out
  /// of this rank's memory.
  uint32_t progress_peer(uint32_t dest);
  /// Takes an offered transfer back; false if it has been matched, or nobody knows any more.
  [[nodiscard]] bool withdraw(const Request* send);
  /// Calls `change` while the receiver cannot take the transfer; false if that could not be.
  template <typename Change>
  [[nodiscard]] bool while_offered(const Request* send, Change&& change) {
    Channel& peer = channels_[send->peer];
    if (!try_lock_peer(peer)) return false;
    const bool ours = holds_offer(peer, send);
    if (ours) change();
    peer.guard->lock.unlock();
    return ours;
  }

 private:
  static constexpr uint32_t kDrainBudget = 32;
  static constexpr uint32_t kMessageSlab = 128;  ///< queue entries made at once
  /// What became of an envelope.
  enum class Placed : uint8_t { kNot, kDone, kLast };

  [[nodiscard]] bool lock() { return guard_->lock.try_lock(channels_.self()) || wait_for_lock(); }
  [[gnu::noinline]] bool wait_for_lock();
  void unlock() { guard_->lock.unlock(); }
  /// Hands envelopes to `place(slot)` until it takes no more, following the ring when it moves.
  template <typename Place>
  uint32_t drain_ring(Atomic<uint64_t>& in, uint32_t budget, Place&& place);
  uint32_t drain_own(uint32_t sender, Request* extra);
  [[gnu::always_inline]] Placed place_own(PartShm& own, const shm::EnvelopeShm& slot, uint32_t sender, Request* extra);
  [[gnu::always_inline]] void take(Request* request, const shm::EnvelopeShm& slot, uint32_t sender);
  [[gnu::noinline]] void take_unexpected(Request* request, Ref ref);
  void note_matched(const PartShm& own) {
    if (own.state.skewed.load_relaxed() != 0) [[unlikely]]
      note_caught_up();
  }
  [[gnu::noinline]] void note_caught_up();
  [[gnu::noinline]] Placed place_unexpected(const shm::EnvelopeShm& slot, uint32_t sender);
  void drain_for(Request* unposted);
  [[nodiscard]] bool drain_arrived(uint32_t sender, bool* moved);
  [[nodiscard]] Ref take_all_matched();

  [[gnu::noinline]] bool make_descriptions(Request* request);
  [[nodiscard]] Ref new_private(uint64_t bytes);
  void refill_messages(uint32_t least);
  [[nodiscard]] Ref take_entry();
  void free_entry(Ref ref);
  static void give_slab(Queues& queues, Offset slab);

  [[nodiscard]] bool try_lock_peer(Channel& peer) const;
  uint32_t drain_peer(uint32_t dest, Queues& queues, bool* short_of_entries);
  Placed place_for_peer(const shm::EnvelopeShm& slot, uint32_t dest, Queues& queues, bool* short_of_entries);
  void match_transfer(const MessageShm& message, const PostedShm& posted);
  bool lend_entries(Channel& peer);
  [[nodiscard]] bool holds_offer(Channel& peer, const Request* send) const;
  [[nodiscard]] bool is_in_ring(Channel& peer, Offset transfer) const;
  [[nodiscard]] static bool wants(const Request* r, const shm::EnvelopeShm& e) {
    return r->context == e.context && (r->source == kAnySource || r->source == e.source) &&
           (r->tag == kAnyTag || r->tag == e.tag);
  }

  Channels& channels_;
  Requests& requests_;
  Queues queues_;
  QueuesShm* guard_ = nullptr;  ///< Channel::guard of this rank
  Sources sources_;
  uint32_t next_source_ =
      0;  ///< of the open ones: where a receive from anywhere begins to look, so that no source starves
  std::vector<Taken> taken_;
  Taken* taken_end_ = taken_.data();
  uint32_t queued_ = 0;                     ///< see holds_receives()
  std::vector<Ref> free_private_messages_;  ///< spill entries, when the budget of shared memory is used up
  os::PrivateRoom private_memory_;
  uint64_t private_used_ = kLineBytes;  // Ref 0 is "none"
  std::vector<Offset> spare_entries_;   ///< slabs of queue entries to be lent
};

template <typename Place>
uint32_t Matcher::drain_ring(Atomic<uint64_t>& in, uint32_t budget, Place&& place) {
  auto* ring = at<shm::EnvelopeRingShm>(channels_.base(), in.load_relaxed());
  shm::EnvelopeConsumer consumer(ring);
  uint32_t left = budget;
  while (left != 0) {
    const shm::EnvelopeShm* slot = consumer.published();
    if (slot == nullptr) break;
    if (slot->kind >= shm::kFirstOwnKind) [[unlikely]] {
      slot = consumer.front();
      if (slot == nullptr) break;
      if (slot->kind == shm::kRingMoved) {
        const Offset next = slot->far.where;
        ZH_CRASH_POINT("drain: at the marker");
        // A0 -> A1: the new ring is made.
        in.store_release(next);
        ring = at<shm::EnvelopeRingShm>(channels_.base(), next);
        consumer = shm::EnvelopeConsumer(ring);
        continue;
      }
    }
    const Placed placed = place(*slot);
    if (placed == Placed::kNot) break;
    consumer.read_ahead();
    consumer.consume(slot);
    --left;
    if (placed == Placed::kLast) break;
  }
  return budget - left;
}

}  // namespace zh::p2p
