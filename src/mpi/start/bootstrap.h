// How ranks speak to each other before there is an engine: through the host, over a communicator of zerohop's own, and
// through the launcher's store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "mpi/entry/host.h"
#include "mpi/start/launcher.h"
#include "node/bootstrap.h"
#include "node/roll_call.h"

namespace zh::mpi {

/// The host's collectives over a communicator: MPI_COMM_WORLD, which the program cannot use before MPI_Init returns nor
/// after its last attribute's callback, or one of zerohop's own.
class HostBootstrap final : public node::Bootstrap {
 public:
  HostBootstrap() : HostBootstrap(MPI_COMM_WORLD) {}
  /// `comm` is freed with it, but for MPI_COMM_WORLD.
  explicit HostBootstrap(MPI_Comm comm) : comm_(comm) {
    host.Comm_rank(comm_, &rank_);
    host.Comm_size(comm_, &size_);
  }
  ~HostBootstrap() override {
    if (comm_ != MPI_COMM_WORLD) host.Comm_free(&comm_);
  }
  HostBootstrap(const HostBootstrap&) = delete;
  HostBootstrap& operator=(const HostBootstrap&) = delete;
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  Status allgather(const void* in, size_t bytes, void* out) override {
    const int n = static_cast<int>(bytes);
    return status_of(host.Allgather(in, n, MPI_BYTE, out, n, MPI_BYTE, comm_), "the host's allgather failed");
  }
  /// By signed numbers in the same order: MPICH 4.0 takes unsigned ones for signed.
  Status least(std::span<uint64_t> values) override {
    constexpr uint64_t kTop = uint64_t{1} << 63;
    const auto n = static_cast<int>(values.size());
    for (uint64_t& value : values) value ^= kTop;
    const int error = host.Allreduce(MPI_IN_PLACE, values.data(), n, MPI_INT64_T, MPI_MIN, comm_);
    for (uint64_t& value : values) value ^= kTop;
    return status_of(error, "the host's allreduce failed");
  }
  Status among(std::span<const int> ranks, std::unique_ptr<node::Bootstrap>* out) override {
    MPI_Comm part;
    const int error = host.Comm_split(comm_, ranks.front(), rank_, &part);
    if (error == MPI_SUCCESS) *out = std::make_unique<HostBootstrap>(part);
    return status_of(error, "the host's communicator cannot be split");
  }
  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  /// Goes over to a duplicate, for calls between MPI_Init and MPI_Finalize. Collective.
  void go_apart() { host.Comm_dup(MPI_COMM_WORLD, &comm_); }

 private:
  static Status status_of(int error, const char* what) { return error == MPI_SUCCESS ? kOk : Status{Code::kIo, what}; }

  MPI_Comm comm_;
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

}  // namespace zh::mpi
