// The inside of a Rank, shared by the files of this folder only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "coll/board_pool.h"
#include "coll/problem.h"
#include "coll/services.h"
#include "engine/internode.h"
#include "engine/rank.h"
#include "heap/shared_heap.h"
#include "p2p/endpoint.h"

namespace zh::engine {

/// Keeps peers away while the process forks, and this rank out of the child.
class ForkWatch final : public heap::ForkClient {
 public:
  explicit ForkWatch(p2p::Endpoint& endpoint) : endpoint_(endpoint) {}
  void before_fork() override { endpoint_.close_memory(); }
  void after_fork_in_parent() override { endpoint_.open_memory(); }
  void after_fork_in_child() override { in_child_ = true; }
  [[nodiscard]] bool in_child() const { return in_child_; }

 private:
  p2p::Endpoint& endpoint_;
  bool in_child_ = false;
};

struct Rank::State {
  Config config;
  std::unique_ptr<p2p::Endpoint> endpoint;
  std::unique_ptr<ForkWatch> forks;  ///< if there is a shared heap
  std::function<void()> host_progress;
  std::unique_ptr<coll::Services> team_services;
  std::unique_ptr<coll::BoardPool> boards;
  std::unique_ptr<Internode> internode;  ///< where the job spans nodes
  bool threads = false;                  ///< several threads of the program (or the helper) may call at once
  bool oversubscribed = false;
  uint32_t idle_polls = 0;
  bool patient = false;      ///< a blocking receive may look for its message for a while by itself
  std::string profile_note;  ///< where the choices come from
  std::string complaint;     ///< one line for the user, on one rank; empty if there is none
  std::mutex mutex;
  std::thread helper;
  Atomic<uint32_t> helper_wanted;
  Atomic<uint32_t> helper_stop;
  Atomic<uint64_t> left_ticks;  ///< clock of the latest return to the program with unfinished work
  std::vector<std::pair<const char*, uint64_t>> fallbacks;
  p2p::Tally staged;  ///< reductions through staging areas, and the bytes of this rank's inputs
  /// Calls by collective and place in coll::algorithms().
  std::array<std::vector<uint64_t>, static_cast<size_t>(coll::Collective::kCount)> schedules;
};

/// The process-private mutex of a rank, taken only when there is more than one thread; never held
/// across a wait or a host call.
class Rank::Guard {
 public:
  explicit Guard(State& state) : mutex_(state.threads ? &state.mutex : nullptr) {
    if (mutex_ != nullptr) mutex_->lock();
  }
  ~Guard() {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  std::mutex* mutex_;
};

}  // namespace zh::engine
