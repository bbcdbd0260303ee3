// The sub-benchmark of first uses: the n-th message of buffers that no message has used before, whose memory is given
// back behind it (variant "unmap"), and of buffers that the program allocates and frees around n messages ("free").
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

enum { kTag = 7, kMostUses = 16 };

static char* take_memory(const Case* c) {
  char* p = NULL;
  if (c->variant[0] == 'f') {
    p = malloc(c->size_bytes);
  } else {
    p = mmap(NULL, c->size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) p = NULL;
  }
  if (p == NULL) {
    fprintf(stderr, "%s: no memory for %zu bytes\n", g_program.name, c->size_bytes);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  memset(p, 1, c->size_bytes);
  return p;
}

static void give_memory_back(const Case* c, char* p) {
  if (c->variant[0] == 'f')
    free(p);
  else
    munmap(p, c->size_bytes);
}

// One way, µs.
static double receive(const Case* c, char* buffer, MPI_Comm comm, uint64_t seq) {
  MPI_Recv(buffer, (int)c->size_bytes, MPI_BYTE, 1 - g_rank, kTag, comm, MPI_STATUS_IGNORE);
  uint64_t now = ticks();
  double us = ticks_to_us((double)(int64_t)(now - stamp_of(buffer)));
  verify(buffer, c->size_bytes, seq, 0);
  return us;
}

static void send(const Case* c, char* buffer, MPI_Comm comm, uint64_t seq) {
  rewrite(buffer, c->size_bytes, seq);
  stamp(buffer);
  MPI_Send(buffer, (int)c->size_bytes, MPI_BYTE, 1 - g_rank, kTag, comm);
}

static double first_uses(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  static double samples[kMaxIters];
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    if (i == 0) begin = ticks();
    char* to = take_memory(c);
    char* from = take_memory(c);
    double us = 0;
    for (int use = 0; use < (int)c->param; use++) {
      uint64_t seq = next_seq();
      uint64_t back = next_seq();
      if (g_rank == 0) {
        send(c, to, comm, seq);
        us = receive(c, from, comm, back);
      } else {
        us = receive(c, from, comm, seq);
        send(c, to, comm, back);
      }
    }
    if (i >= 0) samples[i] = us;
    give_memory_back(c, to);
    give_memory_back(c, from);
  }
  double seconds = ticks_to_us((double)(ticks() - begin)) * 1e-6;
  double mine = median(samples, iters);
  coord_gather(&mine, 1);
  if (g_rank == 0) out[0] = (gathered(0, 0) + gathered(1, 0)) / 2;
  return seconds;
}

void bench_first(void) {
  if (!selected("first")) return;
  static const size_t all[] = {16384, 65536, 262144, 1048576, 4194304};
  static const char* const variants[] = {"unmap", "free"};
  size_t sizes[kMaxSizes];
  int n = sizes_for(all, 5, 8, sizes);
  for (int v = 0; v < 2; v++) {
    for (int s = 0; s < n; s++) {
      for (int use = 1; use <= kMostUses; use *= 2) {
        Case c = {.bench = "first",
                  .size_bytes = sizes[s],
                  .buffers = "malloc",
                  .param_name = "use",
                  .param = use,
                  .variant = variants[v],
                  .min_iters = 8,
                  .max_iters = 200,
                  .metric_count = 1,
                  .metric_name = {"time_us"},
                  .block = first_uses};
        run_case(&c);
      }
    }
  }
}
