// The leaders of a communicator's nodes, the first rank of each, and what they do together by the host's collectives:
// the part between nodes of schedules by host-leaders. One for each communicator, made with its first call of that
// kind (collective_operation.h). Refuses to know schedules.
#pragma once

#include <span>
#include <vector>

#include "coll/schedule/problem.h"
#include "coll/schedule/run.h"
#include "engine/leader_messages.h"
#include "mpi/handles/reduction.h"

namespace zh::mpi {

/// The host's communicator of the leaders; on a leader alone. Where one of them cannot have it, all take zerohop's
/// messages instead. One thread at a time, as collectives of a communicator have it (MPI standard 6.14).
class Leaders {
 public:
  /// `world`: world ranks, by rank of the communicator of that context; `self` leads its node.
  Leaders(uint64_t context, const coll::Layout& layout, std::span<const int32_t> world, uint32_t self);
  Leaders(const Leaders&) = delete;
  Leaders& operator=(const Leaders&) = delete;

  /// What takes the steps. Synchronises the leaders at its first call. Null: the host's communicator.
  [[nodiscard]] coll::LeaderSteps* messages() {
    if (state_ == State::kUnsettled) settle();
    return state_ == State::kHost ? nullptr : &messages_;
  }
  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  [[nodiscard]] uint32_t self() const { return self_; }
  /// Collective over the leaders, as the free of the program's communicator is.
  void free();

 private:
  enum class State : uint8_t { kUnsettled, kHost, kMessages };
  void settle();
  [[nodiscard]] int make();

  std::vector<int> world_;  ///< world ranks, by node
  uint32_t self_;           ///< this rank's place there
  uint64_t context_;
  engine::LeaderMessages messages_;
  MPI_Comm comm_;
  State state_ = State::kUnsettled;
};

/// The steps of one call, by the host's collectives; or the leaders' own messages in their place.
class HostLeaders final : public coll::LeaderSteps {
 public:
  HostLeaders(Leaders& leaders, const Reducing& reducing) : leaders_(leaders), reducing_(reducing) {}

  coll::LeaderSteps& chosen() override;
  Code barrier() override;
  Code bcast(void* data, uint64_t bytes, uint32_t root) override;
  Code reduce(const void* in, void* out, uint64_t count, const coll::Reduction& how, uint32_t root) override;
  Code allreduce(const void* in, void* out, uint64_t count, const coll::Reduction& how) override;
  Code allgather(void* all, std::span<const uint64_t> parts) override;
  Code gather(const void* own, uint64_t bytes, void* all, std::span<const uint64_t> parts, bool even,
              uint32_t root) override;
  Code scatter(const void* all, std::span<const uint64_t> parts, void* own, uint64_t bytes, bool even,
               uint32_t root) override;
  Code alltoall(const void* in, void* out, std::span<const uint64_t> parts) override;
  Code reduce_scatter(const void* in, void* out, std::span<const uint64_t> parts, const coll::Reduction& how) override;
  Code exscan(const void* in, void* out, uint64_t count, const coll::Reduction& how) override;

 private:
  template <typename Form, typename Call>
  Code by_host(const Call& call, uint64_t bytes);

  Leaders& leaders_;
  const Reducing& reducing_;
};

}  // namespace zh::mpi
