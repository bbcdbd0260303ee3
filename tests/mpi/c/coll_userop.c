// Operations of the program: the order of operands, the arguments of the function, datatypes derived and predefined.
#include "coll.h"

// A run of ranks: joining two that do not follow each other, or a datatype that is not the caller's, spoils it. The
// order of ranks and the grouping of operands are so both seen in full: first and last must be right and nothing
// spoilt.
struct Run {
  int first, last, spoilt;
  uint32_t hash, power;  // of the sequence: a concatenation, associative and not commutative
};
enum { kBase = 1000003 };

static struct {
  MPI_Aint extent;
  int most, calls, wrong_len, wrong_type;
} seen;

static void look(const int* len, MPI_Datatype* type) {
  MPI_Aint lb, extent;
  ++seen.calls;
  if (*len < 0 || *len > seen.most) ++seen.wrong_len;
  if (MPI_Type_get_extent(*type, &lb, &extent) != MPI_SUCCESS || extent != seen.extent) ++seen.wrong_type;
}

static void join(void* in, void* inout, int* len, MPI_Datatype* type) {
  struct Run *low = in, *high = inout;
  look(len, type);
  for (int i = 0; i < *len; ++i) {
    struct Run a = low[i], b = high[i];
    high[i] = (struct Run){a.first, b.last, a.spoilt + b.spoilt + (a.last + 1 != b.first), a.hash * b.power + b.hash,
                           a.power * b.power};
  }
}

// 2x2 matrices of integers that wrap.
static void multiply(void* in, void* inout, int* len, MPI_Datatype* type) {
  look(len, type);
  for (int i = 0; i < *len; ++i) {
    uint32_t *a = (uint32_t*)in + 4 * i, *b = (uint32_t*)inout + 4 * i, c[4];
    for (int k = 0; k < 4; ++k) c[k] = a[k / 2 * 2] * b[k % 2] + a[k / 2 * 2 + 1] * b[k % 2 + 2];
    memcpy(b, c, sizeof c);
  }
}

static void add_ints(void* in, void* inout, int* len, MPI_Datatype* type) {
  look(len, type);
  for (int i = 0; i < *len; ++i) ((unsigned*)inout)[i] += ((unsigned*)in)[i];
}

// An int, a gap and a double in an element of 24 bytes.
struct Gapped {
  int a;
  char gap[4];
  double b;
  char end[8];
};
static void add_gapped(void* in, void* inout, int* len, MPI_Datatype* type) {
  struct Gapped *low = in, *high = inout;
  look(len, type);
  for (int i = 0; i < *len; ++i) {
    high[i].a += low[i].a;
    high[i].b += low[i].b;
  }
}

enum Kind { kJoin, kMultiply, kAddInts, kAddGapped, kOpKinds };
struct OpType {
  MPI_Op op;
  MPI_Datatype type;
  size_t bytes;
};

static struct OpType make_op(enum Kind kind) {
  static MPI_User_function* const functions[kOpKinds] = {join, multiply, add_ints, add_gapped};
  static const size_t kBytes[kOpKinds] = {sizeof(struct Run), 16, 4, sizeof(struct Gapped)};
  struct OpType made = {.bytes = kBytes[kind]};
  OK(MPI_Op_create(functions[kind], kind >= kAddInts, &made.op));
  if (kind == kJoin || kind == kMultiply) {
    OK(MPI_Type_contiguous(kind == kJoin ? 5 : 4, MPI_INT, &made.type));
  } else if (kind == kAddInts) {
    OK(MPI_Type_dup(MPI_INT, &made.type));
  } else {
    MPI_Datatype loose, fields[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Aint at[2] = {offsetof(struct Gapped, a), offsetof(struct Gapped, b)};
    OK(MPI_Type_create_struct(2, (int[2]){1, 1}, at, fields, &loose));
    OK(MPI_Type_create_resized(loose, 0, sizeof(struct Gapped), &made.type));
    OK(MPI_Type_free(&loose));
  }
  OK(MPI_Type_commit(&made.type));
  return made;
}

static void operand_of(enum Kind kind, void* out, int rank, int index) {
  uint32_t draw = (uint32_t)check_key(kind, rank, index, 9);
  switch (kind) {
    case kJoin:
      *(struct Run*)out = (struct Run){rank, rank, 0, draw, kBase};
      break;
    case kMultiply:
      for (unsigned k = 0; k < 4; ++k) ((uint32_t*)out)[k] = draw >> k | 1;
      break;
    case kAddInts:
      *(unsigned*)out = draw;
      break;
    default:
      *(struct Gapped*)out = (struct Gapped){.a = (int)(draw % 1000), .b = draw % 777};
  }
}

// The operands of ranks [0, last] in order.
static void wanted_of(enum Kind kind, struct Gapped out[2], int last, int index) {
  static MPI_User_function* const functions[kOpKinds] = {join, multiply, add_ints, add_gapped};
  struct Gapped right[2];
  int one = 1;
  MPI_Datatype any = MPI_INT;
  memset(out, 0, 2 * sizeof *out);
  operand_of(kind, out, 0, index);
  for (int r = 1; r <= last; ++r) {
    memset(right, 0, sizeof right);
    operand_of(kind, right, r, index);
    functions[kind](out, right, &one, &any);
    memcpy(out, right, sizeof right);
  }
}

static bool same(enum Kind kind, const void* a, const void* b) {
  if (kind == kJoin) return memcmp(a, b, sizeof(struct Run)) == 0;
  if (kind == kMultiply) return memcmp(a, b, 16) == 0;
  if (kind == kAddInts) return memcmp(a, b, 4) == 0;
  const struct Gapped *x = a, *y = b;
  return x->a == y->a && x->b == y->b;
}

static int first_of(enum CollWhat what, const int* counts, int rank) {
  int first = 0;
  if (what == kReduceScatter || what == kReduceScatterBlock) {
    for (int r = 0; r < rank; ++r) first += counts[r];
  }
  return first;
}

static void one(MPI_Comm comm, int rank, int size, enum CollWhat what, enum CollForm form, struct CollLoop* loop) {
  static const int kCounts[] = {1, 2, 3, 7, 50, 340, 1000, 4100, 20000};
  enum Kind kind = (enum Kind)coll_pick(&loop->shared, kOpKinds);
  struct OpType how = make_op(kind);
  int each = kCounts[coll_pick(&loop->shared, 9)], counts[kMostRanks], total = 0;
  bool parts = what == kReduceScatter || what == kReduceScatterBlock;
  for (int r = 0; r < size; ++r) {
    counts[r] = what == kReduceScatter && r % 3 == 1 ? 0 : parts ? (each + size - 1) / size : each;
    total += counts[r];
  }
  int given = parts ? total : each, count = parts ? counts[rank] : each;
  bool in_place = coll_chance(&loop->shared, 25) && !parts;
  struct CollCall call = {.what = what, .form = form, .comm = comm, .root = coll_pick(&loop->shared, size)};
  bool here = what == kReduce ? rank == call.root : !(what == kExscan && rank == 0);
  if (what == kReduce && rank != call.root) in_place = false;
  struct CollBuffer in, out;
  coll_make(&in, 0, (MPI_Aint)((size_t)given * how.bytes), &loop->own);
  coll_make(&out, 0, (MPI_Aint)((size_t)count * how.bytes), &loop->own);
  for (int i = 0; i < given; ++i) operand_of(kind, in.base + (size_t)i * how.bytes, rank, i);
  if (in_place) memcpy(out.base, in.base, (size_t)count * how.bytes);
  coll_accept(&in, 0, (size_t)given * how.bytes);
  call.send = in_place ? MPI_IN_PLACE : in.base;
  call.recv = what == kReduce && !here ? NULL : out.base;
  call.recvcount = count;
  call.recvcounts = counts;
  call.recvtype = how.type;
  call.op = how.op;
  seen.extent = (MPI_Aint)how.bytes;
  seen.most = given;
  seen.calls = seen.wrong_len = seen.wrong_type = 0;
  OK(coll_call(&call));
  EXPECT(seen.wrong_len == 0, "%s: the function was called with a length outside of 0..%d", coll_what_name(what),
         given);
  EXPECT(seen.wrong_type == 0, "%s: the function was called with another datatype", coll_what_name(what));
  int last = what == kScan ? rank : what == kExscan ? rank - 1 : size - 1, first = first_of(what, counts, rank);
  for (int i = 0; here && i < count; i += 1 + count / 200) {
    struct Gapped wanted[2];
    wanted_of(kind, wanted, last, first + i);
    if (same(kind, out.base + (size_t)i * how.bytes, wanted)) continue;
    const struct Run* run = (const struct Run*)(out.base + (size_t)i * how.bytes);
    EXPECT(false, "%s, operation %d, item %d, %d elements%s: element %d is wrong (as a run %d..%d, %d joints spoilt)",
           coll_what_name(what), kind, loop->item, count, in_place ? ", in place" : "", i, run->first, run->last,
           run->spoilt);
    break;
  }
  coll_accept(&out, 0, (size_t)count * how.bytes);
  coll_verify(&in, "operands of an operation of the program");
  coll_verify(&out, "the result of an operation of the program");
  coll_free(&in);
  coll_free(&out);
  OK(MPI_Type_free(&how.type));
  OK(MPI_Op_free(&how.op));
}

static void user_op(MPI_Comm comm, int rank, int size, enum CollWhat what, enum CollForm form) {
  struct CollLoop loop = coll_loop(check_key(what, form, 6, 6), 6, 2000);
  while (coll_next(&loop)) one(comm, rank, size, what, form, &loop);
}
COLL_CASES(coll_userop, reduce, kReduce, user_op);
COLL_CASES(coll_userop, allreduce, kAllreduce, user_op);
COLL_CASES(coll_userop, reduce_scatter, kReduceScatter, user_op);
COLL_CASES(coll_userop, reduce_scatter_block, kReduceScatterBlock, user_op);
COLL_CASES(coll_userop, scan, kScan, user_op);
COLL_CASES(coll_userop, exscan, kExscan, user_op);

CASE(coll_userop, reduce_local) {
  for (int kind = 0; kind < kOpKinds; ++kind) {
    struct OpType how = make_op((enum Kind)kind);
    unsigned char *in = check_buffer(10 * how.bytes), *inout = check_buffer(10 * how.bytes);
    for (int i = 0; i < 10; ++i) {
      operand_of((enum Kind)kind, in + (size_t)i * how.bytes, 0, i);
      operand_of((enum Kind)kind, inout + (size_t)i * how.bytes, 1, i);
    }
    OK(MPI_Reduce_local(in, inout, 10, how.type, how.op));
    for (int i = 0; i < 10; ++i) {
      struct Gapped wanted[2];
      wanted_of((enum Kind)kind, wanted, 1, i);
      EXPECT(same((enum Kind)kind, inout + (size_t)i * how.bytes, wanted), "operation %d, element %d", kind, i);
    }
    OK(MPI_Type_free(&how.type));
    OK(MPI_Op_free(&how.op));
  }
}
