// Datatypes nested at random, each with the layout that the MPI standard gives it, worked out here without asking MPI.
#include "coll.h"

// The unit "mixed", plain and with gaps: int, double, three chars, in this order of the type map.
static const int kMixedCounts[3] = {1, 1, 3};
static const MPI_Aint kMixedAt[2][3] = {{0, 4, 12}, {16, 8, 3}};
enum { kMixedPlainBytes = 15, kMixedLooseBytes = 24 };

#ifdef OPEN_MPI
static const bool kHostLosesBytes = true;
#else
static const bool kHostLosesBytes = false;
#endif
bool coll_all_constructors = false;

int coll_unit_bytes(int unit) {
  static const int kBytes[kUnits] = {1, 2, 4, 8, kMixedPlainBytes};
  return kBytes[unit];
}

static void append(struct CollType* to, const struct CollType* from, MPI_Aint shift) {
  to->map = realloc(to->map, (size_t)(to->blocks + from->blocks + 1) * sizeof *to->map);
  for (int i = 0; i < from->blocks; ++i) {
    MPI_Aint at = from->map[i].at + shift;
    struct CollBlock* last = to->blocks ? &to->map[to->blocks - 1] : NULL;
    if (last && last->at + last->len_bytes == at) {
      last->len_bytes += from->map[i].len_bytes;
    } else {
      to->map[to->blocks++] = (struct CollBlock){at, from->map[i].len_bytes};
    }
  }
  to->units += from->units;
}

static void measure(struct CollType* type) {
  type->low = type->high = 0;
  for (int i = 0; i < type->blocks; ++i) {
    MPI_Aint low = type->map[i].at, high = low + type->map[i].len_bytes;
    if (i == 0 || low < type->low) type->low = low;
    if (i == 0 || high > type->high) type->high = high;
  }
}

static struct CollType unit_type(int unit, bool loose) {
  MPI_Datatype basic[kUnits - 1] = {MPI_BYTE, MPI_SHORT, MPI_INT, MPI_DOUBLE};
  struct CollType made = {.unit = unit, .units = 1};
  made.map = malloc(3 * sizeof *made.map);
  if (unit != kUnitMixed) {
    made.blocks = 1;
    made.map[0] = (struct CollBlock){0, coll_unit_bytes(unit)};
    made.extent = coll_unit_bytes(unit);
    OK(MPI_Type_dup(basic[unit], &made.type));
  } else {
    MPI_Datatype fields[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR}, packed;
    OK(MPI_Type_create_struct(3, kMixedCounts, kMixedAt[loose], fields, &packed));
    made.extent = loose ? kMixedLooseBytes : kMixedPlainBytes;
    OK(MPI_Type_create_resized(packed, 0, made.extent, &made.type));
    OK(MPI_Type_free(&packed));
    int bytes[3] = {4, 8, 3};
    for (int i = 0; i < 3; ++i) made.map[i] = (struct CollBlock){kMixedAt[loose][i], bytes[i]};
    made.blocks = 3;
  }
  measure(&made);
  return made;
}

// `n` copies of `inner` at `at[i]` bytes, with what MPI made of it.
static struct CollType placed(struct CollType* inner, int n, const MPI_Aint* at, MPI_Datatype type) {
  struct CollType made = {.unit = inner->unit, .type = type};
  for (int i = 0; i < n; ++i) append(&made, inner, at[i]);
  measure(&made);
  OK(MPI_Type_free(&inner->type));
  free(inner->map);
  // Whatever bounds MPI has worked out, an extent of our own makes elements in a row disjoint and known.
  made.extent = (made.high - made.low + 7) / 8 * 8;
  MPI_Datatype sized;
  OK(MPI_Type_create_resized(made.type, made.low, made.extent, &sized));
  OK(MPI_Type_free(&made.type));
  made.type = sized;
  return made;
}

// One more constructor around `inner`, which it holds `n` times.
static struct CollType wrap(struct CollType inner, int n, uint64_t* state) {
  MPI_Aint step = inner.extent, at[64];
  int displs[64], ones[64], gap = coll_pick(state, 3), negative = coll_pick(state, 2);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  // Disjoint places in an order that is not rising, some of them in front of the address.
  for (int i = 0; i < n; ++i) {
    displs[i] = (negative ? n / 2 - i : i) * (1 + gap);
    ones[i] = 1;
  }
  coll_shuffle(displs, n, state);
  for (int i = 0; i < n; ++i) at[i] = displs[i] * step;
  int constructor = coll_pick(state, 8);
  if (kHostLosesBytes && !coll_all_constructors && (constructor == 0 || constructor == 2)) constructor = 3;
  switch (constructor) {
    case 0:
      OK(MPI_Type_contiguous(n, inner.type, &type));
      for (int i = 0; i < n; ++i) at[i] = i * step;
      break;
    case 1: {
      int block = n % 2 == 0 ? 2 : 1;
      OK(MPI_Type_vector(n / block, block, block + gap, inner.type, &type));
      for (int i = 0; i < n; ++i) at[i] = (i / block * (block + gap) + i % block) * step;
      break;
    }
    case 2: {
      MPI_Aint stride = (step + gap * 8 + 4) * (negative ? -1 : 1);
      OK(MPI_Type_create_hvector(n, 1, stride, inner.type, &type));
      for (int i = 0; i < n; ++i) at[i] = i * stride;
      break;
    }
    case 3:
      OK(MPI_Type_indexed(n, ones, displs, inner.type, &type));
      break;
    case 4:
      OK(MPI_Type_create_indexed_block(n, 1, displs, inner.type, &type));
      break;
    case 5:
      OK(MPI_Type_create_hindexed(n, ones, at, inner.type, &type));
      break;
    case 6:
      OK(MPI_Type_create_hindexed_block(n, 1, at, inner.type, &type));
      break;
    default: {
      MPI_Datatype fields[64];
      for (int i = 0; i < n; ++i) fields[i] = inner.type;
      OK(MPI_Type_create_struct(n, ones, at, fields, &type));
    }
  }
  return placed(&inner, n, at, type);
}

struct CollType coll_type_plain(int unit, int units) {
  struct CollType made = unit_type(unit, false);
  if (units != 1) {
    MPI_Datatype many;
    OK(MPI_Type_contiguous(units, made.type, &many));
    OK(MPI_Type_free(&made.type));
    made.type = many;
    struct CollType one = made;
    made = (struct CollType){.unit = unit, .type = many, .extent = one.extent * units};
    for (int i = 0; i < units; ++i) append(&made, &one, i * one.extent);
    free(one.map);
    measure(&made);
  }
  OK(MPI_Type_commit(&made.type));
  return made;
}

struct CollType coll_type(int unit, int units, uint64_t* state) {
  if (coll_chance(state, 35)) return coll_type_plain(unit, units);
  struct CollType made = unit_type(unit, coll_chance(state, 50));
  for (int left = units; left > 1 || (units == 1 && left == 1);) {
    int factor = left % 3 == 0 && coll_chance(state, 50) ? 3 : left % 2 == 0 ? 2 : left;
    if (coll_chance(state, 30)) factor = left;
    made = wrap(made, factor, state);
    left /= factor;
    if (left == 1) break;
  }
  if (coll_chance(state, 30)) {  // a gap behind each element, or an extent that begins elsewhere
    MPI_Datatype sized;
    made.extent += 8 * coll_pick(state, 4);
    OK(MPI_Type_create_resized(made.type, made.low - 8 * coll_pick(state, 2), made.extent, &sized));
    OK(MPI_Type_free(&made.type));
    made.type = sized;
  }
  OK(MPI_Type_commit(&made.type));
  return made;
}

void coll_type_free(struct CollType* type) {
  if (type->map) OK(MPI_Type_free(&type->type));
  free(type->map);
  type->map = NULL;
}

void coll_span(const struct CollType* type, int count, MPI_Aint* low, MPI_Aint* high) {
  *low = count ? type->low : 0;
  *high = count ? type->high + (count - 1) * type->extent : 0;
}

static void stream(unsigned char* out, size_t at, size_t n, uint64_t key) {
  while (n > 0) {
    uint64_t state = key + at / 8, word = check_random(&state);
    size_t skip = at % 8, piece = 8 - skip < n ? 8 - skip : n;
    memcpy(out, (const unsigned char*)&word + skip, piece);
    out += piece;
    at += piece;
    n -= piece;
  }
}

void coll_put(unsigned char* at, const struct CollType* type, int count, uint64_t key) {
  size_t done = 0;
  for (int i = 0; i < count; ++i) {
    for (int b = 0; b < type->blocks; ++b) {
      size_t piece = (size_t)type->map[b].len_bytes;
      stream(at + i * type->extent + type->map[b].at, done, piece, key);
      done += piece;
    }
  }
}

static const struct CollType* type_of(const struct CollSide* side, int piece) {
  return &side->types[side->typed ? piece : 0];
}

void coll_side_make(struct CollSide* side, int unit, const int* each, int n, uint64_t* types, uint64_t* own) {
  int order[kMostPieces];
  for (int p = 0; p < side->pieces; ++p) {
    if (p == 0 || side->typed) {
      int units = each[coll_pick(types, n)];
      side->types[p] = coll_type(unit, units, types);
    }
    side->counts[p] = side->units[p] / type_of(side, p)->units;
    side->handles[p] = type_of(side, p)->type;
    order[p] = p;
  }
  if (side->listed) coll_shuffle(order, side->pieces, own);
  MPI_Aint low = 0, high = 0, next = 0;
  for (int i = 0; i < side->pieces; ++i) {
    int p = order[i];
    MPI_Aint from, to;
    coll_span(type_of(side, p), side->counts[p], &from, &to);
    if (side->typed) {
      side->at[p] = (next - from + 7) / 8 * 8;
      side->displs[p] = (int)side->at[p];
      next = side->at[p] + to + 8 * coll_pick(own, 3);
    } else {
      side->displs[p] = (int)next;
      side->at[p] = next * side->types[0].extent;
      next += side->counts[p] + (side->listed ? coll_pick(own, 3) : 0);
    }
    if (side->at[p] + from < low) low = side->at[p] + from;
    if (side->at[p] + to > high) high = side->at[p] + to;
  }
  coll_make(&side->buffer, low, high, own);
}

void coll_side_put(struct CollSide* side, int piece, uint64_t key) {
  coll_put(coll_image(&side->buffer, side->at[piece]), type_of(side, piece), side->counts[piece], key);
}

void coll_side_free(struct CollSide* side) {
  if (side->pieces == 0) return;
  coll_free(&side->buffer);
  for (int p = 0; p < (side->typed ? side->pieces : 1); ++p) coll_type_free(&side->types[p]);
}
