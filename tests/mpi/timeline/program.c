// What tests/mpi/timeline.py looks at: program usual | many N | kill | abort. Four ranks.
#include <locale.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { kLarge = 4 << 20, kPairs = 4, kMany = 1000 };

static char *out, *in;

/// Both ways along a ring, of every size that has a way of its own.
static void exchange(MPI_Comm comm, int rank, int size) {
  const int right = (rank + 1) % size;
  const int left = (rank + size - 1) % size;
  const int sizes[] = {0, 8, 150, 1000, 20000, 300000, kLarge};
  MPI_Request requests[kMany];
  for (int i = 0; i < 7; ++i) {
    MPI_Sendrecv(out, sizes[i], MPI_CHAR, right, i, in, sizes[i], MPI_CHAR, left, i, comm, MPI_STATUS_IGNORE);
    for (int k = 0; k < kPairs; ++k) {
      MPI_Irecv(in + (size_t)k * kLarge, kLarge, MPI_CHAR, MPI_ANY_SOURCE, 100 + k, comm, &requests[2 * k]);
      MPI_Isend(out, sizes[i], MPI_CHAR, left, 100 + k, comm, &requests[2 * k + 1]);
    }
    MPI_Waitall(2 * kPairs, requests, MPI_STATUSES_IGNORE);
    if (rank % 2 == 0) {
      MPI_Send(out, sizes[i], MPI_CHAR, right, 7, comm);
      MPI_Ssend(out, 3, MPI_CHAR, right, 7, comm);
    } else {
      MPI_Recv(in, kLarge, MPI_CHAR, left, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
      MPI_Recv(in, 3, MPI_CHAR, left, 7, comm, MPI_STATUS_IGNORE);
    }
  }
  // More than a first ring has room for, so that it grows.
  for (int k = 0; k < kMany; ++k) {
    if (rank == 0) MPI_Isend(out, 100, MPI_CHAR, 1, 3, comm, &requests[k]);
    if (rank == 1) MPI_Irecv(in, 100, MPI_CHAR, 0, 3, comm, &requests[k]);
  }
  if (rank < 2) MPI_Waitall(kMany, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char** argv) {
  setlocale(LC_ALL, "");
  int rank = 0, size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* what = argc > 1 ? argv[1] : "usual";
  out = calloc(1, kLarge);
  in = calloc(kPairs, kLarge);
  for (int i = 0; argc > 2 && i < atoi(argv[2]); ++i) {
    if (rank == 0) MPI_Send(&i, 1, MPI_INT, 1, i, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(in, 1, MPI_INT, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (argc < 3) {
    MPI_Comm named;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &named);
    MPI_Comm_set_name(named, "a \"name\"");
    exchange(named, rank, size);
    MPI_Bcast(out, 1000, MPI_CHAR, 0, named);
    MPI_Allreduce(out, in, 1000, MPI_INT, MPI_SUM, named);
    MPI_Iallreduce(out, in, 5000, MPI_INT, MPI_SUM, named, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 1 && strcmp(what, "kill") == 0) raise(SIGKILL);
    if (rank == 1 && strcmp(what, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Barrier(named);
    MPI_Comm_free(&named);
  }
  MPI_Finalize();
  return 0;
}
