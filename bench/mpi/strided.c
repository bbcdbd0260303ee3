// Ping-pong of strided messages of two ranks: elements of four bytes, each starting `stride` bytes behind the one
// before it. Sizes and strides are those by which the mlog_nP paper classifies messages (section 5: "4K8S" is 4 KiB at
// a stride of 8). Stride 0 is the contiguous message of as many elements: its time is the overhead, and what a stride
// costs more is the latency (section 3.1), so that each launch holds both parts of the paper's figure 2. Between ranks
// that share a page each message carries its time stamp; else the clocks may be two machines', and half of rank 0's
// round trip is taken.
#include <string.h>

#include "bench.h"

enum { kTag = 13, kElement = 4 };

static char* out_buffer = NULL;
static char* in_buffer = NULL;
static size_t step = kElement;  // from one element's start to the next one's
static int count = 0;           // of `type`
static MPI_Datatype type = MPI_INT;
static double samples[kMaxIters];

static uint32_t element(const char* buffer, size_t i) {
  uint32_t v;
  memcpy(&v, buffer + i * step, kElement);
  return v;
}

static void set_element(char* buffer, size_t i, uint32_t v) { memcpy(buffer + i * step, &v, kElement); }

// The time stamp takes the first two elements.
static void fill(const Case* c, uint64_t seq) {
  size_t n = c->size_bytes / kElement;
  for (size_t i = 2; i < n; i++) set_element(out_buffer, i, (uint32_t)(seq + i));
}

static uint64_t give(MPI_Comm comm) {
  uint64_t now = ticks_after_stores();
  set_element(out_buffer, 0, (uint32_t)now);
  set_element(out_buffer, 1, (uint32_t)(now >> 32));
  MPI_Send(out_buffer, count, type, 1 - g_rank, kTag, comm);
  return now;
}

// `asked`: when the message went out to which this is the answer; 0: the message's own stamp counts.
static void take(const Case* c, int i, MPI_Comm comm, uint64_t seq, int warm, uint64_t asked) {
  size_t n = c->size_bytes / kElement;
  MPI_Recv(in_buffer, count, type, 1 - g_rank, kTag, comm, MPI_STATUS_IGNORE);
  uint64_t now = ticks();
  uint64_t sent = element(in_buffer, 0) | (uint64_t)element(in_buffer, 1) << 32;
  if (!warm) {
    samples[i] = asked == 0 ? ticks_to_us((double)(int64_t)(now - sent)) : ticks_to_us((double)(now - asked)) / 2;
  }
  for (size_t k = (warm || n < 3) ? 2 : n - 1; k < n; k++) g_errors += element(in_buffer, k) != (uint32_t)(seq + k);
}

static double pingpong(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  const int one_clock = shares_page();
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    if (i == 0) begin = ticks();
    uint64_t seq = next_seq();
    uint64_t back = next_seq();
    if (g_rank == 0) {
      fill(c, seq);
      uint64_t asked = give(comm);
      take(c, i, comm, back, i < 0, one_clock ? 0 : asked);
    } else {
      if (!one_clock) fill(c, back);  // it would be part of the round trip
      take(c, i, comm, seq, i < 0, 0);
      if (one_clock) fill(c, back);
      give(comm);
    }
  }
  double seconds = ticks_to_us((double)(ticks() - begin)) * 1e-6;
  double mine = median(samples, iters);
  coord_gather(&mine, 1);
  if (g_rank == 0) out[0] = one_clock ? (gathered(0, 0) + gathered(1, 0)) / 2 : gathered(0, 0);
  return seconds;
}

static void one_case(const char* kind, size_t size_bytes, size_t stride) {
  size_t n = size_bytes / kElement;
  step = stride == 0 ? kElement : stride;
  size_t span = (n - 1) * step + kElement;
  out_buffer = buffer_get(kind, span);
  in_buffer = buffer_get(kind, span);
  count = stride == 0 ? (int)n : 1;
  type = MPI_INT;
  if (stride != 0) {
    MPI_Type_vector((int)n, 1, (int)(stride / kElement), MPI_INT, &type);
    MPI_Type_commit(&type);
  }
  Case c = {.bench = "strided",
            .size_bytes = size_bytes,
            .buffers = kind,
            .param_name = "stride",
            .param = (double)stride,
            .min_iters = 8,
            .max_iters = kMaxIters,
            .metric_count = 1,
            .metric_name = {"time_us"},
            .block = pingpong};
  run_case(&c);
  if (stride != 0) MPI_Type_free(&type);
  buffer_put(kind, in_buffer);
  buffer_put(kind, out_buffer);
}

void bench_strided(void) {
  if (!selected("strided")) return;
  static const size_t strides[] = {0, 8, 64, 512};
  static const size_t contiguous[] = {8, 64, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 8388608};
  static const size_t strided[] = {1024, 4096, 16384};
  const char* kinds[3];
  int k = each_buffers(kinds);
  for (int b = 0; b < k; b++) {
    for (int d = 0; d < 4; d++) {
      size_t sizes[kMaxSizes];
      int n = strides[d] == 0 ? sizes_for(contiguous, 10, 8, sizes) : sizes_for(strided, 3, 8, sizes);
      for (int s = 0; s < n; s++) one_case(kinds[b], sizes[s], strides[d]);
    }
  }
}
