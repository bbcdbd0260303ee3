// bench_apps_<abi> NAME [--class S] [--out FILE]: runs one of the programs and leaves one JSON object. Exit code: 1
// where the result is wrong, 2 where the program cannot run so.
#include "apps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int g_rank = 0, g_ranks = 1;
double g_mpi_s = 0;
static double begin_s = 0, total_s = 0, total_mpi_s = 0;

static const uint64_t kMask = (UINT64_C(1) << 46) - 1;

uint64_t random_at(uint64_t steps) {
  uint64_t state = kSeed, power = kMultiplier;
  for (; steps != 0; steps >>= 1, power = power * power & kMask) {
    if (steps & 1) state = state * power & kMask;
  }
  return state;
}

double random_next(uint64_t* state) {
  *state = *state * kMultiplier & kMask;
  return (double)*state * 0x1p-46;
}

void timed_begin(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  g_mpi_s = 0;
  begin_s = MPI_Wtime();
}

void timed_end(void) {
  total_s = MPI_Wtime() - begin_s;
  total_mpi_s = g_mpi_s;
}

_Noreturn void refuse(const char* why) {
  if (g_rank == 0) fprintf(stderr, "bench_apps: %s\n", why);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  exit(2);
}

void* new_array(size_t count, size_t bytes) {
  void* p = calloc(count > 0 ? count : 1, bytes);
  if (p == NULL) {
    fprintf(stderr, "bench_apps: out of memory\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  return p;
}

int log2_of(int power_of_two) {
  int log = 0;
  while (1 << log < power_of_two) log++;
  if (1 << log != power_of_two) refuse("the number of ranks must be a power of two");
  return log;
}

int is_close(double value, double reference, double epsilon) {
  return fabs((value - reference) / reference) <= epsilon;  // not so for NaN
}

void exchange(const double* out, double* in, int count, int partner) {
  MPI_Request request;
  IN_MPI(MPI_Irecv(in, count, MPI_DOUBLE, partner, 1, MPI_COMM_WORLD, &request));
  IN_MPI(MPI_Send(out, count, MPI_DOUBLE, partner, 1, MPI_COMM_WORLD));
  IN_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

// JSON has no NaN.
static void put_number(FILE* out, double value) {
  if (isfinite(value)) {
    fprintf(out, "%.17g", value);
  } else {
    fprintf(out, "null");
  }
}

static int report(const App* app, char class_name, Outcome mine, const char* path) {
  int errors = 0;
  double times[2] = {total_s, total_mpi_s}, sums[2] = {0, 0}, slowest = 0;
  MPI_Allreduce(&mine.errors, &errors, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Reduce(times, sums, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&total_s, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (g_rank != 0) return errors;
  FILE* out = path == NULL ? stdout : fopen(path, "w");
  if (out == NULL) {
    perror(path);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return errors;
  }
  fprintf(out, "{\"app\": \"%s\", \"class\": \"%c\", \"ranks\": %d, \"seconds\": %.9g, \"mpi_share\": %.6g, ",
          app->name, class_name, g_ranks, slowest, sums[1] / sums[0]);
  fprintf(out, "\"verified\": %s, \"exact\": %s, \"value\": [", errors == 0 ? "true" : "false",
          mine.exact ? "true" : "false");
  put_number(out, mine.value[0]);
  fprintf(out, ", ");
  put_number(out, mine.value[1]);
  fprintf(out, "]}\n");
  if (out != stdout && fclose(out) != 0) perror(path);
  return errors;
}

int main(int argc, char** argv) {
  static const App* const apps[] = {&g_is, &g_ft, &g_cg, &g_mg, &g_halo3d};
  const App* app = NULL;
  char class_name = 'S';
  const char* path = NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g_ranks);
  for (size_t i = 0; argc > 1 && i < sizeof apps / sizeof *apps; i++) {
    if (strcmp(argv[1], apps[i]->name) == 0) app = apps[i];
  }
  for (int i = 2; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--class") == 0) class_name = argv[i + 1][0];
    if (strcmp(argv[i], "--out") == 0) path = argv[i + 1];
  }
  if (app == NULL || argc % 2 != 0) refuse("usage: bench_apps is|ft|cg|mg|halo3d [--class S|W|A|B] [--out FILE]");
  if (strchr("SWAB", class_name) == NULL) refuse("the classes are S, W, A and B");
  const int errors = report(app, class_name, app->run(class_name), path);
  MPI_Finalize();
  return errors != 0;
}
