// The file of ZEROHOP_STATS (docs/user/statistics.md). It is written at MPI_Init, now and then while the job runs, at
// MPI_Abort, and whole at MPI_Finalize, so that there is one however the job ends. Called by init.cpp; refuses to know
// what is counted.
#pragma once

#include <pthread.h>

#include <string>

#include "base/atomic.h"
#include "engine/rank.h"
#include "mpi/entry/host.h"

namespace zh::mpi {

/// As a JSON string; what is not UTF-8 becomes the character for that.
std::string json_text(const std::string& text);
/// `units` of 10^-digits, whatever the locale of the program.
std::string decimal(int64_t units, int digits);

/// Why a file is not written over.
constexpr const char* kNotOurs = "that file is not one of zerohop's, and stays as it is; give another name";

class Statistics {
 public:
  /// Collective over `world`, a private duplicate of MPI_COMM_WORLD. `name` is that of rank 0, as the user gave it, and
  /// so is `trace`, of the file of timelines. False, after a line of rank 0, where there will be no file.
  bool start(engine::Rank& rank, MPI_Comm world, const std::string& name, const std::string& trace);
  /// Collective over `world`: the last document.
  void finish(MPI_Comm world);
  /// Before MPI_Abort: has what is known now written. Waits for that, but not for long. A signal handler may call it.
  void abort(int code);

 private:
  [[nodiscard]] std::string path_of(int world_rank, pid_t pid, bool* each_its_own) const;
  void start_watch();
  void end_watch();
  void watch();
  [[nodiscard]] bool writes_now() const;
  [[nodiscard]] uint32_t dead() const;
  [[nodiscard]] bool aborted() const;
  void told_of_aborts();
  void write_so_far(bool all);
  [[nodiscard]] std::string so_far(uint32_t first, uint32_t n) const;
  [[nodiscard]] std::string with_calls(std::string object, const p2p::AccountShm& account) const;
  [[nodiscard]] std::string document(const std::string& end, const std::string& ranks) const;
  int write(const std::string& name, const std::string& text);
  static void complain(int error, const std::string& file);

  // timeline.cpp
  void start_timeline(MPI_Comm world, const std::string& wanted);
  void finish_timeline(MPI_Comm world);
  void write_timeline();
  bool write_events(const std::string& file, bool begins, bool ends) const;

  engine::Rank* rank_ = nullptr;
  std::string name_;           ///< of the file, with %r and %p
  std::string path_;           ///< of the file that this rank writes
  std::string head_;           ///< of the document: what never changes
  bool each_its_own_ = false;  ///< each rank has a file of its own
  bool in_place_ = false;      ///< the file is no regular one: written once, as it is
  std::string trace_;          ///< the file of timelines; "": there is none
  std::string draft_;          ///< what all nodes write, before it is that
  uint64_t started_ns_ = 0;
  uint64_t delayed_ns_ = 0;   ///< until then
  uint64_t start_ticks_ = 0;  ///< both clocks at the moment that is 0 there
  uint64_t start_ns_ = 0;
  bool timed_ = false;  ///< functions and waits are
  pthread_t watcher_{};
  bool has_watcher_ = false;
  Atomic<uint32_t> called_;  ///< futex word of the watcher
  Atomic<uint32_t> ending_;
};

}  // namespace zh::mpi
