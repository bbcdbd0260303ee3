// Very many of one thing, content checked; each rank that is content says "ok rank R". Started by run.py.
//
//     many unexpected N    N messages wait at rank 0 before it receives the first
//     many posted N        N receives wait at rank 0 before the first message is sent
//     many slow N          all send N messages to rank 0, which is slow, and talk to each other meanwhile
//     many comms N         N communicators live at once; then each is used; "metric" lines say what memory they took
//     many dupfree N       a communicator is made and freed N times, every hundredth is used
//     many pools N         N large sends on one communicator that nobody receives yet, while another one goes on
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kTags = 1009, kMessageBytes = 20000 };
static int rank, size;
static long wanted;

static void expect(int good, const char* what, long where) {
  if (good) return;
  printf("WRONG %s at %ld on rank %d\n", what, where, rank);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 9);
}

static void give(void* data, int n, int dest, long i, MPI_Comm comm) {
  MPI_Send(data, n, MPI_LONG, dest, (int)(i % kTags), comm);
}

static void take(int source, long i, MPI_Comm comm) {
  long value[8] = {-1};
  MPI_Recv(value, 8, MPI_LONG, source, (int)(i % kTags), comm, MPI_STATUS_IGNORE);
  expect(value[0] == i * size + (source == MPI_ANY_SOURCE ? value[1] : source), "message", i);
}

// What this rank's process takes, in bytes; memory that several processes map counts with its share.
static double memory_bytes(void) {
  char line[256];
  double kib = -1;
  FILE* file = fopen("/proc/self/smaps_rollup", "r");
  while (file && fgets(line, sizeof line, file)) {
    if (sscanf(line, "Pss: %lf kB", &kib) == 1) break;
  }
  if (file) fclose(file);
  return kib * 1024;
}

static double mean_memory_bytes(void) {
  double own, sum = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  own = memory_bytes();
  MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum / size;
}

static void metric(const char* name, double value) {
  if (rank == 0) printf("metric %s %.1f\n", name, value);
}

static void unexpected(void) {
  int sender = size - 1, token = 0;
  if (rank == sender) {
    for (long i = 0; i < wanted; ++i) {
      long value[2] = {i * size + rank, rank};
      give(value, 2, 0, i, MPI_COMM_WORLD);
    }
    MPI_Send(&token, 1, MPI_INT, 0, kTags, MPI_COMM_WORLD);
  } else if (rank == 0) {
    MPI_Recv(&token, 1, MPI_INT, sender, kTags, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    metric("bytes of rank 0 while they wait", memory_bytes());
    for (long i = 0; i < wanted; ++i) take(i % 3 ? sender : MPI_ANY_SOURCE, i, MPI_COMM_WORLD);
  }
}

static void posted(void) {
  int sender = size - 1, token = 0;
  if (rank == 0) {
    long* values = malloc((size_t)wanted * sizeof *values);
    MPI_Request* requests = malloc((size_t)wanted * sizeof *requests);
    expect(values && requests, "memory", 0);
    for (long i = 0; i < wanted; ++i) {
      MPI_Irecv(&values[i], 1, MPI_LONG, i % 3 ? sender : MPI_ANY_SOURCE, (int)(i % kTags), MPI_COMM_WORLD,
                &requests[i]);
    }
    metric("bytes of rank 0 while they wait", memory_bytes());
    MPI_Send(&token, 1, MPI_INT, sender, kTags, MPI_COMM_WORLD);
    for (long i = 0; i < wanted; i += 1000) {
      MPI_Waitall((int)(wanted - i < 1000 ? wanted - i : 1000), &requests[i], MPI_STATUSES_IGNORE);
    }
    for (long i = 0; i < wanted; ++i) expect(values[i] == i, "message", i);
    free(values), free(requests);
  } else if (rank == sender) {
    MPI_Recv(&token, 1, MPI_INT, 0, kTags, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (long i = 0; i < wanted; ++i) give(&i, 1, 0, i, MPI_COMM_WORLD);
  }
}

static void slow(void) {
  unsigned char data[kMessageBytes];
  if (rank == 0) {
    long* next = calloc((size_t)size, sizeof *next);
    for (long i = 0; i < wanted * (size - 1); ++i) {
      MPI_Status status;
      int bytes = 0;
      long number;
      if (i % 64 == 0) nanosleep(&(struct timespec){0, 1000000}, NULL);
      MPI_Recv(data, kMessageBytes, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      memcpy(&number, data, sizeof number);
      expect(number == next[status.MPI_SOURCE]++, "order", i);
      expect(bytes == (number % 5 ? 64 : kMessageBytes) && data[bytes - 1] == (unsigned char)status.MPI_SOURCE, "bytes",
             i);
    }
    free(next);
    return;
  }
  int left = rank == 1 ? size - 1 : rank - 1, right = rank == size - 1 ? 1 : rank + 1;
  for (long i = 0; i < wanted; ++i) {
    memset(data, rank, sizeof data);
    memcpy(data, &i, sizeof i);
    MPI_Send(data, i % 5 ? 64 : kMessageBytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    if (i % 50 || left == rank) continue;
    long mine = i, theirs = -1;
    MPI_Sendrecv(&mine, 1, MPI_LONG, right, 2, &theirs, 1, MPI_LONG, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(theirs == i, "neighbour", i);
  }
}

static void use(MPI_Comm comm, long i) {
  long mine = rank + i, sum = 0, value = i * size + rank;
  MPI_Request request;
  MPI_Isend(&value, 1, MPI_LONG, (rank + 1) % size, (int)(i % kTags), comm, &request);
  take((rank + size - 1) % size, i, comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, comm);
  expect(sum == size * i + (long)size * (size - 1) / 2, "sum", i);
}

// A host may have fewer: as many as it gives are used.
static void comms(void) {
  MPI_Comm* made = malloc((size_t)wanted * sizeof *made);
  long n = 0;
  expect(made != NULL, "memory", 0);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  use(MPI_COMM_WORLD, 0);
  double before = mean_memory_bytes();
  for (; n < wanted && MPI_Comm_dup(MPI_COMM_WORLD, &made[n]) == MPI_SUCCESS; ++n) {
  }
  MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
  expect(n > 0, "communicators", n);
  double after = mean_memory_bytes();
  for (long i = 0; i < n; ++i) use(made[i], i);
  double used = mean_memory_bytes();
  for (long i = n; i-- > 0;) use(made[i], i);
  metric("communicators", (double)n);
  metric("bytes per rank for each", (after - before) / (double)n);
  metric("bytes per rank for each, when used", (used - before) / (double)n);
  for (long i = 0; i < n; ++i) MPI_Comm_free(&made[i]);
  use(MPI_COMM_WORLD, 1);
  free(made);
}

static void dupfree(void) {
  double before = 0;
  long settled = wanted / 10;
  for (long i = 0; i < wanted; ++i) {
    MPI_Comm made;
    if (i == settled) before = mean_memory_bytes();
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    if (i % 100 == 0) use(made, i);
    MPI_Comm_free(&made);
  }
  metric("bytes per rank that stay of each", (mean_memory_bytes() - before) / (double)(wanted - settled));
}

static void pools(void) {
  MPI_Comm full, free_one;
  MPI_Comm_dup(MPI_COMM_WORLD, &full);
  MPI_Comm_dup(MPI_COMM_WORLD, &free_one);
  int to = (rank + 1) % size, from = (rank + size - 1) % size;
  unsigned char* data = malloc(kMessageBytes);
  MPI_Request* requests = malloc((size_t)wanted * sizeof *requests);
  expect(data && requests, "memory", 0);
  memset(data, rank + 1, kMessageBytes);
  for (long i = 0; i < wanted; ++i) {
    MPI_Isend(data, i % 2 ? kMessageBytes : 100, MPI_BYTE, to, (int)(i % kTags), full, &requests[i]);
  }
  for (long i = 0; i < 1000; ++i) use(free_one, i);
  unsigned char* in = malloc(kMessageBytes);
  for (long i = 0; i < wanted; ++i) {
    MPI_Recv(in, kMessageBytes, MPI_BYTE, from, (int)(i % kTags), full, MPI_STATUS_IGNORE);
    expect(in[i % 2 ? kMessageBytes - 1 : 99] == from + 1, "bytes", i);
    if (i % 1000 == 0) use(free_one, i);
  }
  for (long i = 0; i < wanted; ++i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  use(full, 1);
  MPI_Comm_free(&full);
  MPI_Comm_free(&free_one);
  free(data), free(in), free(requests);
}

static const struct {
  const char* name;
  void (*run)(void);
} kForms[] = {{"unexpected", unexpected}, {"posted", posted},   {"slow", slow},
              {"comms", comms},           {"dupfree", dupfree}, {"pools", pools}};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  size_t form = 0, forms = sizeof kForms / sizeof *kForms;
  while (argc > 2 && form < forms && strcmp(kForms[form].name, argv[1]) != 0) ++form;
  expect(argc > 2 && form < forms, "arguments", argc);
  wanted = atol(argv[2]);
  kForms[form].run();
  MPI_Barrier(MPI_COMM_WORLD);
  printf("ok rank %d\n", rank);
  MPI_Finalize();
  return 0;
}
