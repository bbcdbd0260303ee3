// What happens when the two ranks are not at the same place: overlap of transfer and computation, the process-skew
// benchmark of the hybrid paper (its figure 5) and the parts of one message's cost (after LiMIC's figures 8 and 9).
// Ranks 0 and 1.
#include "bench.h"

enum { kTag = 31, kSlot = 0, kParts = 200, kMaxSkewReps = 500 };

static char* send_buffer = NULL;
static char* recv_buffer = NULL;
static MPI_Comm comm_now;

static double since_us(uint64_t start) { return ticks_to_us((double)(ticks() - start)); }
static void meet(void) { pair_sync(kSlot, g_rank); }

// The two ranks of a transfer stand like this: rank 0 sends. Both meet after the receive was posted.
typedef struct {
  double post_us;   // inside MPI_Irecv
  double isend_us;  // inside MPI_Isend
  double wait_us;   // inside the measured side's MPI_Wait
  double share;     // lines that had arrived before that MPI_Wait; filled when asked for
} Transfer;

static Transfer transfer(const Case* c, int computing_rank, double busy_us, int scan) {
  Transfer t = {0};
  MPI_Request r;
  uint64_t seq = next_seq();
  int len = (int)c->size_bytes;
  if (g_rank == 0) {
    rewrite(send_buffer, c->size_bytes, seq);
    ticks_after_stores();
    meet();
    uint64_t start = ticks();
    MPI_Isend(send_buffer, len, MPI_BYTE, 1, kTag, comm_now, &r);
    t.isend_us = since_us(start);
  } else {
    uint64_t start = ticks();
    MPI_Irecv(recv_buffer, len, MPI_BYTE, 0, kTag, comm_now, &r);
    t.post_us = since_us(start);
    meet();
  }
  if (g_rank == computing_rank) compute_us(busy_us);
  if (scan && g_rank == 1) t.share = arrived_share(recv_buffer, c->size_bytes, seq);
  uint64_t start = ticks();
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  t.wait_us = since_us(start);
  if (g_rank == 1 && arrived_share(recv_buffer + c->size_bytes - 64, 64, seq + c->size_bytes - 64) < 1) g_errors++;
  meet();
  return t;
}

static double overlap(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  static double base[kParts], post[kParts], isend[kParts], wait[kParts], share[kParts];
  int computing = c->variant[0] == 'r' ? 1 : 0;  // receiver or sender
  comm_now = comm;
  for (int i = 0; i < warm; i++) transfer(c, -1, 0, 0);
  uint64_t begin = ticks();
  for (int i = 0; i < iters; i++) base[i] = transfer(c, -1, 0, 0).wait_us;
  double idle_us = median(base, iters);
  coord_gather(&idle_us, 1);
  // The receiver's wait is the transfer's time; the sender's may end earlier.
  double busy_us = 2 * gathered(1, 0) + 20;
  for (int i = 0; i < iters; i++) {
    Transfer t = transfer(c, computing, busy_us, 0);
    post[i] = t.post_us;
    isend[i] = t.isend_us;
    wait[i] = t.wait_us;
  }
  for (int i = 0; i < iters; i++) share[i] = transfer(c, computing, busy_us, 1).share;
  double seconds = since_us(begin) * 1e-6;
  double mine[5] = {idle_us, median(wait, iters), median(share, iters), median(isend, iters), median(post, iters)};
  coord_gather(mine, 5);
  if (g_rank == 0) {
    double idle = gathered(1, 0);
    double waited = gathered(computing, 1);
    double over = 1 - waited / idle;
    out[0] = over < 0 ? 0 : over;
    out[1] = gathered(1, 2);
    out[2] = idle;
    out[3] = waited;
    out[4] = gathered(0, 3);
    out[5] = gathered(1, 4);
  }
  return seconds;
}

// Hybrid paper, figure 5: the producer computes c1 and sends without blocking, 64 times, then waits for all; the
// consumer receives and computes c2. c3, the producer's time, is the result.
static double skew(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  static double c3[kMaxSkewReps];
  MPI_Request r[kWindow];
  const double c1_us = 1;
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    if (i == 0) begin = ticks();
    uint64_t seq = next_seq();
    if (g_rank == 0) {
      for (int w = 0; w < kWindow; w++)
        rewrite(send_buffer + (size_t)w * c->size_bytes, c->size_bytes, seq + (uint64_t)w * 8);
      meet();
      uint64_t start = ticks_after_stores();
      for (int w = 0; w < kWindow; w++) {
        compute_us(c1_us);
        MPI_Isend(send_buffer + (size_t)w * c->size_bytes, (int)c->size_bytes, MPI_BYTE, 1, kTag, comm, &r[w]);
      }
      MPI_Waitall(kWindow, r, MPI_STATUSES_IGNORE);
      if (i >= 0) c3[i] = since_us(start);
    } else {
      meet();
      for (int w = 0; w < kWindow; w++) {
        MPI_Recv(recv_buffer, (int)c->size_bytes, MPI_BYTE, 0, kTag, comm, MPI_STATUS_IGNORE);
        if (arrived_share(recv_buffer, 64, seq + (uint64_t)w * 8) < 1) g_errors++;
        compute_us(c->param);
      }
    }
    meet();
  }
  double seconds = since_us(begin) * 1e-6;
  if (g_rank == 0) out[0] = median(c3, iters);
  return seconds;
}

// Variant "posted": the receive waits before the send starts. Variant "unexpected": the message waits before the
// receive.
static double breakdown(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  static double call[kParts], rest[kParts], total[kParts];
  int posted = c->variant[0] == 'p';
  int len = (int)c->size_bytes;
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    if (i == 0) begin = ticks();
    int at = i < 0 ? 0 : i;
    uint64_t seq = next_seq();
    MPI_Request r;
    int first = posted ? 1 : 0;
    if (g_rank == 0) {
      rewrite(send_buffer, c->size_bytes, seq);
      ticks_after_stores();
    }
    if (g_rank != first) meet();  // the other one has made its call
    uint64_t start = ticks();
    if (g_rank == 0)
      MPI_Isend(send_buffer, len, MPI_BYTE, 1, kTag, comm, &r);
    else
      MPI_Irecv(recv_buffer, len, MPI_BYTE, 0, kTag, comm, &r);
    call[at] = since_us(start);
    if (g_rank == first) meet();
    uint64_t middle = ticks();
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    rest[at] = since_us(middle);
    // From the moment when both sides have asked: the later call's start, or for the first one the moment of meeting.
    total[at] = g_rank == first ? rest[at] : since_us(start);
    if (g_rank == 1 &&
        arrived_share(recv_buffer + (len < 64 ? 0 : len - 64), 64, seq + (uint64_t)(len < 64 ? 0 : len - 64)) < 1)
      g_errors += len >= 64;
    meet();
  }
  double seconds = since_us(begin) * 1e-6;
  double mine[3] = {median(call, iters), median(rest, iters), median(total, iters)};
  coord_gather(mine, 3);
  if (g_rank == 0) {
    out[0] = gathered(0, 0);
    out[1] = gathered(0, 1);
    out[2] = gathered(1, 0);
    out[3] = gathered(1, 1);
    out[4] = gathered(1, 2);
  }
  return seconds;
}

static void overlap_cases(void) {
  static const size_t own[] = {65536, 262144, 1048576, 4194304};
  static const char* const sides[] = {"receiver_computes", "sender_computes"};
  size_t sizes[kMaxSizes];
  const char* kinds[3];
  int n = g_settings.quick ? sizes_for(own + 2, 1, 8, sizes) : sizes_for(own, 4, 8, sizes);
  int k = each_buffers(kinds);
  for (int b = 0; b < k; b++) {
    for (int s = 0; s < n; s++) {
      if (sizes[s] < 64) continue;
      send_buffer = buffer_get(kinds[b], sizes[s]);
      recv_buffer = buffer_get(kinds[b], sizes[s]);
      for (int side = 0; side < 2; side++) {
        Case c = {.bench = "overlap",
                  .size_bytes = sizes[s],
                  .buffers = kinds[b],
                  .variant = sides[side],
                  .min_iters = 5,
                  .max_iters = kParts,
                  .metric_count = 6,
                  .metric_name = {"over_share", "arrived_share", "transfer_us", "wait_us", "isend_us", "irecv_us"},
                  .block = overlap};
        run_case(&c);
      }
      buffer_put(kinds[b], send_buffer);
      buffer_put(kinds[b], recv_buffer);
    }
  }
}

static void skew_cases(void) {
  static const double c2[] = {2, 10, 25, 50, 100, 200};
  static const size_t own[] = {16384};
  size_t sizes[kMaxSizes];
  int n = sizes_for(own, 1, 8, sizes);
  for (int s = 0; s < n; s++) {
    if (sizes[s] < 64 || sizes[s] > (1 << 20)) continue;
    send_buffer = buffer_get("malloc", sizes[s] * kWindow);
    recv_buffer = buffer_get("malloc", sizes[s]);
    for (int i = 0; i < 6; i += g_settings.quick ? 5 : 1) {
      Case c = {.bench = "skew",
                .size_bytes = sizes[s],
                .buffers = "malloc",
                .param_name = "c2_us",
                .param = c2[i],
                .window = kWindow,
                .min_iters = 5,
                .max_iters = kMaxSkewReps,
                .metric_count = 1,
                .metric_name = {"c3_us"},
                .block = skew};
      run_case(&c);
    }
    buffer_put("malloc", send_buffer);
    buffer_put("malloc", recv_buffer);
  }
}

static void breakdown_cases(void) {
  static const size_t own[] = {8, 1024, 4096, 16384, 65536, 262144, 1048576};
  static const char* const variants[] = {"posted", "unexpected"};
  size_t sizes[kMaxSizes];
  int n = sizes_for(own, 7, 8, sizes);
  for (int v = 0; v < 2; v++) {
    for (int s = 0; s < n; s++) {
      send_buffer = buffer_get("malloc", sizes[s] < 64 ? 64 : sizes[s]);
      recv_buffer = buffer_get("malloc", sizes[s] < 64 ? 64 : sizes[s]);
      Case c = {.bench = "breakdown",
                .size_bytes = sizes[s],
                .buffers = "malloc",
                .variant = variants[v],
                .min_iters = 10,
                .max_iters = kParts,
                .metric_count = 5,
                .metric_name = {"send_call_us", "send_wait_us", "recv_call_us", "recv_wait_us", "receiver_total_us"},
                .block = breakdown};
      run_case(&c);
      buffer_put("malloc", send_buffer);
      buffer_put("malloc", recv_buffer);
    }
  }
}

void bench_progress(void) {
  if (selected("overlap")) overlap_cases();
  if (selected("skew")) skew_cases();
  if (selected("breakdown")) breakdown_cases();
}
