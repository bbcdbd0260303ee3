// Ping-pong sub-benchmarks of two ranks: latency, the same over many buffers (no reuse), and latency behind long
// queues. The time stamp travels in the message; the one-way time is the mean of both directions' medians.
#include <stdlib.h>

#include "bench.h"

enum { kTag = 7, kOtherTag = 11, kMaxRotate = 1024, kRotateBytes = 32 << 20 };

static char* send_buffers = NULL;
static char* recv_buffers = NULL;
static int rotate = 1;
static size_t stride_bytes = 0;
static double samples[kMaxIters];
static uint64_t given = 0;  // when this rank began its latest send

// A message without room for the time stamp: its time is half of a round trip.
static int is_tiny(const Case* c) { return c->size_bytes < 8; }

static void take(char* buffer, const Case* c, int i, MPI_Comm comm, uint64_t seq, int warm) {
  MPI_Recv(buffer, (int)c->size_bytes, MPI_BYTE, 1 - g_rank, kTag, comm, MPI_STATUS_IGNORE);
  uint64_t now = ticks();
  uint64_t since = is_tiny(c) ? given : stamp_of(buffer);
  if (!warm) samples[i] = ticks_to_us((double)(int64_t)(now - since)) / (is_tiny(c) ? 2 : 1);
  verify(buffer, c->size_bytes, seq, warm);
}

static void give(char* buffer, const Case* c, MPI_Comm comm, uint64_t seq) {
  rewrite(buffer, c->size_bytes, seq);
  if (!is_tiny(c)) stamp(buffer);
  if (is_tiny(c)) given = ticks();
  MPI_Send(buffer, (int)c->size_bytes, MPI_BYTE, 1 - g_rank, kTag, comm);
}

static double pingpong(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    if (i == 0) begin = ticks();
    static int turn = 0;
    turn = (turn + 1) % rotate;
    char* to = send_buffers + (size_t)turn * stride_bytes;
    char* from = recv_buffers + (size_t)turn * stride_bytes;
    uint64_t seq = next_seq();
    uint64_t back = next_seq();
    if (g_rank == 0) {
      give(to, c, comm, seq);
      take(from, c, i, comm, back, i < 0);
    } else {
      take(from, c, i, comm, seq, i < 0);
      give(to, c, comm, back);
    }
  }
  double seconds = ticks_to_us((double)(ticks() - begin)) * 1e-6;
  double mine = median(samples, iters);
  coord_gather(&mine, 1);
  if (g_rank == 0) out[0] = (gathered(0, 0) + gathered(1, 0)) / 2;
  return seconds;
}

static void buffers_for(size_t len_bytes, const char* kind, int count) {
  rotate = count;
  stride_bytes = (len_bytes + (len_bytes == 0) + 4095) / 4096 * 4096;
  if (count > 1) stride_bytes += 128;  // not all in the same cache sets
  send_buffers = buffer_get(kind, stride_bytes * (size_t)count);
  recv_buffers = buffer_get(kind, stride_bytes * (size_t)count);
}

static void buffers_back(const char* kind) {
  buffer_put(kind, send_buffers);
  buffer_put(kind, recv_buffers);
}

// N receives that nothing matches yet (variant "posted"), or N messages that nobody has asked for ("unexpected"), wait
// on both ranks while the ping-pong runs; afterwards they are satisfied in order.
static double queued(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  int n = (int)c->param;
  int posted = c->variant[0] == 'p';
  MPI_Request* requests = malloc(sizeof(MPI_Request) * (size_t)(n + 1));
  uint64_t* to = calloc((size_t)n + 1, 8);
  uint64_t* from = calloc((size_t)n + 1, 8);
  for (int i = 0; i < n; i++) {
    to[i] = (uint64_t)i;
    if (posted)
      MPI_Irecv(&from[i], 8, MPI_BYTE, 1 - g_rank, kOtherTag, comm, &requests[i]);
    else
      MPI_Isend(&to[i], 8, MPI_BYTE, 1 - g_rank, kOtherTag, comm, &requests[i]);
    if (i % 500 == 499) {  // both sides turn their progress now and then
      int flag;
      MPI_Iprobe(1 - g_rank, kTag, comm, &flag, MPI_STATUS_IGNORE);
    }
  }
  double seconds = pingpong(c, comm, warm + 2, iters, out);
  if (posted) {
    for (int i = 0; i < n; i++) MPI_Send(&to[i], 8, MPI_BYTE, 1 - g_rank, kOtherTag, comm);
  } else {
    for (int i = 0; i < n; i++) MPI_Recv(&from[i], 8, MPI_BYTE, 1 - g_rank, kOtherTag, comm, MPI_STATUS_IGNORE);
  }
  MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < n; i++) g_errors += from[i] != (uint64_t)i;
  free(from);
  free(to);
  free(requests);
  return seconds;
}

static void latency_cases(const char* bench, int reuse) {
  static const size_t all[] = {8,     64,    256,    512,    1024,   2048,    4096,    8192,   16384,
                               32768, 65536, 131072, 262144, 524288, 1048576, 2097152, 4194304};
  static const size_t few[] = {8, 1024, 16384, 65536, 262144, 1048576, 4194304};
  size_t sizes[kMaxSizes];
  const char* kinds[3];
  int n = g_settings.quick ? sizes_for(few, 7, 0, sizes) : sizes_for(all, 17, 0, sizes);
  int k = each_buffers(kinds);
  for (int b = 0; b < k; b++) {
    for (int s = 0; s < n; s++) {
      int count = 1;
      if (!reuse) {
        size_t fit = sizes[s] == 0 ? kMaxRotate : kRotateBytes / sizes[s];
        count = fit < 8 ? 8 : fit > kMaxRotate ? kMaxRotate : (int)fit;
      }
      buffers_for(sizes[s], kinds[b], count);
      Case c = {.bench = bench,
                .size_bytes = sizes[s],
                .buffers = kinds[b],
                .min_iters = 8,
                .max_iters = kMaxIters,
                .metric_count = 1,
                .metric_name = {"time_us"},
                .block = pingpong};
      run_case(&c);
      buffers_back(kinds[b]);
    }
  }
}

void bench_pingpong(void) {
  if (selected("latency")) latency_cases("latency", 1);
  if (selected("noreuse")) latency_cases("noreuse", 0);
  if (!selected("queues")) return;
  static const int depths[] = {0, 100, 10000};
  static const char* const variants[] = {"posted", "unexpected"};
  buffers_for(8, "malloc", 1);
  for (int v = 0; v < 2; v++) {
    for (int d = 0; d < 3; d++) {
      Case c = {.bench = "queues",
                .size_bytes = 8,
                .buffers = "malloc",
                .param_name = "depth",
                .param = depths[d],
                .variant = variants[v],
                .min_iters = 20,
                .max_iters = 2000,
                .metric_count = 1,
                .metric_name = {"time_us"},
                .block = queued};
      run_case(&c);
    }
  }
  buffers_back("malloc");
}
