// The collectives of all ranks that bench_coll_<abi> measures: one table, and the data of all. Called by coll.c;
// measures nothing.
#include <stdlib.h>

#include "coll.h"

double* send_buffer = NULL;
double* recv_buffer = NULL;
static int* counts = NULL;
static int* displs = NULL;

double element(double sources, double source_sum, int target, size_t i, uint64_t turn) {
  double common = 9176.0 * target + (double)(i % 4096) + (i % kPerLine == 0 ? 1e6 * (double)(turn % 1000000) : 0);
  return sources * common + 1009.0 * source_sum;
}

BENCH_COLLECTIVE(Bcast, bcast, recv_buffer, n, MPI_DOUBLE, root)
BENCH_COLLECTIVE(Reduce, reduce, send_buffer, recv_buffer, n, MPI_DOUBLE, MPI_SUM, root)
BENCH_COLLECTIVE(Allreduce, allreduce, send_buffer, recv_buffer, n, MPI_DOUBLE, MPI_SUM)
BENCH_COLLECTIVE(Gather, gather, send_buffer, n, MPI_DOUBLE, recv_buffer, n, MPI_DOUBLE, root)
BENCH_COLLECTIVE(Gatherv, gatherv, send_buffer, n, MPI_DOUBLE, recv_buffer, counts, displs, MPI_DOUBLE, root)
BENCH_COLLECTIVE(Scatter, scatter, send_buffer, n, MPI_DOUBLE, recv_buffer, n, MPI_DOUBLE, root)
BENCH_COLLECTIVE(Scatterv, scatterv, send_buffer, counts, displs, MPI_DOUBLE, recv_buffer, n, MPI_DOUBLE, root)
BENCH_COLLECTIVE(Allgather, allgather, send_buffer, n, MPI_DOUBLE, recv_buffer, n, MPI_DOUBLE)
BENCH_COLLECTIVE(Allgatherv, allgatherv, send_buffer, n, MPI_DOUBLE, recv_buffer, counts, displs, MPI_DOUBLE)
BENCH_COLLECTIVE(Alltoall, alltoall, send_buffer, n, MPI_DOUBLE, recv_buffer, n, MPI_DOUBLE)
BENCH_COLLECTIVE(Alltoallv, alltoallv, send_buffer, counts, displs, MPI_DOUBLE, recv_buffer, counts, displs, MPI_DOUBLE)
BENCH_COLLECTIVE(Reduce_scatter, reduce_scatter, send_buffer, recv_buffer, counts, MPI_DOUBLE, MPI_SUM)
BENCH_COLLECTIVE(Reduce_scatter_block, reduce_scatter_block, send_buffer, recv_buffer, n, MPI_DOUBLE, MPI_SUM)
BENCH_COLLECTIVE(Scan, scan, send_buffer, recv_buffer, n, MPI_DOUBLE, MPI_SUM)
BENCH_COLLECTIVE(Exscan, exscan, send_buffer, recv_buffer, n, MPI_DOUBLE, MPI_SUM)

// No argument comes before its communicator.
BENCH_PRAGMA(weak MPI_Barrier_init)
static void call_barrier(Form form, MPI_Comm comm, int root, int n, MPI_Request* request) {
  (void)root, (void)n;
  if (form == kBlocking) MPI_Barrier(comm);
  if (form == kNonblocking) MPI_Ibarrier(comm, request);
  if (form == kPersistent) MPI_Barrier_init(comm, MPI_INFO_NULL, request);
}

// The raw line beside allreduce: the same 8 bytes summed through shared memory alone.
static void call_flat(Form form, MPI_Comm comm, int root, int n, MPI_Request* request) {
  (void)form, (void)comm, (void)root, (void)n, (void)request;
  recv_buffer[0] = flat_allreduce(send_buffer[0]);
}

const Collective kCollectives[] = {
    {"flat", call_flat, 1, 1, kEverybody, kEverybody, kFromAll, 0, 0},
    {"barrier", call_barrier, 1, 1, kNobody, kNobody, kFromAll, 0, 0},
    {"bcast", call_bcast, 1, 1, kRoot, kEverybody, kFromRoot, 0, 1},
    {"reduce", call_reduce, 1, 1, kEverybody, kRoot, kFromAll, 0, 1},
    {"allreduce", call_allreduce, 1, 1, kEverybody, kEverybody, kFromAll, 0, 0},
    {"gather", call_gather, 1, 0, kEverybody, kRoot, kFromBlock, 0, 1},
    {"scatter", call_scatter, 0, 1, kRoot, kEverybody, kFromRoot, 1, 1},
    {"allgather", call_allgather, 1, 0, kEverybody, kEverybody, kFromBlock, 0, 0},
    {"alltoall", call_alltoall, 0, 0, kEverybody, kEverybody, kFromBlock, 1, 0},
    {"reduce_scatter", call_reduce_scatter, 0, 1, kEverybody, kEverybody, kFromAll, 1, 0},
    {"reduce_scatter_block", call_reduce_scatter_block, 0, 1, kEverybody, kEverybody, kFromAll, 1, 0},
    {"scan", call_scan, 1, 1, kEverybody, kEverybody, kFromUpToMe, 0, 0},
    {"exscan", call_exscan, 1, 1, kEverybody, kEverybody, kFromBelowMe, 0, 0},
    {"gatherv", call_gatherv, 1, 0, kEverybody, kRoot, kFromBlock, 0, 1},
    {"scatterv", call_scatterv, 0, 1, kRoot, kEverybody, kFromRoot, 1, 1},
    {"allgatherv", call_allgatherv, 1, 0, kEverybody, kEverybody, kFromBlock, 0, 0},
    {"alltoallv", call_alltoallv, 0, 0, kEverybody, kEverybody, kFromBlock, 1, 0},
};
const int kCollectiveCount = (int)(sizeof kCollectives / sizeof kCollectives[0]);
const int kInQuick = 10;

void calls_open(void) {
  counts = calloc((size_t)g_ranks, sizeof *counts);
  displs = calloc((size_t)g_ranks, sizeof *displs);
}

void calls_set_block(size_t size_bytes) {
  for (int r = 0; r < g_ranks; r++) {
    counts[r] = (int)(size_bytes / sizeof(double));
    displs[r] = r * counts[r];
  }
}

void calls_close(void) {
  free(displs);
  free(counts);
}

int is_flat(const Collective* c) { return c->call == call_flat; }
int is_barrier(const Collective* c) { return c->call == call_barrier; }
int is_bcast(const Collective* c) { return c->call == call_bcast; }

int has_persistent(void) { return MPI_Allreduce_init != NULL; }
