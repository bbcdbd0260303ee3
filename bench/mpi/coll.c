// The benchmark of collectives, bench_coll_<abi>: one measuring loop. Every call is timed alone on every rank: data are
// rewritten before it and verified after it, with all ranks between two barriers that are not MPI's (where ranks share
// a page). Values are those of IMB and OSU: the least, mean and greatest over the ranks of a rank's mean time. What is
// called is coll_calls.c's and coll_neighbors.c's.
#include <stdio.h>
#include <stdlib.h>

#include "coll.h"

static double samples[kMaxIters];
static const char* const kFormNames[kFormCount] = {
    [kBlocking] = "blocking", [kNonblocking] = "nonblocking", [kPersistent] = "persistent"};

static const Collective* current = NULL;
static Form current_form = kBlocking;

static int concerns(Who who, int root) { return who == kEverybody || (who == kRoot && g_rank == root); }

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

static int is_neighborhood(const Collective* c) { return c->from == kFromNeighbors; }

static void fill_for(const Collective* c, size_t n, int root, uint64_t turn, size_t step) {
  if (!concerns(c->sender, root)) return;
  if (is_neighborhood(c)) {
    neighbors_fill(c, n, turn, step);
    return;
  }
  // A broadcast has one buffer, which was overwritten by the last root's elements.
  size_t fill_step = is_bcast(c) && g_settings.rotate_root ? 1 : step;
  double* from = is_bcast(c) ? recv_buffer : send_buffer;
  fill(from, c->send_blocks != 0 ? c->send_blocks : g_ranks, n, c->send_blocks == 0, turn, fill_step);
}

static void check_for(const Collective* c, size_t n, int root, uint64_t turn, size_t step) {
  if (!concerns(c->receiver, root)) return;
  if (is_neighborhood(c))
    neighbors_check(c, n, turn, step);
  else
    check(c, n, root, turn, step);
}

static int roots_of(const Collective* c) { return c->rooted && g_settings.rotate_root ? g_ranks : 1; }

// How the calls of a loop are made: in which form, and how long each computes between its start and its wait.
typedef struct {
  Form form;
  double work_us;
  MPI_Request* kept;  // one for each root, of persistent calls
} Way;

static void call_once(const Collective* c, const Way* way, MPI_Comm comm, int root, int n) {
  if (way->form == kBlocking) {
    c->call(kBlocking, comm, root, n, NULL);
    return;
  }
  MPI_Request started;
  MPI_Request* request = way->form == kPersistent ? &way->kept[root] : &started;
  if (way->form == kPersistent)
    MPI_Start(request);
  else
    c->call(way->form, comm, root, n, request);
  if (way->work_us > 0) compute_us(way->work_us);
  MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void make_kept(const Collective* c, Way* way, MPI_Comm comm, int n) {
  if (way->form != kPersistent) return;
  way->kept = calloc((size_t)roots_of(c), sizeof *way->kept);
  for (int r = 0; r < roots_of(c); r++) c->call(kPersistent, comm, r, n, &way->kept[r]);
}

static void free_kept(const Collective* c, Way* way) {
  for (int r = 0; way->kept != NULL && r < roots_of(c); r++) MPI_Request_free(&way->kept[r]);
  free(way->kept);
}

// Of this rank, besides its computation.
typedef struct {
  double us;
  double seconds;  // of all the calls, rewriting and verifying included
  double sent_bytes;
  double sent_packets;
} Taken;

static Taken loop(const Case* k, MPI_Comm comm, Way way, int warm, int iters) {
  static uint64_t turn = 0;
  const Collective* c = current;
  size_t n = k->size_bytes / sizeof(double);
  int alone = !crowded();
  double sent[2][2] = {{0}};
  make_kept(c, &way, comm, (int)n);
  coord_barrier();
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    int root = (int)(turn % (uint64_t)roots_of(c));
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
    fill_for(c, n, root, turn, step);
    if (alone) coord_barrier();
    uint64_t start = ticks();
    call_once(c, &way, comm, root, (int)n);
    uint64_t end = ticks();
    if (i >= 0) samples[i] = ticks_to_us((double)(end - start)) - way.work_us;
    if (alone) coord_barrier();
    check_for(c, n, root, turn, step);
  }
  Taken taken = {.seconds = ticks_to_us((double)(ticks() - begin)) * 1e-6, .us = typical_us(samples, iters)};
  if (counts_sent()) {
    coord_barrier();
    if (is_first_of_machine()) network_sent(&sent[1][0], &sent[1][1]);
    if (iters > 0) taken.sent_bytes = (sent[1][0] - sent[0][0]) / iters;
    if (iters > 0) taken.sent_packets = (sent[1][1] - sent[0][1]) / iters;
  }
  free_kept(c, &way);
  return taken;
}

// Of the k-th values that were gathered.
static double sum_of(int k) {
  double sum = 0;
  for (int r = 0; r < g_ranks; r++) sum += gathered(r, k);
  return sum;
}

// Rank 0's, on every rank.
static double mean_over_ranks(double mine) {
  coord_gather(&mine, 1);
  return coord_bcast(g_rank == 0 ? sum_of(0) / g_ranks : 0);
}

static double measure(const Case* k, MPI_Comm comm, int warm, int iters, double* out) {
  Taken pure = loop(k, comm, (Way){.form = current_form}, warm, iters);
  Taken left = {0};
  double work_us = 0;
  if (current_form != kBlocking) {
    Taken blocking = loop(k, comm, (Way){.form = kBlocking}, warm, iters);
    work_us = mean_over_ranks(blocking.us);
    left = loop(k, comm, (Way){.form = current_form, .work_us = work_us}, warm, iters);
    pure.seconds += blocking.seconds + left.seconds;
  }
  double mine[] = {pure.us, left.us, pure.sent_bytes, pure.sent_packets};
  coord_gather(mine, 4);
  if (g_rank == 0 && iters > 0) {
    *out++ = sum_of(0) / g_ranks;
    double least = gathered(0, 0);
    double most = least;
    for (int r = 1; r < g_ranks; r++) {
      if (gathered(r, 0) < least) least = gathered(r, 0);
      if (gathered(r, 0) > most) most = gathered(r, 0);
    }
    *out++ = least;
    *out++ = most;
    if (current_form != kBlocking) {
      *out++ = sum_of(1) / g_ranks;
      *out++ = work_us;
    }
    if (counts_sent()) {
      *out++ = sum_of(2);
      *out++ = sum_of(3);
    }
  }
  return pure.seconds;
}

// "nonblocking", "rotating_root", both, or NULL.
static const char* variant_of(const Collective* c) {
  static char text[64];
  const int rotates = roots_of(c) > 1;
  if (current_form == kBlocking) return rotates ? "rotating_root" : NULL;
  snprintf(text, sizeof text, "%s%s", kFormNames[current_form], rotates ? " rotating_root" : "");
  return text;
}

static void run_case_of(const Collective* c, size_t size_bytes, const char* kind, size_t send_count,
                        size_t recv_count) {
  send_buffer = buffer_get(kind, send_count * sizeof(double));
  recv_buffer = buffer_get(kind, recv_count * sizeof(double));
  current = c;
  Case k = {.bench = c->name,
            .size_bytes = c->sender == kNobody ? 0 : size_bytes,
            .buffers = kind,
            .variant = variant_of(c),
            .min_iters = crowded() ? 2 : 8,
            .max_iters = kMaxIters,
            .metric_count = 3,
            .metric_name = {"time_us", "t_min_us", "t_max_us"},
            .block = measure};
  if (current_form != kBlocking) {
    k.metric_name[k.metric_count++] = "left_us";
    k.metric_name[k.metric_count++] = "computed_us";
  }
  if (counts_sent()) {
    k.metric_name[k.metric_count++] = "sent_bytes";
    k.metric_name[k.metric_count++] = "sent_packets";
  }
  run_case(&k);
  buffer_put(kind, send_buffer);
  buffer_put(kind, recv_buffer);
}

static void run_size(const Collective* c, size_t size_bytes, const char* kind) {
  const size_t n = size_bytes / sizeof(double);
  if (is_neighborhood(c)) {
    if (neighbors_set_block(c, size_bytes))
      run_case_of(c, size_bytes, kind, neighbors_send_count(c, n), neighbors_recv_count(c, n));
    neighbors_end_block();
    return;
  }
  size_t send_blocks = (size_t)(c->send_blocks != 0 ? c->send_blocks : g_ranks);
  size_t recv_blocks = (size_t)(c->recv_blocks != 0 ? c->recv_blocks : g_ranks);
  size_t most = send_blocks > recv_blocks ? send_blocks : recv_blocks;
  if (most > 1 && size_bytes * most > kMostBytes) return;
  calls_set_block(size_bytes);
  run_case_of(c, size_bytes, kind, n * send_blocks, n * recv_blocks);
}

static void run_collective(const Collective* c) {
  static const size_t all[] = {8, 64, 512, 4096, 32768, 262144, 1048576, 4194304};
  static const size_t few[] = {8, 4096, 65536, 1048576};
  size_t sizes[kMaxSizes];
  const char* kinds[3];
  int size_count = g_settings.quick ? sizes_for(few, 4, 8, sizes) : sizes_for(all, 8, 8, sizes);
  int kind_count = each_buffers(kinds);
  const int one_size = is_flat(c) || is_barrier(c);
  for (int b = 0; b < kind_count; b++)
    for (int s = 0; s < (one_size ? 1 : size_count); s++) run_size(c, one_size ? 8 : sizes[s], kinds[b]);
}

// The raw line has no forms.
static int has_form(const Collective* c, Form form) {
  return is_flat(c) ? form == kBlocking && shares_page() : form != kPersistent || has_persistent();
}

static int any_selected(const Collective* list, int count) {
  int any = 0;
  for (int i = 0; i < count; i++) any |= selected(list[i].name);
  return any;
}

static void run_form(Form form) {
  current_form = form;
  const int quick = g_settings.only == NULL && g_settings.quick;
  for (int i = 0; i < (quick ? kInQuick : kCollectiveCount); i++) {
    if (selected(kCollectives[i].name) && has_form(&kCollectives[i], form)) run_collective(&kCollectives[i]);
  }
  if (quick || !any_selected(kNeighborhoods, kNeighborhoodCount)) return;
  neighbors_open();
  for (int i = 0; i < kNeighborhoodCount; i++) {
    if (selected(kNeighborhoods[i].name) && has_form(&kNeighborhoods[i], form)) run_collective(&kNeighborhoods[i]);
  }
  neighbors_close();
}

static void run(void) {
  calls_open();
  for (Form form = kBlocking; form < kFormCount; form++) {
    if (in_list(g_settings.forms, kFormNames[form])) run_form(form);
  }
  calls_close();
  bench_strided_bcast();
}

const Program g_program = {
    .name = "coll",
    .schema = "zerohop-bench-coll/1",
    .about = "benchmark of collectives, one launch (start it with mpiexec -n 2 or more)",
    .options =
        "  --only LIST          flat (the raw line: 8 bytes, no MPI),barrier,bcast,reduce,allreduce,gather,scatter,\n"
        "                       allgather,alltoall,reduce_scatter,reduce_scatter_block,scan,exscan,gatherv,scatterv,\n"
        "                       allgatherv,alltoallv,neighbor_allgather,neighbor_alltoall,neighbor_alltoallw;\n"
        "                       linear_bcast,binomial_bcast: of strided messages\n"
        "  --form LIST          blocking (default),nonblocking,persistent; the last two also tell the time that is\n"
        "                       left when the rank computes meanwhile as long as the blocking call takes\n"
        "  --rotate-root        the root moves on by one rank with every call\n",
    .sizes = "bytes of one rank's block",
    .size_step = 8,
    .size_most = 1 << 30,
    .run = run,
};
