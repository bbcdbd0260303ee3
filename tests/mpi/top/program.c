// What tests/mpi/top.py looks at: four ranks, of which some wait for ever, until somebody kills them.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kTag = 7, kLong = 1 << 22 };

static char buffer[kLong];

static void stay(void) {
  for (;;) pause();
}

static void receive_from(int source) {
  MPI_Recv(buffer, 100, MPI_CHAR, source, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "end";
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Win window;
  if (strcmp(what, "host") == 0) MPI_Win_create(buffer, kLong, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(what, "end") == 0) {
    MPI_Finalize();
    return 0;
  }
  if (strcmp(what, "two") == 0 && rank < 2) receive_from(1 - rank);
  if (strcmp(what, "three") == 0 && rank < 3) receive_from((rank + 1) % 3);
  if (strcmp(what, "late") == 0 && rank < 3) receive_from(rank + 1);
  if (strcmp(what, "any") == 0) receive_from(MPI_ANY_SOURCE);
  if (strcmp(what, "busy") == 0 && rank == 0) MPI_Ssend(buffer, kLong, MPI_CHAR, 1, kTag, MPI_COMM_WORLD);
  if (strcmp(what, "busy") == 0 && rank == 1) {
    for (;;) __asm__ volatile("" ::: "memory");
  }
  if (strcmp(what, "host") == 0) {
    if (rank == 2) MPI_Win_fence(0, window);
    if (rank == 0) receive_from(2);
  }
  if (strcmp(what, "polls") == 0 && rank < 2) {
    MPI_Request request;
    int done = 0;
    MPI_Irecv(buffer, 100, MPI_CHAR, 1 - rank, kTag, MPI_COMM_WORLD, &request);
    while (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }
  if (strcmp(what, "barrier") == 0 && rank != 2) MPI_Barrier(MPI_COMM_WORLD);
  stay();
}
