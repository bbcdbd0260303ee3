// Rank: everything that one rank owns, and the only progress loop. The shim (or zerohop.h, or a test) talks to this.
// N ranks may run as N threads of one process: no global state anywhere below.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic.h"
#include "base/optional_lock.h"
#include "base/status.h"
#include "node/node.h"
#include "p2p/activity.h"
#include "p2p/short_path.h"
#include "p2p/types.h"

namespace zh::coll {
class NonblockingTeam;
class Team;
enum class Collective : uint8_t;
}  // namespace zh::coll

namespace zh::engine {

class Carrier;
class ActiveCollectives;
class Internode;
using p2p::Message;
using p2p::RecvArgs;
using p2p::Request;
using p2p::Result;
using p2p::SendArgs;

enum class WaitPolicy : uint8_t { kAuto, kSpin, kPassive };

/// `skew` -1: unless ranks outnumber CPUs.
struct Config : p2p::EndpointConfig {
  Status ready;  ///< a failure here is one of all ranks' create(): what else the caller needs is not there
  WaitPolicy wait = WaitPolicy::kAuto;
  uint64_t single_copy_min = 0;    ///< that setting; 0 = as measured
  uint32_t copiers = 8;            ///< that setting
  std::string calibration_folder;  ///< ZEROHOP_CACHE
  std::string site_folder;         ///< the setting site
  std::string profile;             ///< ZEROHOP_PROFILE: a name of tune::named_profile(); empty: as calibrated
  bool calibrate = true;           ///< false: built-in choices (tests)
};

class Rank {
 public:
  /// `node` stays owned by the caller and outlives the Rank. `world` is used for the collective part of the start only.
  /// On failure every rank gets the same.
  static Status create(node::Node& node, node::Bootstrap& world, const Config& config, std::unique_ptr<Rank>* out);
  ~Rank();

  /// From now on calls may come from several threads at once (MPI_THREAD_MULTIPLE). Call before the first of them.
  void enable_threads();
  /// `turn` drives the host's progress; called about every 64 polls of a wait. May be empty.
  void set_host_progress(std::function<void()> turn);

  /// Around every call of the host that may wait for other ranks: what peers send meanwhile goes on (MPI standard 2.9),
  /// and so do collectives that need neither the host nor the program, in the helper thread. They may nest, and several
  /// threads may be in them.
  /// `function`: see called().
  void enter_host(uint16_t function = 0);
  void leave_host();

  // For whoever looks at the job from outside (p2p/activity.h).
  /// Before a call that may wait: the number of the program's function.
  void called(uint16_t function) { called_.store_relaxed(function); }
  /// The same of a collective of the communicator with that context.
  void called(uint16_t function, uint64_t context) {
    called(function);
    called_on_.store_relaxed(context);
  }
  /// How the program calls the communicator with that context; "": not any more.
  void name_context(uint64_t context, std::string_view name);
  /// What waiting for this request would be for.
  void tell(const Request* request, p2p::Activity* out) const;

  /// The members of a context, so that receives from anywhere are told of their deaths only; they must stay where they
  /// are until forget_members() (p2p/deaths.h).
  void name_members(uint64_t context, std::span<const int32_t> members);
  void forget_members(uint64_t context);

  // --- Point-to-point. All may be called at any time after create(); none throws.

  /// Blocking standard/ready/synchronous send. Returns when the buffer may be used again.
  Result send(const SendArgs& args);
  /// Blocking receive.
  Result recv(const RecvArgs& args);
  /// Starts a send; null only when out of memory. The request must be given to release() or detach(). It may be sent().
  Request* isend(const SendArgs& args);
  Request* irecv(const RecvArgs& args);

  // The same for most messages, in line for the caller (p2p/short_path.h), blocking or not. False or null: nothing has
  // happened, and the call above is to be made. None leaves behind what this rank would have to move on.

  [[nodiscard, gnu::always_inline]] bool send_short(const SendArgs& args) {
    return mutex_ == nullptr && endpoint_->send_short(args);
  }
  [[nodiscard, gnu::always_inline]] bool recv_short(const RecvArgs& args, Result* out) {
    return receives_short_ && endpoint_->recv_short<false>(args, out);
  }
  [[nodiscard, gnu::always_inline]] Request* irecv_short(const RecvArgs& args) { return endpoint_->irecv_short(args); }

  /// What isend() returns when there is nothing left to wait for: always the same, at place 0 of requests().
  [[nodiscard]] Request* sent() const { return endpoint_->requests().sent(); }
  /// A complete request of no message: something for the caller to keep things by; null when out of memory.
  Request* make_empty();
  /// Where all of them lie.
  [[nodiscard]] const p2p::RequestTable& requests() const { return endpoint_->requests(); }

  /// True once the request is complete (then result() is valid). Turns the progress loop once if it is not.
  bool test(Request* request);
  /// Only looks, no progress.
  [[nodiscard]] static bool done(const Request* request) { return request->is_done(); }
  /// How many requests have been completed or given up so far: while it stays, those that pended then pend.
  [[nodiscard]] uint64_t ended_requests() const;
  void wait(Request* request);
  [[nodiscard]] static const Result& result(const Request* request) { return request->result; }
  /// Frees a complete request.
  [[gnu::always_inline]] void release(Request* request) {
    if (mutex_ != nullptr) [[unlikely]]
      return release_locked(request);
    endpoint_->release(request);
  }
  /// Gives up a request that may still be active: it is freed when it completes (MPI_Request_free).
  void detach(Request* request);
  /// MPI 3.8.4: true if the operation will not happen (its result then says cancelled); false if it had matched.
  bool cancel(Request* request);

  /// MPI 3.8.1. True and fills `*out` if a message is there that args would match. The buffer of args is ignored. True
  /// with kPeerDead if a receive would end so.
  bool iprobe(const RecvArgs& args, Result* out);
  /// MPI 3.8.2: as iprobe, and takes the message out of matching; null if there is none, then `out->code` says why.
  Message* improbe(const RecvArgs& args, Result* out);
  Request* imrecv(Message* message, const copy::Buffer& buffer);

  /// One turn: empties rings, advances transfers. True if anything moved.
  bool progress();
  /// Turns the engine (and the host) until `done()` is true, waiting as the policy says. `done` runs without any lock
  /// held and may call the host; so does `tell`, but it calls nobody. `receive`: what is waited for, if that is one.
  template <typename Done>
  void wait_until(Done&& done, p2p::Tell tell = kUntold, const Request* receive = nullptr) {
    WaitScope scope(*this, tell, receive);
    while (!done()) scope.pause();
  }
  static constexpr auto kUntold = [](p2p::Activity*) {};

  /// While one exists the rank's waits are for what comes over a network, longer than a change of process takes: where
  /// ranks outnumber CPUs it sleeps soon, so that whoever serves the network has a CPU.
  class NetworkScope {
   public:
    explicit NetworkScope(Rank& rank);
    ~NetworkScope();
    NetworkScope(const NetworkScope&) = delete;
    NetworkScope& operator=(const NetworkScope&) = delete;

   private:
    Rank& rank_;
  };

  /// Only looks for `done()`, for about the time in which a peer that runs would bring it about: what comes without the
  /// engine is seen sooner so than by wait_until(). True once it is done.
  template <typename Done>
  bool look_for(Done&& done) {
    for (uint32_t i = 0; i < looks(); ++i) {
      if (done()) return true;
      if (i % kLooksPerNotice == kLooksPerNotice - 1 && keeps_cpu_from_peer()) break;
      cpu_relax();
    }
    return done();
  }
  /// How often that is; 1 where ranks outnumber CPUs.
  [[nodiscard]] uint32_t looks() const;
  /// Whether to look any longer would keep a rank of the node from its CPU.
  [[nodiscard]] bool keeps_cpu_from_peer();

  // --- Collectives of a communicator that is all on this node (coll/team/team.h).

  /// `members`: node-local indices in the order of the communicator's ranks, `self` this rank's place. Null only when
  /// out of memory. The team must be gone before the Rank.
  [[nodiscard]] std::unique_ptr<coll::Team> make_team(uint64_t context, std::vector<uint32_t> members, uint32_t self);
  /// The same for nonblocking ones, which are small or large (coll/team/nonblocking_team.h).
  [[nodiscard]] std::unique_ptr<coll::NonblockingTeam> make_nonblocking_team(bool small, uint64_t context,
                                                                             std::vector<uint32_t> members,
                                                                             uint32_t self);

  /// Those of all communicators that are under way. They outlive the rank with the last of them.
  [[nodiscard]] const std::shared_ptr<ActiveCollectives>& active_collectives() const;

  // What schedules tell each other (p2p/announced_calls.h). One thread at a time announces.
  void announce_call(uint64_t context, uint64_t number, uint32_t digest);
  [[nodiscard]] bool call_contradicted(uint32_t peer, uint64_t context, uint64_t number, uint32_t digest) const;

  /// Lets this rank's collectives reach other nodes; once, after enable_threads(). kNoMemory, also if there is no
  /// `carrier`.
  Status open_internode(std::unique_ptr<Carrier> carrier);
  /// Null if that was not done.
  [[nodiscard]] Internode* internode() const;

  /// Sends whose bytes are still needed from this rank's memory; 0 when all is quiet.
  [[nodiscard]] uint64_t pending_sends() const;
  /// Finishes all pending sends (MPI_Finalize). Collective meaning is the caller's.
  void quiesce();
  /// Takes back all sends that no receive has matched, once no rank will receive any more.
  void take_back_sends();

  [[nodiscard]] node::Node& node() const { return node_; }
  /// True in a process that was forked from the rank's: there it must not be used, and does nothing when destroyed.
  [[nodiscard]] bool inert() const;
  /// Per-rank counters as a JSON object (schema in docs/user/statistics.md).
  [[nodiscard]] std::string stats_json() const;
  /// What a rank of the node has told of its counters so far, or until it died: a part of its stats_json(). Takes no
  /// lock, for any thread.
  [[nodiscard]] std::string told_json(uint32_t index) const;
  /// Counts a message that a collective sends.
  void count_collective_message(uint64_t bytes);
  /// Counts a collective of the host among leaders, of so many bytes on this rank.
  void count_leader_step(uint64_t bytes);
  /// Counts a call of the layer above; `key` is neither 0 nor p2p::CallCounts::kOther.
  void count_call(uint64_t key, uint64_t bytes);
  /// From now on messages are counted by receiver.
  void count_by_receiver();
  /// A message to a rank of another node, which the host carries. Counts only then.
  void count_sent_by_host(int32_t world_rank, uint64_t bytes);
  /// From now on waits, and stays in the host, are timed. Once.
  void time_waits();
  /// What ends now goes into the timeline (p2p/timeline.h), if there is one.
  void tell(const p2p::Event& event);
  /// How the program calls the communicator with that context, or of which it was made; "": not at all.
  [[nodiscard]] std::string name_of_context(uint64_t context) const;
  /// Where a rank of the node keeps its numbers, or this one.
  [[nodiscard]] p2p::AccountShm& account(uint32_t index) const;
  [[nodiscard]] p2p::AccountShm& account() const;
  /// The sizes from which on messages to a peer go which way, as a line for the log.
  [[nodiscard]] std::string choice_text(uint32_t peer) const;
  /// Where the choices come from, and a line that the user should see (empty if there is none).
  [[nodiscard]] const std::string& choices_note() const;
  [[nodiscard]] const std::string& complaint() const;
  [[nodiscard]] const Log& log() const;
  /// Counts that something stayed with the host; `reason` is a static text.
  void count_fallback(const char* reason);
  /// Counts a call that a schedule serves; `algorithm` is the place in coll::algorithms().
  void count_schedule(coll::Collective collective, size_t algorithm);

  /// While one exists the rank counts as inside MPI, so that peers leave its queues to it.
  class WaitScope {
   public:
    WaitScope(Rank& rank, p2p::Tell tell, const Request* receive = nullptr);
    ~WaitScope();
    WaitScope(const WaitScope&) = delete;
    WaitScope& operator=(const WaitScope&) = delete;
    void pause();      ///< one turn of the engine, then spin, yield or sleep as the policy says
    bool turn_only();  ///< one turn of the engine; true if anything moved

   private:
    void notice_others();
    void count_time();
    void tell_in_time(uint64_t now_ns);
    void tell_now(uint64_t now_ns, uint64_t still_ns);
    void yield();
    void sleep();
    void end_sleep();
    Rank& rank_;
    p2p::Tell tell_;
    const Request* receive_;  ///< for which memory is asked for ahead, or null
    copy::WriteAhead ahead_;
    uint32_t turns_ = 0;
    uint32_t idle_ = 0;
    uint64_t idle_since_ns_ = 0;
    uint64_t looked_ns_ = 0;   ///< the latest look at the clock since something moved
    bool helped_ = false;      ///< peers were helped, perhaps with copies, which this rank may leave behind
    bool host_moves_ = false;  ///< at its turn after the last sleep
    uint32_t sleep_word_ = 0;  ///< of a sleep that is announced, which is odd; else 0
    uint64_t began_ns_ = 0;    ///< the first look at the clock; 0: none yet
    uint64_t told_ns_ = 0;     ///< the latest time that it was told what the wait is for; 0: not yet
    uint64_t began_ticks_;
    uint64_t moved_ticks_ = 0;   ///< of these, in turns that moved something; only if waits are timed
    uint64_t latest_ticks_ = 0;  ///< the end of the latest turn; likewise
    bool told_still_ = false;    ///< ... and nothing has moved since
  };

 private:
  static constexpr uint32_t kLooksPerNotice = 64;
  Rank(node::Node& node, const Config& config);
  struct State;
  class Guard;
  class TeamServices;
  struct Waiter;
  class Chooser;
  Status choose(node::Bootstrap& world, const Status& opened);
  void watch_memory();
  void prepare_teams();
  [[gnu::noinline]] void release_locked(Request* request);
  void leave(OptionalLock& lock);
  void want_helper(OptionalLock& lock);
  void start_helper(OptionalLock& lock);
  void help();
  void serve_for_owner();
  void stop_helper();
  node::Node& node_;
  std::unique_ptr<State> state_;
  p2p::Endpoint* endpoint_ = nullptr;  ///< the state's
  std::mutex* mutex_ = nullptr;        ///< the state's, if several threads (also the helper) may call at once
  /// Blocking receives look for their message before they go into the queue. Else so, or to tell which end came later.
  bool looks_first_ = true;
  bool receives_short_ = true;  ///< the same, and nobody is told of messages
  Atomic<uint16_t> called_;
  Atomic<uint64_t> called_on_;
};

}  // namespace zh::engine
