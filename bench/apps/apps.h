// What the programs of bench_apps_<abi> share: the random numbers of the NAS benchmarks, the clock of the timed part
// and of the time in MPI, and the result. Seen by bench/apps/*.c only. They are ordinary MPI programs that know nothing
// of zerohop. The NAS ones (is, ft, cg, mg) are written by their specification: Bailey et al., The NAS Parallel
// Benchmarks, RNR-94-007, and the classes and reference values of NPB 3.
#ifndef ZEROHOP_BENCH_APPS_APPS_H_
#define ZEROHOP_BENCH_APPS_APPS_H_

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  int errors;       // of this rank; any makes the run unverified
  int exact;        // the value is the same bit for bit under every MPI library
  double value[2];  // what is verified, on rank 0
} Outcome;

// One program: sets up, runs once untimed, runs between timed_begin and timed_end, verifies. All ranks call it.
typedef struct {
  const char* name;
  const char* about;
  Outcome (*run)(char class_name);
} App;
extern const App g_is, g_ft, g_cg, g_mg, g_halo3d;

extern int g_rank, g_ranks;
extern double g_mpi_s;  // in MPI since timed_begin

// The call, its time added to g_mpi_s.
#define IN_MPI(call)                   \
  do {                                 \
    const double begin_ = MPI_Wtime(); \
    call;                              \
    g_mpi_s += MPI_Wtime() - begin_;   \
  } while (0)

void timed_begin(void);
void timed_end(void);

// Zeroed memory; ends the job where there is none.
void* new_array(size_t count, size_t bytes);
// Ends the job with exit code 2.
_Noreturn void refuse(const char* why);
int log2_of(int power_of_two);  // refuses other numbers
int is_close(double value, double reference, double epsilon);

// The generator of the specification, section 2.3: x := a x mod 2^46.
enum { kSeed = 314159265, kMultiplier = 1220703125 };
// The state after `steps` more, of which random_next makes the next number.
uint64_t random_at(uint64_t steps);
// In (0, 1).
double random_next(uint64_t* state);

// `count` doubles each way, as the NAS programs do it: receive posted, send, wait.
void exchange(const double* out, double* in, int count, int partner);

#endif  // ZEROHOP_BENCH_APPS_APPS_H_
