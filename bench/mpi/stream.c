// Streams of windows: bandwidth, bidirectional, multi-pair (hybrid paper, section 3.1) and message rate. Every message
// of a window has its own buffer; all are rewritten before the window's clock starts. Values are microseconds per
// message.
#include "bench.h"

enum { kTag = 21, kAckTag = 22, kMaxBytes = 64 << 20 };

static char* send_buffers = NULL;
static char* recv_buffers = NULL;
static size_t stride_bytes = 0;
static double samples[kMaxIters];

static int is_sender(void) { return g_rank < g_ranks / 2; }
static int partner(void) { return (g_rank + g_ranks / 2) % g_ranks; }
static int pair_slot(void) { return g_rank % (g_ranks / 2); }

static void rewrite_window(const Case* c, uint64_t seq) {
  for (int w = 0; w < c->window; w++) {
    char* p = send_buffers + (size_t)w * stride_bytes;
    rewrite(p, c->size_bytes, seq + (uint64_t)w * 8);
    stamp(p);
  }
}

static void verify_window(const Case* c, uint64_t seq, int full) {
  for (int w = 0; w < c->window; w++)
    verify(recv_buffers + (size_t)w * stride_bytes, c->size_bytes, seq + (uint64_t)w * 8, full);
}

static void send_window(const Case* c, MPI_Comm comm, MPI_Request* r) {
  for (int w = 0; w < c->window; w++)
    MPI_Isend(send_buffers + (size_t)w * stride_bytes, (int)c->size_bytes, MPI_BYTE, partner(), kTag, comm, &r[w]);
}

static void recv_window(const Case* c, MPI_Comm comm, MPI_Request* r) {
  for (int w = 0; w < c->window; w++)
    MPI_Irecv(recv_buffers + (size_t)w * stride_bytes, (int)c->size_bytes, MPI_BYTE, partner(), kTag, comm, &r[w]);
}

static double one_way(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  MPI_Request r[kWindow];
  char ack = 0;
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    if (i == 0) begin = ticks();
    uint64_t seq = next_seq();
    if (is_sender()) {
      rewrite_window(c, seq);
      pair_sync(pair_slot(), 0);
      uint64_t start = ticks_after_stores();
      send_window(c, comm, r);
      MPI_Waitall(c->window, r, MPI_STATUSES_IGNORE);
      MPI_Recv(&ack, 1, MPI_BYTE, partner(), kAckTag, comm, MPI_STATUS_IGNORE);
      if (i >= 0) samples[i] = ticks_to_us((double)(ticks() - start)) / c->window;
    } else {
      pair_sync(pair_slot(), 1);
      recv_window(c, comm, r);
      MPI_Waitall(c->window, r, MPI_STATUSES_IGNORE);
      MPI_Send(&ack, 1, MPI_BYTE, partner(), kAckTag, comm);
      verify_window(c, seq, i < 0);
    }
  }
  double seconds = ticks_to_us((double)(ticks() - begin)) * 1e-6;
  double mine = is_sender() ? median(samples, iters) : 0;
  coord_gather(&mine, 1);
  int pairs = g_ranks / 2;
  if (g_rank ==
      0) {  // pairs run at once: the machine's time per message is the mean over senders by the number of pairs
    double sum = 0;
    for (int s = 0; s < pairs; s++) sum += gathered(s, 0);
    out[0] = sum / pairs / pairs;
  }
  return seconds;
}

static double both_ways(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  MPI_Request r[2 * kWindow];
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    if (i == 0) begin = ticks();
    uint64_t seq = next_seq();
    rewrite_window(c, seq);
    pair_sync(pair_slot(), !is_sender());
    uint64_t start = ticks_after_stores();
    recv_window(c, comm, r);
    send_window(c, comm, r + c->window);
    MPI_Waitall(2 * c->window, r, MPI_STATUSES_IGNORE);
    if (i >= 0) samples[i] = ticks_to_us((double)(ticks() - start)) / c->window;
    verify_window(c, seq, i < 0);
    pair_sync(pair_slot(), !is_sender());  // nobody rewrites while the other still measures
  }
  double seconds = ticks_to_us((double)(ticks() - begin)) * 1e-6;
  double mine = median(samples, iters);
  coord_gather(&mine, 1);
  if (g_rank == 0) out[0] = (gathered(0, 0) + gathered(partner(), 0)) / 2;
  return seconds;
}

// Windows follow each other at once, with one acknowledgement each; only the words that change are written in between.
static double rate(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  MPI_Request r[kWindow];
  static uint64_t to[kWindow];
  static uint64_t from[kWindow];
  char ack = 0;
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    if (i == 0) begin = ticks();
    uint64_t seq = next_seq();
    if (is_sender()) {
      uint64_t start = ticks();
      for (int w = 0; w < c->window; w++) {
        to[w] = seq + (uint64_t)w;
        MPI_Isend(&to[w], 8, MPI_BYTE, partner(), kTag, comm, &r[w]);
      }
      MPI_Waitall(c->window, r, MPI_STATUSES_IGNORE);
      MPI_Recv(&ack, 1, MPI_BYTE, partner(), kAckTag, comm, MPI_STATUS_IGNORE);
      if (i >= 0) samples[i] = ticks_to_us((double)(ticks() - start)) / c->window;
    } else {
      for (int w = 0; w < c->window; w++) MPI_Irecv(&from[w], 8, MPI_BYTE, partner(), kTag, comm, &r[w]);
      MPI_Waitall(c->window, r, MPI_STATUSES_IGNORE);
      MPI_Send(&ack, 1, MPI_BYTE, partner(), kAckTag, comm);
      for (int w = 0; w < c->window; w++) g_errors += from[w] != seq + (uint64_t)w;
    }
  }
  double seconds = ticks_to_us((double)(ticks() - begin)) * 1e-6;
  double mine = is_sender() ? median(samples, iters) : 0;
  coord_gather(&mine, 1);
  int pairs = g_ranks / 2;
  if (g_rank == 0) {
    double sum = 0;
    for (int s = 0; s < pairs; s++) sum += gathered(s, 0);
    out[0] = sum / pairs / pairs;
  }
  return seconds;
}

static void stream_cases(const char* bench, double (*block)(const Case*, MPI_Comm, int, int, double*)) {
  static const size_t all[] = {8, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304};
  static const size_t few[] = {8, 4096, 65536, 1048576};
  size_t sizes[kMaxSizes];
  const char* kinds[3];
  int n = g_settings.quick ? sizes_for(few, 4, 8, sizes) : sizes_for(all, 9, 8, sizes);
  int k = each_buffers(kinds);
  for (int b = 0; b < k; b++) {
    for (int s = 0; s < n; s++) {
      size_t fit = kMaxBytes / (size_t)g_ranks * 2 / sizes[s];
      int window = fit > kWindow ? kWindow : fit < 2 ? 2 : (int)fit;
      stride_bytes = (sizes[s] + 63) / 64 * 64;
      send_buffers = buffer_get(kinds[b], stride_bytes * (size_t)window);
      recv_buffers = buffer_get(kinds[b], stride_bytes * (size_t)window);
      Case c = {.bench = bench,
                .size_bytes = sizes[s],
                .buffers = kinds[b],
                .window = window,
                .min_iters = 3,
                .max_iters = 2000,
                .metric_count = 1,
                .metric_name = {"time_us"},
                .block = block};
      run_case(&c);
      buffer_put(kinds[b], send_buffers);
      buffer_put(kinds[b], recv_buffers);
    }
  }
}

void bench_stream(void) {
  if (g_ranks % 2 != 0) return;
  if (g_ranks == 2 && selected("bandwidth")) stream_cases("bandwidth", one_way);
  if (g_ranks == 2 && selected("bidirectional")) stream_cases("bidirectional", both_ways);
  if (g_ranks > 2 && selected("multipair")) stream_cases("multipair", one_way);
  if (g_ranks == 2 && selected("rate")) {
    Case c = {.bench = "rate",
              .size_bytes = 8,
              .buffers = "malloc",
              .window = kWindow,
              .min_iters = 20,
              .max_iters = kMaxIters,
              .metric_count = 1,
              .metric_name = {"time_us"},
              .block = rate};
    run_case(&c);
  }
}
