// The launcher's store of keys and values, in which each rank leaves a mark while the host initialises. Called by
// env.cpp; refuses to know what follows from the marks.
#pragma once

#include <mutex>
#include <string>

#include "node/roll_call.h"
#include "os/pmi.h"

namespace zh::mpi {

class Launcher {
 public:
  /// Where to ask for a call before the host's PMIx_Commit (commit.cpp).
  void set_commit_hook(void (**hook)(void* pmix)) { hook_ = hook; }
  /// Before whatever may initialise the host: sees to it that this rank's mark is among what ranks know of each other
  /// afterwards. Only the first call in a process does anything.
  void leave_mark();

  /// Of what follows only one is true.
  [[nodiscard]] bool has_no_store() const { return state_ == State::kNone; }
  [[nodiscard]] bool has_mark() const { return state_ == State::kPmi || state_ == State::kPmix; }
  /// Requires has_mark(), after MPI_Init.
  [[nodiscard]] node::Presence look(int rank);

 private:
  enum class State { kNone, kPmi, kPmix, kFailed };
  void prepare();
  void before_commit(void* pmix);
  static void before_commit_of_host(void* pmix);
  [[nodiscard]] std::string read(int rank);

  State state_ = State::kNone;
  std::once_flag once_;
  void (**hook_)(void*) = nullptr;
  std::string mark_;
  os::PmiClient pmi_;
  void* pmix_get_ = nullptr;
};

extern Launcher launcher;

}  // namespace zh::mpi
