// The benchmark of collectives, bench_coll_<abi>: one table of collectives, one measuring loop. Every call is timed
// alone on every rank: data are rewritten before it and verified after it, with all ranks between two barriers that are
// not MPI's (where ranks share a page). Values are those of IMB and OSU: the least, mean and greatest over the ranks of
// a rank's mean time.
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { kMostBytes = 32 << 20 };  // of one buffer: sizes of which every rank holds one block per rank end there

typedef enum { kNobody, kEverybody, kRoot } Who;

// A received block is the sum over some ranks of what each had for this place.
typedef enum { kFromRoot, kFromBlock, kFromAll, kFromUpToMe, kFromBelowMe } From;

typedef struct {
  const char* name;
  void (*call)(MPI_Comm comm, int root, int count);
  int send_blocks;  // 1, or 0 for one block per rank
  int recv_blocks;
  Who sender;
  Who receiver;
  From from;
  int to_me;  // the block was made for the receiver, not the same for all
  int rooted;
} Collective;

static double* send_buffer = NULL;
static double* recv_buffer = NULL;
static int* counts = NULL;
static int* displs = NULL;
static double samples[kMaxIters];

// Elements are doubles, so that the same data serve reductions; all sums are whole numbers below 2^53.

static void call_barrier(MPI_Comm comm, int root, int n) {
  (void)root, (void)n;
  MPI_Barrier(comm);
}
static void call_bcast(MPI_Comm comm, int root, int n) { MPI_Bcast(recv_buffer, n, MPI_DOUBLE, root, comm); }
static void call_reduce(MPI_Comm comm, int root, int n) {
  MPI_Reduce(send_buffer, recv_buffer, n, MPI_DOUBLE, MPI_SUM, root, comm);
}
static void call_allreduce(MPI_Comm comm, int root, int n) {
  (void)root;
  MPI_Allreduce(send_buffer, recv_buffer, n, MPI_DOUBLE, MPI_SUM, comm);
}
static void call_gather(MPI_Comm comm, int root, int n) {
  MPI_Gather(send_buffer, n, MPI_DOUBLE, recv_buffer, n, MPI_DOUBLE, root, comm);
}
static void call_gatherv(MPI_Comm comm, int root, int n) {
  MPI_Gatherv(send_buffer, n, MPI_DOUBLE, recv_buffer, counts, displs, MPI_DOUBLE, root, comm);
}
static void call_scatter(MPI_Comm comm, int root, int n) {
  MPI_Scatter(send_buffer, n, MPI_DOUBLE, recv_buffer, n, MPI_DOUBLE, root, comm);
}
static void call_scatterv(MPI_Comm comm, int root, int n) {
  MPI_Scatterv(send_buffer, counts, displs, MPI_DOUBLE, recv_buffer, n, MPI_DOUBLE, root, comm);
}
static void call_allgather(MPI_Comm comm, int root, int n) {
  (void)root;
  MPI_Allgather(send_buffer, n, MPI_DOUBLE, recv_buffer, n, MPI_DOUBLE, comm);
}
static void call_allgatherv(MPI_Comm comm, int root, int n) {
  (void)root;
  MPI_Allgatherv(send_buffer, n, MPI_DOUBLE, recv_buffer, counts, displs, MPI_DOUBLE, comm);
}
static void call_alltoall(MPI_Comm comm, int root, int n) {
  (void)root;
  MPI_Alltoall(send_buffer, n, MPI_DOUBLE, recv_buffer, n, MPI_DOUBLE, comm);
}
static void call_alltoallv(MPI_Comm comm, int root, int n) {
  (void)root, (void)n;
  MPI_Alltoallv(send_buffer, counts, displs, MPI_DOUBLE, recv_buffer, counts, displs, MPI_DOUBLE, comm);
}
static void call_reduce_scatter(MPI_Comm comm, int root, int n) {
  (void)root, (void)n;
  MPI_Reduce_scatter(send_buffer, recv_buffer, counts, MPI_DOUBLE, MPI_SUM, comm);
}
static void call_reduce_scatter_block(MPI_Comm comm, int root, int n) {
  (void)root;
  MPI_Reduce_scatter_block(send_buffer, recv_buffer, n, MPI_DOUBLE, MPI_SUM, comm);
}
static void call_scan(MPI_Comm comm, int root, int n) {
  (void)root;
  MPI_Scan(send_buffer, recv_buffer, n, MPI_DOUBLE, MPI_SUM, comm);
}
static void call_exscan(MPI_Comm comm, int root, int n) {
  (void)root;
  MPI_Exscan(send_buffer, recv_buffer, n, MPI_DOUBLE, MPI_SUM, comm);
}
// The raw line beside allreduce: the same 8 bytes summed through shared memory alone.
static void call_flat(MPI_Comm comm, int root, int n) {
  (void)comm, (void)root, (void)n;
  recv_buffer[0] = flat_allreduce(send_buffer[0]);
}

static const Collective kCollectives[] = {
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
enum { kCollectiveCount = (int)(sizeof kCollectives / sizeof kCollectives[0]), kInQuick = 10, kPerLine = 8 };

static const Collective* current = NULL;

static int concerns(Who who, int root) { return who == kEverybody || (who == kRoot && g_rank == root); }

// Element i of what `source` has for `target`. The first of each cache line changes with every call.
static double element(double sources, double source_sum, int target, size_t i, uint64_t turn) {
  double common = 9176.0 * target + (double)(i % 4096) + (i % kPerLine == 0 ? 1e6 * (double)(turn % 1000000) : 0);
  return sources * common + 1009.0 * source_sum;
}

static void fill(double* to, int blocks, size_t n, int for_me, uint64_t turn, size_t step) {
  for (int b = 0; b < blocks; b++)
    for (size_t i = 0; i < n; i += step) to[(size_t)b * n + i] = element(1, g_rank, for_me ? b : 0, i, turn);
}

static void check(const Collective* c, size_t n, int root, uint64_t turn, size_t step) {
  int blocks = c->recv_blocks != 0 ? c->recv_blocks : g_ranks;
  for (int b = 0; b < blocks; b++) {
    int first = c->from == kFromRoot ? root : c->from == kFromBlock ? b : 0;
    int last = c->from == kFromAll       ? g_ranks - 1
               : c->from == kFromUpToMe  ? g_rank
               : c->from == kFromBelowMe ? g_rank - 1
                                         : first;
    if (last < first) continue;  // MPI_Exscan gives rank 0 nothing
    double sources = last - first + 1;
    double source_sum = sources * (first + last) / 2;
    for (size_t i = 0; i < n; i += step) {
      g_errors += recv_buffer[(size_t)b * n + i] != element(sources, source_sum, c->to_me ? g_rank : 0, i, turn);
    }
  }
}

// Not where the benchmark's own agreement goes over the network too.
static int counts_sent(void) { return shares_page() && machine_count() > 1; }

static double measure(const Case* k, MPI_Comm comm, int warm, int iters, double* out) {
  static uint64_t turn = 0;
  const Collective* c = current;
  size_t n = k->size_bytes / sizeof(double);
  int send_blocks = c->send_blocks != 0 ? c->send_blocks : g_ranks;
  // A broadcast has one buffer.
  double* from = c->call == call_bcast ? recv_buffer : send_buffer;
  int alone = !crowded();
  double sent[2][2] = {{0}};
  coord_barrier();
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    int root = c->rooted && g_settings.rotate_root ? (int)(turn % (uint64_t)g_ranks) : 0;
    size_t step = i < 0 ? 1 : kPerLine;
    if (i == 0) {
      if (counts_sent()) {  // nothing of the warm-up is under way, and nobody begins before all counters are read
        coord_barrier();
        if (is_first_of_machine()) network_sent(&sent[0][0], &sent[0][1]);
        coord_barrier();
      }
      begin = ticks();
    }
    turn++;
    // A broadcast's buffer was overwritten by the last root's elements.
    size_t fill_step = c->call == call_bcast && g_settings.rotate_root ? 1 : step;
    if (concerns(c->sender, root)) fill(from, send_blocks, n, c->send_blocks == 0, turn, fill_step);
    if (alone) coord_barrier();
    uint64_t start = ticks();
    c->call(comm, root, (int)n);
    uint64_t end = ticks();
    if (i >= 0) samples[i] = ticks_to_us((double)(end - start));
    if (alone) coord_barrier();
    if (concerns(c->receiver, root)) check(c, n, root, turn, step);
  }
  double seconds = ticks_to_us((double)(ticks() - begin)) * 1e-6;
  double mine[3] = {typical_us(samples, iters)};
  if (counts_sent()) {
    coord_barrier();
    if (is_first_of_machine()) network_sent(&sent[1][0], &sent[1][1]);
    for (int m = 0; m < 2 && iters > 0; m++) mine[1 + m] = (sent[1][m] - sent[0][m]) / iters;
  }
  coord_gather(mine, 3);
  if (g_rank == 0 && iters > 0) {
    double sum = 0;
    out[1] = out[2] = gathered(0, 0);
    out[3] = out[4] = 0;
    for (int r = 0; r < g_ranks; r++) {
      double v = gathered(r, 0);
      sum += v;
      out[3] += gathered(r, 1);
      out[4] += gathered(r, 2);
      if (v < out[1]) out[1] = v;
      if (v > out[2]) out[2] = v;
    }
    out[0] = sum / g_ranks;
  }
  return seconds;
}

static void run_size(const Collective* c, size_t size_bytes, const char* kind) {
  int send_blocks = c->send_blocks != 0 ? c->send_blocks : g_ranks;
  int recv_blocks = c->recv_blocks != 0 ? c->recv_blocks : g_ranks;
  int most = send_blocks > recv_blocks ? send_blocks : recv_blocks;
  if (most > 1 && size_bytes * (size_t)most > kMostBytes) return;
  send_buffer = buffer_get(kind, size_bytes * (size_t)send_blocks);
  recv_buffer = buffer_get(kind, size_bytes * (size_t)recv_blocks);
  for (int r = 0; r < g_ranks; r++) {
    counts[r] = (int)(size_bytes / sizeof(double));
    displs[r] = r * counts[r];
  }
  current = c;
  Case k = {.bench = c->name,
            .size_bytes = c->sender == kNobody ? 0 : size_bytes,
            .buffers = kind,
            .variant = c->rooted && g_settings.rotate_root ? "rotating_root" : NULL,
            .min_iters = crowded() ? 2 : 8,
            .max_iters = kMaxIters,
            .metric_count = counts_sent() ? 5 : 3,
            .metric_name = {"time_us", "t_min_us", "t_max_us", "sent_bytes", "sent_packets"},
            .block = measure};
  run_case(&k);
  buffer_put(kind, send_buffer);
  buffer_put(kind, recv_buffer);
}

static void run(void) {
  static const size_t all[] = {8, 64, 512, 4096, 32768, 262144, 1048576, 4194304};
  static const size_t few[] = {8, 4096, 65536, 1048576};
  size_t sizes[kMaxSizes];
  const char* kinds[3];
  int size_count = g_settings.quick ? sizes_for(few, 4, sizes) : sizes_for(all, 8, sizes);
  int kind_count = each_buffers(kinds);
  counts = calloc((size_t)g_ranks, sizeof *counts);
  displs = calloc((size_t)g_ranks, sizeof *displs);
  for (int i = 0; i < kCollectiveCount; i++) {
    const Collective* c = &kCollectives[i];
    if (c->call == call_flat && !shares_page()) continue;
    if (!selected(c->name) || (g_settings.only == NULL && g_settings.quick && i >= kInQuick)) continue;
    for (int b = 0; b < kind_count; b++) {
      int one_size = c->call == call_flat || c->call == call_barrier;
      for (int s = 0; s < (one_size ? 1 : size_count); s++) run_size(c, one_size ? 8 : sizes[s], kinds[b]);
    }
  }
  free(displs);
  free(counts);
  bench_strided_bcast();
}

const Program g_program = {
    .name = "coll",
    .schema = "zerohop-bench-coll/1",
    .about = "benchmark of collectives, one launch (start it with mpiexec -n 2 or more)",
    .options =
        "  --only LIST          flat (the raw line: 8 bytes, no MPI),barrier,bcast,reduce,allreduce,gather,scatter,\n"
        "                       allgather,alltoall,reduce_scatter,reduce_scatter_block,scan,exscan,gatherv,scatterv,\n"
        "                       allgatherv,alltoallv; linear_bcast,binomial_bcast: of strided messages\n"
        "  --rotate-root        the root moves on by one rank with every call\n",
    .sizes = "bytes of one rank's block",
    .size_step = 8,
    .size_most = 1 << 30,
    .run = run,
};
