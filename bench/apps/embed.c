// An engine embedded without MPI: pairs of processes that bounce messages, by zerohop.h or by pipes, as a runtime
// without either would do it. bench_embed <ranks> <file> zerohop|pipes: leaves one JSON object, seconds for each size.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "zerohop/zerohop.h"

enum { kMaxRanks = 64, kMaxBytes = 4096, kSizes = 3 };

static const struct {
  const char* name;
  size_t bytes;
  int turns;
} kCases[kSizes] = {{"8 B", 8, 20000}, {"64 KiB", 64 << 10, 1000}, {"1 MiB", 1 << 20, 100}};

struct board {
  pthread_barrier_t meet;
  char piece[kMaxRanks][kMaxBytes];
};

struct peer {
  struct board* board;  // shared by all ranks
  int rank, size, to;
  zh_rank* self;  // NULL: by pipes
  int out, in;
};

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// The one thing that a runtime has to bring; longer pieces go in parts.
static int allgather(void* user, const void* in, size_t bytes, void* out) {
  const struct peer* p = user;
  for (size_t done = 0; done < bytes; done += kMaxBytes) {
    const size_t n = bytes - done < kMaxBytes ? bytes - done : kMaxBytes;
    memcpy(p->board->piece[p->rank], (const char*)in + done, n);
    pthread_barrier_wait(&p->board->meet);
    for (int r = 0; r < p->size; r++) memcpy((char*)out + (size_t)r * bytes + done, p->board->piece[r], n);
    pthread_barrier_wait(&p->board->meet);
  }
  return 0;
}

static int through_pipe(int fd, char* data, size_t bytes, int write_it) {
  while (bytes > 0) {
    const ssize_t n = write_it ? write(fd, data, bytes) : read(fd, data, bytes);
    if (n <= 0) return -1;
    data += n;
    bytes -= (size_t)n;
  }
  return 0;
}

static int move(struct peer* p, char* data, size_t bytes, int send) {
  if (p->self == NULL) return through_pipe(send ? p->out : p->in, data, bytes, send);
  const struct iovec piece = {data, bytes};
  zh_request* request = NULL;
  const int error =
      send ? zh_isend(p->self, p->to, 7, 0, &piece, 1, &request) : zh_irecv(p->self, p->to, 7, 0, &piece, 1, &request);
  return error != 0 ? error : zh_wait(p->self, request, NULL);
}

// Both ends change and look at every message; returns how many were wrong.
static long bounce(struct peer* p, char* data, size_t bytes, int turns, double* seconds) {
  long wrong = 0;
  const int first = p->rank < p->to;
  pthread_barrier_wait(&p->board->meet);
  const double begin = now_s();
  for (int turn = 0; turn < turns; turn++) {
    const char sent = (char)(2 * turn + !first), expected = (char)(2 * turn + first);
    for (int half = 0; half < 2; half++) {
      const int send = first == (half == 0);
      if (send) memset(data, sent, bytes);
      if (move(p, data, bytes, send) != 0) return -1;
      if (!send) wrong += data[0] != expected || data[bytes / 2] != expected || data[bytes - 1] != expected;
    }
  }
  *seconds = now_s() - begin;
  return wrong;
}

static int run_rank(struct peer* p, int by_zerohop, const char* path) {
  const struct zh_job job = {p->rank, p->size, allgather, p, 0};
  if (by_zerohop && zh_open(&job, &p->self) != 0) return 1;
  char* data = malloc(kCases[kSizes - 1].bytes);
  double seconds[kSizes];
  long wrong = 0;
  for (int s = 0; s < kSizes && data != NULL; s++) {
    wrong += bounce(p, data, kCases[s].bytes, kCases[s].turns / 10, &seconds[s]);
    wrong += bounce(p, data, kCases[s].bytes, kCases[s].turns, &seconds[s]);
  }
  if (p->self != NULL) wrong += zh_close(p->self) != 0;
  FILE* out = p->rank == 0 && data != NULL ? fopen(path, "w") : NULL;
  if (out != NULL) {
    fprintf(out, "{\"verified\": %s, \"seconds\": {", wrong == 0 ? "true" : "false");
    for (int s = 0; s < kSizes; s++) fprintf(out, "%s\"%s\": %.9g", s > 0 ? ", " : "", kCases[s].name, seconds[s]);
    fprintf(out, "}}\n");
    fclose(out);
  }
  return wrong != 0 || data == NULL;
}

int main(int argc, char** argv) {
  const int ranks = argc == 4 ? atoi(argv[1]) : 0;
  if (ranks < 2 || ranks > kMaxRanks || ranks % 2 != 0) {
    fprintf(stderr, "usage: bench_embed <even number of ranks, 2 to %d> <file> zerohop|pipes\n", kMaxRanks);
    return 2;
  }
  struct peer p = {NULL, 0, ranks, 0, NULL, -1, -1};
  p.board = mmap(NULL, sizeof *p.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p.board == MAP_FAILED) return 1;
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&p.board->meet, &shared, (unsigned)ranks);
  int way[kMaxRanks][2];  // from each rank to its peer
  for (int r = 0; r < ranks; r++) {
    if (pipe(way[r]) != 0) return 1;
  }
  for (; p.rank < ranks; p.rank++) {
    p.to = p.rank ^ 1;
    p.out = way[p.rank][1];
    p.in = way[p.to][0];
    if (fork() == 0) _exit(run_rank(&p, strcmp(argv[3], "zerohop") == 0, argv[2]));
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed += status != 0;
  return failed != 0;
}
