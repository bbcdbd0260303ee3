// Endpoint: one rank's point-to-point, put together. Eager messages travel in rings and blocks, large ones as transfers
// that both ends move; matching follows MPI's order whoever makes progress. Called by engine::Rank, which serialises
// threads and owns the waiting; never blocks, never calls the host, knows no MPI type. Its parts, lowest first:
//   Channels    rings, distance, presence
//   Requests    what is open
//   Matcher     queues and their lock
//   Eager       messages that are copied in and out
//   Rendezvous  messages that are offered
//   Receiver, Sender
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "copy/peer_memory.h"
#include "node/node.h"
#include "p2p/channels.h"
#include "p2p/eager.h"
#include "p2p/matcher.h"
#include "p2p/receiver.h"
#include "p2p/rendezvous.h"
#include "p2p/requests.h"
#include "p2p/sender.h"

namespace zh::p2p {

class Endpoint {
 public:
  static Status open(node::Node& node, const EndpointConfig& config, std::unique_ptr<Endpoint>* out);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// The memory of the node's ranks, for the collectives as well.
  [[nodiscard]] copy::PeerMemory& memory() { return memory_; }
  [[nodiscard]] const copy::PeerMemory& memory() const { return memory_; }

  /// Sets the ways towards one peer, for when it is near and when it is far; default choices apply until then. Which of
  /// them is in force follows what its envelopes tell.
  void set_choices(uint32_t peer, const tune::PairChoice& near, const tune::PairChoice& far, bool is_far);
  [[nodiscard]] const tune::PairChoice& choice(uint32_t peer) const { return channels_[peer].choice; }

  /// Zeroed memory in this rank's part; kNoOffset when the budget is too small.
  [[nodiscard]] Offset make_scratch(uint64_t bytes) { return channels_.arena().allocate(bytes); }
  void drop_scratch(Offset offset, uint64_t bytes) { channels_.arena().drop(offset, bytes); }

  [[nodiscard]] Sender& sends() { return sender_; }
  [[nodiscard]] Receiver& receives() { return receiver_; }
  // short_path.h
  [[nodiscard]] bool send_short(const SendArgs& args);
  template <bool kBlocks>
  [[nodiscard]] bool recv_short(const RecvArgs& args, Result* out);
  [[nodiscard]] Request* irecv_short(const RecvArgs& args);
  /// From now on irecv_short() refuses.
  void leave_short_receives() {
    if (plain_receives_ != 0) plain_receives_ = 0;  // written by no thread once others read it without the lock
  }

  [[nodiscard]] const Requests& requests() const { return requests_; }
  [[nodiscard]] Request* make_empty() { return requests_.make_empty(); }
  void release(Request* request) { requests_.release(request); }
  void detach(Request* request) { requests_.detach(request); }
  bool cancel(Request* request);

  /// One turn of everything; true if anything moved.
  bool turn() {
    bool moved = receiver_.collect();
    moved = rendezvous_.advance_receives() || moved;
    moved = rendezvous_.advance_sends() || moved;
    return sender_.advance_queued() || moved;
  }
  /// While waiting in vain: turns the queues of peers that are away and hold up this rank's sends. Not for every turn.
  /// `in_vain`: for so long that the peers must be waiting for something else. Then small messages are copied, so that
  /// their sender can go on.
  void help_peers(bool in_vain) {
    rendezvous_.note_wait(in_vain);
    sender_.help(in_vain);
  }
  /// Dead peers' requests end with kPeerDead. True if a peer died.
  bool reap();
  /// Whether the next envelope will be seen as soon as it is there, so that its age tells how far its sender is.
  void expect(bool at_once) { channels_.expect(at_once); }

  /// Sends are under way that this end may have to move on.
  [[nodiscard]] bool sending() const { return rendezvous_.sending() || sender_.waiting(); }
  /// Takes back the sends that nobody has received; for when nobody will any more.
  void take_back_sends();
  /// Sends whose bytes are still needed from this rank's memory.
  [[nodiscard]] uint64_t pending_sends() const { return requests_.pending_sends(); }
  [[nodiscard]] uint64_t ended_requests() const { return requests_.ended(); }
  /// Work that a peer cannot finish without this rank (nothing to pull from, or nothing to push to). Receives are
  /// counted by the entries that they hold, not by the shared queue: a peer that matches one takes it out of there at
  /// any time.
  [[nodiscard]] bool needs_turning() const {
    return requests_.unpullable() != 0 || sender_.waiting() ||
           (!all_by_kernel_ && (rendezvous_.receiving() || matcher_.holds_receives()));
  }
  /// As needs_turning(), and what peers may need this rank for, who then call it.
  [[nodiscard]] bool may_be_called() const {
    return needs_turning() || requests_.hidden() != 0 || part().queues.private_entries != 0;
  }

  // Sleeping, in steps: a caller announces it, looks once more at what it waits for, and sleeps on
  // part().state.sleeping while that holds the word. Peers wake it after they have published. Should the flag and what
  // is published miss each other on a processor's way to memory, only the sleeper's time limit ends the sleep.

  /// Returns the word. Needs no lock, like all of these.
  [[nodiscard]] uint32_t announce_sleep() { return channels_.announce_sleep(); }
  /// `only_thread`: no other thread of this rank may be asleep.
  void end_sleep(uint32_t word, bool only_thread) { channels_.end_sleep(word, only_thread); }
  void wake(uint32_t rank) { Channels::wake(channels_[rank]); }
  /// How many ranks of the node sleep; a word that rarely changes.
  [[nodiscard]] const Atomic<uint32_t>& sleepers() const { return channels_.sleepers(); }

  /// Rings that the next turn looks at, but for those whose bell rings.
  [[nodiscard]] size_t open_rings() { return matcher_.sources().open().size(); }
  [[nodiscard]] PartShm& part() const { return channels_.part(); }
  [[nodiscard]] PartShm& part(uint32_t peer) const { return *channels_[peer].part; }
  [[nodiscard]] Counters& counters() const { return channels_.counters(); }
  void count_by_receiver() { channels_.count_by_receiver(); }
  [[nodiscard]] bool watched() const { return channels_.watched(); }
  void tell(const Event& event) { channels_.tell(event); }
  [[nodiscard]] const Tally* sent_to() const { return channels_.sent_to(); }
  [[nodiscard]] const shm::Arena& arena() const { return channels_.arena(); }
  /// Bytes of the segment that this rank has made.
  [[nodiscard]] uint64_t backed_bytes() const { return channels_.backed_bytes(); }
  [[nodiscard]] node::Node& node() const { return channels_.node(); }

 private:
  /// Counts and tells what PeerMemory meets.
  class MemoryNotes final : public copy::MemoryObserver {
   public:
    explicit MemoryNotes(Channels& channels) : channels_(channels) {}
    void first_use() override { ++channels_.counters().first_uses; }
    void kernel_copy_ended(uint32_t owner, const Status& why, uint64_t moved, uint64_t bytes) override;
    void cannot_map(uint32_t owner) override;
    void accessed(copy::Reach reach, uint32_t owner, uint64_t bytes) override;

   private:
    Channels& channels_;
  };

  Endpoint(node::Node& node, const EndpointConfig& config)
      : channels_(node, config),
        notes_(channels_),
        memory_(node, {config.cma, config.regions, config.heap}, notes_),
        requests_(channels_.arena()),
        matcher_(channels_, requests_),
        eager_(channels_),
        rendezvous_(channels_, requests_, memory_),
        receiver_(channels_, requests_, matcher_, eager_, rendezvous_),
        sender_(channels_, requests_, memory_, matcher_, eager_, rendezvous_) {}
  Status init();

  Channels channels_;
  MemoryNotes notes_;
  copy::PeerMemory memory_;
  Requests requests_;
  Matcher matcher_;
  Eager eager_;
  Rendezvous rendezvous_;
  Receiver receiver_;
  Sender sender_;
  /// Peers need to know no more of receives of fewer bytes than where their buffers lie: none of them maps these, each
  /// of them reaches them by the kernel without being let in, and none has died. 0 also where threads call.
  uint64_t plain_receives_ = ~uint64_t{0};
  bool all_by_kernel_ = true;  ///< every peer's memory can be reached so, and this rank's by every peer
};

}  // namespace zh::p2p
