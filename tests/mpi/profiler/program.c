// What tests/mpi/profilers.py runs: messages and collectives of every kind that its profiler counts, each a different
// number of times, with the data checked.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size, bad;

static void expect(int got, int wanted) { bad += got != wanted; }

int main(int argc, char** argv) {
  static int large[2][1 << 16];
  MPI_Request requests[2];
  MPI_Comm comm;
  int in = -1, out = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (int i = 0; i < 7; ++i) {
    if (rank % 2 == 0) MPI_Send(&rank, 1, MPI_INT, next, i, comm);
    MPI_Recv(&in, 1, MPI_INT, before, i, comm, MPI_STATUS_IGNORE);
    if (rank % 2 != 0) MPI_Send(&rank, 1, MPI_INT, next, i, comm);
    expect(in, before);
  }
  for (int i = 0; i < 5; ++i) {
    large[0][i] = rank + i;
    MPI_Isend(large[0], 1 << 16, MPI_INT, next, i, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(large[1], 1 << 16, MPI_INT, before, i, MPI_COMM_WORLD, &requests[1]);
    if (i < 3) {
      MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    } else {
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    expect(large[1][i], before + i);
  }
  for (int i = 0; i < 4; ++i) {
    MPI_Sendrecv(&rank, 1, MPI_INT, next, 0, &in, 1, MPI_INT, before, 0, comm, MPI_STATUS_IGNORE);
    expect(in, before);
  }
  for (int i = 0; i < 6; ++i) {
    in = rank == 0 ? i : -1;
    MPI_Bcast(&in, 1, MPI_INT, 0, comm);
    expect(in, i);
  }
  for (int i = 0; i < 9; ++i) {
    MPI_Allreduce(&rank, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(out, size * (size - 1) / 2);
  }
  for (int i = 0; i < 8; ++i) MPI_Barrier(comm);
  MPI_Comm_free(&comm);
  printf("rank %d %s\n", rank, bad == 0 ? "good" : "BAD");
  MPI_Finalize();
  return bad != 0;
}
