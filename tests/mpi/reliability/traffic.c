// Traffic whose content is checked: messages of all sizes, wildcard receives, probes, collectives. Started by run.py,
// which takes something away from the job or kills a rank of it.
//
//     traffic rounds N [return]     N rounds, 0: without end, after the line "running"; return: errors are told, not
//     fatal traffic pairs FILE            pairs of ranks exchange messages and count them in FILE until its last word
//     is set
#include <mpi.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kMost = 3 << 20, kAlltoallMost = 1 << 16 };
static const int kSizes[] = {0, 1, 8, 40, 41, 192, 193, 1000, 4096, 4097, 16384, 16385, 65536, 100000, 1 << 20, kMost};
static int rank, size;
static unsigned char *out, *in, *expected;
static MPI_Comm other;

// Every call goes through here: with returned errors, a rank that is told of one says so and ends.
static void ok(int code) {
  if (code == MPI_SUCCESS) return;
  printf("told rank %d\n", rank);
  fflush(stdout);
  _exit(3);
}

static void fill(unsigned char* data, int bytes, int source, long round) {
  uint64_t value = (uint64_t)source * 0x9e3779b97f4a7c15u + (uint64_t)round * 0xbf58476d1ce4e5b9u;
  for (int i = 0; i < bytes; i += 8) {
    value = value * 6364136223846793005u + 1442695040888963407u;
    memcpy(data + i, &value, bytes - i < 8 ? (size_t)(bytes - i) : 8);
  }
}

static void check(const unsigned char* data, int bytes, int source, long round) {
  fill(expected, bytes, source, round);
  if (memcmp(data, expected, (size_t)bytes) == 0) return;
  printf("WRONG data on rank %d from %d in round %ld\n", rank, source, round);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 9);
}

static void ring(MPI_Comm comm, int bytes, long round, int synchronous) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  MPI_Request requests[2];
  fill(out, bytes, rank, round);
  ok(MPI_Irecv(in, kMost, MPI_BYTE, left, (int)(round % 1000), comm, &requests[0]));
  ok((synchronous ? MPI_Issend : MPI_Isend)(out, bytes, MPI_BYTE, right, (int)(round % 1000), comm, &requests[1]));
  ok(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  check(in, bytes, left, round);
}

// All send to one, which takes them as they come, every second time after a probe.
static void to_one(int bytes, long round) {
  int root = (int)(round % size), tag = (int)(round % 1000);
  if (rank != root) {
    fill(out, bytes, rank, round);
    ok(MPI_Send(out, bytes, MPI_BYTE, root, tag, MPI_COMM_WORLD));
    return;
  }
  for (int i = 1; i < size; ++i) {
    MPI_Status status;
    int count = -1;
    if (i % 2) ok(MPI_Probe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status));
    ok(MPI_Recv(in, kMost, MPI_BYTE, i % 2 ? status.MPI_SOURCE : MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (count != bytes) MPI_Abort(MPI_COMM_WORLD, 9);
    check(in, bytes, status.MPI_SOURCE, round);
  }
}

static void reduce(int bytes, long round) {
  int count = bytes / (int)sizeof(int64_t) + 1;
  if (count > kMost / 8) count = kMost / 8;
  int64_t *a = (int64_t*)out, *b = (int64_t*)in;
  for (int i = 0; i < count; ++i) a[i] = rank + i + round;
  ok(MPI_Allreduce(a, b, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
  for (int i = 0; i < count; ++i) {
    if (b[i] != size * (i + round) + (int64_t)size * (size - 1) / 2) MPI_Abort(MPI_COMM_WORLD, 9);
  }
}

static void broadcast(int bytes, long round) {
  int root = (int)(round % size);
  if (rank == root) fill(in, bytes, root, round);
  ok(MPI_Bcast(in, bytes, MPI_BYTE, root, other));
  check(in, bytes, root, round);
}

static void all_to_all(int bytes, long round) {
  if (bytes > kAlltoallMost) bytes = kAlltoallMost;
  for (int i = 0; i < size; ++i) fill(out + i * bytes, bytes, rank * size + i, round);
  ok(MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD));
  for (int i = 0; i < size; ++i) check(in + i * bytes, bytes, i * size + rank, round);
}

static void rounds(long wanted) {
  uint64_t draw = 1;
  printf("pid %d %ld\n", rank, (long)getpid());
  fflush(stdout);
  ok(MPI_Barrier(MPI_COMM_WORLD));
  for (long round = 0; wanted == 0 || round < wanted; ++round) {
    draw = draw * 6364136223846793005u + 1442695040888963407u;
    int bytes = kSizes[(draw >> 33) % (sizeof kSizes / sizeof *kSizes)];
    switch (round % 7) {
      case 0:
        ring(MPI_COMM_WORLD, bytes, round, 0);
        break;
      case 1:
        to_one(bytes, round);
        break;
      case 2:
        reduce(bytes, round);
        break;
      case 3:
        ring(other, bytes, round, 1);
        break;
      case 4:
        broadcast(bytes, round);
        break;
      case 5:
        all_to_all(bytes, round);
        break;
      default:
        ok(MPI_Barrier(other));
    }
    if (round == 14 && rank == 0 && wanted == 0) {
      printf("running\n");
      fflush(stdout);
    }
  }
}

// The even rank of a pair decides when it is over, and says so in each message.
static void pairs(const char* path) {
  int file = open(path, O_RDWR), peer = rank ^ 1;
  volatile uint64_t* counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file < 0 || counts == MAP_FAILED || size % 2) MPI_Abort(MPI_COMM_WORLD, 9);
  printf("pid %d %ld\n", rank, (long)getpid());
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  for (long round = 0, over = 0; !over; ++round) {
    int bytes = kSizes[round % 15];
    MPI_Status status;
    fill(out, bytes, rank, round);
    if (rank % 2 == 0) over = counts[511] != 0;
    MPI_Sendrecv(out, bytes, MPI_BYTE, peer, 1, in, kMost, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &status);
    MPI_Bcast(&over, 1, MPI_LONG, 0, other);
    check(in, bytes, peer, round);
    counts[rank] = (uint64_t)round + 1;
    if (round == 14 && rank == 0) {
      printf("running\n");
      fflush(stdout);
    }
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  out = malloc(kMost + 8), in = malloc(kMost + 8), expected = malloc(kMost + 8);
  if (argc < 3 || !out || !in || !expected || size * kAlltoallMost > kMost) MPI_Abort(MPI_COMM_WORLD, 9);
  int by_pairs = strcmp(argv[1], "pairs") == 0;
  if (by_pairs) {
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &other);
  } else {
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
  }
  if (argc > 3) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN);
  }
  if (by_pairs) {
    pairs(argv[2]);
  } else {
    rounds(atol(argv[2]));
  }
  printf("ok rank %d\n", rank);
  fflush(stdout);
  MPI_Comm_free(&other);
  MPI_Finalize();
  return 0;
}
