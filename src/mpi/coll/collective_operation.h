// What the shim adds to the engine's collectives (engine/collectives.h, engine/collective_call.h): handles, buffers of
// datatypes, operations, leaders by the host. Made by wrap_coll_start.cpp (owned by requests) and wrap_coll.cpp.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/collective_call.h"
#include "engine/collectives.h"
#include "mpi/coll/held_buffer.h"
#include "mpi/coll/leaders.h"
#include "mpi/coll/neighborhood.h"
#include "mpi/handles/comm.h"
#include "mpi/handles/reduction.h"

namespace zh::mpi {

struct UserRequest;

/// What a started reduction follows from, beside its buffers, where operation and datatype are predefined.
struct ReductionKey {
  coll::Collective collective;
  bool in_place;
  uint64_t count;
  MPI_Datatype type;
  MPI_Op op;
  [[nodiscard]] bool operator==(const ReductionKey&) const = default;
};

/// The collectives of a communicator, but those of its team.
class CommCollectives final : public engine::Collectives {
 public:
  explicit CommCollectives(const CommInfo& comm);

  /// Of a rank that leads its node.
  [[nodiscard]] Leaders& leaders();
  /// Who a rank's neighbours are, which never changes.
  [[nodiscard]] Neighborhood& neighborhood();
  /// When the program frees the communicator.
  void free_leaders() {
    if (leaders_ != nullptr) leaders_->free();
  }

  /// Requests of small reductions that have ended, for the same calls to come: a few, until the communicator is freed,
  /// since they hold it. Returns the one that has no place, or null.
  [[nodiscard]] UserRequest* keep(UserRequest* request) {
    const TableLock lock(kept_mutex_);
    if (n_kept_ < most_kept_) {
      kept_[n_kept_++] = request;
      return nullptr;
    }
    if (most_kept_ == 0) return request;
    leaves_ = (leaves_ + 1) % kMostKept;
    return std::exchange(kept_[leaves_], request);
  }
  /// Null: there is none. Else it is to be started again.
  [[nodiscard]] UserRequest* take(const ReductionKey& key);
  void keep_no_more();

  const MPI_Comm handle;  ///< on which errors are raised

 private:
  void add_neighbors(coll::Problem* problem) override;

  std::unique_ptr<Leaders> leaders_;
  std::optional<Neighborhood> neighborhood_;
  static constexpr uint32_t kMostKept = 4;
  std::mutex kept_mutex_;
  std::array<UserRequest*, kMostKept> kept_{};
  uint32_t n_kept_ = 0;
  uint32_t most_kept_ = kMostKept;
  uint32_t leaves_ = 0;  ///< where the last one had to go
};

/// Null if collectives of `comm` are the host's, else what its schedules need, as all members find alike.
CommCollectives* collectives_of(CommInfo* comm);

class CollectiveOperation final : public engine::CollectiveCall {
 public:
  /// `blocks`: the communicator, for a call that blocks.
  CollectiveOperation(std::shared_ptr<CommCollectives> of_comm, bool persistent, CommInfo* blocks = nullptr);
  ~CollectiveOperation() override;
  /// One that has gone leaves its memory to the next: programs mostly have one at a time.
  static void* operator new(size_t bytes);
  static void operator delete(void* memory);

  // Filled in by prepare() of the calls.
  HeldBuffer input;
  HeldBuffer output;
  Reducing reducing;

  /// After that.
  void describe_buffers();
  /// As the engine's; returns a step (peers.h).
  int ready();
  /// MPI_SUCCESS, or an error that was raised.
  int start();
  /// When complete, without an error: has the communicator keep `request`, which holds it, for the same call to come.
  /// Returns the one that is to go instead, or null.
  [[nodiscard]] UserRequest* keep(UserRequest* request) {
    return key_.count != 0 && through_memory() ? comm_collectives_.keep(request) : request;
  }
  /// Of a kept one.
  [[nodiscard]] const ReductionKey& key() const { return key_; }
  void start_again(const void* in, void* out) {
    buffers.input = in;
    buffers.output = out;
    CollectiveCall::start_again();
  }
  /// In place of that, where something is wrong with this rank's arguments, which gave that error: members that wait
  /// for it learn so, unless it is without effect (peers.h).
  void refuse(int error);
  /// When complete: error class, not raised.
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] ErrorSite error_site() const { return {comm_collectives_.handle, comm_collectives_.comm().context}; }

 private:
  coll::Team* blocking_team() override;
  void end(Code code) override;
  bool ends_by_host() const override { return output.unpacked_by_host(); }

  CommCollectives& comm_collectives_;
  CommInfo* blocks_;
  std::optional<HostLeaders> leaders_;
  ReductionKey key_{};
  bool holds_operation_ = false;
  int error_ = MPI_SUCCESS;
};

/// The next collective of a communicator one of whose blocking calls was refused on this rank: it is that call, made
/// again rightly, or the others learn that this rank takes no part in it.
void settle_refused(uint16_t call, int root, CommInfo* comm);

/// A call's schedule, ready to be started. Returns a step (peers.h).
template <typename Call>
int set_up(const Call& call, const CommInfo& info, CollectiveOperation& operation) {
  operation.problem.collective = Call::kCollective;
  ZH_STEP(call.prepare(info, operation));
  operation.describe_buffers();
  operation.agree();
  const bool empty = operation.problem.uniform && operation.problem.count == 0 && !operation.of_any_length();
  if (!empty || Call::kCollective == coll::Collective::kBarrier) return operation.ready();
  operation.make_empty();
  return MPI_SUCCESS;
}

}  // namespace zh::mpi
