// Parameterized round trips of contiguous messages (Hoefler, Lichei and Rehm 2007, by which the mlog_nP paper's section
// 5.1 tells a processor's part of a message from the network's). One rank sends n messages, each a pause after the one
// before it, and its partner answers the last. With PRTT(n, pause):
//   overhead  (PRTT(n, d) - PRTT(1, 0)) / (n - 1) - d, for a pause d in which a message has arrived: how long the
//   sender
//             is busy
//   gap       (PRTT(n, 0) - PRTT(1, 0)) / (n - 1): how soon messages follow each other into receives that are posted
// Of two ranks both; of two pairs between two machines the gap where both are at it, by which a link shows. Each end
// has a clock of its own.
#include <string.h>

#include "bench.h"

enum { kTag = 14, kFew = 8, kFewLong = 3, kStream = 32, kLong = 65536, kPairRanks = 4 };

static char* messages = NULL;  // and behind them the answer
static int n_messages = kFew;
static int partner = -1;
static int asks = 0;  // this rank sends the n messages
static double overheads[kMaxIters];
static double gaps[kMaxIters];

static char* message_of(const Case* c, int i) { return messages + (size_t)i * c->size_bytes; }

static void post(const Case* c, MPI_Comm comm, int n, MPI_Request* r) {
  for (int i = 0; i < n; i++) MPI_Irecv(message_of(c, i), (int)c->size_bytes, MPI_BYTE, partner, kTag, comm, &r[i]);
}

// µs on the asking rank. The other one has posted `r` before, and posts those of the next trip before it answers.
static double trip(const Case* c, MPI_Comm comm, int n, double pause, int next_n, MPI_Request* r) {
  if (!asks) {
    MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
    post(c, comm, next_n, r);
    MPI_Send(message_of(c, n_messages), (int)c->size_bytes, MPI_BYTE, partner, kTag, comm);
    return 0;
  }
  uint64_t begin = ticks();
  for (int i = 0; i < n; i++) {
    if (i > 0 && pause > 0) compute_us(pause);
    MPI_Send(message_of(c, i), (int)c->size_bytes, MPI_BYTE, partner, kTag, comm);
  }
  MPI_Recv(message_of(c, n_messages), (int)c->size_bytes, MPI_BYTE, partner, kTag, comm, MPI_STATUS_IGNORE);
  return ticks_to_us((double)(ticks() - begin));
}

static double trips(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  const int n = n_messages;
  const int pairs = g_ranks / 2;
  MPI_Request r[kStream];
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    if (i == 0) begin = ticks();
    if (!asks) post(c, comm, 1, r);
    if (pairs > 1) coord_barrier();
    double one = trip(c, comm, 1, 0, n, r);
    double many = trip(c, comm, n, 0, pairs == 1 ? n : 0, r);
    double apart = pairs == 1 ? trip(c, comm, n, one, 0, r) : 0;
    if (i < 0) continue;
    gaps[i] = (many - one) / (n - 1);
    overheads[i] = (apart - one) / (n - 1) - one;
  }
  double seconds = ticks_to_us((double)(ticks() - begin)) * 1e-6;
  double mine[2] = {asks ? median(gaps, iters) : 0, asks ? median(overheads, iters) : 0};
  coord_gather(mine, 2);
  for (int k = 0; g_rank == 0 && k < c->metric_count; k++) {
    out[k] = 0;
    for (int rank = 0; rank < g_ranks; rank++) out[k] += gathered(rank, k) / pairs;
  }
  return seconds;
}

// The ranks of the first rank's machine ask those of the other one, in their order. Whether there are as many of both.
static int find_partner(void) {
  if (g_ranks == 2) {
    partner = 1 - g_rank;
    asks = g_rank == 0;
    return 1;
  }
  int here = 0;
  int place = 0;  // this rank's among those of its machine
  for (int rank = 0; rank < g_ranks; rank++) {
    here += machine_of_rank(rank) == machine_of_rank(0);
    place += rank < g_rank && machine_of_rank(rank) == machine_of_rank(g_rank);
  }
  asks = machine_of_rank(g_rank) == machine_of_rank(0);
  for (int rank = 0; rank < g_ranks; rank++) {
    if (machine_of_rank(rank) != machine_of_rank(g_rank) && place-- == 0) partner = rank;
  }
  return machine_count() == 2 && here == g_ranks / 2;
}

void bench_prtt(void) {
  static const size_t sizes[] = {8, 64, 512, 1024, 4096, 16384, 65536, 1048576, 8388608};
  const char* kinds[3];
  size_t wanted[kMaxSizes];
  int n = sizes_for(sizes, 9, 8, wanted);
  int k = each_buffers(kinds);
  if (!selected("strided") || (g_ranks != 2 && g_ranks != kPairRanks) || !find_partner()) return;
  for (int b = 0; b < k; b++) {
    for (int s = 0; s < n; s++) {
      n_messages = wanted[s] > kLong ? kFewLong : g_ranks == 2 ? kFew : kStream;
      size_t all = wanted[s] * (size_t)(n_messages + 1);
      messages = buffer_get(kinds[b], all);
      memset(messages, 1, all);
      Case c = {.bench = "prtt",
                .size_bytes = wanted[s],
                .buffers = kinds[b],
                .min_iters = wanted[s] > kLong ? 2 : 8,  // of which the median leaves out who was disturbed
                .max_iters = kMaxIters,
                .metric_count = g_ranks == 2 ? 2 : 1,
                .metric_name = {"gap_us", "overhead_us"},
                .block = trips};
      run_case(&c);
      buffer_put(kinds[b], messages);
    }
  }
}
