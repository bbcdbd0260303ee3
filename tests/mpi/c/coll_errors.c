// Wrong arguments of collectives, on a communicator that returns errors: the class is the host's own, asked for on a
// communicator that stays with the host, and the communicator works on. All ranks make the same mistake, so that none
// waits for another. And the scenario in which a rank is killed amid collectives.
#include "coll.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static int in[64], out[1024];

// The class that `comm` gives for mistake `which`; false when there are no more. Where a root is wrong, it is this
// rank.
static bool mistake(int which, MPI_Comm comm, int rank, int size, int* code, const char** what) {
#define MISTAKE(n, text, call) \
  case n:                      \
    *what = text;              \
    *code = (call);            \
    return true
  MPI_Datatype bad_type = MPI_DATATYPE_NULL;
  // From 20 on: negative counts of reductions, which MPICH does not look at. From 30 on: buffers, each host's own.
  switch (which) {
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
#ifdef OPEN_MPI
    MISTAKE(30, "Bcast, in place", MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, comm));
    MISTAKE(31, "Allgather into in place", MPI_Allgather(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm));
    MISTAKE(32, "Scatter from in place", MPI_Scatter(MPI_IN_PLACE, 1, MPI_INT, out, 1, MPI_INT, rank, comm));
    MISTAKE(33, "Gather into in place", MPI_Gather(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, rank, comm));
    MISTAKE(34, "Reduce into in place", MPI_Reduce(in, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, rank, comm));
    MISTAKE(35, "Alltoall into in place", MPI_Alltoall(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm));
#else
    MISTAKE(30, "Bcast, no buffer", MPI_Bcast(NULL, 1, MPI_INT, 0, comm));
    MISTAKE(31, "Allgather into in place", MPI_Allgather(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm));
    MISTAKE(32, "Scatter, same buffer", MPI_Scatter(out, 1, MPI_INT, out + rank, 1, MPI_INT, rank, comm));
    MISTAKE(33, "Reduce, the same buffer", MPI_Reduce(out, out, 1, MPI_INT, MPI_SUM, rank, comm));
    MISTAKE(34, "Gather, the same buffer", MPI_Gather(out + rank, 1, MPI_INT, out, 1, MPI_INT, rank, comm));
    MISTAKE(35, "Allreduce, the same buffer", MPI_Allreduce(out, out, 1, MPI_INT, MPI_SUM, comm));
    MISTAKE(36, "Alltoall, the same buffer", MPI_Alltoall(out, 1, MPI_INT, out, 1, MPI_INT, comm));
#endif
  }
  return false;
}

static void mistakes(MPI_Comm comm, int rank, int size, int from, int to) {
  for (int i = from; i < to; ++i) {
    int code = 0, host_code = 0;
    const char* what = "";
    check_at("mistake", i);
    if (!mistake(i, coll_host(), rank, size, &host_code, &what)) break;
    mistake(i, comm, rank, size, &code, &what);
    EXPECT(check_class(code) == check_class(host_code), "%s: %s, the host gives %s", what,
           check_class_name(check_class(code)), check_class_name(check_class(host_code)));
    coll_expect_works(comm, i);
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
      mistake(kMistakes[i], comm, rank, size, &code, &what);
      EXPECT(code != MPI_SUCCESS, "%s: success", what);
      EXPECT_CLASS(MPI_Ibcast(&sum, 1, MPI_INT, size, comm, &request), MPI_ERR_ROOT);
#ifdef OPEN_MPI
      EXPECT_CLASS(MPI_Ibcast(MPI_IN_PLACE, 1, MPI_INT, 0, comm, &request), MPI_ERR_ARG);
#else
      EXPECT_CLASS(MPI_Iallreduce(&sum, &sum, 1, MPI_INT, MPI_SUM, comm, &request), MPI_ERR_BUFFER);
#endif
    }
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    EXPECT_EQ(sum, size * (size - 1) / 2);
    sum = rank == size - 1 ? i : -1;
    OK(MPI_Ibcast(&sum, 1, MPI_INT, size - 1, comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(sum, i);
    coll_expect_works(comm, i);
  }
}

CASE(coll_errors, of_one_rank) { mistakes_of_one(comm, rank, size); }
CASE(coll_errors, moving) { mistakes(comm, rank, size, 0, 8); }
CASE(coll_errors, reducing) { mistakes(comm, rank, size, 8, 20); }
CASE(coll_errors, reducing_negative_counts) {
  OK(MPI_Barrier(comm));  // hosts may end the job here: rank 0 has told of the case before
  mistakes(comm, rank, size, 20, 30);
}
#ifndef OPEN_MPI
// What the root was refused for its buffers it makes again, while the others are in the first.
static int rooted(int which, MPI_Comm comm, int rank, bool alias) {
  int* const to = alias && rank == 0 ? out : in;
  if (which == 0) return MPI_Reduce(out, to, 1, MPI_INT, MPI_SUM, 0, comm);
  if (which == 1) return MPI_Gather(out, 1, MPI_INT, to, 1, MPI_INT, 0, comm);
  return MPI_Scatter(out, 1, MPI_INT, to, 1, MPI_INT, 0, comm);
}

CASE(coll_errors, made_again) {
  NEED_RANKS(2);
  for (int which = 0; which < 3; ++which) {
    check_at("call", which);
    for (int i = 0; i < size; ++i) out[i] = which == 2 ? i : rank + 1;
    if (rank == 0) EXPECT_CLASS(rooted(which, comm, rank, true), MPI_ERR_BUFFER);
    OK(rooted(which, comm, rank, false));
    if (which == 2) EXPECT_EQ(in[0], rank);
    if (which == 0 && rank == 0) EXPECT_EQ(in[0], size * (size + 1) / 2);
    if (which == 1 && rank == 0) EXPECT_EQ(in[size - 1], size);
    coll_expect_works(comm, which);
  }
}
#endif

// The root's first nonblocking call on a communicator does not wait for a rank that was refused its own.
CASE(coll_errors, first_nonblocking_refused) {
  int data[4] = {0};
  MPI_Comm made;
  MPI_Request request = MPI_REQUEST_NULL;
  if (size != 2) SKIP("needs two ranks");
  OK(MPI_Comm_dup(comm, &made));
  if (rank == 0) {
    OK(MPI_Ibcast(data, 4, MPI_INT, 0, made, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  } else {
    EXPECT_CLASS(MPI_Ibcast(data, -1, MPI_INT, 0, made, &request), MPI_ERR_COUNT);
  }
  OK(MPI_Barrier(comm));
  OK(MPI_Comm_free(&made));
}

CASE(coll_errors, buffers) { mistakes(comm, rank, size, 30, 100); }

CASE(coll_errors, null_communicator) {
  EXPECT_CLASS(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Bcast(out, 1, MPI_INT, 0, MPI_COMM_NULL), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL), MPI_ERR_COMM);
}

// Where zerohop serves this process's collectives, on one node or between nodes of several ranks.
static bool served(void) { return coll_served() && coll_node_ranks() != 1; }

// No more than a little memory from now on, or again as much as there was.
static void limit_memory(bool limited) {
  static rlim_t before;
  struct rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  if (limited) {
    unsigned long pages = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    EXPECT(file != NULL && fscanf(file, "%lu", &pages) == 1, "no /proc/self/statm");
    if (file != NULL) fclose(file);
    before = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (8 << 20);
  } else {
    limit.rlim_cur = before;
  }
  EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

// The root has no memory for a private copy of what it gives, if it needs one: then all are told, and none waits. (A
// broadcast between nodes is the host's, whose leaders cannot be told.)
CASE(coll_errors, without_memory) {
  enum { kBlocks = 5 << 20 };  // more than malloc ever takes from what it has
  NEED_RANKS(2);
  if (!served() || size > 8) SKIP("hosts alone may wait for ever");
  if (!coll_named("scatter", NULL) && !coll_one_node()) SKIP("the host's, unless an algorithm is named");
  double* data = calloc(2 * (size_t)kBlocks, sizeof *data);
  MPI_Datatype gaps;
  OK(MPI_Type_vector(kBlocks / size, 1, 2, MPI_DOUBLE, &gaps));
  OK(MPI_Type_commit(&gaps));
  for (int root = 0; root < size; root += size - 1) {
    int classes[2] = {0, 0};
    check_at("root", root);
    if (rank == root) limit_memory(true);
    const int class = check_class(MPI_Scatter(data, 1, gaps, rank == root ? MPI_IN_PLACE : data, 1, gaps, root, comm));
    if (rank == root) limit_memory(false);
    classes[rank == root ? 0 : 1] = class;
    const bool told = rank == root ? class == MPI_ERR_NO_MEM : class == MPI_ERR_OTHER;
    EXPECT(told || class == MPI_SUCCESS, "%s", check_class_name(class));
    MPI_Allreduce(MPI_IN_PLACE, classes, 2, MPI_INT, MPI_MAX, coll_host());
    EXPECT((classes[0] == MPI_SUCCESS) == (class == MPI_SUCCESS), "the root has %s, this rank %s",
           check_class_name(classes[0]), check_class_name(class));
    coll_expect_works(comm, root);
  }
  OK(MPI_Type_free(&gaps));
  free(data);
}

// Says who this rank is, and rank 0 that all are there.
static void meet_to_be_killed(int rank) {
  signal(SIGALRM, SIG_DFL);
  printf("pid %d %ld\n", rank, (long)getpid());
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("running\n");
  fflush(stdout);
}

// Collectives without end, small ones and large ones: crash_program.py kills a rank amid them.
SCENARIO(endless_collectives) {
  enum { kCount = 300000 };
  double *a = calloc(kCount, sizeof *a), *b = calloc(kCount, sizeof *b);
  meet_to_be_killed(rank);
  for (int i = 0;; ++i) {
    MPI_Allreduce(a, b, i % 5 == 4 ? kCount : 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(a, i % 3 == 2 ? kCount : 10, MPI_DOUBLE, i % size, MPI_COMM_WORLD);
    if (i % 7 == 6) MPI_Barrier(MPI_COMM_WORLD);
  }
  return 0;
}

// The same of one collective alone; the last rank is the root.
enum { kEndlessCount = 60000 };
static double endless_in[kEndlessCount], *endless_out;
#define ENDLESS(name, call)                                                  \
  SCENARIO(endless_##name) {                                                 \
    const int root __attribute__((unused)) = size - 1;                       \
    endless_out = calloc((size_t)size * kEndlessCount, sizeof *endless_out); \
    meet_to_be_killed(rank);                                                 \
    for (int i = 0;; ++i) {                                                  \
      const int n __attribute__((unused)) = i % 4 == 3 ? kEndlessCount : 10; \
      call;                                                                  \
    }                                                                        \
    return 0;                                                                \
  }
ENDLESS(bcast, MPI_Bcast(endless_in, n, MPI_DOUBLE, root, MPI_COMM_WORLD))
ENDLESS(reduce, MPI_Reduce(endless_in, endless_out, n, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD))
ENDLESS(allreduce, MPI_Allreduce(endless_in, endless_out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD))
ENDLESS(allgather, MPI_Allgather(endless_in, n, MPI_DOUBLE, endless_out, n, MPI_DOUBLE, MPI_COMM_WORLD))
ENDLESS(barrier, MPI_Barrier(MPI_COMM_WORLD))
