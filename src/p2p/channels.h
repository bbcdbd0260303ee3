// The rings between a rank and its peers: where the next envelope or block goes, how they grow with traffic, how far
// each peer is, whether it is there, and how it is woken. The lowest part of an Endpoint; it refuses to know requests,
// matching and what is in a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "base/crash_point.h"
#include "base/status.h"
#include "node/node.h"
#include "os/clock.h"
#include "p2p/channel.h"
#include "p2p/counters.h"
#include "p2p/part.h"
#include "p2p/timeline.h"
#include "p2p/trace.h"
#include "shm/arena.h"
#include "shm/payload_ring.h"

namespace zh::p2p {

class Channels {
 public:
  /// Slots of a first ring. With many ranks most peers get few messages, and all rings together count.
  [[nodiscard]] uint32_t first_slots() const { return size() <= 32 ? 64 : 16; }

  Channels(node::Node& node, const EndpointConfig& config);
  /// Lays out this rank's part of the segment.
  Status open();

  [[nodiscard]] Channel& operator[](uint32_t peer) { return peers_[peer]; }
  [[nodiscard]] const Channel& operator[](uint32_t peer) const { return peers_[peer]; }
  [[nodiscard]] Channel& operator[](int32_t peer) { return peers_[static_cast<uint32_t>(peer)]; }
  [[nodiscard]] const Channel& operator[](int32_t peer) const { return peers_[static_cast<uint32_t>(peer)]; }
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(peers_.size()); }
  [[nodiscard]] auto begin() { return peers_.begin(); }
  [[nodiscard]] auto end() { return peers_.end(); }
  [[nodiscard]] uint32_t rank_of(const Channel& peer) const { return static_cast<uint32_t>(&peer - peers_.data()); }

  [[nodiscard]] const EndpointConfig& config() const { return config_; }
  [[nodiscard]] node::Node& node() const { return node_; }
  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] uint32_t self() const { return self_; }
  [[nodiscard]] PartShm& part() const { return *part_; }
  [[nodiscard]] Counters& counters() const { return part_->account.counters; }
  [[nodiscard]] Trace* trace() const { return trace_.get(); }
  [[nodiscard]] shm::Arena& arena() { return arena_; }
  [[nodiscard]] const shm::Arena& arena() const { return arena_; }
  /// Memory for descriptions of sends when arena() has no more room.
  [[nodiscard]] shm::Arena& annex() { return annex_; }
  /// Bytes of the segment that this rank has made.
  [[nodiscard]] uint64_t backed_bytes() const { return arena_.backed_bytes() + annex_.backed_bytes(); }
  /// Larger rings are a luxury: a part of the budget stays for first rings, queue entries and transfers.
  [[nodiscard]] bool may_grow(uint64_t bytes) const { return arena_.used_bytes() + bytes <= arena_.budget_bytes() / 2; }
  /// What first rings to the peers without one need.
  [[nodiscard]] uint64_t first_rings_bytes() const {
    return unconnected_ * shm::EnvelopeRingShm::size_bytes(first_slots());
  }

  // rings.cpp: towards peers.

  /// False if there is no memory for a ring.
  [[nodiscard]] bool connected(Channel& peer) { return peer.out.attached() || connect(peer); }
  /// Where the envelope of a message goes whose `inline_bytes` come with it; null: the ring is full.
  [[nodiscard]] shm::EnvelopeShm* claim_slot(Channel& peer, uint64_t inline_bytes = shm::kInlineBytes) {
    shm::EnvelopeShm* slot = inline_bytes <= shm::kHalfLinePayload ? peer.out.claim_short() : peer.out.claim();
    if (slot != nullptr) [[likely]]
      return slot;
    return claim_when_full(peer);
  }
  /// `followed`: see EnvelopeProducer::publish().
  void publish(Channel& peer, shm::EnvelopeShm* slot, bool followed = false) {
    if (stamps(peer)) [[unlikely]] {
      stamp(slot);
      followed = false;
    }
    peer.out.publish(slot, followed);
    if (peer.bell != nullptr) [[unlikely]] {
      ZH_CRASH_POINT("publish: not rung");
      peer.bell->ring(self_ % shm::BellShm::kSenders);
    }
  }
  /// The next envelope is one that tells when it was published.
  [[nodiscard]] static bool stamps(const Channel& peer) { return peer.out.write_pos() % kStampEvery == 0; }
  /// A block for `bytes` of payload. `matched`: for a cell of a message that its receiver is taking.
  [[nodiscard]] bool claim_block(Channel& peer, uint64_t bytes, shm::BlockShm* block, bool matched = false);
  /// Gives back the block that claim_block() found last.
  void undo_block() { last_ring_->undo_last(); }

  // From peers.

  /// The ring that is consumed now; null: none yet.
  [[nodiscard, gnu::always_inline]] shm::EnvelopeRingShm* ring_from(uint32_t sender) const {
    // A1 -> A0: the ring's header after its offset. A sender may just have moved it on this rank's behalf.
    const Offset in = part_->in()[sender].load_acquire();
    return in == kNoOffset ? nullptr : at<shm::EnvelopeRingShm>(base_, in);
  }

  // distance.cpp: near and far, while the job runs.

  /// The ways towards one peer, for when it is near and when it is far.
  void set_choices(uint32_t peer, const tune::PairChoice& near, const tune::PairChoice& far, bool is_far);
  /// Whether the next envelope will be seen as soon as it is there, so that its age tells how far its sender is.
  void expect(bool at_once) { expects_.store_relaxed(at_once ? 1 : 0); }
  /// The first envelope of a turn: its age, if it carries one, counts, and its sender has been heard.
  void note_heard(uint32_t sender, const shm::EnvelopeShm& slot, shm::EnvelopeRingShm* ring) {
    if (slot.stamped != 0) [[unlikely]]
      note_age(sender, slot, ring);
    note_heard(sender);
  }
  /// The same of one that carries none.
  [[gnu::always_inline]] void note_heard(uint32_t sender) {
    expect(false);
    peers_[sender].heard = true;
  }

  // presence.cpp: who is there, asleep, or in a call of the host.

  /// It computes, sleeps, or has lost its CPU: others may turn its queues.
  [[nodiscard]] bool away(const Channel& peer) const {
    return peer.part->state.inside.load_relaxed() == 0 || long_away(peer);
  }
  /// ... and not only between two calls.
  [[nodiscard]] bool long_away(const Channel& peer) const {
    return static_cast<int64_t>(os::ticks() - peer.part->state.stamp.load_relaxed()) >
           static_cast<int64_t>(ticks_away_);
  }
  [[gnu::always_inline]] static void wake(const Channel& peer) {
    Atomic<uint32_t>& word = peer.part->state.sleeping;
    if (const uint32_t seen = word.load_relaxed(); seen % 2 != 0) wake_sleeper(word, seen);
  }
  /// Who copies for long is not away.
  void show_presence() { part_->state.stamp.store_relaxed(os::ticks()); }
  void call_helper(Channel& peer);
  [[nodiscard]] uint32_t announce_sleep();
  void end_sleep(uint32_t word, bool only_thread);
  [[nodiscard]] const Atomic<uint32_t>& sleepers() const { return peers_[0].part->state.sleepers; }

  // What is counted and told.

  void count_sent(uint32_t dest, Path path, uint64_t bytes) {
    counters().count_sent(path, bytes);
    if (trace_) [[unlikely]]
      trace_->sent(dest, path, bytes, peers_[dest].choice, peers_[dest].is_far);
  }
  void count_lag(uint32_t peer, bool lagging);
  /// From now on messages are counted by receiver, too.
  void count_by_receiver() {
    sent_to_.reset(new (std::nothrow) Tally[peers_.size()]);
    watched_ = true;
  }
  /// Somebody does, or counts them by receiver.
  [[nodiscard]] bool watched() const { return watched_; }
  /// With each message, for whoever wants to know. `m`: what has its context and tag. `began`: see begun_ticks().
  template <typename... Message>
  void note(const Message&... message) {
    if (watched_) [[unlikely]]
      tell_message(message...);
  }
  template <typename Message>
  [[gnu::noinline]] void tell_message(Event::Kind kind, Path path, uint32_t peer, const Message& m, uint64_t bytes,
                                      uint32_t number, uint64_t began = 0) {
    tell({began, 0, m.context, bytes, number, static_cast<int32_t>(peer), m.tag, 0, 0, kind, path});
  }
  void tell(Event event);  ///< which ends now
  /// When a message begins that both ends will move.
  [[nodiscard]] uint64_t begun_ticks() const { return watched_ ? os::ticks() : 0; }
  /// By node-local index; null: they are not counted.
  [[nodiscard]] const Tally* sent_to() const { return sent_to_.get(); }

 private:
  static constexpr uint32_t kStampEvery = 2 * 32;  ///< positions, two for each slot

  bool connect(Channel& peer);
  [[nodiscard, gnu::noinline]] shm::EnvelopeShm* claim_when_full(Channel& peer);
  [[gnu::noinline]] static void wake_sleeper(Atomic<uint32_t>& word, uint32_t seen);
  void grow_envelopes(Channel& peer);
  void grow_payload(Channel& peer, uint64_t wanted);
  void retire_old(Channel& peer);
  [[nodiscard]] bool claim_overflow(Channel& peer, uint64_t bytes, shm::BlockShm* block);
  [[gnu::noinline]] void stamp(shm::EnvelopeShm* slot) const;
  void note_age(uint32_t sender, const shm::EnvelopeShm& slot, shm::EnvelopeRingShm* ring);

  node::Node& node_;
  EndpointConfig config_;
  std::byte* base_;
  uint32_t self_;
  PartShm* part_ = nullptr;
  shm::Arena arena_;
  shm::Arena annex_;
  std::vector<Channel> peers_;
  bool watched_ = false;              ///< one of the next two is there
  std::unique_ptr<Tally[]> sent_to_;  ///< by receiver; null unless asked for
  TimelineShm* timeline_ = nullptr;   ///< likewise
  std::unique_ptr<Trace> trace_;      ///< null unless ZEROHOP_LOG is debug
  shm::PayloadRing matched_ring_;     ///< for cells of matched transfers, when unexpected messages hold all of a peer's
  shm::PayloadRing* last_ring_ = nullptr;  ///< of the latest claim_block()
  LineLimits line_limits_;
  Atomic<uint32_t> expects_;  ///< see expect()
  uint64_t unconnected_ = 0;  ///< peers to which this rank has no ring yet
  uint64_t ticks_away_ = 0;
};

}  // namespace zh::p2p
