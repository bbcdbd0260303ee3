// Inside what makes and ends communicators, calls on intercommunicators, and collectives that stay with the host.
#include "away.h"

// The headers of MPICH spell MPI_UNWEIGHTED as an address on which the compiler then has an opinion.
#pragma GCC diagnostic ignored "-Wstringop-overread"
#pragma GCC diagnostic ignored "-Wstringop-overflow"

static void free_made(MPI_Comm* made) {
  if (*made != MPI_COMM_NULL) OK(MPI_Comm_free(made));
}
#define AWAY_MADE(name, call) \
  AWAY(name) {                \
    MPI_Comm made;            \
    OK(call);                 \
    free_made(&made);         \
  }

AWAY_MADE(comm_dup, MPI_Comm_dup(comm, &made))
AWAY_MADE(comm_dup_with_info, MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &made))
AWAY_MADE(comm_split, MPI_Comm_split(comm, 0, -rank, &made))
AWAY_MADE(comm_split_type, MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &made))
AWAY(comm_create) {
  MPI_Group group;
  MPI_Comm made;
  OK(MPI_Comm_group(comm, &group));
  OK(MPI_Comm_create(comm, group, &made));
  OK(MPI_Group_free(&group));
  free_made(&made);
}
AWAY(comm_create_group) {
  MPI_Group group;
  MPI_Comm made;
  OK(MPI_Comm_group(comm, &group));
  OK(MPI_Comm_create_group(comm, group, 5, &made));
  OK(MPI_Group_free(&group));
  free_made(&made);
}
AWAY(comm_idup) {
  MPI_Comm made;
  MPI_Request request;
  OK(MPI_Comm_idup(comm, &made, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  free_made(&made);
}
AWAY(cart_create_and_sub) {
  int periods[1] = {1}, keep[1] = {1};
  MPI_Comm made, part;
  OK(MPI_Cart_create(comm, 1, &size, periods, 0, &made));
  OK(MPI_Cart_sub(made, keep, &part));
  free_made(&part);
  free_made(&made);
}
AWAY(graph_create) {
  int index[64], edges[64];
  if (size > 64) return;
  for (int i = 0; i < size; ++i) {
    index[i] = i + 1;
    edges[i] = (i + 1) % size;
  }
  MPI_Comm made;
  OK(MPI_Graph_create(comm, size, index, edges, 0, &made));
  free_made(&made);
}
AWAY(dist_graph_create) {
  int degree = 1, to = (rank + 1) % size;
  MPI_Comm made;
  OK(MPI_Dist_graph_create(comm, 1, &rank, &degree, &to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made));
  free_made(&made);
}
AWAY(dist_graph_create_adjacent) {
  int from = (rank + size - 1) % size, to = (rank + 1) % size;
  MPI_Comm made;
  OK(MPI_Dist_graph_create_adjacent(comm, 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made));
  free_made(&made);
}
AWAY(comm_disconnect) {
  MPI_Comm made;
  OK(MPI_Comm_dup(comm, &made));
  OK(MPI_Comm_disconnect(&made));
}

// Even and odd ranks as two groups.
static MPI_Comm halves, between;
static void make_between(MPI_Comm comm, int rank) {
  OK(MPI_Comm_split(comm, rank % 2, rank, &halves));
  OK(MPI_Intercomm_create(halves, 0, comm, 1 - rank % 2, 77, &between));
}
static void end_between(void) {
  OK(MPI_Comm_free(&between));
  OK(MPI_Comm_free(&halves));
}
// MPICH takes no large or synchronous message in there.
AWAY_WITHIN(intercomm_create, kAwaySmallOnly, , ) {
  make_between(comm, rank);
  end_between();
}
#define AWAY_BETWEEN(name) AWAY_WITHIN(inter_##name, kAwayKinds, make_between(comm, rank), end_between())
AWAY_BETWEEN(merge) {
  MPI_Comm made;
  OK(MPI_Intercomm_merge(between, rank % 2, &made));
  free_made(&made);
}
AWAY_BETWEEN(recv) {
  int word = rank;
  if (rank % 2 == 0) {
    if ((rank ^ 1) < size) OK(MPI_Recv(&word, 1, MPI_INT, rank / 2, 3, between, MPI_STATUS_IGNORE));
  } else {
    OK(MPI_Send(&word, 1, MPI_INT, rank / 2, 3, between));
  }
}
AWAY_BETWEEN(probe) {
  if (rank % 2 == 0 && (rank ^ 1) < size) OK(MPI_Probe(rank / 2, 3, between, MPI_STATUS_IGNORE));
  in_inter_recv(comm, rank, size);
}
AWAY_BETWEEN(mprobe) {
  int word = rank;
  MPI_Message message;
  if (rank % 2 != 0) {
    in_inter_recv(comm, rank, size);
  } else if ((rank ^ 1) < size) {
    OK(MPI_Mprobe(rank / 2, 3, between, &message, MPI_STATUS_IGNORE));
    OK(MPI_Mrecv(&word, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
  }
}
AWAY_BETWEEN(ssend) {
  int word = rank;
  if (rank % 2 == 0) {
    if ((rank ^ 1) < size) OK(MPI_Ssend(&word, 1, MPI_INT, rank / 2, 3, between));
  } else {
    OK(MPI_Recv(&word, 1, MPI_INT, rank / 2, 3, between, MPI_STATUS_IGNORE));
  }
}
AWAY_BETWEEN(sendrecv) {
  int out = rank, in = -1;
  if ((rank ^ 1) >= size) return;
  OK(MPI_Sendrecv(&out, 1, MPI_INT, rank / 2, 3, &in, 1, MPI_INT, rank / 2, 3, between, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, rank ^ 1);
}
AWAY_BETWEEN(inter_barrier) { OK(MPI_Barrier(between)); }
AWAY_BETWEEN(inter_allgather) {
  int all[64];
  if (size <= 64) OK(MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, between));
}

// ---- collectives of neighbours, and those that stay with the host by the communicator's info

static MPI_Comm ring;
static int to_ring[2], from_ring[2], ones[2] = {1, 1}, places[2] = {0, 1};
#define AWAY_RING(name)                                                                              \
  AWAY_WITHIN(neighbor_##name, kAwayKinds, OK(MPI_Cart_create(comm, 1, &size, &(int){1}, 0, &ring)), \
              OK(MPI_Comm_free(&ring)))
AWAY_RING(allgather) { OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, from_ring, 1, MPI_INT, ring)); }
AWAY_RING(allgatherv) { OK(MPI_Neighbor_allgatherv(&rank, 1, MPI_INT, from_ring, ones, places, MPI_INT, ring)); }
AWAY_RING(alltoall) { OK(MPI_Neighbor_alltoall(to_ring, 1, MPI_INT, from_ring, 1, MPI_INT, ring)); }
AWAY_RING(alltoallv) {
  OK(MPI_Neighbor_alltoallv(to_ring, ones, places, MPI_INT, from_ring, ones, places, MPI_INT, ring));
}
AWAY_RING(alltoallw) {
  MPI_Aint bytes[2] = {0, sizeof(int)};
  MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  OK(MPI_Neighbor_alltoallw(to_ring, ones, bytes, types, from_ring, ones, bytes, types, ring));
}

static MPI_Comm hosts;
static void make_hosts(MPI_Comm comm) {
  MPI_Info info;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "zerohop", "off"));
  OK(MPI_Comm_dup_with_info(comm, info, &hosts));
  OK(MPI_Info_free(&info));
}
#define AWAY_HOST(name) AWAY_WITHIN(host_##name, kAwayKinds, make_hosts(comm), OK(MPI_Comm_free(&hosts)))
AWAY_HOST(barrier) { OK(MPI_Barrier(hosts)); }
AWAY_HOST(allreduce) {
  int sum = -1;
  OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, hosts));
  EXPECT_EQ(sum, size * (size - 1) / 2);
}
AWAY_HOST(alltoall) {
  int out[64] = {0}, in[64];
  if (size <= 64) OK(MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, hosts));
}
