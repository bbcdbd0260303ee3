// See leaders.h.
#include "mpi/coll/leaders.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/contexts.h"
#include "mpi/coll/call_data.h"
#include "mpi/coll/call_reduce.h"
#include "mpi/start/job.h"

namespace zh::mpi {
namespace {

/// Hosts have a limit of communicators, which belongs to the program: MPICH has 2048.
constexpr uint32_t kMostComms = 256;
Atomic<uint32_t> comms_of_leaders{0};

std::vector<int> leaders_of(const coll::Layout& layout, std::span<const int32_t> world) {
  std::vector<int> out;
  for (uint32_t node = 0; node < layout.nodes(); ++node) out.push_back(world[layout.members(node)[0]]);
  return out;
}

/// While one lives, errors on zerohop's duplicate of MPI_COMM_WORLD are returned.
class ErrorsReturn {
 public:
  explicit ErrorsReturn(MPI_Comm comm) : comm_(comm) {
    host.Comm_get_errhandler(comm_, &before_);
    host.Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~ErrorsReturn() {
    host.Comm_set_errhandler(comm_, before_);
    host.Errhandler_free(&before_);
  }
  ErrorsReturn(const ErrorsReturn&) = delete;
  ErrorsReturn& operator=(const ErrorsReturn&) = delete;

 private:
  MPI_Comm comm_;
  MPI_Errhandler before_;
};

Code code_of(int error) {
  if (error == MPI_SUCCESS) return Code::kOk;
  return class_of(error) == MPI_ERR_TRUNCATE ? Code::kTruncated : Code::kIo;
}

bool all_alike(std::span<const uint64_t> parts) {
  return std::all_of(parts.begin(), parts.end(), [&](uint64_t bytes) { return bytes == parts[0]; });
}

/// Parts of all leaders, one behind another, as the host's calls list them.
class InARow {
 public:
  InARow(std::span<const uint64_t> parts, uint64_t element_bytes) {
    MPI_Aint at = 0;
    for (const uint64_t bytes : parts) {
      counts_.push_back(bytes == 0 ? 0 : static_cast<MPI_Count>(bytes / element_bytes));
      places_.push_back(at);
      at += static_cast<MPI_Aint>(bytes);
    }
  }
  [[nodiscard]] const MPI_Count* counts() const { return counts_.data(); }
  /// Of bytes. `root`: as Listed has it.
  [[nodiscard]] Listed<MPI_Count> of(const void* all, int root) const {
    return {all, counts_.data(), places_.data(), MPI_BYTE, root};
  }

 private:
  std::vector<MPI_Count> counts_;
  std::vector<MPI_Aint> places_;
};

}  // namespace

Leaders::Leaders(uint64_t context, const coll::Layout& layout, std::span<const int32_t> world, uint32_t self)
    : world_(leaders_of(layout, world)),
      self_(layout.node_of(self)),
      context_(context),
      messages_(*shim.rank, engine::leaders_context(context), {world_.begin(), world_.end()}, self_),
      comm_(MPI_COMM_NULL) {}

int Leaders::make() {
  const MPI_Comm world = job->world->comm();
  const ErrorsReturn errors(world);
  MPI_Group all;
  MPI_Group group;
  if (const int error = host.Comm_group(world, &all); error != MPI_SUCCESS) return error;
  int error = host.Group_incl(all, static_cast<int>(world_.size()), world_.data(), &group);
  host.Group_free(&all);
  if (error != MPI_SUCCESS) return error;
  // Threads make those of different communicators at the same time: the tag keeps them apart.
  const auto tag = static_cast<int>(engine::leaders_context(context_) % static_cast<uint64_t>(shim.tag_ub));
  error = host.Comm_create_group(world, group, tag, &comm_);
  host.Group_free(&group);
  return error != MPI_SUCCESS ? error : host.Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
}

// Whoever has one while others have not keeps it unused: to free it takes all of them.
void Leaders::settle() {
  state_ = State::kMessages;
  const char* why = "collectives: leaders have as many communicators as they may";
  if (messages_.on_all(comms_of_leaders.load_relaxed() < kMostComms)) {
    why = "collectives: the host made no communicator of leaders";
    comms_of_leaders.fetch_add_relaxed(1);
    if (messages_.on_all(make() == MPI_SUCCESS)) state_ = State::kHost;
  }
  if (state_ == State::kMessages) shim.rank->count_fallback(why);
}

void Leaders::free() {
  if (std::exchange(state_, State::kUnsettled) != State::kHost) return;
  host.Comm_free(&comm_);
  comms_of_leaders.fetch_add_relaxed(~0U);
}

coll::LeaderSteps& HostLeaders::chosen() {
  coll::LeaderSteps* const messages = leaders_.messages();
  return messages != nullptr ? *messages : *this;
}

template <typename Form, typename Call>
Code HostLeaders::by_host(const Call& call, uint64_t bytes) {
  shim.rank->count_leader_step(bytes);
  return code_of(hand_to_host<Form>(call, leaders_.comm()));
}

Code HostLeaders::barrier() { return by_host<form::Barrier>(calls::Barrier{leaders_.comm()}, 0); }

Code HostLeaders::bcast(void* data, uint64_t bytes, uint32_t root) {
  const Data<MPI_Count> all(data, static_cast<MPI_Count>(bytes), MPI_BYTE);
  return by_host<form::Bcast>(calls::Bcast<MPI_Count>{all, static_cast<int>(root), leaders_.comm()}, bytes);
}

Code HostLeaders::reduce(const void* in, void* out, uint64_t count, const coll::Reduction& how, uint32_t root) {
  const void* from = in == out && root == leaders_.self() ? MPI_IN_PLACE : in;
  const Operands<MPI_Count> x{from, out, static_cast<MPI_Count>(count), reducing_.type->handle, reducing_.handle};
  return by_host<form::Reduce>(calls::Reduce<MPI_Count>{x, static_cast<int>(root), leaders_.comm()},
                               count * how.element_bytes);
}

Code HostLeaders::allreduce(const void* in, void* out, uint64_t count, const coll::Reduction& how) {
  const void* from = in == out ? MPI_IN_PLACE : in;
  const Operands<MPI_Count> x{from, out, static_cast<MPI_Count>(count), reducing_.type->handle, reducing_.handle};
  return by_host<form::Allreduce>(calls::Allreduce<MPI_Count>{x, leaders_.comm()}, count * how.element_bytes);
}

Code HostLeaders::allgather(void* all, std::span<const uint64_t> parts) {
  const Data<MPI_Count> own(MPI_IN_PLACE, 0, MPI_BYTE);
  const uint64_t bytes = parts[leaders_.self()];
  if (all_alike(parts)) {
    const Data<MPI_Count> list(all, static_cast<MPI_Count>(bytes), MPI_BYTE);
    return by_host<form::Allgather>(calls::Allgather<MPI_Count>{own, list, leaders_.comm()}, bytes);
  }
  const InARow row(parts, 1);
  const auto list = row.of(all, kEverywhere);
  return by_host<form::Allgatherv>(calls::Allgatherv<MPI_Count>{own, list, leaders_.comm()}, bytes);
}

Code HostLeaders::gather(const void* own, uint64_t bytes, void* all, std::span<const uint64_t> parts, bool even,
                         uint32_t root) {
  const auto to = static_cast<int>(root);
  const bool receives = root == leaders_.self();  // its own part is in its place
  const Data<MPI_Count> mine(receives ? MPI_IN_PLACE : own, static_cast<MPI_Count>(bytes), MPI_BYTE);
  if (even) {
    const Data<MPI_Count> list(all, static_cast<MPI_Count>(bytes), MPI_BYTE, to);
    return by_host<form::Gather>(calls::Gather<MPI_Count>{mine, list, to, leaders_.comm()}, bytes);
  }
  const InARow row(parts, 1);
  return by_host<form::Gatherv>(calls::Gatherv<MPI_Count>{mine, row.of(all, to), to, leaders_.comm()}, bytes);
}

Code HostLeaders::scatter(const void* all, std::span<const uint64_t> parts, void* own, uint64_t bytes, bool even,
                          uint32_t root) {
  const auto from = static_cast<int>(root);
  const bool sends = root == leaders_.self();
  const Data<MPI_Count> mine(sends ? MPI_IN_PLACE : own, static_cast<MPI_Count>(bytes), MPI_BYTE);
  if (even) {
    const Data<MPI_Count> list(all, static_cast<MPI_Count>(bytes), MPI_BYTE, from);
    return by_host<form::Scatter>(calls::Scatter<MPI_Count>{list, mine, from, leaders_.comm()}, bytes);
  }
  const InARow row(parts, 1);
  return by_host<form::Scatterv>(calls::Scatterv<MPI_Count>{row.of(all, from), mine, from, leaders_.comm()}, bytes);
}

Code HostLeaders::alltoall(const void* in, void* out, std::span<const uint64_t> parts) {
  const uint64_t bytes = std::accumulate(parts.begin(), parts.end(), uint64_t{0});
  if (all_alike(parts)) {
    const auto each = static_cast<MPI_Count>(parts[0]);
    const Data<MPI_Count> give(in, each, MPI_BYTE);
    const Data<MPI_Count> get(out, each, MPI_BYTE);
    return by_host<form::Alltoall>(calls::Alltoall<MPI_Count>{give, get, leaders_.comm()}, bytes);
  }
  const InARow row(parts, 1);
  const auto give = row.of(in, kEverywhere);
  const auto get = row.of(out, kEverywhere);
  return by_host<form::Alltoallv>(calls::Alltoallv<MPI_Count>{give, get, leaders_.comm()}, bytes);
}

Code HostLeaders::reduce_scatter(const void* in, void* out, std::span<const uint64_t> parts,
                                 const coll::Reduction& how) {
  const void* from = in == out ? MPI_IN_PLACE : in;
  const uint64_t bytes = std::accumulate(parts.begin(), parts.end(), uint64_t{0});
  const MPI_Datatype type = reducing_.type->handle;
  const InARow row(parts, how.element_bytes);
  const ListedOperands<MPI_Count> x{from, out, row.counts(), type, reducing_.handle};
  return by_host<form::Reduce_scatter>(calls::Reduce_scatter<MPI_Count>{x, leaders_.comm()}, bytes);
}

Code HostLeaders::exscan(const void* in, void* out, uint64_t count, const coll::Reduction& how) {
  const Operands<MPI_Count> x{in, out, static_cast<MPI_Count>(count), reducing_.type->handle, reducing_.handle};
  return by_host<form::Exscan>(calls::Exscan<MPI_Count>{x, leaders_.comm()}, count * how.element_bytes);
}

}  // namespace zh::mpi
