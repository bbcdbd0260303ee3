// Receives from MPI_ANY_SOURCE on a communicator that spans nodes: the message may come through the engine or through
// the host. Each is posted in the engine and offered to the host's messages by probing; one owner gets it (Rank::cancel
// decides). Receives from other nodes posted behind one that could take the same message wait here, so that posted
// order holds.
#pragma once

#include <list>

#include "mpi/p2p/operation.h"

namespace zh::mpi {

class WildcardQueue {
 public:
  explicit WildcardQueue(CommInfo* comm) : comm_(comm) {}
  ~WildcardQueue();

  /// Without the lock: what another thread adds at the same time may be missing.
  [[nodiscard]] bool empty() const { return n_waiting_.load_relaxed() == 0; }

  /// Posts `op` (a receive whose fields are set); afterwards it is kEngine, kHost, kWaiting or kDone. True if it was
  /// queued.
  bool add(Operation* op, const p2p::RecvArgs* engine_args);
  /// Offers host messages to the waiting receives; posts those that nothing blocks any more.
  void advance();
  /// Takes a cancelled receive out. False: it is not waiting any more.
  bool remove(Operation* op);
  /// Whether a host message (source, tag) belongs to a waiting receive.
  [[nodiscard]] bool claims(int source, int tag) const;
  /// MPI_Improbe of the host's messages that no waiting receive is to have.
  int improbe(int source, int tag, int* flag, MPI_Message* message, MPI_Status* status);

 private:
  [[nodiscard]] bool blocked(const Operation* op) const;
  [[nodiscard]] Operation* first_match(int source, int tag) const;
  /// True if the queue changed.
  bool offer(Operation* op);
  void post_unblocked();

  CommInfo* comm_;
  std::list<Operation*> waiting_;  ///< in posted order
  Atomic<uint32_t> n_waiting_{0};  ///< its length
};

/// Does everything that waits for host messages; called from waits and tests. Cheap when nothing does.
void advance_wildcards();

}  // namespace zh::mpi
