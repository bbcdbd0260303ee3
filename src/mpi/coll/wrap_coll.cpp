// Blocking collectives: each wrapper makes its call (call_data.h, call_neighbor.h, call_reduce.h) and runs it. Also
// MPI_Reduce_local and what makes and frees operations.
#include <utility>

#include "mpi/coll/call_counts.h"
#include "mpi/coll/call_data.h"
#include "mpi/coll/call_neighbor.h"
#include "mpi/coll/call_reduce.h"

namespace zh::mpi {
namespace {

/// Of a refused call hosts have told nobody. Made again, rightly, it meets the others' calls (MPICH's noalias.c); if
/// this rank goes on to another one, they learn that it takes no part in theirs.
template <typename Form, typename Call>
CommInfo::Refused refused(const Call& call, coll::Team* team) {
  CommInfo::Refused as;
  as.there = true;
  as.collective = Call::kCollective;
  as.call = static_cast<uint16_t>(Form::kId);
  as.root = kEverywhere;
  if constexpr (requires { call.root; }) as.root = call.root;
  as.team = team;
  return as;
}

/// By a schedule, until it ends.
template <typename Form, typename Call>
int run_schedule(const Call& call, CommInfo& info, CallWay* way) {
  CollectiveOperation operation(info.collectives, false, &info);
  const int result = set_up(call, info, operation);
  *way = way_of(operation);
  if (result == kToHost) return result;
  if (result != kGoOn && result != MPI_SUCCESS) {
    if (is_of_buffers(result)) {
      info.refused = refused<Form>(call, nullptr);
      info.refused.uniform = operation.problem.uniform;
      info.refused.commutative = operation.reducing.how.commutative;
    }
    operation.refuse(result);
    return result;
  }
  if (const int error = operation.start(); error != MPI_SUCCESS) return error;
  operation.finish();
  if (Call::kCollective == coll::Collective::kBarrier && shim.has_windows) pump_host();  // see calls::Barrier
  return operation.error() == MPI_SUCCESS ? MPI_SUCCESS : raise(call.comm, operation.error());
}

/// By the members' team, where they have one that knows the collective. False: it does not serve the call.
template <typename Form, typename Call>
bool run_by_team(const Call& call, CommInfo* info, int* result) {
  coll::Team* team = nullptr;
  if constexpr (Call::kCollective == coll::Collective::kNeighbor) {
    team = neighbor_team_of(info);
  } else {
    team = team_of(info, Call::kCollective);
  }
  if (team == nullptr) return false;
  const uint32_t begun = team->begun();
  *result = call.serve(*info, *team);
  // What is wrong with this rank's arguments the others cannot know; they would wait for it, now or next time.
  if (*result != MPI_SUCCESS && *result != kToHost && team->begun() == begun) [[unlikely]] {
    if (is_of_buffers(*result)) {
      info->refused = refused<Form>(call, team);
    } else if (!is_without_effect(*result)) {
      team->refuse(Call::kCollective == coll::Collective::kAllreduce);
    }
  }
  return true;
}

/// A blocking collective call; `Form` are the host's functions for it.
template <typename Form, typename Call>
int run(const Call& call) {
  CommInfo* info = known(call.comm);
  int result = kToHost;
  CallWay way = CallWay::kTeam;
  if (info != nullptr) {
    shim.rank->called(Form::kNumber, info->context);
    if (info->refused.there) [[unlikely]] {
      const CommInfo::Refused now = refused<Form>(call, nullptr);
      settle_refused(now.call, now.root, info);
    }
  }
  if (!run_by_team<Form>(call, info, &result) && collectives_of(info) != nullptr) {
    result = run_schedule<Form>(call, *info, &way);
  }
  if (result == kToHost) {
    way = CallWay::kHost;
    result = hand_to_host<Form>(call, call.comm);
  }
  if (shim.watches_calls() && result == MPI_SUCCESS) [[unlikely]]
    count_call<Form>(call, info, way);
  return result;
}

/// Local, so nobody is to agree: kernels where they exist, everything else is the host's.
template <typename N>
int reduce_local(const void* in, void* inout, N count, MPI_Datatype datatype, MPI_Op op) {
  const OpInfo* info = shim.rank != nullptr ? ops.find(key_of(op)) : nullptr;
  const bool usual = info != nullptr && info->op != simd::Op::kCount && count > 0 && in != nullptr &&
                     inout != nullptr && in != inout && in != MPI_IN_PLACE && has_kernels(datatype);
  TypeInfo* type = nullptr;
  if (usual && find_type(datatype, count, MPI_COMM_SELF, &type) == MPI_SUCCESS && type != nullptr) {
    const simd::Kernel kernel = type->kernels[static_cast<size_t>(info->op)];
    if (kernel != nullptr) {
      kernel(in, inout, inout, static_cast<size_t>(count));
      return MPI_SUCCESS;
    }
  }
  if constexpr (std::is_same_v<N, int>) {
    return host.Reduce_local(in, inout, count, datatype, op);
  } else {
    ZH_LARGE_CALL(host.Reduce_local_c(in, inout, count, datatype, op));
    if (count <= INT_MAX) return host.Reduce_local(in, inout, count < 0 ? -1 : static_cast<int>(count), datatype, op);
    MPI_Count lower = 0;
    MPI_Count extent = 0;
    if (const int error = host.Type_get_extent_x(datatype, &lower, &extent); error != MPI_SUCCESS) return error;
    UserOp by_host{op, datatype, static_cast<uint64_t>(extent)};
    run_user_op(&by_host, const_cast<void*>(in), inout, static_cast<uint64_t>(count));
    return MPI_SUCCESS;
  }
}

}  // namespace

namespace wrap {

int Barrier(MPI_Comm comm) { return run<form::Barrier>(calls::Barrier{comm}); }

#define ZH_BY_COUNT(name, nonblocking, suffix, parameters, ...) \
  int name##suffix parameters { return run<form::name>(calls::name<N>{__VA_ARGS__}); }
#include "mpi/entry/collectives_by_count.table"

int Reduce_local(const void* in, void* inout, int n, MPI_Datatype t, MPI_Op op) {
  return reduce_local(in, inout, n, t, op);
}
int Reduce_local_c(const void* in, void* inout, MPI_Count n, MPI_Datatype t, MPI_Op op) {
  return reduce_local(in, inout, n, t, op);
}

int Op_create(MPI_User_function* function, int commute, MPI_Op* op) {
  const int error = host.Op_create(function, commute, op);
  if (error == MPI_SUCCESS) remember_op(*op, commute != 0);
  return error;
}

int Op_create_c(LargeUserFunction* function, int commute, MPI_Op* op) {
  const int error = create_large_op(function, commute, op);
  if (error == MPI_SUCCESS) remember_op(*op, commute != 0);
  return error;
}

int Op_free(MPI_Op* op) { return free_op(op); }

}  // namespace wrap
}  // namespace zh::mpi
