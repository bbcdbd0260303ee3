// The matrix multiplication benchmark, bench_matmul_<abi>: the application of "MPI Collectives on Modern Multicore
// Clusters" (CCGrid 2008, section 5.5), whose only communication is MPI_Allgather. The paper gives doubles and orders
// from 16 to 512 and no distribution; here it is the usual one for an allgather: A, B and C lie on the ranks by blocks
// of rows, all of B is gathered, and each rank computes its rows of C = A B.
#include "bench.h"

// What one multiplication works on. Where the order is no multiple of the ranks, the last blocks have rows below the
// matrices: those of B are sent and not used, those of C are computed and verified like any other.
static int order = 0;
static int rows = 0;            // of a block
static double* a_block = NULL;  // the own rows of A, B and C, row by row
static double* b_block = NULL;
static double* c_block = NULL;
static double* b_whole = NULL;  // gathered
static double total_us[kMaxIters];
static double comm_us[kMaxIters];

// Elements are whole numbers, and every sum stays below 2^53: C is exact in any order of summation.
static double element_of_a(int i, int k) { return i + 1 + k; }
static double element_of_b(int k, int j, int turn) { return k + 3.0 * j + turn; }

// Sum over k of (i + 1 + k)(k + 3 j + turn), written out: it depends on the place of every row of B, and every element
// of B counts, for no element of A is 0.
static double element_of_c(int i, int j, int turn) {
  double n = order;
  double sum = n * (n - 1) / 2;
  double squares = sum * (2 * n - 1) / 3;
  return (i + 1) * sum + squares + (3.0 * j + turn) * ((i + 1) * n + sum);
}

static void fill_b(int turn) {
  for (int k = 0; k < rows; k++)
    for (int j = 0; j < order; j++) b_block[(size_t)k * order + j] = element_of_b(g_rank * rows + k, j, turn);
}

static void multiply(void) {
  for (int i = 0; i < rows; i++) {
    double* restrict c = c_block + (size_t)i * order;
    for (int j = 0; j < order; j++) c[j] = 0;
    for (int k = 0; k < order; k++) {  // in this order both B and C are read along their rows
      const double a = a_block[(size_t)i * order + k];
      const double* restrict b = b_whole + (size_t)k * order;
      for (int j = 0; j < order; j++) c[j] += a * b[j];
    }
  }
}

static void check(int turn) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < order; j++)
      g_errors += c_block[(size_t)i * order + j] != element_of_c(g_rank * rows + i, j, turn);
}

static double greatest(int k) {
  double most = gathered(0, k);
  for (int r = 1; r < g_ranks; r++) most = gathered(r, k) > most ? gathered(r, k) : most;
  return most;
}

static double measure(const Case* k, MPI_Comm comm, int warm, int iters, double* out) {
  static int turn = 0;
  (void)k;
  int count = rows * order;
  int alone = !crowded();
  coord_barrier();
  uint64_t begin = ticks();
  for (int i = -warm; i < iters; i++) {
    if (i == 0) begin = ticks();
    turn = (turn + 1) % 1000;  // a block that was left from the multiplication before gives another product
    fill_b(turn);
    if (alone) coord_barrier();
    uint64_t start = ticks();
    MPI_Allgather(b_block, count, MPI_DOUBLE, b_whole, count, MPI_DOUBLE, comm);
    uint64_t got = ticks();
    multiply();
    uint64_t end = ticks();
    if (i >= 0) {
      comm_us[i] = ticks_to_us((double)(got - start));
      total_us[i] = ticks_to_us((double)(end - start));
    }
    if (alone) coord_barrier();
    check(turn);
  }
  double seconds = ticks_to_us((double)(ticks() - begin)) * 1e-6;
  double mine[2] = {typical_us(total_us, iters), typical_us(comm_us, iters)};
  coord_gather(mine, 2);
  if (g_rank == 0 && iters > 0) {
    out[0] = greatest(0);
    out[1] = greatest(1);
  }
  return seconds;
}

static void run_order(int n, const char* kind) {
  order = n;
  rows = (n + g_ranks - 1) / g_ranks;
  size_t elements = (size_t)rows * (size_t)n;
  // --buffers is about what MPI sees. The others begin with a page, too: how they lie to each other moves the
  // computation.
  b_block = buffer_get(kind, elements * sizeof(double));
  b_whole = buffer_get(kind, elements * sizeof(double) * (size_t)g_ranks);
  a_block = buffer_get("malloc", elements * sizeof(double));
  c_block = buffer_get("malloc", elements * sizeof(double));
  for (int i = 0; i < rows; i++)
    for (int k = 0; k < n; k++) a_block[(size_t)i * n + k] = element_of_a(g_rank * rows + i, k);
  Case c = {.bench = "matmul",
            .size_bytes = elements * sizeof(double),
            .buffers = kind,
            .param_name = "order",
            .param = n,
            .min_iters = crowded() ? 2 : 4,
            .max_iters = kMaxIters,
            .metric_count = 2,
            .metric_name = {"time_us", "comm_us"},
            .block = measure};
  run_case(&c);
  buffer_put("malloc", c_block);
  buffer_put("malloc", a_block);
  buffer_put(kind, b_whole);
  buffer_put(kind, b_block);
}

static void run(void) {
  static const size_t all[] = {16, 32, 64, 128, 256, 512};  // the paper's
  static const size_t few[] = {16, 128, 512};
  size_t orders[kMaxSizes];
  const char* kinds[3];
  int order_count = g_settings.quick ? sizes_for(few, 3, 1, orders) : sizes_for(all, 6, 1, orders);
  int kind_count = each_buffers(kinds);
  for (int b = 0; b < kind_count; b++)
    for (int s = 0; s < order_count; s++) run_order((int)orders[s], kinds[b]);
}

const Program g_program = {
    .name = "matmul",
    .schema = "zerohop-bench-matmul/1",
    .about = "matrix multiplication over MPI_Allgather, one launch (start it with mpiexec -n 2 or more)",
    .options = "",
    .sizes = "orders of the square matrices",
    .size_step = 1,
    .size_most = 4096,
    .run = run,
};
