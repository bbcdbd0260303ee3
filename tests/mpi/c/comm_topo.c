// Communicators with a topology: their own ranks and contexts, and neighbours reached by point-to-point.
#include "check.h"

// The headers of MPICH spell MPI_UNWEIGHTED as an address on which the compiler then has an opinion.
#pragma GCC diagnostic ignored "-Wstringop-overread"
#pragma GCC diagnostic ignored "-Wstringop-overflow"

static void exchange_with(MPI_Comm comm, int to, int from, int tag) {
  int me, out[2], in[2] = {-1, -1};
  OK(MPI_Comm_rank(comm, &me));
  out[0] = me;
  out[1] = tag;
  OK(MPI_Sendrecv(out, 2, MPI_INT, to, tag, in, 2, MPI_INT, from, tag, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(in[0], from == MPI_PROC_NULL ? -1 : from);
  if (from != MPI_PROC_NULL) EXPECT_EQ(in[1], tag);
}

CASE(comm_topo, cart_shift) {
  for (int periodic = 0; periodic < 2; ++periodic) {
    int dims[2] = {0, 0}, periods[2] = {periodic, periodic};
    OK(MPI_Dims_create(size, 2, dims));
    MPI_Comm grid;
    OK(MPI_Cart_create(comm, 2, dims, periods, periodic, &grid));
    for (int direction = 0; direction < 2; ++direction) {
      for (int step = -1; step <= 1; step += 2) {
        int from, to;
        OK(MPI_Cart_shift(grid, direction, step, &from, &to));
        exchange_with(grid, to, from, 10 + direction);
      }
    }
    OK(MPI_Comm_free(&grid));
  }
}

CASE(comm_topo, cart_leaves_ranks_out) {
  NEED_RANKS(2);
  int dims[1] = {size - 1}, periods[1] = {1};
  MPI_Comm line;
  OK(MPI_Cart_create(comm, 1, dims, periods, 0, &line));
  if (rank == size - 1) {
    EXPECT(line == MPI_COMM_NULL, "the last rank is on no grid");
  } else {
    int from, to;
    OK(MPI_Cart_shift(line, 0, 1, &from, &to));
    exchange_with(line, to, from, 1);
    OK(MPI_Barrier(line));
    int sum = 0, me;
    OK(MPI_Comm_rank(line, &me));
    OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, line));
    EXPECT_EQ(sum, (size - 1) * (size - 2) / 2);
    OK(MPI_Comm_free(&line));
  }
}

CASE(comm_topo, cart_sub) {
  int dims[2] = {0, 0}, periods[2] = {1, 1};
  OK(MPI_Dims_create(size, 2, dims));
  MPI_Comm grid, rows, columns;
  OK(MPI_Cart_create(comm, 2, dims, periods, 0, &grid));
  int keep_rows[2] = {0, 1}, keep_columns[2] = {1, 0}, from, to;
  OK(MPI_Cart_sub(grid, keep_rows, &rows));
  OK(MPI_Cart_sub(grid, keep_columns, &columns));
  OK(MPI_Cart_shift(rows, 0, 1, &from, &to));
  exchange_with(rows, to, from, 3);
  OK(MPI_Cart_shift(columns, 0, 1, &from, &to));
  exchange_with(columns, to, from, 3);
  OK(MPI_Comm_free(&rows));
  OK(MPI_Comm_free(&columns));
  OK(MPI_Comm_free(&grid));
}

CASE(comm_topo, graph_ring) {
  int index[1024], edges[2048];
  for (int i = 0; i < size; ++i) {
    index[i] = 2 * (i + 1);
    edges[2 * i] = (i + 1) % size;
    edges[2 * i + 1] = (i + size - 1) % size;
  }
  MPI_Comm graph;
  OK(MPI_Graph_create(comm, size, index, edges, 0, &graph));
  int neighbours[2], me;
  OK(MPI_Comm_rank(graph, &me));
  OK(MPI_Graph_neighbors(graph, me, 2, neighbours));
  exchange_with(graph, neighbours[0], neighbours[1], 4);
  OK(MPI_Comm_free(&graph));
}

CASE(comm_topo, dist_graph) {
  int one = 1;
  MPI_Comm adjacent, general;
  OK(MPI_Dist_graph_create_adjacent(comm, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                    &adjacent));
  OK(MPI_Dist_graph_create(comm, 1, &rank, &one, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &general));
  exchange_with(adjacent, right, left, 1);
  exchange_with(general, right, left, 1);
  MPI_Comm copy;  // a duplicate keeps the topology and has a context of its own
  OK(MPI_Comm_dup(adjacent, &copy));
  int from, to;
  OK(MPI_Dist_graph_neighbors(copy, 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED));
  EXPECT_EQ(from, left);
  EXPECT_EQ(to, right);
  exchange_with(copy, to, from, 1);
  OK(MPI_Comm_free(&copy));
  OK(MPI_Comm_free(&adjacent));
  OK(MPI_Comm_free(&general));
}

CASE(comm_topo, neighbour_collective_beside_messages) {
  int dims[1] = {size}, periods[1] = {1}, in[2] = {-1, -1}, from, to, message = -1;
  MPI_Comm ring;
  OK(MPI_Cart_create(comm, 1, dims, periods, 0, &ring));
  OK(MPI_Cart_shift(ring, 0, 1, &from, &to));
  MPI_Request receive;
  OK(MPI_Irecv(&message, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, ring, &receive));
  OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, ring));
  EXPECT_EQ(in[0], from);
  EXPECT_EQ(in[1], to);
  OK(MPI_Send(&rank, 1, MPI_INT, to, 0, ring));
  OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  EXPECT_EQ(message, from);
  OK(MPI_Comm_free(&ring));
}
