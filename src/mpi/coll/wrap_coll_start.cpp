// Nonblocking and persistent collectives: each wrapper makes its call (call_data.h, call_neighbor.h, call_reduce.h),
// prepares it as a schedule and gives it to a request.
#include "mpi/coll/call_counts.h"
#include "mpi/coll/call_data.h"
#include "mpi/coll/call_neighbor.h"
#include "mpi/coll/call_reduce.h"
#include "mpi/coll/collective_operation.h"

namespace zh::mpi {
namespace {

constexpr bool is_persistent(const Starting&) { return false; }
constexpr bool is_persistent(const Initializing&) { return true; }

/// A request for it: started already, unless it is persistent.
int give(std::unique_ptr<CollectiveOperation> operation, bool persistent, MPI_Comm comm, MPI_Request* handle) {
  MPI_Request minted;
  UserRequest* request = new_request(&minted);
  if (request == nullptr) return raise(comm, MPI_ERR_NO_MEM);
  request->kind = persistent ? UserRequest::Kind::kPersistentCollective : UserRequest::Kind::kCollective;
  request->active = false;
  request->collective = operation.release();
  const int error = persistent ? MPI_SUCCESS : request->collective->start();
  if (error != MPI_SUCCESS) {
    free_request(request);
    return error;
  }
  request->active = !persistent;
  *handle = minted;
  return MPI_SUCCESS;
}

template <typename Form, typename Call, typename End>
int begin_uncounted(const Call& call, const End& end, CallWay* way) {
  CommInfo* info = known(call.comm);
  const bool persistent = is_persistent(end);
  if (collectives_of(info) == nullptr || end.request == nullptr) return hand_to_host<Form>(call, end);
  if (!info->all_local) {  // coll::choose() would say so
    shim.rank->count_fallback("started collectives: between nodes");
    return hand_to_host<Form>(call, end);
  }
  if (info->refused.there) [[unlikely]]
    settle_refused(static_cast<uint16_t>(Form::kId), kEverywhere, info);
  // It counts even if this rank made a mistake, so that the numbers of later ones agree; but see refuse().
  auto operation = std::make_unique<CollectiveOperation>(info->collectives, persistent);
  const int result = set_up(call, *info, *operation);
  if (result == kToHost) return hand_to_host<Form>(call, end);
  if (result != kGoOn && result != MPI_SUCCESS) {
    operation->refuse(result);
    return result;
  }
  *way = way_of(*operation);
  return give(std::move(operation), persistent, call.comm, end.request);
}

}  // namespace

// In line for begins_again().
[[gnu::always_inline]] inline UserRequest* CommCollectives::take(const ReductionKey& key) {
  const TableLock lock(kept_mutex_);
  for (uint32_t i = 0; i < n_kept_; ++i) {
    if (kept_[i]->collective->key() == key) return std::exchange(kept_[i], kept_[--n_kept_]);
  }
  return nullptr;
}

namespace {

/// Whether the call was made before, and that one has ended, and is started again.
template <typename Call, typename End>
bool begins_again(const Call&, const End&) {
  return false;
}
template <typename N, coll::Collective kWhich>
bool begins_again(const calls::ReduceToAll<N, kWhich>& call, const Starting& end) {
  const CommInfo* info = known(call.comm);
  if (info == nullptr || info->collectives == nullptr || info->refused.there || end.request == nullptr) return false;
  const auto& x = call.operands;
  const bool in_place = x.in == MPI_IN_PLACE;
  if (x.in == nullptr || x.out == nullptr || x.out == MPI_IN_PLACE || (kRefusesAliases && x.in == x.out)) return false;
  UserRequest* request = info->collectives->take({kWhich, in_place, static_cast<uint64_t>(x.count), x.type, x.op});
  if (request == nullptr) return false;
  request->active = true;
  *end.request = handle_of(request->request->index);
  request->collective->start_again(in_place ? nullptr : x.in, x.out);
  return true;
}

/// `Form` are the host's functions for the call, which ends with `end`.
template <typename Form, typename Call, typename End>
int begin(const Call& call, const End& end) {
  if (!shim.watches_calls() && begins_again(call, end)) return MPI_SUCCESS;
  CallWay way = CallWay::kHost;
  const int error = begin_uncounted<Form>(call, end, &way);
  if (shim.watches_calls() && error == MPI_SUCCESS) [[unlikely]]
    count_call<Form>(call, known(call.comm), way);
  return error;
}

}  // namespace

namespace wrap {

#define ZH_BEGIN(name, nonblocking, suffix, parameters, ...)                         \
  int nonblocking##suffix(ZH_LIST parameters, MPI_Request* request) {                \
    return begin<form::nonblocking>(__VA_ARGS__, Starting{c, request});              \
  }                                                                                  \
  int name##_init##suffix(ZH_LIST parameters, MPI_Info info, MPI_Request* request) { \
    return begin<form::name##_init>(__VA_ARGS__, Initializing{c, info, request});    \
  }
#define ZH_BY_COUNT(name, nonblocking, suffix, parameters, ...) \
  ZH_BEGIN(name, nonblocking, suffix, parameters, calls::name<N>{__VA_ARGS__})

ZH_BEGIN(Barrier, Ibarrier, , (MPI_Comm c), calls::Barrier{c})
#include "mpi/entry/collectives_by_count.table"

}  // namespace wrap
}  // namespace zh::mpi
