// How ranks speak to each other before there is an engine: through the host, over a communicator of zerohop's own, and
// through the launcher's store.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "mpi/entry/host.h"
#include "mpi/start/launcher.h"
#include "node/node.h"
#include "node/roll_call.h"

namespace zh::mpi {

/// The host's Allgather over a private duplicate of MPI_COMM_WORLD.
class HostBootstrap final : public node::Bootstrap {
 public:
  HostBootstrap() {
    host.Comm_dup(MPI_COMM_WORLD, &world_);
    host.Comm_rank(world_, &rank_);
    host.Comm_size(world_, &size_);
  }
  ~HostBootstrap() override { host.Comm_free(&world_); }
  HostBootstrap(const HostBootstrap&) = delete;
  HostBootstrap& operator=(const HostBootstrap&) = delete;
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  Status allgather(const void* in, size_t bytes, void* out) override {
    const int n = static_cast<int>(bytes);
    const int error = host.Allgather(in, n, MPI_BYTE, out, n, MPI_BYTE, world_);
    return error == MPI_SUCCESS ? kOk : Status{Code::kIo, "the host's allgather failed"};
  }
  [[nodiscard]] MPI_Comm comm() const { return world_; }

 private:
  MPI_Comm world_{};
  int rank_ = 0;
  int size_ = 1;
};

/// Marks in the launcher's store; messages on MPI_COMM_WORLD, which the program cannot use yet.
class HostRoll final : public node::Roll {
 public:
  void prepare(std::span<const int> ranks, bool only_to_tell) override { launcher.ask_for(ranks, only_to_tell); }
  node::Presence look(int rank) override { return launcher.look(rank); }
  void tell(int rank, bool all) override {
    const char answer = all ? 1 : 0;
    host.Send(&answer, 1, MPI_BYTE, rank, kTag, MPI_COMM_WORLD);
  }
  bool hear(int rank) override {
    char answer = 0;
    host.Recv(&answer, 1, MPI_BYTE, rank, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return answer != 0;
  }

 private:
  static constexpr int kTag = 31336;  // every host has tags up to 32767
};

/// All ranks end with the same answer.
inline bool all_agree(HostBootstrap& world, bool mine) {
  std::vector<char> all(static_cast<size_t>(world.size()));
  const char one = mine ? 1 : 0;
  if (!world.allgather(&one, 1, all.data()).ok()) return false;
  return std::find(all.begin(), all.end(), 0) == all.end();
}

}  // namespace zh::mpi
