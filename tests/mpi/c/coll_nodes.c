// Collectives of communicators that span nodes, of which the leaders have a communicator of the host: many that come
// and go, more than leaders may have at once, and members of one node that disagree about a length or whose arguments
// are refused. The last are erroneous programs: asked for where zerohop serves them, in pretended nodes whose ranks
// this knows.
#include "coll.h"

CASE(coll_nodes, communicators_come_and_go) {
  const int kReps = check_reps(1500);
  for (int i = 0; i < kReps; ++i) {
    MPI_Comm made;
    // All of them, those of even and odd rank, or all in another order.
    const int color = i % 3 == 1 ? rank % 2 : 0, key = i % 3 == 2 ? size - rank : rank;
    OK(MPI_Comm_split(comm, color, key, &made));
    if (i % 4 != 3) coll_expect_works(made, i);  // some are never used
    if (i % 5 == 4) coll_expect_works(comm, i);
    OK(MPI_Comm_free(&made));
  }
}

CASE(coll_nodes, many_communicators_at_once) {
  enum { kMany = 300 };
  static MPI_Comm made[kMany];
  for (int i = 0; i < kMany; ++i) {
    OK(MPI_Comm_dup(comm, &made[i]));
    coll_expect_works(made[i], i);
  }
  for (int i = 0; i < kMany; ++i) coll_expect_works(made[(i * 7) % kMany], i);
  // Not in the order in which they were made.
  for (int i = 0; i < kMany; ++i) OK(MPI_Comm_free(&made[(i * 7) % kMany]));
  MPI_Comm last;
  OK(MPI_Comm_dup(comm, &last));
  coll_expect_works(last, 5);
  OK(MPI_Comm_free(&last));
}

// Ranks of a pretended node, where zerohop serves its collectives and the last node has more than one; else 0.
static int pretended(int size) {
  const int n = coll_served() ? coll_node_ranks() : 0;
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

// Whether the host's collective among leaders is the part between nodes of a call: by default of some, of all others
// where that is named.
static bool by_leaders(enum CollWhat what) {
  static const char* const kNames[kWhats] = {
      [kGather] = "gather", [kScatter] = "scatter", [kAlltoall] = "alltoall", [kReduceScatterBlock] = "reduce_scatter",
      [kScan] = "scan",     [kExscan] = "exscan",   [kReduce] = "reduce"};
  return kNames[what] == NULL || coll_named(kNames[what], "host-leaders");
}

// The last rank, which leads no node, has another length than all others.
CASE(coll_nodes, lengths_inside_a_node) {
  static const int kCounts[][2] = {{2, 3}, {2, 1}, {0, 4}, {4, 0}, {1, 30000}, {30000, 1}, {100000, 100001}};
  static const enum CollWhat kCalls[] = {kBcast,    kAllreduce,          kAllgather, kGather, kScatter,
                                         kAlltoall, kReduceScatterBlock, kScan,      kExscan, kReduce};
  const int ranks = pretended(size);
  if (ranks == 0) SKIP("needs pretended nodes of two ranks and more");
  const bool on_last_node = rank / ranks == (size - 1) / ranks;
  for (int i = 0; i < (int)(sizeof kCounts / sizeof *kCounts); ++i) {
    for (int k = 0; k < (int)(sizeof kCalls / sizeof *kCalls); ++k) {
      const enum CollWhat what = kCalls[k];
      // By messages, which tell other nodes of an error.
      const bool by_messages = what == kReduce && !coll_named("reduce", NULL);
      if (!by_messages && !by_leaders(what)) continue;
      const int count = kCounts[i][rank == size - 1], most = 100001;
      int *send = calloc((size_t)most * (size_t)size, sizeof *send),
          *recv = calloc((size_t)most * (size_t)size, sizeof *recv);
      check_at(coll_what_name(what), i);
      // From a root and to one that leads no node, as well.
      const int root = i % 2 != 0 && what != kBcast && what != kReduce ? size - 1 : 0;
      const int class = disagree(comm, what, send, recv, count, root);
      EXPECT(class == MPI_SUCCESS || class == MPI_ERR_TRUNCATE || class == MPI_ERR_OTHER, "%s, %d",
             coll_what_name(what), class);
      // Nobody has what the last rank's node was to combine; without elements nobody wants it.
      const bool lacks_result = by_messages && rank == 0 && kCounts[i][0] > 0;
      if (lacks_result) EXPECT(class != MPI_SUCCESS, "Reduce, %d: no error", i);
      if (!on_last_node && !lacks_result)
        EXPECT(class == MPI_SUCCESS, "%s, %d: the length is right on this node", coll_what_name(what), i);
      const bool reads_too_much = what == kBcast && kCounts[i][0] > kCounts[i][1];
      if (rank == size - 1 && (reads_too_much || what == kAllreduce)) {
        EXPECT(class != MPI_SUCCESS, "%s, %d ints among %d: no error", coll_what_name(what), count, kCounts[i][0]);
      }
      const bool lacks_operands = what == kAllreduce || what == kReduceScatterBlock;
      if (lacks_operands && on_last_node) EXPECT(class != MPI_SUCCESS, "%s, %d: no error", coll_what_name(what), i);
      coll_expect_works(comm, i);
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
  static const enum CollWhat kCalls[] = {kAllreduce, kGather, kScatter, kAlltoall, kReduceScatterBlock, kScan, kExscan};
  const bool on_last_node = rank / ranks == (size - 1) / ranks, refused = rank == size - 1;
  for (int i = 0; i < 3 * (int)(sizeof kCalls / sizeof *kCalls); ++i) {
    const enum CollWhat what = kCalls[i / 3];
    if (!by_leaders(what)) continue;
    check_at(coll_what_name(what), i);
    const size_t count = (size_t)kCounts[i % 3], place = (what < kReduce ? (size_t)rank : 0) * count;
    int *send = calloc(count * (size_t)size, sizeof *send), *recv = calloc(count * (size_t)size, sizeof *recv);
    // The piece that it sends to itself is the one that it receives.
    int *from = !refused ? send : what == kGather ? recv + place : recv, *to = recv;
    if (refused && what == kScatter) to = recv + place;
    const int class = disagree(comm, what, from, to, kCounts[i % 3], size - 1);
    const bool all_depend = what == kAllreduce || what == kReduceScatterBlock || what == kAlltoall;
    if (refused) {
      EXPECT(class == MPI_ERR_BUFFER, "%zu ints: %s", count, check_class_name(class));
    } else if (!on_last_node) {
      EXPECT(class == MPI_SUCCESS, "%zu ints: %s", count, check_class_name(class));
    } else {
      EXPECT(class == MPI_ERR_OTHER || (!all_depend && class == MPI_SUCCESS), "%zu ints: %s", count,
             check_class_name(class));
    }
    OK(MPI_Barrier(comm));  // not the refused call, made again: so the others learn of it
    coll_expect_works(comm, i);
    free(send);
    free(recv);
  }
#else
  SKIP("the host allows it");
#endif
}
