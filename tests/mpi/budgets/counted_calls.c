// What dev/budgets.py runs under callgrind, as two ranks. Rank 0 makes calls one by one, each between a reset of
// callgrind's counts and a dump of them that is named `<call> <bytes> <number of calls>`. Rank 1 is the other end, and
// all that a counted call needs has happened when it begins, so that none waits.
//
// The ranks agree on that through a page of the file that the first argument names: messages would be work that is
// done in some counted call or other.
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

enum { kRepetitions = 21, kWindow = 16, kMostBytes = 4096, kPollUs = 50 };
/// Of the processor, for rank 1 to get from its word into the call: callgrind takes 50 times as long as the processor.
static const long long kOnItsWayNs = 3000000;

typedef struct {
  unsigned met[2];
  int pid;
  long long called_at_ns;  ///< of rank 1's processor time, 0: not yet
} Page;

static Page* page;
static int rank, bytes;
static int elements, from, tag;  ///< of what is sent, and how it is asked for
static MPI_Datatype type;
static const char* kind;  ///< of message: behind the name of a call
static unsigned meetings;
static char* in[kWindow];
static char* out[kWindow];
static MPI_Request requests[kWindow];
static const MPI_Comm comm = MPI_COMM_WORLD;

#define COUNTED(call, calls, ...)                                             \
  do {                                                                        \
    char what[64];                                                            \
    snprintf(what, sizeof what, "%s%s %d %d", call, kind, bytes, (int)calls); \
    CALLGRIND_ZERO_STATS;                                                     \
    __VA_ARGS__;                                                              \
    CALLGRIND_DUMP_STATS_AT(what);                                            \
  } while (0)

static void fail(const char* what) {
  perror(what);
  exit(1);
}

/// Both ranks have done what they did before.
static void meet(void) {
  __atomic_store_n(&page->met[rank], ++meetings, __ATOMIC_RELEASE);
  while (__atomic_load_n(&page->met[1 - rank], __ATOMIC_ACQUIRE) < meetings) usleep(kPollUs);
}

static long long processor_ns(clockid_t clock) {
  struct timespec t;
  if (clock_gettime(clock, &t) != 0) fail("clock_gettime");
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/// Rank 1: what follows is a call that waits for rank 0.
static void say_called(void) {
  __atomic_store_n(&page->called_at_ns, processor_ns(CLOCK_PROCESS_CPUTIME_ID), __ATOMIC_RELEASE);
}

/// Rank 0: until rank 1 waits in its call. Its processor time counts, so that a busy machine does not matter.
static void await_called(void) {
  static clockid_t clock;
  if (clock == 0 && clock_getcpuclockid(__atomic_load_n(&page->pid, __ATOMIC_ACQUIRE), &clock) != 0)
    fail("clock_getcpuclockid");
  while (__atomic_load_n(&page->called_at_ns, __ATOMIC_ACQUIRE) == 0) usleep(kPollUs);
  while (processor_ns(clock) < __atomic_load_n(&page->called_at_ns, __ATOMIC_ACQUIRE) + kOnItsWayNs) usleep(kPollUs);
  __atomic_store_n(&page->called_at_ns, 0, __ATOMIC_RELEASE);
}

// Calls of which some take a little more than others, since messages share lines, are counted together.
static void send_all(void) {
  for (int i = 0; i < kWindow; ++i) MPI_Send(out[i], elements, type, 1 - rank, 0, comm);
}

static void recv_all(void) {
  for (int i = 0; i < kWindow; ++i) MPI_Recv(in[i], elements, type, from, tag, comm, MPI_STATUS_IGNORE);
}

static void send(void) {
  if (rank == 0) COUNTED("MPI_Send", kWindow, send_all());
  meet();
  if (rank == 1) recv_all();
}

static void recv(void) {
  if (rank == 1) send_all();
  meet();
  if (rank == 0) COUNTED("MPI_Recv", kWindow, recv_all());
}

static void isend_all(void) {
  for (int i = 0; i < kWindow; ++i) MPI_Isend(out[i], elements, type, 1, 0, comm, &requests[i]);
}

static void isend(void) {
  if (rank == 0) {
    COUNTED("MPI_Isend", kWindow, isend_all());
    MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
  }
  meet();
  if (rank == 1) recv_all();
}

static void irecv_all(void) {
  for (int i = 0; i < kWindow; ++i) MPI_Irecv(in[i], elements, type, from, tag, comm, &requests[i]);
}

// The receives are posted before their messages come, which the wait then matches and copies.
static void irecv_waitall(void) {
  if (rank == 0) COUNTED("MPI_Irecv", kWindow, irecv_all());
  meet();
  if (rank == 1) send_all();
  meet();
  if (rank == 0) COUNTED("MPI_Waitall", kWindow, MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE));
}

static void allreduce(void) {
  const int n = bytes / (int)sizeof(double);
  if (rank == 0) {
    await_called();
    COUNTED("MPI_Allreduce", 1, MPI_Allreduce(out[0], in[0], n, MPI_DOUBLE, MPI_SUM, comm));
  } else {
    say_called();
    MPI_Allreduce(out[0], in[0], n, MPI_DOUBLE, MPI_SUM, comm);
  }
}

static void iallreduce_wait(void) {
  const int n = bytes / (int)sizeof(double);
  MPI_Iallreduce(out[0], in[0], n, MPI_DOUBLE, MPI_SUM, comm, requests);
  MPI_Wait(requests, MPI_STATUS_IGNORE);
}

static void iallreduce(void) {
  if (rank == 0) {
    await_called();
    COUNTED("MPI_Iallreduce+MPI_Wait", 1, iallreduce_wait());
  } else {
    say_called();
    iallreduce_wait();
  }
}

static void open_page(const char* path) {
  const int file = open(path, O_RDWR);
  if (file < 0) fail(path);
  page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) fail("mmap");
  if (rank == 1) __atomic_store_n(&page->pid, getpid(), __ATOMIC_RELEASE);
}

static void count(const char* of_kind, int in_bytes, void (*const* cases)(void)) {
  kind = of_kind;
  bytes = in_bytes;
  for (; *cases != NULL; ++cases) {
    for (int i = 0; i < kRepetitions; ++i) {
      meet();
      (*cases)();
    }
  }
}

int main(int argc, char** argv) {
  static void (*const all[])(void) = {send, recv, isend, irecv_waitall, allreduce, iallreduce, NULL};
  static void (*const messages[])(void) = {send, recv, isend, irecv_waitall, NULL};
  static void (*const receives[])(void) = {recv, irecv_waitall, NULL};
  int ranks, threads;
  MPI_Init_thread(&argc, &argv, argc == 3 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &threads);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  if (argc < 2 || ranks != 2) {
    fprintf(stderr, "usage: counted_calls <file of zeros> [threads], as two ranks\n");
    return 2;
  }
  open_page(argv[1]);
  // Whole lines: how a copy begins and ends is a part of its instructions.
  for (int i = 0; i < kWindow; ++i) {
    in[i] = aligned_alloc(64, kMostBytes);
    out[i] = aligned_alloc(64, kMostBytes);
    if (in[i] == NULL || out[i] == NULL) fail("aligned_alloc");
    for (int k = 0; k < kMostBytes / (int)sizeof(double); ++k) ((double*)out[i])[k] = k;
  }
  from = 1 - rank;
  type = MPI_BYTE;
  CALLGRIND_START_INSTRUMENTATION;
  static const int sizes[] = {8, kMostBytes};
  for (int s = 0; s < (argc == 3 ? 1 : 2); ++s) count("", elements = sizes[s], all);
  if (argc == 2) {
    elements = sizes[0];
    from = MPI_ANY_SOURCE;
    tag = MPI_ANY_TAG;
    count("(any)", sizes[0], receives);
    from = 1 - rank;
    tag = 0;
    elements = 1;
    MPI_Type_vector(2, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    count("(vector)", sizes[0], messages);
  }
  meet();
  CALLGRIND_STOP_INSTRUMENTATION;
  return MPI_Finalize();
}
