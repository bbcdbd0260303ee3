// What the shim's files share: the engine of this process, its memory, a few facts, and the lock of its tables.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "base/atomic.h"
#include "coll/algorithms/precedence.h"
#include "engine/rank.h"
#include "mpi/entry/host.h"

namespace zh::mpi {

struct Shim {
  static const p2p::RequestTable kNoRequests;
  engine::Rank* rank = nullptr;  ///< null before MPI_Init, after MPI_Finalize, and when everything stays with the host
  const p2p::RequestTable* requests = &kNoRequests;  ///< the rank's
  heap::SharedHeap* heap = nullptr;
  bool enabled = true;       ///< ZEROHOP_ENABLE
  bool collectives = true;   ///< ZEROHOP_COLLECTIVES, of all ranks
  bool threaded = false;     ///< MPI_THREAD_MULTIPLE
  bool fast_status = false;  ///< the layout of MPI_Status was verified
  int tag_ub = 0;
  int world_size = 0;
  bool spans_nodes = false;   ///< the job has ranks that are not on this node
  bool has_windows = false;   ///< the program has made one
  bool counts_calls = false;  ///< ZEROHOP_STATS is set; only while there is a rank
  bool times_calls = false;   ///< ... and the time in them; likewise
  bool traces_calls = false;  ///< ZEROHOP_LOG is debug; likewise
  [[nodiscard]] bool watches_calls() const { return counts_calls || traces_calls; }
  coll::Precedence algorithms;                     ///< of all ranks, as rank 0 was told
  std::array<bool, coll::kCollectives> no_team{};  ///< a variable names an algorithm that is no team's
};
extern Shim shim;

/// Holds a table's mutex, if there are threads at all.
class TableLock {
 public:
  [[gnu::always_inline]] explicit TableLock(std::mutex& mutex) : mutex_(shim.threaded ? &mutex : nullptr) {
    if (mutex_ != nullptr) mutex_->lock();
  }
  ~TableLock() {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  TableLock(const TableLock&) = delete;
  TableLock& operator=(const TableLock&) = delete;

 private:
  std::mutex* mutex_;
};

/// Raises `error_class` through the communicator's error handler and returns it (the handler may not return).
int raise(MPI_Comm comm, int error_class);
/// MPI error class of an engine result, and of a code of the host's.
int class_of(Code code);
int class_of(int error);

/// Turns the engine and the host until done() is true; done() may call the host. `receive`: what is waited for, if that
/// is a receive of the engine.
template <typename Done>
inline void turn_until(Done&& done, p2p::Tell tell = engine::Rank::kUntold, const p2p::Request* receive = nullptr) {
  if (done()) return;
  if (shim.rank != nullptr) {
    shim.rank->wait_until(done, tell, receive);
  } else {
    while (!done()) {
    }
  }
}

}  // namespace zh::mpi
