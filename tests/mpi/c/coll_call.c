// One call that issues any collective, blocking, nonblocking or persistent.
#include "coll.h"

static const char* const kNames[kWhats] = {
    "Barrier",   "Bcast",     "Gather",     "Gatherv",        "Scatter",
    "Scatterv",  "Allgather", "Allgatherv", "Alltoall",       "Alltoallv",
    "Alltoallw", "Reduce",    "Allreduce",  "Reduce_scatter", "Reduce_scatter_block",
    "Scan",      "Exscan"};

const char* coll_what_name(enum CollWhat what) { return kNames[what]; }

const char* coll_form_name(enum CollForm form) {
  static const char* const names[kForms] = {"blocking", "nonblocking", "persistent"};
  return names[form];
}

// Arguments of each collective, once. CALL(name, ...) gets them without what the form appends.
#define EACH_COLLECTIVE(CALL)                                                                                          \
  switch (c->what) {                                                                                                   \
    CALL(kBarrier, Barrier, c->comm)                                                                                   \
    CALL(kBcast, Bcast, c->recv, c->recvcount, c->recvtype, c->root, c->comm)                                          \
    CALL(kGather, Gather, c->send, c->sendcount, c->sendtype, c->recv, c->recvcount, c->recvtype, c->root, c->comm)    \
    CALL(kGatherv, Gatherv, c->send, c->sendcount, c->sendtype, c->recv, c->recvcounts, c->rdispls, c->recvtype,       \
         c->root, c->comm)                                                                                             \
    CALL(kScatter, Scatter, c->send, c->sendcount, c->sendtype, c->recv, c->recvcount, c->recvtype, c->root, c->comm)  \
    CALL(kScatterv, Scatterv, c->send, c->sendcounts, c->sdispls, c->sendtype, c->recv, c->recvcount, c->recvtype,     \
         c->root, c->comm)                                                                                             \
    CALL(kAllgather, Allgather, c->send, c->sendcount, c->sendtype, c->recv, c->recvcount, c->recvtype, c->comm)       \
    CALL(kAllgatherv, Allgatherv, c->send, c->sendcount, c->sendtype, c->recv, c->recvcounts, c->rdispls, c->recvtype, \
         c->comm)                                                                                                      \
    CALL(kAlltoall, Alltoall, c->send, c->sendcount, c->sendtype, c->recv, c->recvcount, c->recvtype, c->comm)         \
    CALL(kAlltoallv, Alltoallv, c->send, c->sendcounts, c->sdispls, c->sendtype, c->recv, c->recvcounts, c->rdispls,   \
         c->recvtype, c->comm)                                                                                         \
    CALL(kAlltoallw, Alltoallw, c->send, c->sendcounts, c->sdispls, c->sendtypes, c->recv, c->recvcounts, c->rdispls,  \
         c->recvtypes, c->comm)                                                                                        \
    CALL(kReduce, Reduce, c->send, c->recv, c->recvcount, c->recvtype, c->op, c->root, c->comm)                        \
    CALL(kAllreduce, Allreduce, c->send, c->recv, c->recvcount, c->recvtype, c->op, c->comm)                           \
    CALL(kReduceScatter, Reduce_scatter, c->send, c->recv, c->recvcounts, c->recvtype, c->op, c->comm)                 \
    CALL(kReduceScatterBlock, Reduce_scatter_block, c->send, c->recv, c->recvcount, c->recvtype, c->op, c->comm)       \
    CALL(kScan, Scan, c->send, c->recv, c->recvcount, c->recvtype, c->op, c->comm)                                     \
    CALL(kExscan, Exscan, c->send, c->recv, c->recvcount, c->recvtype, c->op, c->comm)                                 \
    default:                                                                                                           \
      return MPI_ERR_OTHER;                                                                                            \
  }

#define AS_BLOCKING(k, name, ...) \
  case k:                         \
    return MPI_##name(__VA_ARGS__);
static int blocking(const struct CollCall* c) { EACH_COLLECTIVE(AS_BLOCKING) }

#define AS_NONBLOCKING(k, name, ...) \
  case k:                            \
    return MPI_I##name(__VA_ARGS__, request);
// The standard's names of the nonblocking forms keep only the first capital.
#define MPI_IBarrier MPI_Ibarrier
#define MPI_IBcast MPI_Ibcast
#define MPI_IGather MPI_Igather
#define MPI_IGatherv MPI_Igatherv
#define MPI_IScatter MPI_Iscatter
#define MPI_IScatterv MPI_Iscatterv
#define MPI_IAllgather MPI_Iallgather
#define MPI_IAllgatherv MPI_Iallgatherv
#define MPI_IAlltoall MPI_Ialltoall
#define MPI_IAlltoallv MPI_Ialltoallv
#define MPI_IAlltoallw MPI_Ialltoallw
#define MPI_IReduce MPI_Ireduce
#define MPI_IAllreduce MPI_Iallreduce
#define MPI_IReduce_scatter MPI_Ireduce_scatter
#define MPI_IReduce_scatter_block MPI_Ireduce_scatter_block
#define MPI_IScan MPI_Iscan
#define MPI_IExscan MPI_Iexscan
static int nonblocking(const struct CollCall* c, MPI_Request* request) { EACH_COLLECTIVE(AS_NONBLOCKING) }

#if COLL_PERSISTENT
#define AS_PERSISTENT(k, name, ...) \
  case k:                           \
    return MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, request);
static int persistent(const struct CollCall* c, MPI_Request* request) { EACH_COLLECTIVE(AS_PERSISTENT) }
#endif

int coll_call(const struct CollCall* call) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS, done = 0;
  switch (call->form) {
    case kNonblocking:
      code = nonblocking(call, &request);
      // Half of the calls end by Test, the others by Wait; ranks differ in that.
      if (code == MPI_SUCCESS && ((uintptr_t)call->recv / 64) % 2) {
        while (code == MPI_SUCCESS && !done) code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        return code;
      }
      return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
    case kPersistent:
#if COLL_PERSISTENT
      code = persistent(call, &request);
      for (int i = 0; code == MPI_SUCCESS && i < (call->starts ? call->starts : 1); ++i) {
        code = MPI_Start(&request);
        if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
      if (code == MPI_SUCCESS) code = MPI_Request_free(&request);
      return code;
#else
      return MPI_ERR_OTHER;
#endif
    default:
      return blocking(call);
  }
}
