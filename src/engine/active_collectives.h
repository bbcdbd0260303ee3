// ActiveCollectives: the collective calls of one rank that are under way, of all its communicators. They go on whenever
// one of them is looked at, when the rank's caller turns it, and in the helper thread (Rank::enter_host()).
#pragma once

#include <mutex>
#include <vector>

#include "base/atomic.h"
#include "coll/schedule/scratch_pool.h"

namespace zh::engine {

class Collectives;
class CollectiveCall;
class NonblockingOnNode;
class Rank;

class ActiveCollectives {
 public:
  explicit ActiveCollectives(Rank& rank) : rank_(&rank) {}
  ActiveCollectives(const ActiveCollectives&) = delete;
  ActiveCollectives& operator=(const ActiveCollectives&) = delete;

  /// Advances everything that was started and has not ended. Cheap when there is nothing. `alone`: for the helper
  /// thread, which calls neither a host nor the program; only those that need neither.
  void advance(bool alone = false);
  /// Whether there are any that need neither.
  [[nodiscard]] bool any_alone();
  /// Waits until nothing of that communicator is under way.
  void finish(const Collectives& of);
  /// Carries on with NonblockingOnNode::set_up_alone(), of no call, until forget().
  void set_up(NonblockingOnNode* of_none);
  void forget(const NonblockingOnNode* gone);
  /// The rank is going to be gone; calls that have not ended never will.
  void close() { rank_ = nullptr; }

 private:
  friend class CollectiveCall;
  void count_active() {
    n_active_.store_relaxed(static_cast<uint32_t>(active_.size() + set_ups_.size()) + with_others_);
  }

  Rank* rank_;
  std::mutex mutex_;  ///< always taken: the helper thread may come at any time
  std::vector<CollectiveCall*> active_;
  std::vector<NonblockingOnNode*> set_ups_;
  uint32_t with_others_ = 0;  ///< under way beside these: their steps wait for other ranks
  Atomic<uint32_t> n_active_{0};
  coll::ScratchPool scratch_pool_;
};

}  // namespace zh::engine
