// Broadcasts of strided messages, made of point-to-point messages as the mlog_nP paper has them (section 5.2): the root
// sends to all others in turn, or ranks pass on along a binomial tree. Elements of four bytes start `stride` bytes
// behind each other; sizes and strides are the paper's nine shapes (section 5: "4K8S" is 4 KiB at a stride of 8).
// Every message takes its elements from where they lie, so each costs its stride at both ends, as the models have it.
// Where ranks share a page a rank's time runs from the root's start, else, as clocks may be two machines', from its
// own.
#include <string.h>

#include "bench.h"

enum { kTag = 14, kElement = 4 };

static char* buffer = NULL;
static size_t step = kElement;  // from one element's start to the next one's
static MPI_Datatype type = MPI_INT;
static void (*broadcast)(MPI_Comm comm) = NULL;
static double samples[kMaxIters];

static void linear(MPI_Comm comm) {
  if (g_rank != 0) {
    MPI_Recv(buffer, 1, type, 0, kTag, comm, MPI_STATUS_IGNORE);
    return;
  }
  for (int r = 1; r < g_ranks; r++) MPI_Send(buffer, 1, type, r, kTag, comm);
}

// The subtree of a rank ends where its lowest bit reaches; the largest child's is served first.
static void binomial(MPI_Comm comm) {
  int reach = 1;
  while (reach < g_ranks && (g_rank & reach) == 0) reach *= 2;
  if (g_rank != 0) MPI_Recv(buffer, 1, type, g_rank - reach, kTag, comm, MPI_STATUS_IGNORE);
  for (int m = reach / 2; m > 0; m /= 2) {
    if (g_rank + m < g_ranks) MPI_Send(buffer, 1, type, g_rank + m, kTag, comm);
  }
}

static void set_element(size_t i, uint32_t v) { memcpy(buffer + i * step, &v, kElement); }

static uint32_t element(size_t i) {
  uint32_t v;
  memcpy(&v, buffer + i * step, kElement);
  return v;
}

// The first two elements are the time at which the root began.
static uint64_t root_began(void) { return element(0) | (uint64_t)element(1) << 32; }

static double measure(const Case* c, MPI_Comm comm, int warm, int iters, double* out) {
  const size_t n = c->size_bytes / kElement;
  const int one_clock = shares_page();
  const int alone = !crowded();
  coord_barrier();
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    if (i == 0) begin = ticks();
    uint64_t seq = next_seq();
    if (g_rank == 0) {
      for (size_t k = 2; k < n; k++) set_element(k, (uint32_t)(seq + k));
    }
    if (alone) coord_barrier();
    uint64_t start = ticks_after_stores();
    if (g_rank == 0) {
      set_element(0, (uint32_t)start);
      set_element(1, (uint32_t)(start >> 32));
    }
    broadcast(comm);
    uint64_t end = ticks();
    if (i >= 0) samples[i] = ticks_to_us((double)(int64_t)(end - (one_clock ? root_began() : start)));
    if (alone) coord_barrier();
    for (size_t k = i < 0 ? 2 : n - 1; g_rank != 0 && k < n; k++) g_errors += element(k) != (uint32_t)(seq + k);
  }
  double seconds = ticks_to_us((double)(ticks() - begin)) * 1e-6;
  double mine = typical_us(samples, iters);
  coord_gather(&mine, 1);
  if (g_rank == 0 && iters > 0) {
    out[0] = 0;
    for (int r = 0; r < g_ranks; r++) out[0] = gathered(r, 0) > out[0] ? gathered(r, 0) : out[0];
  }
  return seconds;
}

static void one_case(const char* name, const char* kind, size_t size_bytes, size_t stride) {
  const size_t n = size_bytes / kElement;
  step = stride;
  MPI_Type_vector((int)n, 1, (int)(stride / kElement), MPI_INT, &type);
  MPI_Type_commit(&type);
  buffer = buffer_get(kind, (n - 1) * step + kElement);
  Case c = {.bench = name,
            .size_bytes = size_bytes,
            .buffers = kind,
            .param_name = "stride",
            .param = (double)stride,
            .min_iters = crowded() ? 2 : 8,
            .max_iters = kMaxIters,
            .metric_count = 1,
            .metric_name = {"t_max_us"},
            .block = measure};
  run_case(&c);
  buffer_put(kind, buffer);
  MPI_Type_free(&type);
}

void bench_strided_bcast(void) {
  static const struct {
    const char* name;
    void (*call)(MPI_Comm comm);
  } trees[] = {{"linear_bcast", linear}, {"binomial_bcast", binomial}};
  static const size_t strides[] = {8, 64, 512};
  static const size_t paper[] = {1024, 4096, 16384};
  if (g_settings.only == NULL) return;  // no collective of MPI
  size_t sizes[kMaxSizes];
  const char* kinds[3];
  int size_count = sizes_for(paper, 3, 8, sizes);
  int kind_count = each_buffers(kinds);
  for (int t = 0; t < 2; t++) {
    if (!selected(trees[t].name)) continue;
    broadcast = trees[t].call;
    for (int b = 0; b < kind_count; b++) {
      for (int d = 0; d < 3; d++) {
        for (int s = 0; s < size_count; s++) one_case(trees[t].name, kinds[b], sizes[s], strides[d]);
      }
    }
  }
}
