// Wrong arguments of collectives, on a communicator that returns errors: the class is the host's own, asked for on a
// communicator that stays with the host, and the communicator works on. All ranks make the same mistake, so that none
// waits for another. And the scenario in which a rank is killed amid collectives.
#include "coll.h"

#include <signal.h>
#include <unistd.h>

static int in[64], out[1024];

// The class that `comm` gives for mistake `which`; false when there are no more.
static bool mistake(int which, MPI_Comm comm, int size, int* code, const char** what) {
#define MISTAKE(n, text, call) \
  case n:                      \
    *what = text;              \
    *code = (call);            \
    return true
  MPI_Datatype bad_type = MPI_DATATYPE_NULL;
  switch (which) {  // from 20 on: negative counts of reductions, which MPICH does not look at
    MISTAKE(0, "Bcast, root too large", MPI_Bcast(out, 1, MPI_INT, size, comm));
    MISTAKE(1, "Bcast, root negative", MPI_Bcast(out, 1, MPI_INT, -5, comm));
    MISTAKE(2, "Bcast, count negative", MPI_Bcast(out, -1, MPI_INT, 0, comm));
    MISTAKE(3, "Bcast, no datatype", MPI_Bcast(out, 1, bad_type, 0, comm));
    MISTAKE(4, "Gather, root too large", MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, size, comm));
    MISTAKE(5, "Scatter, root negative", MPI_Scatter(out, 1, MPI_INT, in, 1, MPI_INT, -7, comm));
    MISTAKE(6, "Allgather, count negative", MPI_Allgather(in, -1, MPI_INT, out, 1, MPI_INT, comm));
    MISTAKE(7, "Alltoall, count negative", MPI_Alltoall(in, -2, MPI_INT, out, -2, MPI_INT, comm));
    MISTAKE(8, "Reduce, root too large", MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, size + 3, comm));
    MISTAKE(9, "Reduce, no operation", MPI_Reduce(in, out, 1, MPI_INT, MPI_OP_NULL, 0, comm));
    MISTAKE(10, "Allreduce, no operation", MPI_Allreduce(in, out, 1, MPI_INT, MPI_OP_NULL, comm));
    MISTAKE(20, "Allreduce, count negative", MPI_Allreduce(in, out, -1, MPI_INT, MPI_SUM, comm));
    MISTAKE(12, "Gather, root negative", MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, -9, comm));
    MISTAKE(13, "Allreduce, BAND of floats", MPI_Allreduce(in, out, 1, MPI_FLOAT, MPI_BAND, comm));
    MISTAKE(14, "Allreduce, MAXLOC of ints", MPI_Allreduce(in, out, 1, MPI_INT, MPI_MAXLOC, comm));
    MISTAKE(15, "Reduce, SUM of pairs", MPI_Reduce(in, out, 1, MPI_2INT, MPI_SUM, 0, comm));
    MISTAKE(16, "Scan, no operation", MPI_Scan(in, out, 1, MPI_INT, MPI_OP_NULL, comm));
    MISTAKE(21, "Exscan, count negative", MPI_Exscan(in, out, -3, MPI_INT, MPI_SUM, comm));
    MISTAKE(22, "Reduce_scatter_block, count negative", MPI_Reduce_scatter_block(in, out, -1, MPI_INT, MPI_SUM, comm));
    MISTAKE(19, "Reduce_scatter_block, no operation", MPI_Reduce_scatter_block(in, out, 1, MPI_INT, MPI_OP_NULL, comm));
    MISTAKE(11, "Scatter, root too large", MPI_Scatter(out, 1, MPI_INT, in, 1, MPI_INT, size, comm));
    MISTAKE(17, "Exscan, no operation", MPI_Exscan(in, out, 1, MPI_INT, MPI_OP_NULL, comm));
    MISTAKE(18, "Allreduce, SUM of bytes", MPI_Allreduce(in, out, 1, MPI_BYTE, MPI_SUM, comm));
  }
  return false;
}

static void mistakes(MPI_Comm comm, int rank, int size, int from, int to) {
  for (int i = from; i < to; ++i) {
    int code = 0, host_code = 0, sum = -1;
    const char* what = "";
    check_at("mistake", i);
    if (!mistake(i, coll_host(), size, &host_code, &what)) break;
    mistake(i, comm, size, &code, &what);
    EXPECT(check_class(code) == check_class(host_code), "%s: %s, the host gives %s", what,
           check_class_name(check_class(code)), check_class_name(check_class(host_code)));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    EXPECT_EQ(sum, size * (size - 1) / 2);
    sum = rank == size - 1 ? i : -1;
    OK(MPI_Bcast(&sum, 1, MPI_INT, size - 1, comm));
    EXPECT_EQ(sum, i);
  }
}
// What one rank alone has asked for wrongly, and was told so, has not happened.
static void mistakes_of_one(MPI_Comm comm, int rank, int size) {
  static const int kMistakes[] = {0, 1, 3, 4, 5, 8, 12};
  NEED_RANKS(2);
  OK(MPI_Barrier(comm));
  for (int i = 0; i < (int)(sizeof kMistakes / sizeof *kMistakes); ++i) {
    int code = 0, sum = -1;
    const char* what = "";
    MPI_Request request;
    check_at("mistake", kMistakes[i]);
    if (rank == i % size) {
      mistake(kMistakes[i], comm, size, &code, &what);
      EXPECT(code != MPI_SUCCESS, "%s: success", what);
      EXPECT_CLASS(MPI_Ibcast(&sum, 1, MPI_INT, size, comm, &request), MPI_ERR_ROOT);
    }
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    EXPECT_EQ(sum, size * (size - 1) / 2);
    sum = rank == size - 1 ? i : -1;
    OK(MPI_Ibcast(&sum, 1, MPI_INT, size - 1, comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(sum, i);
    sum = rank == size - 1 ? i : -1;
    OK(MPI_Bcast(&sum, 1, MPI_INT, size - 1, comm));
    EXPECT_EQ(sum, i);
  }
}

CASE(coll_errors, of_one_rank) { mistakes_of_one(comm, rank, size); }
CASE(coll_errors, moving) { mistakes(comm, rank, size, 0, 8); }
CASE(coll_errors, reducing) { mistakes(comm, rank, size, 8, 20); }
CASE(coll_errors, reducing_negative_counts) {
  OK(MPI_Barrier(comm));  // hosts may end the job here: rank 0 has told of the case before
  mistakes(comm, rank, size, 20, 100);
}

CASE(coll_errors, null_communicator) {
  EXPECT_CLASS(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Bcast(out, 1, MPI_INT, 0, MPI_COMM_NULL), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL), MPI_ERR_COMM);
}

// Collectives without end, small ones and large ones: crash_program.py kills a rank amid them.
SCENARIO(endless_collectives) {
  enum { kCount = 300000 };
  signal(SIGALRM, SIG_DFL);
  printf("pid %d %ld\n", rank, (long)getpid());
  fflush(stdout);
  double *a = calloc(kCount, sizeof *a), *b = calloc(kCount, sizeof *b);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("running\n");
  fflush(stdout);
  for (int i = 0;; ++i) {
    MPI_Allreduce(a, b, i % 5 == 4 ? kCount : 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(a, i % 3 == 2 ? kCount : 10, MPI_DOUBLE, i % size, MPI_COMM_WORLD);
    if (i % 7 == 6) MPI_Barrier(MPI_COMM_WORLD);
  }
  return 0;
}
