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
static void in_intercomm_create(MPI_Comm comm, int rank, int size) {
  (void)size;
  make_between(comm, rank);
  end_between();
}
// MPICH takes no large or synchronous message in there.
CASE(away, intercomm_create) {
  NEED_RANKS(2);
  away_beside(comm, rank, size, in_intercomm_create, kAwaySmallOnly);
}
static void in_merge(MPI_Comm comm, int rank, int size) {
  (void)comm, (void)size;
  MPI_Comm made;
  OK(MPI_Intercomm_merge(between, rank % 2, &made));
  free_made(&made);
}
static void in_recv(MPI_Comm comm, int rank, int size) {
  (void)comm;
  int word = rank;
  if (rank % 2 == 0) {
    if ((rank ^ 1) < size) OK(MPI_Recv(&word, 1, MPI_INT, rank / 2, 3, between, MPI_STATUS_IGNORE));
  } else {
    OK(MPI_Send(&word, 1, MPI_INT, rank / 2, 3, between));
  }
}
static void in_probe(MPI_Comm comm, int rank, int size) {
  if (rank % 2 == 0 && (rank ^ 1) < size) OK(MPI_Probe(rank / 2, 3, between, MPI_STATUS_IGNORE));
  in_recv(comm, rank, size);
}
static void in_mprobe(MPI_Comm comm, int rank, int size) {
  int word = rank;
  MPI_Message message;
  if (rank % 2 != 0) {
    in_recv(comm, rank, size);
  } else if ((rank ^ 1) < size) {
    OK(MPI_Mprobe(rank / 2, 3, between, &message, MPI_STATUS_IGNORE));
    OK(MPI_Mrecv(&word, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
  }
}
static void in_ssend(MPI_Comm comm, int rank, int size) {
  (void)comm;
  int word = rank;
  if (rank % 2 == 0) {
    if ((rank ^ 1) < size) OK(MPI_Ssend(&word, 1, MPI_INT, rank / 2, 3, between));
  } else {
    OK(MPI_Recv(&word, 1, MPI_INT, rank / 2, 3, between, MPI_STATUS_IGNORE));
  }
}
static void in_sendrecv(MPI_Comm comm, int rank, int size) {
  (void)comm;
  int out = rank, in = -1;
  if ((rank ^ 1) >= size) return;
  OK(MPI_Sendrecv(&out, 1, MPI_INT, rank / 2, 3, &in, 1, MPI_INT, rank / 2, 3, between, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, rank ^ 1);
}
static void in_inter_barrier(MPI_Comm comm, int rank, int size) {
  (void)comm, (void)rank, (void)size;
  OK(MPI_Barrier(between));
}
static void in_inter_allgather(MPI_Comm comm, int rank, int size) {
  (void)comm;
  int all[64];
  if (size <= 64) OK(MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, between));
}
#define AWAY_BETWEEN(name)                                \
  CASE(away, inter_##name) {                              \
    NEED_RANKS(2);                                        \
    make_between(comm, rank);                             \
    away_beside(comm, rank, size, in_##name, kAwayKinds); \
    end_between();                                        \
  }
AWAY_BETWEEN(merge)
AWAY_BETWEEN(recv)
AWAY_BETWEEN(probe)
AWAY_BETWEEN(mprobe)
AWAY_BETWEEN(ssend)
AWAY_BETWEEN(sendrecv)
AWAY_BETWEEN(inter_barrier)
AWAY_BETWEEN(inter_allgather)

// ---- collectives of neighbours, and those that stay with the host by the communicator's info

static MPI_Comm ring;
static int to_ring[2], from_ring[2], ones[2] = {1, 1}, places[2] = {0, 1};
static void make_ring(MPI_Comm comm, int size) {
  int periods[1] = {1};
  OK(MPI_Cart_create(comm, 1, &size, periods, 0, &ring));
}
static void in_neighbor_allgather(MPI_Comm comm, int rank, int size) {
  (void)comm, (void)size;
  OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, from_ring, 1, MPI_INT, ring));
}
static void in_neighbor_allgatherv(MPI_Comm comm, int rank, int size) {
  (void)comm, (void)size;
  OK(MPI_Neighbor_allgatherv(&rank, 1, MPI_INT, from_ring, ones, places, MPI_INT, ring));
}
static void in_neighbor_alltoall(MPI_Comm comm, int rank, int size) {
  (void)comm, (void)rank, (void)size;
  OK(MPI_Neighbor_alltoall(to_ring, 1, MPI_INT, from_ring, 1, MPI_INT, ring));
}
static void in_neighbor_alltoallv(MPI_Comm comm, int rank, int size) {
  (void)comm, (void)rank, (void)size;
  OK(MPI_Neighbor_alltoallv(to_ring, ones, places, MPI_INT, from_ring, ones, places, MPI_INT, ring));
}
static void in_neighbor_alltoallw(MPI_Comm comm, int rank, int size) {
  (void)comm, (void)rank, (void)size;
  MPI_Aint bytes[2] = {0, sizeof(int)};
  MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  OK(MPI_Neighbor_alltoallw(to_ring, ones, bytes, types, from_ring, ones, bytes, types, ring));
}
#define AWAY_RING(name)                                   \
  CASE(away, name) {                                      \
    NEED_RANKS(2);                                        \
    make_ring(comm, size);                                \
    away_beside(comm, rank, size, in_##name, kAwayKinds); \
    OK(MPI_Comm_free(&ring));                             \
  }
AWAY_RING(neighbor_allgather)
AWAY_RING(neighbor_allgatherv)
AWAY_RING(neighbor_alltoall)
AWAY_RING(neighbor_alltoallv)
AWAY_RING(neighbor_alltoallw)

static MPI_Comm hosts;
static void make_hosts(MPI_Comm comm) {
  MPI_Info info;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "zerohop", "off"));
  OK(MPI_Comm_dup_with_info(comm, info, &hosts));
  OK(MPI_Info_free(&info));
}
static void in_host_barrier(MPI_Comm comm, int rank, int size) {
  (void)comm, (void)rank, (void)size;
  OK(MPI_Barrier(hosts));
}
static void in_host_allreduce(MPI_Comm comm, int rank, int size) {
  (void)comm;
  int sum = -1;
  OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, hosts));
  EXPECT_EQ(sum, size * (size - 1) / 2);
}
static void in_host_alltoall(MPI_Comm comm, int rank, int size) {
  (void)comm, (void)rank;
  int out[64] = {0}, in[64];
  if (size <= 64) OK(MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, hosts));
}
#define AWAY_HOST(name)                                   \
  CASE(away, name) {                                      \
    NEED_RANKS(2);                                        \
    make_hosts(comm);                                     \
    away_beside(comm, rank, size, in_##name, kAwayKinds); \
    OK(MPI_Comm_free(&hosts));                            \
  }
AWAY_HOST(host_barrier)
AWAY_HOST(host_allreduce)
AWAY_HOST(host_alltoall)
