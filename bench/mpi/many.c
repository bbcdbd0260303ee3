// Patterns of many ranks, made for more ranks than processors: ping-pong pairs, exchange with two neighbours, everybody
// to everybody once, and the memory that the library then holds. Values are elapsed time; rewriting is inside it,
// because on a shared processor there is no outside.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { kTag = 41, kAllTag = 42 };

static char* send_buffers = NULL;
static char* recv_buffers = NULL;

static double pairs(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  int half = g_ranks / 2;
  int peer = (g_rank + half) % g_ranks;
  int first = g_rank < half;
  int len = (int)c->size_bytes;
  coord_barrier();
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    if (i == 0) begin = ticks();
    uint64_t seq = next_seq();
    for (int phase = 0; phase < 2; phase++) {
      if ((phase == 0) == first) {
        rewrite(send_buffers, c->size_bytes, seq);
        stamp(send_buffers);
        MPI_Send(send_buffers, len, MPI_BYTE, peer, kTag, comm);
      } else {
        MPI_Recv(recv_buffers, len, MPI_BYTE, peer, kTag, comm, MPI_STATUS_IGNORE);
        verify(recv_buffers, c->size_bytes, seq, i < 0);
      }
    }
  }
  double us = ticks_to_us((double)(ticks() - begin));
  coord_gather(&us, 1);
  if (g_rank == 0) {
    double sum = 0;
    for (int r = 0; r < g_ranks; r++) sum += gathered(r, 0);
    out[0] = sum / g_ranks / iters / 2;  // one way, all pairs at once
  }
  return us * 1e-6;
}

static double exchange(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  int left = (g_rank + g_ranks - 1) % g_ranks;
  int right = (g_rank + 1) % g_ranks;
  int len = (int)c->size_bytes;
  size_t n = c->size_bytes;
  coord_barrier();
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    if (i == 0) begin = ticks();
    uint64_t seq = next_seq();
    MPI_Request r[4];
    MPI_Irecv(recv_buffers, len, MPI_BYTE, left, kTag, comm, &r[0]);
    MPI_Irecv(recv_buffers + n, len, MPI_BYTE, right, kTag + 1, comm, &r[1]);
    for (int k = 0; k < 2; k++) {
      rewrite(send_buffers + (size_t)k * n, n, seq);
      stamp(send_buffers + (size_t)k * n);
    }
    MPI_Isend(send_buffers, len, MPI_BYTE, right, kTag, comm, &r[2]);
    MPI_Isend(send_buffers + n, len, MPI_BYTE, left, kTag + 1, comm, &r[3]);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
    verify(recv_buffers, n, seq, i < 0);
    verify(recv_buffers + n, n, seq, i < 0);
  }
  double us = ticks_to_us((double)(ticks() - begin));
  coord_gather(&us, 1);
  if (g_rank == 0) {
    double sum = 0;
    for (int r = 0; r < g_ranks; r++) sum += gathered(r, 0);
    out[0] = sum / g_ranks / iters;
  }
  return us * 1e-6;
}

// Kilobytes that this process shares in mappings of the library, each page divided by its users.
static double library_kib(void) {
  FILE* f = fopen("/proc/self/smaps", "r");
  if (f == NULL) return 0;
  char line[4096];
  int ours = 0;
  double kib = 0;
  while (fgets(line, sizeof line, f) != NULL) {
    unsigned long from;
    unsigned long to;
    double v;
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
      ours = strstr(line, g_settings.memory_match) != NULL && strstr(line, ".so") == NULL;
    else if (ours && sscanf(line, "Pss: %lf kB", &v) == 1)
      kib += v;
  }
  fclose(f);
  return kib;
}

// Every rank sends eight bytes to every other one, once; then the library's memory is read. The first block's numbers
// are those of a fresh job: the harness's warm-up is why the caller runs this alone.
static double everybody(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  (void)warm;
  (void)c;
  MPI_Request* r = malloc(sizeof(MPI_Request) * 2 * (size_t)g_ranks);
  uint64_t* to = calloc((size_t)g_ranks, 8);
  uint64_t* from = calloc((size_t)g_ranks, 8);
  double before_kib = library_kib();
  coord_barrier();
  uint64_t begin = ticks();
  for (int i = 0; i < iters; i++) {
    for (int k = 0; k < g_ranks; k++) {
      MPI_Irecv(&from[k], 8, MPI_BYTE, k, kAllTag, comm, &r[k]);
    }
    for (int k = 0; k < g_ranks; k++) {
      to[k] = (uint64_t)(g_rank * 1000 + k);
      MPI_Isend(&to[k], 8, MPI_BYTE, k, kAllTag, comm, &r[g_ranks + k]);
    }
    MPI_Waitall(2 * g_ranks, r, MPI_STATUSES_IGNORE);
    for (int k = 0; k < g_ranks; k++) g_errors += from[k] != (uint64_t)(k * 1000 + g_rank);
  }
  double us = ticks_to_us((double)(ticks() - begin));
  coord_barrier();
  double mine[3] = {us / iters, before_kib, library_kib()};
  coord_gather(mine, 3);
  if (g_rank == 0) {
    double sums[3] = {0};
    for (int rank = 0; rank < g_ranks; rank++)
      for (int k = 0; k < 3; k++) sums[k] += gathered(rank, k);
    for (int k = 0; k < 3; k++) out[k] = sums[k] / g_ranks;
  }
  free(from);
  free(to);
  free(r);
  return us * 1e-6;
}

static void many_cases(const char* bench, double (*block)(const Case*, MPI_Comm, int, int, double*)) {
  static const size_t own[] = {8, 1024, 16384, 65536};
  size_t sizes[kMaxSizes];
  int n = sizes_for(own, g_settings.quick ? 2 : 4, 8, sizes);
  for (int s = 0; s < n; s++) {
    send_buffers = buffer_get("malloc", 2 * sizes[s]);
    recv_buffers = buffer_get("malloc", 2 * sizes[s]);
    Case c = {.bench = bench,
              .size_bytes = sizes[s],
              .buffers = "malloc",
              .min_iters = 4,
              .max_iters = kMaxIters,
              .metric_count = 1,
              .metric_name = {"time_us"},
              .block = block};
    run_case(&c);
    buffer_put("malloc", send_buffers);
    buffer_put("malloc", recv_buffers);
  }
}

void bench_many(void) {
  if (g_ranks % 2 == 0 && selected("pairs")) many_cases("pairs", pairs);
  if (selected("exchange")) many_cases("exchange", exchange);
  // Only when asked for by name: it is about a fresh job, in which nothing else has run.
  if (g_settings.only != NULL && selected("everybody")) {
    Case c = {.bench = "everybody",
              .size_bytes = 8,
              .buffers = "malloc",
              .min_iters = 1,
              .max_iters = 1,
              .metric_count = 3,
              .metric_name = {"time_us", "memory_before_kib", "memory_after_kib"},
              .block = everybody};
    run_case(&c);
  }
}
