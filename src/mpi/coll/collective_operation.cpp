// See collective_operation.h.
#include "mpi/coll/collective_operation.h"

#include <utility>

#include "coll/team/team.h"
#include "engine/active_collectives.h"
#include "mpi/p2p/requests.h"

namespace zh::mpi {
namespace {

/// Memory of a CollectiveOperation that has gone, or null.
Atomic<void*> spare_operation{nullptr};

engine::CommRanks ranks_of(const CommInfo& info) {
  return {info.context,
          static_cast<uint32_t>(info.rank),
          {info.members->local(), info.members},
          {info.members->world(), info.members},
          info.members->layout()};
}

}  // namespace

CommCollectives::CommCollectives(const CommInfo& info)
    : Collectives(*shim.rank, ranks_of(info), shim.algorithms), handle(info.handle) {}

void CommCollectives::keep_no_more() {
  {
    const TableLock lock(kept_mutex_);
    most_kept_ = 0;
  }
  while (n_kept_ != 0) free_request(kept_[--n_kept_]);
}

Leaders& CommCollectives::leaders() {
  if (leaders_ == nullptr)
    leaders_ = std::make_unique<Leaders>(comm().context, *comm().layout, comm().world.ranks, comm().self);
  return *leaders_;
}

Neighborhood& CommCollectives::neighborhood() {
  if (!neighborhood_.has_value()) neighborhood_ = ask_neighborhood(handle);
  return *neighborhood_;
}

void CommCollectives::add_neighbors(coll::Problem* problem) {
  problem->sources = neighborhood().sources.ranks;
  problem->destinations = neighborhood().destinations.ranks;
}

CommCollectives* collectives_of(CommInfo* comm) {
  if (comm == nullptr || shim.rank == nullptr || !shim.collectives) return nullptr;
  if (comm->collectives == nullptr) comm->collectives = std::make_shared<CommCollectives>(*comm);
  return comm->collectives.get();
}

CollectiveOperation::CollectiveOperation(std::shared_ptr<CommCollectives> of_comm, bool persistent, CommInfo* blocks)
    : CollectiveCall(std::move(of_comm), persistent          ? Kind::kPersistent
                                         : blocks != nullptr ? Kind::kBlocking
                                                             : Kind::kNonblocking),
      comm_collectives_(static_cast<CommCollectives&>(collectives())),
      blocks_(blocks) {}

CollectiveOperation::~CollectiveOperation() {
  stop();
  if (!holds_operation_) return;
  drop(reducing.op);
  drop_handle(reducing.type);
}

void* CollectiveOperation::operator new(size_t bytes) {
  void* const spare = spare_operation.exchange_acq_rel(nullptr);  // SM1 <- SM0: the last use of that memory
  return spare != nullptr ? spare : ::operator new(bytes);
}

void CollectiveOperation::operator delete(void* memory) {
  ::operator delete(spare_operation.exchange_acq_rel(memory));  // SM0 -> SM1: the last use of that memory
}

coll::Team* CollectiveOperation::blocking_team() { return node_team_of(blocks_); }

void CollectiveOperation::describe_buffers() {
  buffers.input = input.base();
  buffers.output = output.base();
  buffers.how = reducing.how;
  // Less may come in a broadcast where the host lets it; in a reduction what lacks would be made up.
  buffers.exact = coll::reduces(problem.collective) ||
                  (kRefusesShortBcast && problem.uniform && problem.collective == coll::Collective::kBcast);
  buffers.empty_handed = input.lacks_memory() || output.lacks_memory();
}

int CollectiveOperation::ready() {
  if (const Status status = CollectiveCall::ready(); !status.ok()) return raise(error_site(), class_of(status.code()));
  if (left_to_host()) {
    const bool unserved = !problem.blocks && reducing.how.user != nullptr;
    return leave_to_host(unserved ? "started collectives: operations of the program"
                                  : "collectives: the host's by name, table or default");
  }
  if (small() && reducing.how.kernel != nullptr)
    key_ = {problem.collective, problem.in_place, problem.count, reducing.type->handle, reducing.handle};
  if (has_leader_steps()) buffers.leaders = &leaders_.emplace(comm_collectives_.leaders(), reducing);
  if (reducing.how.user != nullptr) {
    hold(reducing.op);
    hold_handle(reducing.type);
    holds_operation_ = true;
  }
  return kGoOn;
}

void settle_refused(uint16_t call, int root, CommInfo* comm) {
  const CommInfo::Refused before = std::exchange(comm->refused, {});
  if (before.call == call && before.root == root) return;
  if (before.team != nullptr) return before.team->refuse(before.collective == coll::Collective::kAllreduce);
  CollectiveOperation takes_no_part(comm->collectives, false, comm);
  takes_no_part.problem.collective = before.collective;
  if (before.root >= 0) takes_no_part.problem.root = static_cast<uint32_t>(before.root);
  takes_no_part.problem.uniform = before.uniform;
  takes_no_part.reducing.how.commutative = before.commutative;
  takes_no_part.refuse(MPI_ERR_OTHER);
}

void CollectiveOperation::refuse(int error) {
  if (is_without_effect(error)) return withdraw();
  problem.commutative = reducing.how.commutative;
  CollectiveCall::refuse();
}

int CollectiveOperation::start() {
  error_ = MPI_SUCCESS;
  if (does_anything()) {
    if (const int error = input.pack(); error != MPI_SUCCESS) return error;
    if (problem.in_place) {
      if (const int error = output.pack(); error != MPI_SUCCESS) return error;
    }
  }
  CollectiveCall::start();
  return MPI_SUCCESS;
}

void CollectiveOperation::end(Code code) { error_ = code == Code::kOk ? output.unpack() : class_of(code); }

}  // namespace zh::mpi
