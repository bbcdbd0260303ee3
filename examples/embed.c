/* Zerohop without MPI: processes that this program forks send each other messages and sum numbers through
 * libzerohop-p2p.so. A runtime of your own does the same: all it has to bring is an allgather, with which the ranks get
 * to know each other once. embed [ranks = 4] Prints: embed <ranks> ranks, sum <n>, verified
 *
 *   cc examples/embed.c $(pkg-config --cflags --libs zerohop) -o embed && ./embed */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zerohop/zerohop.h"

enum { kMaxRanks = 64, kMaxBytes = 4096 };

struct board {
  pthread_barrier_t meet;
  char piece[kMaxRanks][kMaxBytes];
};

struct world {
  struct board* board; /* shared by all ranks */
  int rank, size;
};

/* Pieces longer than the board go in parts. */
static int allgather(void* user, const void* in, size_t bytes, void* out) {
  const struct world* w = user;
  for (size_t done = 0; done < bytes; done += kMaxBytes) {
    const size_t n = bytes - done < kMaxBytes ? bytes - done : kMaxBytes;
    memcpy(w->board->piece[w->rank], (const char*)in + done, n);
    pthread_barrier_wait(&w->board->meet);
    for (int r = 0; r < w->size; ++r) memcpy((char*)out + (size_t)r * bytes + done, w->board->piece[r], n);
    pthread_barrier_wait(&w->board->meet);
  }
  return 0;
}

static int check(int error, const char* what) {
  if (error != 0) fprintf(stderr, "embed: %s: %s\n", what, strerror(-error));
  return error;
}

static int run_rank(struct world* w) {
  const struct zh_job job = {w->rank, w->size, allgather, w, 0};
  zh_rank* self = NULL;
  if (check(zh_open(&job, &self), "zh_open") != 0) return 1;

  /* A token to the right, one from the left. */
  int sent = w->rank, got = -1;
  const struct iovec out = {&sent, sizeof sent}, in = {&got, sizeof got};
  zh_request *send = NULL, *recv = NULL;
  check(zh_irecv(self, (w->rank + w->size - 1) % w->size, 7, 0, &in, 1, &recv), "zh_irecv");
  check(zh_isend(self, (w->rank + 1) % w->size, 7, 0, &out, 1, &send), "zh_isend");
  zh_wait(self, recv, NULL);
  zh_wait(self, send, NULL);

  /* What has come, summed over all ranks. */
  double mine = got, sum = 0;
  check(zh_allreduce(self, &mine, &sum, 1, ZH_DOUBLE, ZH_SUM), "zh_allreduce");
  const int right = sum == w->size * (w->size - 1) / 2.0;
  if (w->rank == 0) printf("embed %d ranks, sum %g, %s\n", w->size, sum, right ? "verified" : "WRONG");
  fflush(stdout);
  return check(zh_close(self), "zh_close") == 0 && right ? 0 : 1;
}

int main(int argc, char** argv) {
  struct world w = {NULL, 0, argc > 1 ? atoi(argv[1]) : 4};
  if (w.size < 1 || w.size > kMaxRanks) {
    fprintf(stderr, "embed: 1 to %d ranks\n", kMaxRanks);
    return 2;
  }
  w.board = mmap(NULL, sizeof *w.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (w.board == MAP_FAILED) return 1;
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&w.board->meet, &shared, (unsigned)w.size);
  for (; w.rank < w.size; ++w.rank) {
    if (fork() == 0) _exit(run_rank(&w));
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed += status != 0;
  return failed != 0;
}
