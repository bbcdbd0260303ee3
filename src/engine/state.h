// The inside of a Rank, shared by the files of this folder only.
#pragma once

#include <pthread.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "base/optional_lock.h"
#include "coll/schedule/problem.h"
#include "coll/team/control_block_pool.h"
#include "coll/team/services.h"
#include "engine/active_collectives.h"
#include "engine/busy_watch.h"
#include "engine/internode.h"
#include "engine/rank.h"
#include "heap/shared_heap.h"
#include "os/clock.h"
#include "os/mutex.h"
#include "p2p/endpoint.h"

namespace zh::engine {

/// Idle turns, or idle polls of a program, of which one turns the host and looks after peers.
constexpr uint32_t kHostEvery = 64;

/// Keeps peers away while memory changes under them, and this rank out of forked children.
class MemoryWatch final : public heap::Client {
 public:
  explicit MemoryWatch(p2p::Endpoint& endpoint) : endpoint_(endpoint) {}
  void keep_peers_away() override { endpoint_.memory().close(); }
  void let_peers_in() override { endpoint_.memory().open(); }
  void in_child() override { is_child_ = true; }
  [[nodiscard]] bool is_child() const { return is_child_; }

 private:
  p2p::Endpoint& endpoint_;
  bool is_child_ = false;
};

struct Rank::State {
  Config config;
  std::unique_ptr<p2p::Endpoint> endpoint;
  std::unique_ptr<MemoryWatch> watch;  ///< if there is a shared heap
  std::function<void()> host_progress;
  Atomic<uint64_t> host_turn_ns;  ///< the shortest turn of the host after a sleep so far; 0: none
  /// After a sleep: turns the host, and says whether that had something to move.
  bool host_moves();
  std::unique_ptr<coll::Services> team_services;
  std::unique_ptr<coll::ControlBlockPool> control_blocks;
  std::shared_ptr<ActiveCollectives> active_collectives;
  std::unique_ptr<Internode> internode;  ///< where the job spans nodes
  bool threads = false;                  ///< several threads of the program (or the helper) may call at once
  bool oversubscribed = false;
  uint32_t idle_polls = 0;
  uintptr_t last_poller = 0;
  /// Whether another thread has polled in vain since this one did: they may have one processor. Under the Guard.
  bool polled_by_another() {
    const uintptr_t before = std::exchange(last_poller, os::Mutex::this_thread());
    return before != 0 && before != last_poller;
  }
  uint64_t idle_polls_since_ns = 0;  ///< when they began to move nothing
  /// After which time a peer that takes nothing is taken to wait for something else. Where ranks outnumber processors
  /// it may only have lost its own.
  [[nodiscard]] uint64_t in_vain_ns() const { return oversubscribed ? 4'000'000 : 1'000'000; }
  os::Interval reaps;
  /// Looks for peers that have ended, if the last look is some milliseconds old. Under the Guard.
  void reap_in_time();
  bool patient = false;  ///< a blocking receive may look for its message for a while by itself
  [[nodiscard]] bool looks_for_long() const { return patient && company.load_relaxed() == 0 && !others_want_cpu(); }
  /// Whether the peer that is waited for (kAnyPeer: one of some) was last seen on this rank's CPU, where it cannot run
  /// while this rank looks for it. Tells the others where this rank is.
  bool notice_company(int32_t peer);
  /// Moves the calling thread to a CPU on which no rank was last seen. False if that was in vain a short while ago.
  bool leave_company();
  Atomic<uint64_t> stays_until_ns;  ///< in company
  BusyWatch busy;
  Atomic<uint32_t> wakes_late;  ///< when others were last seen: to sleep is to wait for their time to end
  [[nodiscard]] bool others_want_cpu() const { return wakes_late.load_relaxed() == 0 && busy.busy(&os::now_ns); }
  [[nodiscard]] uint32_t idle_before_yield() const;
  void note_looks(uint64_t from_ns, uint64_t to_ns);
  Atomic<uint32_t> company;       ///< the latest answer
  Atomic<uint32_t> for_network;   ///< NetworkScopes that there are, of all threads
  Atomic<uint32_t> next_noticed;  ///< by turns; the one found, while it is
  bool timed = false;             ///< waits are
  bool by_receiver = false;
  std::map<int32_t, p2p::Tally> sent_by_host;  ///< by rank of the world
  /// Names that the program has given to communicators, by context. Under the Guard.
  std::vector<std::pair<uint64_t, std::string>> context_names;
  [[nodiscard]] std::string_view name_of(uint64_t context) const;
  std::string profile_note;  ///< where the choices come from
  std::string complaint;     ///< one line for the user, on one rank; empty if there is none
  std::mutex mutex;
  pthread_t helper{};
  bool has_helper = false;
  bool helper_failed = false;      ///< there was no thread to be had
  uint32_t in_host = 0;            ///< calls of the host that threads of the program are in
  Atomic<uint32_t> helper_wanted;  ///< it looks at every period, without being called
  Atomic<uint32_t> helper_rests;   ///< its period is a long one: its owner was last seen in a call that waits
  os::Interval rouses;             ///< ends of such a rest by its owner; under the Guard
  Atomic<uint32_t> helper_stop;
  Atomic<uint64_t> left_ticks;  ///< clock of the latest return to the program with unfinished work
  std::vector<std::pair<const char*, uint64_t>> fallbacks;
  p2p::Tally staged;      ///< reductions through staging areas, and the bytes of this rank's inputs
  p2p::Tally by_leaders;  ///< collectives of the host among leaders, and their bytes on this rank
  /// Calls by collective and place in coll::algorithms().
  std::array<std::vector<uint64_t>, static_cast<size_t>(coll::Collective::kNeighbor) + 1> schedules;
};

/// The process-private mutex of a rank, taken only when there is more than one thread; never held
/// across a wait or a host call.
class Rank::Guard : public OptionalLock {
 public:
  explicit Guard(State& state) : OptionalLock(state.threads ? &state.mutex : nullptr) {}
};

}  // namespace zh::engine
