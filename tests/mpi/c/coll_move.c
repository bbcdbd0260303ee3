// Collectives that move data: random roots, sizes, layouts, kinds of memory, in place. What must arrive where is worked
// out here and compared byte for byte, with everything around it; send buffers must stay as they are.
#include "coll.h"

// Several hosts cut messages by the extent or count of their own datatype, lose count when one rank has everything, or
// hang in place: so these are cases of their own.
enum Spread { kAlike, kUnlike, kLopsided, kInPlace };

struct Item {
  enum CollWhat what;
  int rank, size, root, unit, item;
  bool in_place;
  enum Spread spread;
  int units[kMostRanks][kMostRanks];  // from, to
};

static bool is_listed(enum CollWhat what) {
  return what == kGatherv || what == kScatterv || what == kAllgatherv || what == kAlltoallv || what == kAlltoallw;
}

// Units per element with which a type can carry all pieces of the item, on whatever rank; returns how many there are.
static int common_units(const struct Item* it, int* allowed) {
  static const int kTry[] = {12, 6, 4, 3, 2, 1};
  int count = 0;
  for (int i = 0; i < 6; ++i) {
    bool fits = true;
    for (int p = 0; p < it->size * it->size; ++p) fits = fits && it->units[p / it->size][p % it->size] % kTry[i] == 0;
    if (fits) allowed[count++] = kTry[i];
  }
  return count;
}

static uint64_t key_of(const struct Item* it, int from, int to) {
  bool same_for_all = it->what == kBcast || it->what == kAllgather || it->what == kAllgatherv;
  return check_key(it->item, it->what, from, same_for_all ? -1 : to);
}

// A side with a piece for one rank has it for the root.
static int first_peer(const struct Item* it, const struct CollSide* side) {
  return side->pieces == it->size ? 0 : it->root;
}

static void fill_piece(const struct Item* it, struct CollSide* side, int piece, bool sent) {
  int peer = first_peer(it, side) + piece;
  coll_side_put(side, piece, sent ? key_of(it, it->rank, peer) : key_of(it, peer, it->rank));
}

static int pick_units(uint64_t* shared, int unit, int size) {
  static const int kBytes[] = {0, 64, 200, 1000, 4096, 16384, 65536, 1 << 20, 3 << 20};
  int roll = coll_pick(shared, 100);
  if (roll < 35) return coll_pick(shared, 8);
  int kind = roll < 70 ? coll_pick(shared, 4) : roll < 97 ? 3 + coll_pick(shared, 4) : 7 + coll_pick(shared, 2);
  int bytes = kBytes[kind] / (kind > 6 && size > 3 ? 4 : 1);
  int units = bytes / coll_unit_bytes(unit) + coll_pick(shared, 3) - 1;
  if (units < 0) units = 0;
  return coll_chance(shared, 50) ? units : units / 12 * 12;
}

// Who sends how much to whom.
static void plan(struct Item* it, uint64_t* shared) {
  bool pairs = it->what == kAlltoallv || it->what == kAlltoallw;
  int all = pick_units(shared, it->unit, it->size);
  for (int i = 0; i < it->size; ++i) {
    for (int j = 0; j < it->size; ++j) {
      int units = all;
      if (is_listed(it->what)) {
        uint64_t draw = check_key(it->item, pairs ? (i < j ? i : j) : 0, pairs ? (i < j ? j : i) : 0, (int)*shared);
        // Gatherv and Allgatherv tell by the sender, Scatterv by the receiver; pairs are symmetric, as in place needs.
        if (!pairs) draw = check_key(it->item, it->what == kScatterv ? j : i, 0, (int)*shared);
        units = coll_chance(&draw, 20) ? 0 : (int)(draw % 5) * (all / 4) + (all % 12 ? (int)(draw % 3) : 0);
        if (it->spread == kLopsided)
          units = (it->what == kScatterv ? j : i) == it->root && (!pairs || i == j) ? all * 2 : 0;
      }
      it->units[i][j] = units;
    }
  }
  check_random(shared);
}

static void set_up(const struct Item* it, struct CollSide* send, struct CollSide* recv) {
  bool is_root = it->rank == it->root, listed = is_listed(it->what);
  send->pieces = recv->pieces = 1;
  send->listed = recv->listed = false;
  send->typed = recv->typed = it->what == kAlltoallw;
  switch (it->what) {
    case kBcast:
      send->pieces = is_root;
      recv->pieces = !is_root;
      break;
    case kGather:
    case kGatherv:
      recv->pieces = is_root ? it->size : 0;
      recv->listed = listed;
      break;
    case kScatter:
    case kScatterv:
      send->pieces = is_root ? it->size : 0;
      send->listed = listed;
      break;
    case kAllgather:
    case kAllgatherv:
      recv->pieces = it->size;
      recv->listed = listed;
      break;
    default:
      send->pieces = recv->pieces = it->size;
      send->listed = recv->listed = listed;
  }
  for (int p = 0; p < it->size; ++p) {
    int s = first_peer(it, send) + p, r = first_peer(it, recv) + p;
    send->units[p] = s < it->size ? it->units[it->rank][s] : 0;
    recv->units[p] = r < it->size ? it->units[r][it->rank] : 0;
  }
}

// In place: the piece, or for Alltoall all pieces, that this rank would send lies where it would receive it.
static void apply_in_place(const struct Item* it, struct CollSide* send, struct CollSide* recv, struct CollCall* call) {
  struct CollSide* kept = it->what == kScatter || it->what == kScatterv ? send : recv;
  struct CollSide* unused = kept == send ? recv : send;
  bool here = it->what >= kAllgather || it->rank == it->root;
  if (!here) return;
  coll_side_free(unused);
  unused->pieces = 0;
  if (kept == send) {
    call->recv = MPI_IN_PLACE;
    call->recvcount = -1;
    call->recvtype = MPI_DATATYPE_NULL;
    return;
  }
  call->send = MPI_IN_PLACE;
  call->sendcount = -1;
  call->sendtype = MPI_DATATYPE_NULL;
  call->sendcounts = call->sdispls = NULL;
  call->sendtypes = NULL;
  for (int p = 0; p < recv->pieces; ++p) {
    if (it->what >= kAlltoall || p == it->rank) fill_piece(it, recv, p, true);
  }
}

static void fill(const struct Item* it, struct CollSide* send, struct CollSide* recv) {
  for (int p = 0; p < send->pieces; ++p) fill_piece(it, send, p, true);
  if (send->pieces) memcpy(send->buffer.area, send->buffer.image, send->buffer.len_bytes);
  if (recv->pieces) memcpy(recv->buffer.area, recv->buffer.image, recv->buffer.len_bytes);
  for (int p = 0; p < recv->pieces; ++p) fill_piece(it, recv, p, false);
}

static void arguments(const struct Item* it, struct CollSide* send, struct CollSide* recv, struct CollCall* call) {
  // What is not significant at a rank is nonsense there.
  call->sendcount = call->recvcount = -1;
  call->sendtype = call->recvtype = MPI_DATATYPE_NULL;
  if (send->pieces) {
    call->send = send->buffer.base;
    call->sendcount = send->counts[0];
    call->sendtype = send->handles[0];
    call->sendcounts = send->counts;
    call->sdispls = send->displs;
    call->sendtypes = send->handles;
  }
  struct CollSide* side = it->what == kBcast && send->pieces ? send : recv;
  if (side->pieces) {
    call->recv = side->buffer.base;
    call->recvcount = side->counts[0];
    call->recvtype = side->handles[0];
    call->recvcounts = side->counts;
    call->rdispls = side->displs;
    call->recvtypes = side->handles;
  }
}

static void move_one(MPI_Comm comm, struct Item* it, struct CollLoop* loop, enum CollForm form) {
  unsigned char stack[40000];
  static struct CollSide send, recv;
  coll_lend_stack(stack, sizeof stack);
  it->item = loop->item;
  it->root = coll_pick(&loop->shared, it->size);
  it->unit = coll_pick(&loop->shared, kUnits);
  it->in_place = it->spread == kInPlace;
  plan(it, &loop->shared);
  set_up(it, &send, &recv);
  // Displacements and kinds of memory are always each rank's own.
  uint64_t types = it->spread == kUnlike ? loop->own : check_random(&loop->shared), others = types + 1000000;
  int each[6], n = common_units(it, each);
  if (send.pieces) coll_side_make(&send, it->unit, each, n, &types, &loop->own);
  if (recv.pieces) coll_side_make(&recv, it->unit, each, n, &others, &loop->own);
  check_random(&loop->own);
  struct CollCall call = {.what = it->what, .form = form, .comm = comm, .root = it->root};
  arguments(it, &send, &recv, &call);
  if (it->in_place) apply_in_place(it, &send, &recv, &call);
  fill(it, &send, &recv);
  call.starts = it->in_place && it->what >= kAlltoall ? 1 : 2;
  if (coll_chance(&loop->own, 5)) check_stay_away_ms(1);
  static char name[200];  // the watchdog shows it
  snprintf(name, sizeof name, "%s %s item %d: root %d, %d units of %d bytes%s", coll_form_name(form),
           coll_what_name(it->what), it->item, it->root, it->units[it->root][it->root], coll_unit_bytes(it->unit),
           it->in_place ? ", in place" : "");
  check_at(name, it->item);
  int code = coll_call(&call);
  OK(code);
  char text[240];
  if (send.pieces) {
    snprintf(text, sizeof text, "%s, what was sent", name);
    coll_verify(&send.buffer, text);
  }
  if (recv.pieces) coll_verify(&recv.buffer, name);
  coll_side_free(&send);
  coll_side_free(&recv);
  coll_lend_stack(NULL, 0);
}

static void move(MPI_Comm comm, int rank, int size, enum CollWhat what, enum CollForm form, enum Spread spread) {
  struct CollLoop loop = coll_loop(check_key(what, form, spread, 1), 4, 4000);
  struct Item it = {.what = what, .rank = rank, .size = size, .spread = spread};
  if (spread == kUnlike && size < 2) SKIP("needs 2 ranks");
  coll_all_constructors = spread == kUnlike;
  while (coll_next(&loop)) move_one(comm, &it, &loop, form);
  coll_all_constructors = false;
}

// Send and receive side differ, but all ranks agree.
static void move_alike(MPI_Comm comm, int rank, int size, enum CollWhat what, enum CollForm form) {
  move(comm, rank, size, what, form, kAlike);
}
// Each rank has datatypes of its own: only the signatures match.
static void move_unlike(MPI_Comm comm, int rank, int size, enum CollWhat what, enum CollForm form) {
  move(comm, rank, size, what, form, kUnlike);
}
// One rank has everything, the others nothing.
static void move_lopsided(MPI_Comm comm, int rank, int size, enum CollWhat what, enum CollForm form) {
  move(comm, rank, size, what, form, kLopsided);
}
static void move_in_place(MPI_Comm comm, int rank, int size, enum CollWhat what, enum CollForm form) {
  move(comm, rank, size, what, form, kInPlace);
}

#define BOTH(name, what)                             \
  COLL_CASES(coll_move, name, what, move_alike);     \
  COLL_CASES(coll_layouts, name, what, move_unlike); \
  COLL_CASES(coll_in_place, name, what, move_in_place)
#define ALL(name, what) \
  BOTH(name, what);     \
  COLL_CASES(coll_lopsided, name, what, move_lopsided)
COLL_CASES(coll_move, bcast, kBcast, move_alike);
COLL_CASES(coll_layouts, bcast, kBcast, move_unlike);
BOTH(gather, kGather);
ALL(gatherv, kGatherv);
BOTH(scatter, kScatter);
ALL(scatterv, kScatterv);
BOTH(allgather, kAllgather);
ALL(allgatherv, kAllgatherv);
BOTH(alltoall, kAlltoall);
ALL(alltoallv, kAlltoallv);
ALL(alltoallw, kAlltoallw);

// The tests' own idea of a layout against the host's: one pack, without a message.
CASE(coll_types, layout) {
  struct CollLoop loop = coll_loop(7, 20, 2000);
  while (coll_next(&loop)) {
    int unit = coll_pick(&loop.own, kUnits), count = coll_pick(&loop.own, 5), place = 0, len_bytes;
    struct CollType type = coll_type(unit, 1 + coll_pick(&loop.own, 12), &loop.own);
    struct CollType plain = coll_type_plain(unit, type.units);
    struct CollBuffer buffer;
    MPI_Aint low, high, lb, extent;
    coll_span(&type, count, &low, &high);
    coll_make(&buffer, low, high, &loop.own);
    coll_put(coll_image(&buffer, 0), &type, count, 5);
    memcpy(buffer.area, buffer.image, buffer.len_bytes);
    OK(MPI_Pack_size(count, type.type, comm, &len_bytes));
    unsigned char *packed = check_buffer((size_t)len_bytes), *wanted = check_buffer((size_t)len_bytes);
    OK(MPI_Pack(buffer.base, count, type.type, packed, len_bytes, &place, comm));
    EXPECT_EQ(place, count * type.units * coll_unit_bytes(unit));
    coll_put(wanted, &plain, count, 5);
    EXPECT(memcmp(packed, wanted, (size_t)place) == 0, "item %d: MPI_Pack gives other bytes", loop.item);
    OK(MPI_Type_get_extent(type.type, &lb, &extent));
    EXPECT_EQ(extent, type.extent);
    coll_verify(&buffer, "packed");
    coll_free(&buffer);
    coll_type_free(&type);
    coll_type_free(&plain);
  }
}
