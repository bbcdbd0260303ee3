// The launcher's store of keys and values, in which each rank leaves a mark while the host initialises. Called by
// init.cpp; refuses to know what follows from the marks.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
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
  // What follows requires has_mark(), after MPI_Init.
  /// Brings the marks of those ranks that are on other nodes here. Waits long for marks that are not there, unless what
  /// is found is `only_to_tell`.
  void ask_for(std::span<const int> ranks, bool only_to_tell);
  [[nodiscard]] node::Presence look(int rank);

 private:
  enum class State { kNone, kPmi, kPmix, kFailed };
  void prepare();
  void before_commit(void* pmix);
  static void before_commit_of_host(void* pmix);
  [[nodiscard]] std::string read(int rank);
  [[nodiscard]] std::string read_pmix(uint32_t rank, const char* key) const;
  void find_neighbours();
  struct Question;
  static void on_answer(int status, void* value, void* question);

  State state_ = State::kNone;
  std::once_flag once_;
  void (**hook_)(void*) = nullptr;
  std::string mark_;
  os::PmiClient pmi_;
  void* pmix_get_ = nullptr;
  void* pmix_get_nb_ = nullptr;
  bool knows_node_ = false;
  std::set<int> on_node_;  ///< ranks whose marks PMIx has here from the start

  std::mutex answers_;  ///< of PMIx's thread
  std::map<int, std::string> found_;
  std::set<int> open_;  ///< asked for, and no answer yet
};

extern Launcher launcher;

}  // namespace zh::mpi
