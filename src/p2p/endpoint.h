// Endpoint: one rank's point-to-point. Eager messages travel in rings and blocks, large ones as transfers that both
// ends move; matching follows MPI's order whoever makes progress. Called by engine::Rank, which serialises threads and
// owns the waiting; never blocks, never calls the host, knows no MPI type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "copy/mapped_memory.h"
#include "copy/region_cache.h"
#include "node/line_time.h"
#include "node/node.h"
#include "os/room.h"
#include "p2p/counters.h"
#include "p2p/deaths.h"
#include "p2p/line_watch.h"
#include "p2p/part.h"
#include "p2p/request.h"
#include "p2p/trace.h"
#include "p2p/transfer.h"
#include "p2p/types.h"
#include "shm/arena.h"
#include "shm/payload_ring.h"
#include "tune/choice.h"

namespace zh::p2p {

constexpr uint64_t kUnbounded = ~uint64_t{0};

struct EndpointConfig {
  bool cma = true;
  int skew = -1;  ///< -1 and 1: follow the receiver's skew; 0: never
  const copy::RegionOwner* regions = nullptr;
  heap::SharedHeap* heap = nullptr;
  float near_line_ns = node::kNearLineNs;  ///< line times that make a pair near, or far, while the job runs
  float far_line_ns = node::kFarLineNs;
  float most_line_ns = node::kMostLineNs;  ///< ... and above which one tells nothing
  uint32_t turns_offered = 32;             ///< a few microseconds of a sender that waits: see advance_send()
  Log log;                                 ///< told of each decision at level debug
  uint64_t push_at_start = 128 << 10;      ///< bytes that starting a send copies itself; the rest whoever comes first
};

class Endpoint {
 public:
  static Status open(node::Node& node, const EndpointConfig& config, std::unique_ptr<Endpoint>* out);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Uses no memory of the shared heap from now on. Before the first message only.
  void leave_heap() { memory_ = copy::MappedMemory(config_.regions, nullptr); }

  /// Keeps peers away from this process's memory: when it returns, none reads or writes it directly. Any thread, one at
  /// a time; allocates nothing.
  void close_memory();
  /// Lets them in again, to what is published from now on and, through the kernel, to all.
  void open_memory() { shm::open_access(part_->access); }

  /// Sets the ways towards one peer, for when it is near and when it is far; default choices apply until then. Which of
  /// them is in force follows what its envelopes tell.
  void set_choices(uint32_t peer, const tune::PairChoice& near, const tune::PairChoice& far, bool is_far);
  [[nodiscard]] const tune::PairChoice& choice(uint32_t peer) const { return peers_[peer].choice; }

  /// Zeroed memory in this rank's part; kNoOffset when the budget is too small.
  [[nodiscard]] Offset make_scratch(uint64_t bytes) { return arena_.allocate(bytes); }
  void drop_scratch(Offset offset, uint64_t bytes) { arena_.drop(offset, bytes); }

  /// Sends at once if the message fits beside its envelope or into a free block; false if it did not (nothing
  /// happened).
  [[nodiscard]] bool send_now(const SendArgs& args);
  [[nodiscard]] Request* isend(const SendArgs& args);

  /// Receives at once a small message that waits at the head of its source's ring and that nothing else could match
  /// first; false if there is none (nothing happened). The fast path of a blocking receive.
  [[nodiscard]] bool recv_now(const RecvArgs& args, Result* out) {
    if (args.peer < 0) return false;
    // A1 -> A0: the ring's header after its offset.
    const Offset in = part_->in()[args.peer].load_acquire();
    if (in == kNoOffset || !shm::EnvelopeConsumer::ready(at<shm::EnvelopeRingShm>(base_, in))) return false;
    return take_front(args, out);
  }

  /// As recv_now(), for a nonblocking receive: receives that were posted before are served first.
  [[nodiscard]] bool take_arrived(const RecvArgs& args, Result* out);

  /// Polls the ring of a receive's source, up to `polls` times; true once an envelope is there. Knows one source only.
  [[nodiscard]] bool await_front(const RecvArgs& args, uint32_t polls) {
    const Offset in = args.peer < 0 ? kNoOffset : part_->in()[args.peer].load_acquire();  // A1 -> A0
    for (uint32_t i = 0; i < polls && in != kNoOffset; ++i) {
      if (shm::EnvelopeConsumer::ready(at<shm::EnvelopeRingShm>(base_, in))) {
        if (i != 0) expect(true);
        return true;
      }
      // Loads in a row would all be run ahead of and thrown away when the line comes: a pause costs less than that.
      cpu_relax();
    }
    if (in == kNoOffset) cpu_relax();
    expect(true);
    return false;
  }
  /// Whether the next envelope will be seen as soon as it is there, so that its age tells how far its sender is.
  void expect(bool at_once) { expects_.store_relaxed(at_once ? 1 : 0); }

  /// Starts a receive in the shared queue.
  [[nodiscard]] Request* irecv(const RecvArgs& args);
  /// The same without looking for a message that has arrived.
  [[nodiscard]] Request* irecv_posted(const RecvArgs& args) {
    Request* r = irecv_unposted(args);
    if (r != nullptr) post(r);
    return r;
  }
  /// Starts a receive that stays out of the shared queue: look() searches for it. For blocking receives.
  [[nodiscard]] Request* irecv_unposted(const RecvArgs& args);
  /// Searches for an unposted receive's message. Cheap when nothing has arrived.
  void look(Request* request);
  /// Moves an unposted receive to the shared queue, where it can be matched while its rank is away.
  void post(Request* request);

  // direct.cpp: other ranks' memory outside of messages.
  /// Describes contiguous memory of this process for its peers. `exclusive`: the operation owns every byte.
  void describe_memory(const void* address, uint64_t bytes, bool exclusive, RemoteBufferShm* out);
  /// Copies bytes [from, from + n) of a buffer that rank `owner` described, to `out`. Returns how many, from the front.
  [[nodiscard]] uint64_t read_memory(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                                     void* out);
  [[nodiscard]] uint64_t write_memory(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                                      const void* in);
  /// Shows them to `visit` where they are mapped in one piece; else false, and nothing happened.
  [[nodiscard]] bool visit_memory(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                                  void (*visit)(void* context, const std::byte* memory), void* context);

  void release(Request* request);
  void detach(Request* request);
  bool cancel(Request* request);

  /// True if there is a message, or kPeerDead to tell of (types.h).
  bool iprobe(const RecvArgs& args, Result* out);
  /// Null also with kPeerDead.
  [[nodiscard]] Message* improbe(const RecvArgs& args, Result* out);
  [[nodiscard]] Request* imrecv(Message* message, const copy::Buffer& buffer);

  /// One turn of everything; true if anything moved.
  bool turn();
  /// While waiting in vain: turns the queues of peers that are away and hold up this rank's sends. Not for every turn.
  /// `in_vain`: for so long that the peers must be waiting for something else. Then small messages are copied, so that
  /// their sender can go on.
  void help_peers(bool in_vain);
  /// Dead peers' requests end with kPeerDead. True if a peer died.
  bool reap();
  /// See Deaths::name().
  void name_members(uint64_t context, std::span<const int32_t> members) { deaths_.name(context, members); }
  void forget_members(uint64_t context) { deaths_.forget(context); }

  /// Sends are under way that this end may have to move on.
  [[nodiscard]] bool sending() const { return !sends_.empty() || !parked_.empty() || !queued_peers_.empty(); }
  /// Takes back the sends that nobody has received; for when nobody will any more.
  void take_back_sends();
  /// Sends whose bytes are still needed from this rank's memory.
  [[nodiscard]] uint64_t pending_sends() const { return pending_sends_; }
  /// Work that a peer cannot finish without this rank (nothing to pull from, or nothing to push to). Receives are
  /// counted by the entries that they hold, not by the shared queue: a peer that matches one takes it out of there at
  /// any time.
  [[nodiscard]] bool needs_turning() const {
    return unpullable_ != 0 || !queued_peers_.empty() ||
           (!all_cma_ && (recvs_.head != nullptr || posted_made_ != free_posted_.size()));
  }
  /// The same, and what peers may need this rank for, who then call it.
  [[nodiscard]] bool may_be_called() const {
    return needs_turning() || hidden_ != 0 || part_->queues.private_entries != 0;
  }

  // Sleeping, in steps: a caller announces it, looks once more at what it waits for, and sleeps on
  // part().state.sleeping while that holds the word. Peers wake it after they have published. Should the flag and what
  // is published miss each other on a processor's way to memory, only the sleeper's time limit ends the sleep.

  /// Returns the word. Needs no lock, like all of these.
  [[nodiscard]] uint32_t announce_sleep();
  /// `only_thread`: no other thread of this rank may be asleep.
  void end_sleep(uint32_t word, bool only_thread);
  void wake(uint32_t rank) { wake(peers_[rank]); }
  /// How many ranks of the node sleep; a word that rarely changes.
  [[nodiscard]] const Atomic<uint32_t>& sleepers() const { return peers_[0].part->state.sleepers; }

  [[nodiscard]] PartShm& part() const { return *part_; }
  [[nodiscard]] PartShm& part(uint32_t peer) const { return *peers_[peer].part; }
  [[nodiscard]] Counters& counters() const { return part_->account.counters; }
  [[nodiscard]] const shm::Arena& arena() const { return arena_; }
  /// Bytes of the segment that this rank has made.
  [[nodiscard]] uint64_t backed_bytes() const { return arena_.backed_bytes() + annex_.backed_bytes(); }
  [[nodiscard]] const copy::WindowStats& windows() const { return region_cache_.stats(); }
  [[nodiscard]] node::Node& node() const { return node_; }

 private:
  static constexpr uint32_t kDrainBudget = 32;
  static constexpr uint32_t kRequestSlab = 256;
  static constexpr size_t kSendsLookedAt = 64;   ///< transfers that every turn looks at; later ones are parked
  static constexpr uint32_t kMessageSlab = 128;  ///< queue entries made at once
  static constexpr uint64_t kMatchedRingBytes = 64 << 10;
  static constexpr uint64_t kOverflowBytes = 4 << 20;

  struct OldRing {
    Offset offset;
    uint64_t bytes;
    shm::PayloadRing payload;
  };
  /// This rank's view of a peer, both directions.
  struct Peer {
    PartShm* part = nullptr;
    shm::EnvelopeProducer out;
    shm::PayloadRing payload;
    shm::PayloadRing overflow;  ///< for what a lagging receiver leaves lying, beyond the size that is good for caches
    tune::PairChoice choice;
    tune::PairChoice near;  ///< what `choice` is while the peer is near ...
    tune::PairChoice far;   ///< ... and else
    bool is_far = false;
    LineWatch watch;
    WaitingSends waiting;
    std::vector<OldRing> old;
    bool cma = false;
    bool maps = false;       ///< memory of its could be mapped, or was never tried; it is alike in both directions
    bool listening = false;  ///< its ring towards this rank is in `sources_`
    bool dead = false;
    bool stalled = false;  ///< it takes nothing: sends that find no room are copied at once, until there is some again
    bool heard = true;     ///< something of its has come since the latest short message to it
    uint32_t full_streak = 0;
    uint64_t called_ticks = 0;  ///< when its helper was called
  };
  /// How this end reaches a buffer of another rank.
  enum class Reach : uint8_t { kNone, kSelf, kMapped, kKernel };
  /// A message taken from a ring or queue together with the request it belongs to.
  struct Taken {
    Request* request;
    MessageShm message;
  };

  Endpoint(node::Node& node, const EndpointConfig& config);
  Status init();

  // endpoint.cpp: requests, memory
  Request* new_request();
  void complete(Request* request);
  void fail(Request* request, Code code);
  void count_sent(uint32_t dest, Path path, uint64_t bytes) {
    counters().count_sent(path, bytes);
    if (trace_) [[unlikely]]
      trace_->sent(dest, path, bytes, peers_[dest].choice, peers_[dest].is_far);
  }
  [[nodiscard]] Ref new_posted();
  void refill_messages();
  [[nodiscard]] Ref new_private(uint64_t bytes);
  void free_message(Ref ref);
  [[nodiscard]] Offset offset_of(const void* p) const {
    return static_cast<Offset>(static_cast<const std::byte*>(p) - base_);
  }
  [[nodiscard]] uint32_t rank_of(const Peer& peer) const { return static_cast<uint32_t>(&peer - peers_.data()); }
  [[nodiscard]] Ref ref_of(const void* p) const { return static_cast<Ref>(offset_of(p) / kLineBytes); }

  // describe.cpp: this rank's buffers as peers reach them
  [[nodiscard]] bool may_be_mapped(const copy::Buffer& buffer, uint64_t bytes, int32_t peer) const;
  [[nodiscard]] static bool worth_mapping(const copy::MappedBuffer& mapped, uint64_t bytes,
                                          const tune::PairChoice& choice);
  [[nodiscard]] bool prefers_mapping(const copy::Buffer& buffer, uint64_t bytes, int32_t peer) const;
  void count_use(const Peer& peer, const copy::Buffer& buffer);
  void look_up(Request* request, uint64_t bytes, bool exact);
  void describe(Request* request, int32_t peer, uint64_t bytes, bool exact, RemoteBufferShm* out);

  // send.cpp
  bool connect(uint32_t dest);
  /// Where the envelope of a message goes whose `inline_bytes` come with it.
  [[nodiscard]] shm::EnvelopeShm* claim_slot(Peer& peer, uint64_t inline_bytes = shm::kInlineBytes);
  /// `followed`: see EnvelopeProducer::publish().
  void publish(Peer& peer, shm::EnvelopeShm* slot, bool followed = false);
  [[nodiscard]] bool claim_block(Peer& peer, uint64_t bytes, shm::BlockShm* block, bool matched = false);
  [[nodiscard]] bool may_grow(uint64_t bytes) const;
  void grow_envelopes(Peer& peer);
  void grow_payload(Peer& peer, uint64_t wanted);
  void retire_old(Peer& peer);
  [[nodiscard]] bool claim_overflow(Peer& peer, uint64_t bytes, shm::BlockShm* block);
  void send_piped(Peer& peer, const SendArgs& args, shm::EnvelopeShm* slot, const shm::BlockShm& block,
                  copy::Store store);
  [[nodiscard]] bool send_small(Peer& peer, const SendArgs& args, uint64_t most);
  [[nodiscard]] uint64_t copied_max(const Peer& peer, uint64_t bytes) const;
  enum class Submitted : uint8_t {
    kYes,
    kNoRoom,   ///< in the ring, or in memory that its consumer gives back; nothing has happened
    kNoMemory  ///< to describe it; nothing has happened
  };
  /// Puts a send into the ring.
  Submitted submit(Request* request);
  bool submit_queued(Peer& peer);
  Submitted start_transfer(Request* request);
  [[nodiscard]] bool pullable(const TransferShm& t) const;
  void note_unpullable(Request* request, const TransferShm& t);
  [[nodiscard]] Offset take_transfer();
  void give_transfer(Offset offset);
  static void wake(const Peer& peer);
  [[nodiscard]] bool away(const Peer& peer) const;

  // distance.cpp: near and far, while the job runs
  void stamp(shm::EnvelopeShm* slot) const;
  void note_age(uint32_t sender, const shm::EnvelopeShm& slot, shm::EnvelopeRingShm* ring);

  // trace.cpp
  void count_lag(uint32_t peer, bool lagging);
  /// The kernel's copy from or to memory of `peer` ended early.
  void note_cma_failure(uint32_t peer, const Status& why, uint64_t moved, uint64_t bytes);
  void note_map_failure(uint32_t peer);

  // match.cpp
  [[nodiscard]] bool lock();
  bool try_lock_peer(Peer& peer);
  [[nodiscard]] bool broken_for_good(QueuesShm& queues);
  bool discover_sources();
  uint32_t drain(uint32_t sender, uint32_t budget, Request* extra, bool matched_only = false);
  void serve_posted(uint32_t sender);
  bool collect();
  bool take_front(const RecvArgs& args, Result* out);
  bool take_matched();
  [[nodiscard]] bool lost(int32_t peer, uint64_t context) const;
  bool tell_lost(const RecvArgs& args, Result* out);
  [[nodiscard]] Request* request_at(uint32_t index) const {
    return &request_slabs_[index / kRequestSlab][index % kRequestSlab];
  }
  void take_unexpected(Request* request, Ref ref);
  [[nodiscard]] Ref take_entry();
  uint32_t drain_for(uint32_t dest, const Queues& queues, bool* short_of_entries);
  bool cancel_send(Request* request);
  void run_taken();
  uint32_t progress_peer(uint32_t dest);
  void progress_receivers(const RequestList& sends);
  [[nodiscard]] static bool wants(const Request* r, const shm::EnvelopeShm& e) {
    return r->context == e.context && (r->source == kAnySource || r->source == e.source) &&
           (r->tag == kAnyTag || r->tag == e.tag);
  }

  // away.cpp: what senders do for a receiver that sits in a call of the host
  [[nodiscard]] static bool in_host(const Peer& peer) {
    return peer.part->state.helper.load_relaxed() != static_cast<uint32_t>(Helper::kNotInHost);
  }
  void help_sends(const RequestList& sends, bool in_vain);
  void help_queued(bool in_vain);
  void call_helper(Peer& peer);
  bool lend_entries(Peer& peer);
  [[nodiscard]] bool may_buffer(const Request* request) const;
  /// Memory of a send that stands in for the program's.
  [[nodiscard]] static constexpr uint64_t buffered_cost(uint64_t bytes) { return bytes + sizeof(Request); }
  [[nodiscard]] Request* stand_in(Request* request);
  void buffer_queued(RequestList& list);
  [[nodiscard]] bool is_in_ring(Peer& peer, Offset transfer) const;
  void buffer_offered(Request* request);

  // parked.cpp: sends beyond the first kSendsLookedAt
  [[nodiscard]] RequestList& list_of(const Request* send) { return send->parked ? parked_ : sends_; }
  void tell_matched(const TransferShm& t);
  bool look_at_parked();
  void unpark(Request* request);

  // direct.cpp
  uint64_t access_memory(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n, std::byte* local,
                         copy::Direction direction);
  uint64_t copy_mapped(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n, std::byte* local,
                       copy::Direction direction);

  // transfer.cpp
  void deliver(Request* request, const MessageShm& message);
  [[nodiscard]] bool copy_out(const copy::Buffer& buffer, uint64_t n, Kind kind, const shm::FarShm& far,
                              uint32_t sender);
  void join_transfer(Request* request, const MessageShm& message);
  /// Copies at most `push_most` bytes into the receiver's buffer.
  bool advance_send(Request* request, uint64_t push_most = kUnbounded);
  bool advance_recv(Request* request);
  bool pull(Request* request, TransferShm& t, uint64_t from, uint64_t n, Reach reach);
  bool push(Request* request, TransferShm& t, uint64_t from, uint64_t n, Reach reach);
  template <typename Move>
  uint64_t move_mapped(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                       copy::Direction direction, Move&& move);
  [[nodiscard]] bool room_for_cell(Peer& peer, const TransferShm& t, uint64_t n, bool matched, shm::BlockShm* block);
  bool put_carry(Request* request, TransferShm& t, bool matched);
  void put_cell(Request* request, TransferShm& t, const SpanShm (&spans)[2], const shm::BlockShm& block);
  [[nodiscard]] Reach reach_of(uint32_t owner, const RemoteBufferShm& buffer) const;
  [[nodiscard]] Reach can_pull(const Request* request, const TransferShm& t) const;
  [[nodiscard]] Reach can_push(const Request* request, const TransferShm& t) const;
  [[nodiscard]] bool revoked(uint32_t owner, const RemoteBufferShm& buffer) const {
    return buffer.mapped() && peers_[owner].part->access.epoch.load_relaxed() != buffer.epoch;
  }
  [[nodiscard]] uint32_t epoch_for(uint32_t owner, const RemoteBufferShm& buffer, Reach reach) const;
  [[nodiscard]] copy::Buffer remote_buffer(const RemoteBufferShm& remote) const;
  void finish_send(Request* request);
  void sweep_transfers();

  node::Node& node_;
  EndpointConfig config_;
  std::byte* base_;
  uint32_t self_;
  PartShm* part_ = nullptr;
  Queues queues_;
  shm::Arena arena_;
  shm::Arena annex_;  ///< for descriptions of sends when `arena_` has no more room
  std::vector<Peer> peers_;
  Deaths deaths_;
  std::unique_ptr<Trace> trace_;  ///< null unless ZEROHOP_LOG is debug
  shm::PayloadRing
      matched_ring_;  ///< for cells of matched transfers, when unexpected messages hold all of a peer's ring
  shm::PayloadRing* last_ring_ = nullptr;  ///< of the latest claim_block()
  std::vector<uint32_t> sources_;          ///< peers whose rings towards this rank exist
  uint32_t announced_seen_ = 0;
  uint32_t next_source_ = 0;
  std::vector<Taken> taken_;
  uint32_t taken_count_ = 0;

  std::vector<std::unique_ptr<Request[]>> request_slabs_;
  Request* free_requests_ = nullptr;
  Request sent_;  ///< stands for every send that completed at once; never freed
  uint32_t request_count_ = 0;
  std::vector<Ref> free_posted_;
  size_t posted_made_ = 0;                  ///< entries that are in free_posted_ or held by a receive
  std::vector<Ref> free_private_messages_;  ///< spill entries, when the budget of shared memory is used up
  os::PrivateRoom private_memory_;
  uint64_t private_used_ = kLineBytes;  // Ref 0 is "none"
  uint64_t unpullable_ = 0;             ///< transfers whose bytes no peer can fetch by itself
  uint64_t hidden_ = 0;                 ///< receives that no peer can fill, because their layout is too long to publish
  uint64_t buffered_bytes_ = 0;         ///< of sends that stand in for the program's
  std::vector<Offset> spare_entries_;   ///< slabs of queue entries to be lent
  LineLimits line_limits_;
  Atomic<uint32_t> expects_;  ///< see expect()
  bool all_cma_ = true;
  bool broken_ = false;  ///< this rank's queues are, and its requests have been told
  RequestList sends_;    ///< transfers towards peers
  RequestList parked_;   ///< those that wait, behind many others, for their match
  RequestList recvs_;    ///< transfers from peers
  uint64_t helped_ = 0;  ///< calls of help_peers()
  std::vector<uint32_t> queued_peers_;
  uint64_t unconnected_ = 0;  ///< peers to which this rank has no ring yet
  std::vector<Offset> free_transfers_;
  std::vector<Offset> free_short_transfers_;
  std::vector<Offset> ended_;  ///< complete for us, not yet released by the receiver
  uint64_t pending_sends_ = 0;
  copy::MappedMemory memory_;       ///< this rank's
  copy::RegionCache region_cache_;  ///< its peers'
  uint64_t ticks_away_ = 0;
};

}  // namespace zh::p2p
