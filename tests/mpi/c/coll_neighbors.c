// Collectives of neighbourhoods: all five in all forms on grids, graphs and distributed graphs with many edges between
// two ranks, edges of a rank to itself and ranks without any. What each edge carries follows from its sender and its
// place there, so that an exchange of two edges shows; blocks of MPI_PROC_NULL have to stay as they are.
#include "coll.h"

// The headers of MPICH spell MPI_UNWEIGHTED as an address on which the compiler then has an opinion.
#pragma GCC diagnostic ignored "-Wstringop-overread"
#pragma GCC diagnostic ignored "-Wstringop-overflow"

enum { kMostEdges = kMostPieces };

// ---- who is next to whom

enum Topology { kLine, kGrid, kCube, kGraph, kAdjacent, kGeneral, kTopologies };
struct Edges {
  int count, rank[kMostEdges];  // MPI_PROC_NULL where there is nobody
};
struct Around {
  MPI_Comm comm;
  int rank, size;
  bool grid;
  struct Edges sources, destinations;
  struct Edges of[kMostRanks];  // everybody's destinations
};

// Edges from `from` to `to`: none, one or two, and few where there are many ranks.
static int edges_between(uint64_t draw, int from, int to, int size) {
  uint64_t state = check_key((int)draw, from, to, 5);
  return coll_chance(&state, size > 6 ? 70 : 40) ? 0 : 1 + coll_pick(&state, 2);
}

static struct Edges edges_from(uint64_t draw, int rank, int size) {
  struct Edges edges = {0};
  for (int to = 0; to < size; ++to)
    for (int k = edges_between(draw, rank, to, size); k > 0; --k) edges.rank[edges.count++] = to;
  return edges;
}
static struct Edges edges_to(uint64_t draw, int rank, int size) {
  struct Edges edges = {0};
  for (int from = 0; from < size; ++from)
    for (int k = edges_between(draw, from, rank, size); k > 0; --k) edges.rank[edges.count++] = from;
  return edges;
}

// Grids on which both neighbours are one rank stay with the host, and hosts older than MPI 4 lack or break them.
static void make_grid(MPI_Comm comm, int size, int dimensions, uint64_t* shared, struct Around* a) {
  int dims[3] = {0, 0, 0}, periods[3], version, subversion;
  OK(MPI_Get_version(&version, &subversion));
  OK(MPI_Dims_create(size, dimensions, dims));
  for (int d = 0; d < 3; ++d) periods[d] = coll_pick(shared, 2) && (version >= 4 || dims[d] > 2);
  OK(MPI_Cart_create(comm, dimensions, dims, periods, 0, &a->comm));
  for (int d = 0; d < dimensions; ++d) {
    int below, above;
    OK(MPI_Cart_shift(a->comm, d, 1, &below, &above));
    a->sources.rank[a->sources.count++] = below;
    a->sources.rank[a->sources.count++] = above;
  }
  a->destinations = a->sources;
  a->grid = true;
}

// As many edges there as back.
static void make_graph(MPI_Comm comm, int size, uint64_t draw, struct Around* a) {
  static int index[kMostRanks], edges[kMostRanks * kMostEdges];
  int count = 0;
  for (int i = 0; i < size; ++i) {
    for (int j = 0; j < size; ++j)
      for (int k = edges_between(draw, i < j ? i : j, i < j ? j : i, size); k > 0; --k) edges[count++] = j;
    index[i] = count;
  }
  OK(MPI_Graph_create(comm, size, index, edges, 0, &a->comm));
  OK(MPI_Graph_neighbors_count(a->comm, a->rank, &a->sources.count));
  OK(MPI_Graph_neighbors(a->comm, a->rank, a->sources.count, a->sources.rank));
  a->destinations = a->sources;
}

static void make_distributed(MPI_Comm comm, int size, bool adjacent, uint64_t draw, uint64_t* own, struct Around* a) {
  int node = (a->rank + 1) % size;  // whose edges this rank tells of
  struct Edges to = edges_from(draw, adjacent ? a->rank : node, size), in = edges_to(draw, a->rank, size);
  coll_shuffle(to.rank, to.count, own);
  coll_shuffle(in.rank, in.count, own);
  int weights[2][kMostEdges] = {{0}}, weighted;
  bool weigh = adjacent && draw % 2;
  if (adjacent) {
    OK(MPI_Dist_graph_create_adjacent(comm, in.count, in.rank, weigh ? weights[0] : MPI_UNWEIGHTED, to.count, to.rank,
                                      weigh ? weights[1] : MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &a->comm));
  } else {
    OK(MPI_Dist_graph_create(comm, 1, &node, &to.count, to.rank, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &a->comm));
  }
  OK(MPI_Dist_graph_neighbors_count(a->comm, &a->sources.count, &a->destinations.count, &weighted));
  OK(MPI_Dist_graph_neighbors(a->comm, a->sources.count, a->sources.rank, weights[0], a->destinations.count,
                              a->destinations.rank, weights[1]));
}

static void make_around(MPI_Comm comm, int rank, int size, enum Topology kind, struct CollLoop* loop,
                        struct Around* a) {
  uint64_t draw = check_random(&loop->shared) >> 40;
  memset(a, 0, sizeof *a);
  a->rank = rank;
  a->size = size;
  if (kind <= kCube) make_grid(comm, size, 1 + (int)kind, &loop->shared, a);
  if (kind == kGraph) make_graph(comm, size, draw, a);
  if (kind >= kAdjacent) make_distributed(comm, size, kind == kAdjacent, draw, &loop->own, a);
  OK(MPI_Comm_set_errhandler(a->comm, MPI_ERRORS_RETURN));
  int ints = (int)(sizeof a->destinations / sizeof(int));
  OK(MPI_Allgather(&a->destinations, ints, MPI_INT, a->of, ints, MPI_INT, coll_host()));
}

// The place among its sender's destinations of what comes in from place `in`: the k-th edge from there is the k-th here
// (MPI standard 8.6).
static int place_at_sender(const struct Around* a, int in) {
  int k = 0, from = a->sources.rank[in];
  for (int i = 0; i < in; ++i) k += a->sources.rank[i] == from;
  for (int i = 0; i < a->of[from].count; ++i)
    if (a->of[from].rank[i] == a->rank && k-- == 0) return i;
  check_fail(__FILE__, __LINE__, "source %d of rank %d has no such destination", from, a->rank);
  return 0;
}

// ---- one call

enum What { kToAll, kToAllv, kEach, kEachv, kEachw, kNeighborWhats };
static const char* const kWhatNames[] = {"Neighbor_allgather", "Neighbor_allgatherv", "Neighbor_alltoall",
                                         "Neighbor_alltoallv", "Neighbor_alltoallw"};

struct Item {
  enum What what;
  enum CollForm form;
  int item, unit, units;
  struct Around around;
  struct CollSide send, recv;
};

#define EACH_WHAT(CALL)                                                                                          \
  switch (it->what) {                                                                                            \
    case kToAll:                                                                                                 \
      CALL(eighbor_allgather, out, s->counts[0], s->handles[0], in, r->counts[0], r->handles[0], comm);          \
    case kToAllv:                                                                                                \
      CALL(eighbor_allgatherv, out, s->counts[0], s->handles[0], in, r->counts, r->displs, r->handles[0], comm); \
    case kEach:                                                                                                  \
      CALL(eighbor_alltoall, out, s->counts[0], s->handles[0], in, r->counts[0], r->handles[0], comm);           \
    case kEachv:                                                                                                 \
      CALL(eighbor_alltoallv, out, s->counts, s->displs, s->handles[0], in, r->counts, r->displs, r->handles[0], \
           comm);                                                                                                \
    case kEachw:                                                                                                 \
      CALL(eighbor_alltoallw, out, s->counts, s->at, s->handles, in, r->counts, r->at, r->handles, comm);        \
    default:                                                                                                     \
      return MPI_ERR_OTHER;                                                                                      \
  }
#define ARGUMENTS                                       \
  const struct CollSide *s = &it->send, *r = &it->recv; \
  const void* out = s->buffer.base;                     \
  void* in = r->buffer.base;                            \
  MPI_Comm comm = it->around.comm

#define AS_BLOCKING(name, ...) return MPI_N##name(__VA_ARGS__)
static int blocking(const struct Item* it) {
  ARGUMENTS;
  EACH_WHAT(AS_BLOCKING)
}
#define AS_NONBLOCKING(name, ...) return MPI_In##name(__VA_ARGS__, request)
static int nonblocking(const struct Item* it, MPI_Request* request) {
  ARGUMENTS;
  EACH_WHAT(AS_NONBLOCKING)
}
#if COLL_PERSISTENT
#define AS_PERSISTENT(name, ...) return MPI_N##name##_init(__VA_ARGS__, MPI_INFO_NULL, request)
static int persistent(const struct Item* it, MPI_Request* request) {
  ARGUMENTS;
  EACH_WHAT(AS_PERSISTENT)
}
#else
static int persistent(const struct Item* it, MPI_Request* request) { return nonblocking(it, request); }
#endif

static void call(const struct Item* it) {
  MPI_Request request = MPI_REQUEST_NULL;
  int done = 0;
  if (it->form == kBlocking) {
    OK(blocking(it));
  } else if (it->form == kNonblocking) {
    OK(nonblocking(it, &request));
    while (it->item % 2 && !done) OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  } else {
    OK(persistent(it, &request));
    for (int i = 0; i < 2; ++i) {
      OK(MPI_Start(&request));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&request));
  }
}

// ---- what goes along the edges

static bool to_all(const struct Item* it) { return it->what <= kToAllv; }

// Of an edge: where two of a grid lead to one rank, hosts differ in which is which, so that both carry the same.
static uint64_t key_of(const struct Item* it, int from, int place) {
  if (to_all(it)) return check_key(it->item, it->what, from, -1);
  return check_key(it->item, it->what, from, it->around.grid ? 100 + it->around.of[from].rank[place] : place);
}

static int units_of(const struct Item* it, int from, int place) {
  if (it->what == kToAll || it->what == kEach) return it->units;
  uint64_t state = key_of(it, from, place);
  return coll_chance(&state, 20) ? 0 : 12 * coll_pick(&state, it->units / 12 + 2);
}

// A rank without edges has one block of no use, as the counts of all ranks have to match (Open MPI takes a count of
// nothing to receive for no call).
static void make_sides(struct Item* it, uint64_t* own) {
  const struct Around* a = &it->around;
  static const int kPerElement[] = {1, 2, 3, 4, 6, 12};
  int sent = to_all(it) ? 1 : a->destinations.count, received = a->sources.count;
  it->send.pieces = sent ? sent : 1;
  it->recv.pieces = received ? received : 1;
  it->send.listed = it->what >= kEachv;
  it->recv.listed = it->what != kToAll && it->what != kEach;
  it->send.typed = it->recv.typed = it->what == kEachw;
  it->send.units[0] = it->recv.units[0] = it->units;
  for (int b = 0; b < sent; ++b) it->send.units[b] = units_of(it, a->rank, b);
  for (int b = 0; b < received; ++b) {
    bool there = a->sources.rank[b] != MPI_PROC_NULL;
    it->recv.units[b] = there ? units_of(it, a->sources.rank[b], place_at_sender(a, b)) : it->units;
  }
  coll_side_make(&it->send, it->unit, kPerElement, 6, own, own);
  coll_side_make(&it->recv, it->unit, kPerElement, 6, own, own);
  for (int b = 0; b < sent; ++b) coll_side_put(&it->send, b, key_of(it, a->rank, b));
  memcpy(it->send.buffer.area, it->send.buffer.image, it->send.buffer.len_bytes);
  for (int b = 0; b < received; ++b)
    if (a->sources.rank[b] != MPI_PROC_NULL)
      coll_side_put(&it->recv, b, key_of(it, a->sources.rank[b], place_at_sender(a, b)));
}

static int pick_units(uint64_t* shared, int unit, int size) {
  static const int kBytes[] = {64, 1000, 4096, 20000, 65536, 300000};
  int roll = coll_pick(shared, 100);
  if (roll < 10) return 0;
  if (roll < 40) return 12;
  int bytes = kBytes[coll_pick(shared, size > 4 ? 4 : 6)];
  return bytes / coll_unit_bytes(unit) / 12 * 12;
}

// Calls once on it->around and verifies what came.
static void exchange(struct Item* it, struct CollLoop* loop) {
  unsigned char stack[40000];
  coll_lend_stack(stack, sizeof stack);
  it->item = loop->item;
  it->unit = coll_pick(&loop->shared, kUnits);
  it->units = pick_units(&loop->shared, it->unit, it->around.size);
  make_sides(it, &loop->own);
  static char name[160];  // the watchdog shows it
  snprintf(name, sizeof name, "%s %s item %d: %d units of %d bytes", coll_form_name(it->form), kWhatNames[it->what],
           it->item, it->units, coll_unit_bytes(it->unit));
  check_at(name, it->item);
  if (it->around.comm != MPI_COMM_NULL) {
    if (coll_chance(&loop->own, 5)) check_stay_away_ms(1);
    call(it);
    coll_verify(&it->send.buffer, name);
    coll_verify(&it->recv.buffer, name);
  }
  coll_side_free(&it->send);
  coll_side_free(&it->recv);
  coll_lend_stack(NULL, 0);
}

static void neighbours(MPI_Comm comm, int rank, int size, enum What what, enum CollForm form) {
  static struct Item it;
  struct CollLoop loop = coll_loop(check_key((int)what, (int)form, 9, 9), kTopologies, 2000);
  it.what = what;
  it.form = form;
  while (coll_next(&loop)) {
    make_around(comm, rank, size, (enum Topology)(loop.item % kTopologies), &loop, &it.around);
    for (int i = 0; i < 2; ++i) exchange(&it, &loop);
    OK(MPI_Comm_free(&it.around.comm));
  }
}
COLL_CASES(coll_neighbors, allgather, kToAll, neighbours);
COLL_CASES(coll_neighbors, allgatherv, kToAllv, neighbours);
COLL_CASES(coll_neighbors, alltoall, kEach, neighbours);
COLL_CASES(coll_neighbors, alltoallv, kEachv, neighbours);
COLL_CASES(coll_neighbors, alltoallw, kEachw, neighbours);

// A duplicate has the topology, too (MPI standard 8.1).
static void duplicates(MPI_Comm comm, int rank, int size, int way) {
  static struct Item it;
  struct CollLoop loop = coll_loop(check_key(way, 4, 4, 4), kTopologies, 200);
  while (coll_next(&loop)) {
    MPI_Comm copy, original;
    MPI_Request request;
    make_around(comm, rank, size, (enum Topology)(loop.item % kTopologies), &loop, &it.around);
    original = it.around.comm;
    it.what = (enum What)(loop.item % kNeighborWhats);
    it.form = loop.item % 2 ? kBlocking : kNonblocking;
    if (loop.item % 3 == 0) exchange(&it, &loop);
    if (way == 0) OK(MPI_Comm_dup(original, &copy));
    if (way == 1) OK(MPI_Comm_dup_with_info(original, MPI_INFO_NULL, &copy));
    if (way == 2) {
      OK(MPI_Comm_idup(original, &copy, &request));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    if (loop.item % 2) OK(MPI_Comm_free(&original));
    it.around.comm = copy;
    exchange(&it, &loop);
    OK(MPI_Comm_free(&copy));
    if (loop.item % 2 == 0) OK(MPI_Comm_free(&original));
  }
}
CASE(coll_neighbors, dup) { duplicates(comm, rank, size, 0); }
CASE(coll_neighbors, dup_with_info) { duplicates(comm, rank, size, 1); }
CASE(coll_neighbors, idup) { duplicates(comm, rank, size, 2); }
