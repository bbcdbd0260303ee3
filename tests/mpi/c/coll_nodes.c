// Collectives of communicators that span nodes, of which the leaders have a communicator of the host: many that come
// and go, more than leaders may have at once, and members of one node that disagree about a length or whose arguments
// are refused. The last are erroneous programs: asked for where zerohop serves them, in pretended nodes whose ranks
// this knows.
#include "coll.h"

// Sums and a broadcast from each rank in turn.
static void use(MPI_Comm comm, int key) {
  int rank, size, sum = -1, item;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
  EXPECT_EQ(sum, size * (size - 1) / 2);
  item = rank == key % size ? key : -1;
  OK(MPI_Bcast(&item, 1, MPI_INT, key % size, comm));
  EXPECT_EQ(item, key);
}

CASE(coll_nodes, communicators_come_and_go) {
  const int kReps = check_reps(1500);
  for (int i = 0; i < kReps; ++i) {
    MPI_Comm made;
    // All of them, those of even and odd rank, or all in another order.
    const int color = i % 3 == 1 ? rank % 2 : 0, key = i % 3 == 2 ? size - rank : rank;
    OK(MPI_Comm_split(comm, color, key, &made));
    if (i % 4 != 3) use(made, i);  // some are never used
    if (i % 5 == 4) use(comm, i);
    OK(MPI_Comm_free(&made));
  }
}

CASE(coll_nodes, many_communicators_at_once) {
  enum { kMany = 300 };
  static MPI_Comm made[kMany];
  for (int i = 0; i < kMany; ++i) {
    OK(MPI_Comm_dup(comm, &made[i]));
    use(made[i], i);
  }
  for (int i = 0; i < kMany; ++i) use(made[(i * 7) % kMany], i);
  // Not in the order in which they were made.
  for (int i = 0; i < kMany; ++i) OK(MPI_Comm_free(&made[(i * 7) % kMany]));
  MPI_Comm last;
  OK(MPI_Comm_dup(comm, &last));
  use(last, 5);
  OK(MPI_Comm_free(&last));
}

// Ranks of a pretended node, where zerohop serves its collectives and the last node has more than one; else 0.
static int pretended(int size) {
  const char *preloads = getenv("LD_PRELOAD"), *on = getenv("ZEROHOP_COLLECTIVES"), *all = getenv("ZEROHOP_ENABLE");
  const char* ranks = getenv("ZEROHOP_NODE_RANKS");
  if (ranks == NULL || preloads == NULL || strstr(preloads, "zerohop") == NULL) return 0;
  if ((on != NULL && strcmp(on, "0") == 0) || (all != NULL && strcmp(all, "0") == 0)) return 0;
  const int n = atoi(ranks);
  return n < 2 || size <= n || size % n == 1 ? 0 : n;
}

static int disagree(MPI_Comm comm, enum CollWhat what, void* send, void* recv, int count, int root) {
  const struct CollCall c = {.what = what,
                             .form = kBlocking,
                             .comm = comm,
                             .root = root,
                             .send = send,
                             .recv = recv,
                             .sendcount = count,
                             .recvcount = count,
                             .sendtype = MPI_INT,
                             .recvtype = MPI_INT,
                             .op = MPI_SUM};
  return check_class(coll_call(&c));
}

// The last rank, which leads no node, has another length than all others.
CASE(coll_nodes, lengths_inside_a_node) {
  static const int kCounts[][2] = {{2, 3}, {2, 1}, {0, 4}, {4, 0}, {1, 30000}, {30000, 1}, {100000, 100001}};
  static const enum CollWhat kCalls[] = {kBcast, kAllreduce, kAllgather, kReduce};
  const int ranks = pretended(size);
  if (ranks == 0) SKIP("needs pretended nodes of two ranks and more");
  const bool on_last_node = rank / ranks == (size - 1) / ranks;
  for (int i = 0; i < (int)(sizeof kCounts / sizeof *kCounts); ++i) {
    for (int k = 0; k < (int)(sizeof kCalls / sizeof *kCalls); ++k) {
      const enum CollWhat what = kCalls[k];
      const int count = kCounts[i][rank == size - 1], most = 100001;
      int *send = calloc((size_t)most * (size_t)size, sizeof *send),
          *recv = calloc((size_t)most * (size_t)size, sizeof *recv);
      check_at(coll_what_name(what), i);
      const int class = disagree(comm, what, send, recv, count, 0);
      EXPECT(class == MPI_SUCCESS || class == MPI_ERR_TRUNCATE || class == MPI_ERR_OTHER, "%s, %d",
             coll_what_name(what), class);
      // Nobody has what the last rank's node was to combine; without elements nobody wants it.
      const bool lacks_result = what == kReduce && rank == 0 && kCounts[i][0] > 0;
      if (lacks_result) EXPECT(class != MPI_SUCCESS, "Reduce, %d: no error", i);
      if (!on_last_node && !lacks_result)
        EXPECT(class == MPI_SUCCESS, "%s, %d: the length is right on this node", coll_what_name(what), i);
      const bool reads_too_much = what == kBcast && kCounts[i][0] > kCounts[i][1];
      if (rank == size - 1 && (reads_too_much || what == kAllreduce)) {
        EXPECT(class != MPI_SUCCESS, "%s, %d ints among %d: no error", coll_what_name(what), count, kCounts[i][0]);
      }
      if (what == kAllreduce && on_last_node) EXPECT(class != MPI_SUCCESS, "Allreduce, %d: no error", i);
      use(comm, i);
      free(send);
      free(recv);
    }
  }
}

// Hosts of the MPICH family refuse a buffer that is sent and received.
CASE(coll_nodes, arguments_refused_inside_a_node) {
  const int ranks = pretended(size);
  if (ranks == 0) SKIP("needs pretended nodes of two ranks and more");
#if defined(MPICH_NAME) || defined(I_MPI_VERSION)
  static const int kCounts[] = {1, 1000, 50000};
  const bool on_last_node = rank / ranks == (size - 1) / ranks;
  for (int i = 0; i < 3; ++i) {
    int *send = calloc((size_t)kCounts[i], sizeof *send), *recv = calloc((size_t)kCounts[i], sizeof *recv);
    const int class = disagree(comm, kAllreduce, rank == size - 1 ? recv : send, recv, kCounts[i], 0);
    if (rank == size - 1) {
      EXPECT(class == MPI_ERR_BUFFER, "%d ints: %s", kCounts[i], check_class_name(class));
    } else {
      EXPECT(class == (on_last_node ? MPI_ERR_OTHER : MPI_SUCCESS), "%d ints: %s", kCounts[i], check_class_name(class));
    }
    use(comm, i);
    free(send);
    free(recv);
  }
#else
  SKIP("the host allows it");
#endif
}
