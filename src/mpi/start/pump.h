// What keeps the host moving while the engine waits.
#pragma once

#include <mutex>

#include "mpi/shim.h"

namespace zh::mpi {

/// A receive that never completes: testing it turns the host's progress at the lowest price on every host.
class Pump {
 public:
  void open() {
    host.Comm_dup(MPI_COMM_SELF, &self_);
    host.Irecv(&sink_, 1, MPI_BYTE, 0, kPumpTag, self_, &request_);
    open_ = true;
  }
  void close() {
    if (!open_) return;
    open_ = false;
    char nothing = 0;
    MPI_Request send;
    host.Isend(&nothing, 1, MPI_BYTE, 0, kPumpTag, self_, &send);
    host.Wait(&request_, MPI_STATUS_IGNORE);
    host.Wait(&send, MPI_STATUS_IGNORE);
    host.Comm_free(&self_);
  }
  void turn() {
    if (!open_) return;  // also while the host ends
    if (shim.threaded && !busy_.try_lock()) return;
    int flag = 0;
    host.Test(&request_, &flag, MPI_STATUS_IGNORE);
    if (shim.threaded) busy_.unlock();
  }

 private:
  static constexpr int kPumpTag = 1;
  MPI_Comm self_{};
  MPI_Request request_{};
  char sink_ = 0;
  bool open_ = false;
  std::mutex busy_;
};

}  // namespace zh::mpi
