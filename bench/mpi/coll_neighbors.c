// The collectives of neighborhoods that bench_coll_<abi> measures, in the shape of a halo exchange: ranks form a grid
// of two dimensions. A dimension of three places and more is periodic, a shorter one has open borders: where both
// neighbors of a dimension are one rank MPI libraries disagree which block comes first (docs/design/schedules.md).
// Two ranks are each other's neighbor on two edges of a distributed graph instead. Called by coll.c; measures nothing.
#include "coll.h"

enum { kUp, kDown, kLeft, kRight, kSides };

// The k-th block goes to neighbor k and comes from it, or from MPI_PROC_NULL.
typedef struct {
  int degree;
  int rank[kSides];
  int slot_there[kSides];  // as which of its blocks neighbor k receives the k-th
  int sent[kSides];        // the side of the own tile that the k-th block of a halo exchange is ...
  int received[kSides];    // ... and the one beside which it comes to lie
} Edges;

// Counts, places in bytes and types of the blocks of a halo exchange.
typedef struct {
  int counts[kSides];
  MPI_Aint sent_at[kSides];
  MPI_Aint received_at[kSides];
  MPI_Datatype types[kSides];
} Halo;

static Edges edges;
static Halo halo;
static MPI_Datatype column = MPI_DATATYPE_NULL;
static MPI_Comm plain[kMaxArms];  // the arms' communicators without the topology

BENCH_COLLECTIVE(Neighbor_allgather, neighbor_allgather, send_buffer, n, MPI_DOUBLE, recv_buffer, n, MPI_DOUBLE)
BENCH_COLLECTIVE(Neighbor_alltoall, neighbor_alltoall, send_buffer, n, MPI_DOUBLE, recv_buffer, n, MPI_DOUBLE)
// The tile is the buffer of both: its outermost cells are received, those inside of them sent.
BENCH_COLLECTIVE(Neighbor_alltoallw, neighbor_alltoallw, recv_buffer, halo.counts, halo.sent_at, halo.types,
                 recv_buffer, halo.counts, halo.received_at, halo.types)

const Collective kNeighborhoods[] = {
    {"neighbor_allgather", call_neighbor_allgather, 1, 0, kEverybody, kEverybody, kFromNeighbors, 0, 0},
    {"neighbor_alltoall", call_neighbor_alltoall, 0, 0, kEverybody, kEverybody, kFromNeighbors, 1, 0},
    {"neighbor_alltoallw", call_neighbor_alltoallw, 0, 0, kEverybody, kEverybody, kFromNeighbors, 1, 0},
};
const int kNeighborhoodCount = (int)(sizeof kNeighborhoods / sizeof kNeighborhoods[0]);

static int is_halo(const Collective* c) { return c->call == call_neighbor_alltoallw; }

// Edges between the same two ranks follow each other as messages do: the first is the first at the other end, so that
// what leaves on the left comes in on the right.
static MPI_Comm two_edges(void) {
  const int other[2] = {1 - g_rank, 1 - g_rank};
  const int weights[2] = {1, 1};
  MPI_Comm graph;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, other, weights, 2, other, weights, MPI_INFO_NULL, 0, &graph);
  edges = (Edges){.degree = 2,
                  .rank = {other[0], other[1]},
                  .slot_there = {0, 1},
                  .sent = {kLeft, kRight},
                  .received = {kRight, kLeft}};
  return graph;
}

static MPI_Comm grid(void) {
  int extents[2] = {0, 0};
  MPI_Comm cart;
  MPI_Dims_create(g_ranks, 2, extents);
  const int periodic[2] = {extents[0] >= 3, extents[1] >= 3};
  MPI_Cart_create(MPI_COMM_WORLD, 2, extents, periodic, 0, &cart);
  edges = (Edges){.degree = kSides,
                  .slot_there = {kDown, kUp, kRight, kLeft},
                  .sent = {kUp, kDown, kLeft, kRight},
                  .received = {kUp, kDown, kLeft, kRight}};
  for (int d = 0; d < 2; d++) MPI_Cart_shift(cart, d, 1, &edges.rank[2 * d], &edges.rank[2 * d + 1]);
  return cart;
}

void neighbors_open(void) {
  MPI_Comm topology = g_ranks == 2 ? two_edges() : grid();
  for (int a = 0; a < g_settings.arm_count; a++) {
    plain[a] = g_settings.arm_comm[a];
    g_settings.arm_comm[a] = communicator_of(g_settings.arm_name[a], topology);
  }
  MPI_Comm_free(&topology);
}

void neighbors_close(void) {
  coord_barrier();
  for (int a = 0; a < g_settings.arm_count; a++) {
    MPI_Comm_free(&g_settings.arm_comm[a]);
    g_settings.arm_comm[a] = plain[a];
  }
  g_progress_comm = plain[0];
}

// Where a side of a tile of n by n begins, in elements of its rows of n + 2; and from one element to the next.
static size_t side_begin(int side, size_t n, int outside) {
  const size_t width = n + 2;
  const size_t first = outside ? 0 : 1;
  const size_t last = outside ? n + 1 : n;
  if (side == kUp || side == kDown) return (side == kUp ? first : last) * width + 1;
  return width + (side == kLeft ? first : last);
}
static size_t side_step(int side, size_t n) { return side == kUp || side == kDown ? 1 : n + 2; }

int neighbors_set_block(const Collective* c, size_t size_bytes) {
  const size_t n = size_bytes / sizeof(double);
  if (!is_halo(c)) return size_bytes * (size_t)edges.degree <= kMostBytes;
  if (n * size_bytes > kMostBytes) return 0;
  MPI_Type_vector((int)n, 1, (int)n + 2, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);
  for (int k = 0; k < edges.degree; k++) {
    const int along_row = edges.sent[k] == kUp || edges.sent[k] == kDown;
    halo.counts[k] = along_row ? (int)n : 1;
    halo.types[k] = along_row ? MPI_DOUBLE : column;
    halo.sent_at[k] = (MPI_Aint)(side_begin(edges.sent[k], n, 0) * sizeof(double));
    halo.received_at[k] = (MPI_Aint)(side_begin(edges.received[k], n, 1) * sizeof(double));
  }
  return 1;
}

void neighbors_end_block(void) {
  if (column != MPI_DATATYPE_NULL) MPI_Type_free(&column);
}

size_t neighbors_send_count(const Collective* c, size_t n) {
  return is_halo(c) ? 1 : c->send_blocks != 0 ? n : n * (size_t)edges.degree;
}
size_t neighbors_recv_count(const Collective* c, size_t n) {
  return is_halo(c) ? (n + 2) * (n + 2) : n * (size_t)edges.degree;
}

// The cells inside a tile hold the element whose number is row + column, so that corners belong to both their sides.
static size_t first_of_side(int side, size_t n) { return side == kDown || side == kRight ? n - 1 : 0; }
static int opposite(int side) { return side ^ 1; }
// The first cell along a side whose element is one of every `step`.
static size_t first_cell(size_t first, size_t step) { return (step - first % step) % step; }

static void fill_halo(size_t n, uint64_t turn, size_t step) {
  for (int k = 0; k < edges.degree; k++) {
    const int side = edges.sent[k];
    const size_t first = first_of_side(side, n);
    for (size_t i = first_cell(first, step); i < n; i += step)
      recv_buffer[side_begin(side, n, 0) + i * side_step(side, n)] = element(1, g_rank, 0, first + i, turn);
  }
}

static void check_halo(size_t n, uint64_t turn, size_t step) {
  for (int k = 0; k < edges.degree; k++) {
    if (edges.rank[k] == MPI_PROC_NULL) continue;
    const int side = edges.received[k];
    const size_t first = first_of_side(opposite(side), n);
    for (size_t i = first_cell(first, step); i < n; i += step) {
      const double got = recv_buffer[side_begin(side, n, 1) + i * side_step(side, n)];
      g_errors += got != element(1, edges.rank[k], 0, first + i, turn);
    }
  }
}

// Names one block of one receiver.
static int target_of(int rank, int slot) { return kSides * rank + slot; }

void neighbors_fill(const Collective* c, size_t n, uint64_t turn, size_t step) {
  if (is_halo(c)) {
    fill_halo(n, turn, step);
    return;
  }
  const int blocks = c->send_blocks != 0 ? c->send_blocks : edges.degree;
  for (int k = 0; k < blocks; k++) {
    const int target = c->to_me ? target_of(edges.rank[k], edges.slot_there[k]) : 0;
    for (size_t i = 0; i < n; i += step) send_buffer[(size_t)k * n + i] = element(1, g_rank, target, i, turn);
  }
}

void neighbors_check(const Collective* c, size_t n, uint64_t turn, size_t step) {
  if (is_halo(c)) {
    check_halo(n, turn, step);
    return;
  }
  for (int k = 0; k < edges.degree; k++) {
    if (edges.rank[k] == MPI_PROC_NULL) continue;
    const int target = c->to_me ? target_of(g_rank, k) : 0;
    for (size_t i = 0; i < n; i += step)
      g_errors += recv_buffer[(size_t)k * n + i] != element(1, edges.rank[k], target, i, turn);
  }
}
