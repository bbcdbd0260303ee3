// Collectives of neighbourhoods as programs use them: a halo of subarrays, many under way beside other operations,
// ranks without neighbours, large counts; and what is wrong with a call.
#include "coll.h"

#pragma GCC diagnostic ignored "-Wstringop-overread"
#pragma GCC diagnostic ignored "-Wstringop-overflow"

// ---- halo

enum { kRows = 20, kColumns = 31 };  // with the border of one cell on each side

struct Field {
  MPI_Comm grid;
  int neighbours[4];  // above, below, left, right
  MPI_Datatype send[4], recv[4];
  double cells[kRows][kColumns];
};

static double cell_of(int rank, int step, int row, int column) { return rank * 1e6 + step * 1e4 + row * 100 + column; }

static void make_field(MPI_Comm comm, int size, struct Field* f) {
  static const int kSendAt[4][2] = {{1, 1}, {kRows - 2, 1}, {1, 1}, {1, kColumns - 2}};
  static const int kRecvAt[4][2] = {{0, 1}, {kRows - 1, 1}, {1, 0}, {1, kColumns - 1}};
  int dims[2] = {0, 0}, periods[2], all[2] = {kRows, kColumns};
  OK(MPI_Dims_create(size, 2, dims));
  // With one or two places both neighbours are one rank, and hosts differ in which is which.
  for (int d = 0; d < 2; ++d) periods[d] = dims[d] > 2;
  OK(MPI_Cart_create(comm, 2, dims, periods, 0, &f->grid));
  for (int d = 0; d < 2; ++d) OK(MPI_Cart_shift(f->grid, d, 1, &f->neighbours[2 * d], &f->neighbours[2 * d + 1]));
  for (int i = 0; i < 4; ++i) {
    int part[2] = {i < 2 ? 1 : kRows - 2, i < 2 ? kColumns - 2 : 1};
    OK(MPI_Type_create_subarray(2, all, part, kSendAt[i], MPI_ORDER_C, MPI_DOUBLE, &f->send[i]));
    OK(MPI_Type_create_subarray(2, all, part, kRecvAt[i], MPI_ORDER_C, MPI_DOUBLE, &f->recv[i]));
    OK(MPI_Type_commit(&f->send[i]));
    OK(MPI_Type_commit(&f->recv[i]));
  }
}

static void free_field(struct Field* f) {
  for (int i = 0; i < 4; ++i) {
    OK(MPI_Type_free(&f->send[i]));
    OK(MPI_Type_free(&f->recv[i]));
  }
  OK(MPI_Comm_free(&f->grid));
}

static void set_field(struct Field* f, int rank, int step) {
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) {
      bool inside = r > 0 && r < kRows - 1 && c > 0 && c < kColumns - 1;
      f->cells[r][c] = inside ? cell_of(rank, step, r, c) : -1;
    }
}

// The border is the neighbours' own edge, or as it was.
static void expect_field(const struct Field* f, int rank, int step) {
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) {
      int row = r, column = c, owner = rank;
      bool corner = (r == 0 || r == kRows - 1) && (c == 0 || c == kColumns - 1);
      if (r == 0) row = kRows - 2, owner = f->neighbours[0];
      if (r == kRows - 1) row = 1, owner = f->neighbours[1];
      if (c == 0) column = kColumns - 2, owner = f->neighbours[2];
      if (c == kColumns - 1) column = 1, owner = f->neighbours[3];
      double expected = corner || owner == MPI_PROC_NULL ? -1 : cell_of(owner, step, row, column);
      if (f->cells[r][c] == expected) continue;
      EXPECT(false, "step %d: cell %d, %d is %.0f, expected %.0f", step, r, c, f->cells[r][c], expected);
      return;
    }
}

static void halo(MPI_Comm comm, int rank, int size, int unused, enum CollForm form) {
  static struct Field f;
  int ones[4] = {1, 1, 1, 1};
  MPI_Aint here[4] = {0, 0, 0, 0};
  MPI_Request request = MPI_REQUEST_NULL;
  (void)unused;
  make_field(comm, size, &f);
#if COLL_PERSISTENT
  if (form == kPersistent)
    OK(MPI_Neighbor_alltoallw_init(f.cells, ones, here, f.send, f.cells, ones, here, f.recv, f.grid, MPI_INFO_NULL,
                                   &request));
#endif
  for (int step = 0; step < check_reps(30); ++step) {
    set_field(&f, rank, step);
    if (form == kBlocking) {
      OK(MPI_Neighbor_alltoallw(f.cells, ones, here, f.send, f.cells, ones, here, f.recv, f.grid));
    } else {
      if (form == kPersistent) OK(MPI_Start(&request));
      if (form == kNonblocking)
        OK(MPI_Ineighbor_alltoallw(f.cells, ones, here, f.send, f.cells, ones, here, f.recv, f.grid, &request));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    expect_field(&f, rank, step);
  }
  if (request != MPI_REQUEST_NULL) OK(MPI_Request_free(&request));
  free_field(&f);
}
COLL_CASES(coll_neighbors, halo, 0, halo);

// ---- beside other operations

static MPI_Comm open_line(MPI_Comm comm, int size, int* left, int* right) {
  MPI_Comm line;
  OK(MPI_Cart_create(comm, 1, &size, &(int){0}, 0, &line));
  OK(MPI_Comm_set_errhandler(line, MPI_ERRORS_RETURN));
  OK(MPI_Cart_shift(line, 0, 1, left, right));
  return line;
}

enum { kFar = 9000 };  // ints of a message that is not eager
struct Mixed {
  int mine, all[2], sum, message, far_out[2 * kFar], far_in[2 * kFar];
};

static void expect_mixed(const struct Mixed* m, int step, int left, int right, int size) {
  const int sides[2] = {left, right};
  for (int i = 0; i < 2; ++i) {
    bool there = sides[i] != MPI_PROC_NULL;
    EXPECT_EQ(m->all[i], there ? sides[i] * 1000 + step : -1);
    // What lies on the neighbour's side towards this rank.
    EXPECT_EQ(m->far_in[i * kFar], there ? sides[i] * 10 + !i + step : -1);
    EXPECT_EQ(m->far_in[i * kFar + kFar - 1], there ? sides[i] * 10 + !i + step : -1);
  }
  EXPECT_EQ(m->sum, size * (size - 1) / 2 + size * step);
  EXPECT_EQ(m->message, left == MPI_PROC_NULL ? -1 : left + step);
}

CASE(coll_neighbors, many_under_way) {
  static struct Mixed m;
  MPI_Comm line = open_line(comm, size, &left, &right);
  for (int step = 0; step < check_reps(40); ++step) {
    MPI_Request list[5];
    int term = rank + step, out = rank + step, done = 0, which[5], ended = 0;
    m = (struct Mixed){.mine = rank * 1000 + step, .all = {-1, -1}, .sum = -1, .message = -1};
    for (int i = 0; i < 2 * kFar; ++i) {
      m.far_out[i] = rank * 10 + i / kFar + step;
      m.far_in[i] = -1;
    }
    OK(MPI_Irecv(&m.message, 1, MPI_INT, left, 3, line, &list[0]));
    OK(MPI_Ineighbor_alltoall(m.far_out, kFar, MPI_INT, m.far_in, kFar, MPI_INT, line, &list[1]));
    OK(MPI_Iallreduce(&term, &m.sum, 1, MPI_INT, MPI_SUM, line, &list[2]));
    OK(MPI_Ineighbor_allgather(&m.mine, 1, MPI_INT, m.all, 1, MPI_INT, line, &list[3]));
    OK(MPI_Isend(&out, 1, MPI_INT, right, 3, line, &list[4]));
    if (step % 3 == 0) OK(MPI_Waitall(5, list, MPI_STATUSES_IGNORE));
    while (step % 3 == 1 && done < 5) {
      OK(MPI_Testsome(5, list, &ended, which, MPI_STATUSES_IGNORE));
      if (ended > 0) done += ended;
    }
    for (int i = 4; i >= 0 && step % 3 == 2; --i) OK(MPI_Wait(&list[i], MPI_STATUS_IGNORE));
    expect_mixed(&m, step, left, right, size);
  }
  OK(MPI_Comm_free(&line));
}

// The nonblocking form returns although a neighbour has not called it yet, and will not before it hears of this rank.
CASE(coll_neighbors, starts_without_waiting) {
  NEED_RANKS(2);
  int got[2] = {-1, -1}, token = -1;
  MPI_Comm line = open_line(comm, size, &left, &right);
  for (int step = 0; step < check_reps(20); ++step) {
    MPI_Request request;
    int mine = rank + step;
    if (rank == 0) OK(MPI_Recv(&token, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE));
    OK(MPI_Ineighbor_allgather(&mine, 1, MPI_INT, got, 1, MPI_INT, line, &request));
    if (rank == 1) OK(MPI_Send(&step, 1, MPI_INT, 0, 1, comm));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(got[0], left == MPI_PROC_NULL ? -1 : left + step);
    EXPECT_EQ(got[1], right == MPI_PROC_NULL ? -1 : right + step);
  }
  OK(MPI_Comm_free(&line));
}

// A rank without neighbours waits for nobody, and may have no buffers.
CASE(coll_neighbors, nobody) {
  int none = 0, seven = 7, in = -1;
  bool alone = rank % 2 == 0;
  MPI_Comm graph, lonely;
  OK(MPI_Dist_graph_create_adjacent(comm, 0, &none, MPI_UNWEIGHTED, 0, &none, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                    &lonely));
  OK(MPI_Dist_graph_create_adjacent(comm, !alone, &rank, MPI_UNWEIGHTED, !alone, &rank, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                    0, &graph));
  for (int step = 0; step < 3; ++step) {
    OK(MPI_Neighbor_alltoall(&seven, 1, MPI_INT, &in, 1, MPI_INT, lonely));
    OK(MPI_Neighbor_allgather(&seven, 1, MPI_INT, &in, 1, MPI_INT, lonely));
    EXPECT_EQ(in, -1);
  }
  OK(MPI_Neighbor_alltoall(&seven, 1, MPI_INT, &in, 1, MPI_INT, graph));
  EXPECT_EQ(in, alone ? -1 : 7);
  OK(MPI_Comm_free(&lonely));
  OK(MPI_Comm_free(&graph));
  // One way around.
  OK(MPI_Dist_graph_create_adjacent(comm, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                    &graph));
  OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, &in, 1, MPI_INT, graph));
  EXPECT_EQ(in, left);
  OK(MPI_Comm_free(&graph));
}

#if HAVE_LARGE_COUNT
CASE(coll_neighbors, large_counts) {
  int out[2] = {rank * 2, rank * 2 + 1}, in[2];
  MPI_Comm line = open_line(comm, size, &left, &right);
  MPI_Count ones[2] = {1, 1};
  MPI_Aint bytes[2] = {0, sizeof(int)}, places[2] = {0, 1};
  MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  for (int i = 0; i < 10; ++i) {
    MPI_Request request = MPI_REQUEST_NULL;
    in[0] = in[1] = -1;
    bool same = i % 5 < 2;
    if (i == 0) OK(MPI_Neighbor_allgather_c(out, 1, MPI_INT, in, 1, MPI_INT, line));
    if (i == 1) OK(MPI_Neighbor_allgatherv_c(out, 1, MPI_INT, in, ones, places, MPI_INT, line));
    if (i == 2) OK(MPI_Neighbor_alltoall_c(out, 1, MPI_INT, in, 1, MPI_INT, line));
    if (i == 3) OK(MPI_Neighbor_alltoallv_c(out, ones, places, MPI_INT, in, ones, places, MPI_INT, line));
    if (i == 4) OK(MPI_Neighbor_alltoallw_c(out, ones, bytes, types, in, ones, bytes, types, line));
    if (i == 5) OK(MPI_Ineighbor_allgather_c(out, 1, MPI_INT, in, 1, MPI_INT, line, &request));
    if (i == 6) OK(MPI_Ineighbor_allgatherv_c(out, 1, MPI_INT, in, ones, places, MPI_INT, line, &request));
    if (i == 7) OK(MPI_Neighbor_alltoall_init_c(out, 1, MPI_INT, in, 1, MPI_INT, line, MPI_INFO_NULL, &request));
    if (i == 8) OK(MPI_Ineighbor_alltoallv_c(out, ones, places, MPI_INT, in, ones, places, MPI_INT, line, &request));
    if (i == 9)
      OK(MPI_Neighbor_alltoallw_init_c(out, ones, bytes, types, in, ones, bytes, types, line, MPI_INFO_NULL, &request));
    if (i == 7 || i == 9) OK(MPI_Start(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (i == 7 || i == 9) OK(MPI_Request_free(&request));
    EXPECT_EQ(in[0], left == MPI_PROC_NULL ? -1 : left * 2 + !same);
    EXPECT_EQ(in[1], right == MPI_PROC_NULL ? -1 : right * 2);
  }
  OK(MPI_Comm_free(&line));
}
#endif

// ---- errors

// The class that `line` gives for mistake `which`; false when there are no more. All ranks make the same.
static bool mistake(int which, MPI_Comm line, MPI_Comm flat, int* code, const char** what) {
#define MISTAKE(n, text, call) \
  case n:                      \
    *what = text;              \
    *code = (call);            \
    return true
  static int out[2], in[2];
  static const int negative[2] = {-1, -1}, ones[2] = {1, 1}, places[2] = {0, 1};
  static const MPI_Aint bytes[2] = {0, sizeof(int)};
  MPI_Datatype bad = MPI_DATATYPE_NULL;
  const MPI_Datatype ints[2] = {MPI_INT, MPI_INT}, bads[2] = {bad, bad};
  MPI_Request request;
  switch (which) {
    MISTAKE(0, "allgather without a topology", MPI_Neighbor_allgather(out, 1, MPI_INT, in, 1, MPI_INT, flat));
    MISTAKE(1, "alltoall without a topology", MPI_Ineighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, flat, &request));
    MISTAKE(2, "allgather, negative counts", MPI_Neighbor_allgather(out, -1, MPI_INT, in, -1, MPI_INT, line));
    MISTAKE(3, "allgather, nothing to send with", MPI_Neighbor_allgather(out, 1, bad, in, 1, MPI_INT, line));
    MISTAKE(4, "allgather, nothing to receive with", MPI_Neighbor_allgather(out, 1, MPI_INT, in, 1, bad, line));
    MISTAKE(5, "alltoall, negative counts", MPI_Ineighbor_alltoall(out, -1, MPI_INT, in, -1, MPI_INT, line, &request));
    MISTAKE(6, "alltoallv, negative counts",
            MPI_Neighbor_alltoallv(out, negative, places, MPI_INT, in, negative, places, MPI_INT, line));
    MISTAKE(7, "alltoallv, no datatype", MPI_Neighbor_alltoallv(out, ones, places, bad, in, ones, places, bad, line));
    MISTAKE(8, "alltoallw, negative counts",
            MPI_Neighbor_alltoallw(out, negative, bytes, ints, in, negative, bytes, ints, line));
    MISTAKE(9, "alltoallw, no datatypes", MPI_Neighbor_alltoallw(out, ones, bytes, bads, in, ones, bytes, bads, line));
  }
  return false;
}

CASE(coll_neighbors, mistakes) {
  NEED_RANKS(2);
  int got[2], code, host_code;
  MPI_Comm line = open_line(comm, size, &left, &right), hosts = open_line(coll_host(), size, &left, &right);
  const char* what = "";
  for (int i = 0; mistake(i, hosts, coll_host(), &host_code, &what); ++i) {
    check_at("mistake", i);
    mistake(i, line, comm, &code, &what);
    EXPECT(check_class(code) == check_class(host_code), "%s: %s, the host gives %s", what,
           check_class_name(check_class(code)), check_class_name(check_class(host_code)));
    got[0] = got[1] = -1;
    OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, line));
    EXPECT_EQ(got[0], left == MPI_PROC_NULL ? -1 : left);
    EXPECT_EQ(got[1], right == MPI_PROC_NULL ? -1 : right);
  }
  OK(MPI_Comm_free(&line));
  OK(MPI_Comm_free(&hosts));
}

// What one rank alone asked for wrongly, and was told so, has not happened.
CASE(coll_neighbors, mistakes_of_one) {
  NEED_RANKS(2);
  int got[2], in[2];
  MPI_Comm line = open_line(comm, size, &left, &right);
  for (int i = 0; i < 6; ++i) {
    MPI_Request request;
    if (rank == i % size) {
      EXPECT_CLASS(MPI_Neighbor_alltoall(got, -1, MPI_INT, in, -1, MPI_INT, line), MPI_ERR_COUNT);
      EXPECT_CLASS(MPI_Ineighbor_allgather(got, 1, MPI_DATATYPE_NULL, in, 1, MPI_DATATYPE_NULL, line, &request),
                   MPI_ERR_TYPE);
    }
    got[0] = got[1] = in[0] = in[1] = -1;
    int mine = rank + i;
    OK(MPI_Neighbor_allgather(&mine, 1, MPI_INT, got, 1, MPI_INT, line));
    OK(MPI_Ineighbor_allgather(&mine, 1, MPI_INT, in, 1, MPI_INT, line, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(got[0], left == MPI_PROC_NULL ? -1 : left + i);
    EXPECT_EQ(got[1], right == MPI_PROC_NULL ? -1 : right + i);
    EXPECT(got[0] == in[0] && got[1] == in[1], "the nonblocking form gives %d %d", in[0], in[1]);
  }
  OK(MPI_Comm_free(&line));
}
