// What tests/mpi/statistics.py runs: each rank does known work and writes to $SAID.<rank> what it was, as
// docs/user/statistics.md counts it: lines `<function> <members> <calls> <bytes>`, and one `sent <messages> <bytes>`.
// Then the job ends as the first argument says.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kMost = 16 };
static FILE* said;
static int persistent = 1;
static int rank, size;
static MPI_Comm comm;
static int in[1 << 18], out[1 << 18];
static int counts[kMost], places[kMost], byte_places[kMost], ones[kMost];
static MPI_Datatype types[kMost];

static void did(const char* function, long calls, long bytes) {
  fprintf(said, "MPI_%s %d %ld %ld\n", function, size, calls, calls * bytes);
}

static void finish(MPI_Request* request) { MPI_Wait(request, MPI_STATUS_IGNORE); }

static void start(MPI_Request* request) {
  for (int i = 0; i < 2; ++i) {
    MPI_Start(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(request);
}

// A blocking call `times` times, its nonblocking form `times` + 1 times, a persistent one once (and started twice).
#define ALL_FORMS(name, nonblocking, times, bytes, ...)              \
  do {                                                               \
    MPI_Request request;                                             \
    for (int i = 0; i < (times); ++i) MPI_##name(__VA_ARGS__, comm); \
    did(#name, times, bytes);                                        \
    for (int i = 0; i <= (times); ++i) {                             \
      MPI_##nonblocking(__VA_ARGS__, comm, &request);                \
      finish(&request);                                              \
    }                                                                \
    did(#nonblocking, (times) + 1, bytes);                           \
    if (!persistent) break;                                          \
    MPI_##name##_init(__VA_ARGS__, comm, MPI_INFO_NULL, &request);   \
    start(&request);                                                 \
    did(#name "_init", 1, bytes);                                    \
  } while (0)

static void all_collectives(MPI_Comm on) {
  MPI_Request request;
  long sum = 0;
  comm = on;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  for (int i = 0; i < size; ++i) {
    counts[i] = i + 1;
    places[i] = (int)sum;
    byte_places[i] = (int)sum * 4;
    sum += counts[i];
    ones[i] = 1;
    types[i] = MPI_INT;
  }
  const long own = counts[rank], all = sum;
  MPI_Barrier(comm);
  did("Barrier", 1, 0);
  MPI_Ibarrier(comm, &request);
  finish(&request);
  did("Ibarrier", 1, 0);
  if (persistent) {
    MPI_Barrier_init(comm, MPI_INFO_NULL, &request);
    start(&request);
    did("Barrier_init", 1, 0);
  }
  ALL_FORMS(Bcast, Ibcast, 2, 40, in, 10, MPI_INT, 0);
  ALL_FORMS(Gather, Igather, 3, 8, in, 2, MPI_INT, out, 2, MPI_INT, 0);
  ALL_FORMS(Gatherv, Igatherv, 1, 4 * own, in, counts[rank], MPI_INT, out, counts, places, MPI_INT, 0);
  ALL_FORMS(Scatter, Iscatter, 4, 12, in, 3, MPI_INT, out, 3, MPI_INT, 0);
  ALL_FORMS(Scatterv, Iscatterv, 2, 4 * own, in, counts, places, MPI_INT, out, counts[rank], MPI_INT, 0);
  ALL_FORMS(Allgather, Iallgather, 5, 16, in, 2, MPI_DOUBLE, out, 2, MPI_DOUBLE);
  ALL_FORMS(Allgatherv, Iallgatherv, 2, 4 * own, MPI_IN_PLACE, 0, MPI_INT, out, counts, places, MPI_INT);
  ALL_FORMS(Alltoall, Ialltoall, 3, 4 * size, in, 1, MPI_INT, out, 1, MPI_INT);
  ALL_FORMS(Alltoallv, Ialltoallv, 1, 4 * size, in, ones, places, MPI_INT, out, ones, places, MPI_INT);
  ALL_FORMS(Alltoallw, Ialltoallw, 2, 4 * size, in, ones, byte_places, types, out, ones, byte_places, types);
  ALL_FORMS(Reduce, Ireduce, 6, 28, in, out, 7, MPI_INT, MPI_SUM, 0);
  ALL_FORMS(Allreduce, Iallreduce, 7, 4, in, out, 1, MPI_INT, MPI_SUM);
  ALL_FORMS(Reduce_scatter_block, Ireduce_scatter_block, 2, 4 * size, in, out, 1, MPI_INT, MPI_SUM);
  ALL_FORMS(Reduce_scatter, Ireduce_scatter, 3, 4 * all, in, out, counts, MPI_INT, MPI_SUM);
  ALL_FORMS(Scan, Iscan, 1, 8, in, out, 2, MPI_INT, MPI_MAX);
  ALL_FORMS(Exscan, Iexscan, 2, 8, in, out, 2, MPI_INT, MPI_MAX);
  // One that is large, and one of nothing.
  MPI_Bcast(in, 1 << 18, MPI_INT, 0, comm);
  did("Bcast", 1, 1 << 20);
}

// To the next rank: from 0 bytes to 1 MiB. `later`: messages that this rank will send after that, of no bytes.
static void messages(int later) {
  long n = later, bytes = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int count = 0; count <= 1 << 20; count = count == 0 ? 1 : count * 4) {
    for (int i = 0; i < 3; ++i) {
      MPI_Sendrecv(in, count, MPI_BYTE, (rank + 1) % size, 0, out, count, MPI_BYTE, (rank + size - 1) % size, 0,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      ++n;
      bytes += count;
    }
  }
  fprintf(said, "sent %ld %ld\n", n, bytes);
}

// On a communicator that stays with the host: 3 to the next rank, and one to nobody.
static void messages_of_host(void) {
  MPI_Info info;
  MPI_Comm off;
  MPI_Request request;
  MPI_Info_create(&info);
  MPI_Info_set(info, "zerohop", "off");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &off);
  MPI_Info_free(&info);
  const int next = (rank + 1) % size, last = (rank + size - 1) % size;
  MPI_Sendrecv(in, 9, MPI_INT, next, 0, out, 9, MPI_INT, last, 0, off, MPI_STATUS_IGNORE);
  for (int i = 0; i < 2; ++i) {
    MPI_Isend(in, 9, MPI_INT, next, 1, off, &request);
    MPI_Recv(out, 9, MPI_INT, last, 1, off, MPI_STATUS_IGNORE);
    finish(&request);
  }
  MPI_Send(in, 9, MPI_INT, MPI_PROC_NULL, 1, off);
  MPI_Comm_free(&off);
}

// Waits until what was done before is in the file, which is written again and again.
static void await_new_file(void) {
  const char* path = getenv("ZEROHOP_STATS");
  struct stat first, now;
  memset(&first, 0, sizeof first);
  stat(path, &first);
  for (int seen = 0; seen < 2;) {
    usleep(10000);
    if (stat(path, &now) != 0 || now.st_ino == first.st_ino) continue;
    first = now;
    ++seen;
  }
}

int main(int argc, char** argv) {
  const char* end = argc > 1 ? argv[1] : "finalize";
  MPI_Init(&argc, &argv);
  if (strcmp(end, "nothing") == 0) return MPI_Finalize();
  persistent = getenv("NO_PERSISTENT") == NULL;
  int world_rank;
  char path[4096];
  MPI_Comm half;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  snprintf(path, sizeof path, "%s.%d", getenv("SAID"), world_rank);
  said = fopen(path, "w");
  if (said == NULL) return 1;
  all_collectives(MPI_COMM_WORLD);
  MPI_Comm_split(MPI_COMM_WORLD, world_rank / 2, 0, &half);
  if (world_rank / 2 == 0) all_collectives(half);
  const int is_end = strcmp(end, "finalize") != 0;
  messages(is_end && world_rank != 1);
  messages_of_host();
  MPI_Comm_free(&half);
  did("Barrier", 1, 0);
  fclose(said);
  MPI_Barrier(MPI_COMM_WORLD);
  if (!is_end) return MPI_Finalize();
  if (rank != 1) {
    MPI_Send(NULL, 0, MPI_INT, 1, 98, MPI_COMM_WORLD);
    MPI_Recv(in, 1, MPI_INT, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  // They have all left the barrier, and counted it.
  for (int i = 1; i < size; ++i) MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 98, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (strcmp(end, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 7);
  await_new_file();
  kill(getpid(), SIGKILL);
}
