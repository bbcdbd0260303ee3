// The harness of the semantic tests: named cases, checks that never stop a case, guarded buffers, a watchdog.
// Used by every file of this folder; main() is in check.c. It knows no case by name: cases register themselves.
//
// A case is collective: all ranks of the job run it together, on a communicator that returns errors. A failed check
// is recorded and the case goes on, because a rank that leaves early would make its peers hang.
#ifndef ZEROHOP_TESTS_MPI_CHECK_H
#define ZEROHOP_TESTS_MPI_CHECK_H

#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What the header of this host offers. Open MPI 5.0 calls itself 3.1 and has some of MPI-4.
#define HAVE_LARGE_COUNT (MPI_VERSION >= 4)
#define HAVE_MPI41 (MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1))
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define HAVE_MPI4_CORE 1  // sessions, isendrecv, idup_with_info
#else
#define HAVE_MPI4_CORE 0
#endif

// `left` and `right` are the neighbours in a ring of all ranks.
typedef void CheckFunction(MPI_Comm comm, int rank, int size, int left, int right);

struct CheckCase {
  const char* name;  // "subject.case"
  CheckFunction* function;
  struct CheckCase* next;
};

struct CheckScenario {
  const char* name;
  int (*function)(int rank,
                  int size);  // after MPI_Init, if not named "...without_init"; finalizes itself, gives the exit code
  struct CheckScenario* next;
};

void check_register(struct CheckCase* entry);
void check_register_scenario(struct CheckScenario* entry);

#define UNUSED __attribute__((unused))
#define CASE(subject, name)                                                                             \
  static CheckFunction subject##_##name;                                                                \
  static struct CheckCase subject##_##name##_entry = {#subject "." #name, subject##_##name, NULL};      \
  __attribute__((constructor)) static void subject##_##name##_register(void) {                          \
    check_register(&subject##_##name##_entry);                                                          \
  }                                                                                                     \
  static void subject##_##name(MPI_Comm comm UNUSED, int rank UNUSED, int size UNUSED, int left UNUSED, \
                               int right UNUSED)

// A call that some cases make in different surroundings.
typedef void CheckCall(MPI_Comm comm, int rank, int size);
#define CHECK_CALL(name) static void name(MPI_Comm comm UNUSED, int rank UNUSED, int size UNUSED)

// A scenario has a launch of its own (--scenario NAME): it ends the job in a way that no other case could follow.
#define SCENARIO(name)                                                                  \
  static int scenario_##name(int rank, int size);                                       \
  static struct CheckScenario scenario_##name##_entry = {#name, scenario_##name, NULL}; \
  __attribute__((constructor)) static void scenario_##name##_register(void) {           \
    check_register_scenario(&scenario_##name##_entry);                                  \
  }                                                                                     \
  static int scenario_##name(int rank UNUSED, int size UNUSED)

void check_at(const char* file, int line);
void check_fail(const char* file, int line, const char* format, ...) __attribute__((format(printf, 3, 4)));
void check_skip(const char* reason);
bool check_ok(int code, const char* call, const char* file, int line);
bool check_failed_here(void);  // this rank recorded a failure in the running case

// Calls that must succeed; the watchdog names the line of the last one.
#define OK(call) (check_at(__FILE__, __LINE__), check_ok((call), #call, __FILE__, __LINE__))

#define EXPECT(condition, ...)                                     \
  do {                                                             \
    check_at(__FILE__, __LINE__);                                  \
    if (!(condition)) check_fail(__FILE__, __LINE__, __VA_ARGS__); \
  } while (0)

#define EXPECT_EQ(actual, expected)                                                                           \
  do {                                                                                                        \
    check_at(__FILE__, __LINE__);                                                                             \
    long long check_a = (long long)(actual), check_e = (long long)(expected);                                 \
    if (check_a != check_e)                                                                                   \
      check_fail(__FILE__, __LINE__, "%s is %lld, expected %s = %lld", #actual, check_a, #expected, check_e); \
  } while (0)

// For `i` from 0 to `count` - 1; tells the first that is wrong.
#define EXPECT_EACH(count, condition, ...)         \
  do {                                             \
    check_at(__FILE__, __LINE__);                  \
    for (int i = 0; i < (count); ++i) {            \
      if (condition) continue;                     \
      check_fail(__FILE__, __LINE__, __VA_ARGS__); \
      break;                                       \
    }                                              \
  } while (0)

int check_class(int code);                      // the error class of a code
const char* check_class_name(int error_class);  // "MPI_ERR_TAG", for messages
void check_expect_class(int code, const char* call, int expected, const char* file, int line);
#define EXPECT_CLASS(call, expected) \
  (check_at(__FILE__, __LINE__), check_expect_class(call, #call, expected, __FILE__, __LINE__))

// All ranks must take the same branch: the condition may only use what they share.
#define SKIP(reason)    \
  do {                  \
    check_skip(reason); \
    return;             \
  } while (0)
#define NEED_RANKS(n)                           \
  do {                                          \
    if (size < (n)) SKIP("needs " #n " ranks"); \
  } while (0)

// Buffers with 64 guard bytes on both sides; guards are verified and memory is released when the case ends.
void* check_buffer(size_t len_bytes);  // filled with 0xEE
void check_fill(void* data, size_t len_bytes, uint64_t key);
uint64_t check_key(int a, int b, int c, int d);
bool check_is(const void* data, size_t len_bytes, uint64_t key, const char* file, int line);
bool check_is_byte(const void* data, size_t len_bytes, unsigned char value, const char* file, int line);
#define EXPECT_FILL(data, len_bytes, key) \
  (check_at(__FILE__, __LINE__), check_is(data, len_bytes, key, __FILE__, __LINE__))
#define EXPECT_BYTES(data, len_bytes, value) \
  (check_at(__FILE__, __LINE__), check_is_byte(data, len_bytes, value, __FILE__, __LINE__))
#define UNTOUCHED 0xEE
#define UNTOUCHED_INT ((int)0xEEEEEEEE)

// A status of which nobody has written a field yet, and the check of one that a receive has filled.
MPI_Status check_blank_status(void);
void check_status(const MPI_Status* status, int source, int tag, MPI_Datatype type, int count, const char* file,
                  int line);
#define EXPECT_STATUS(status, source, tag, type, count) \
  check_status(status, source, tag, type, count, __FILE__, __LINE__)
// The same without the cancelled bit, which Intel MPI leaves as it was when a probe fills the status.
void check_probed(const MPI_Status* status, int source, int tag, MPI_Datatype type, int count, const char* file,
                  int line);
#define EXPECT_PROBED(status, source, tag, type, count) \
  check_probed(status, source, tag, type, count, __FILE__, __LINE__)
void check_empty_status(const MPI_Status* status, const char* file, int line);
#define EXPECT_EMPTY_STATUS(status) check_empty_status(status, __FILE__, __LINE__)

int check_reps(int normal);    // work scaled by --effort (low: a tenth, at least one)
int check_thread_level(void);  // what MPI_Init_thread provided
uint64_t check_seed(void);     // --seed
uint64_t check_random(uint64_t* state);
MPI_Comm check_control(void);  // the harness's own duplicate of the world: outside of every case
double check_now_s(void);
// A path for a file of this process that no earlier call has given, in TMPDIR or /tmp.
void check_temp_path(char* path, size_t path_bytes);
// Keeps this rank out of MPI until `ms` milliseconds of CPU-friendly waiting have passed: the others shall find it
// away.
void check_stay_away_ms(int ms);

// The sizes around every threshold that an implementation is likely to have.
extern const size_t check_sizes[];
extern const int check_sizes_count;
#endif
