// Reductions: each predefined operation on each predefined datatype, compared with the host's result bit for bit where
// the order of combination cannot matter, else within the error bound of the exact result. A result repeats bit for
// bit, and is the same on all ranks. What the host refuses has to be refused with the same class.
#include "coll.h"
#include "coll_operand.h"

struct Task {
  enum CollWhat what;
  enum CollForm form;
  MPI_Comm comm;
  int rank, size, root, op, count, total, item;  // count: elements of this rank's result
  int counts[kMostRanks];
  bool in_place, exactly;
  const struct Operand* type;
  uint64_t key;
};

static bool scatters(enum CollWhat what) { return what == kReduceScatter || what == kReduceScatterBlock; }

static const char* describe(const struct Task* t) {
  static char text[200];
  snprintf(text, sizeof text, "%s %s of %d %s by %s, root %d, item %d%s", coll_form_name(t->form),
           coll_what_name(t->what), t->count, t->type->name, operand_op_name(t->op), t->root, t->item,
           t->in_place ? ", in place" : "");
  return text;
}

// Has this rank a result that the standard defines?
static bool has_result(const struct Task* t) {
  if (t->what == kReduce) return t->rank == t->root;
  return !(t->what == kExscan && t->rank == 0);
}

static int elements_in(const struct Task* t) { return scatters(t->what) ? t->total : t->count; }

// How many ranks, from the first on, this rank's result combines; and what one of them was filled with.
static int ranks_in(const struct Task* t) {
  return t->what == kScan ? t->rank + 1 : t->what == kExscan ? t->rank : t->size;
}
static uint64_t key_of(const struct Task* t, int rank) { return t->key + (uint64_t)rank * 1000003; }

// One reduction on `comm`. The result, or where that lies, stays in `out`.
static int reduce_once(const struct Task* t, MPI_Comm comm, struct CollBuffer* in, struct CollBuffer* out) {
  bool here = t->in_place && (t->what != kReduce || t->rank == t->root);
  bool receives = t->what != kReduce || t->rank == t->root;
  struct CollCall call = {.what = t->what, .form = t->form, .comm = comm, .root = t->root};
  call.send = here ? MPI_IN_PLACE : in->base;
  call.recv = receives ? out->base : NULL;
  call.recvcount = t->count;
  call.recvcounts = t->counts;
  call.recvtype = t->type->type;
  call.op = operand_op(t->op);
  if (here) operand_fill(t->type, out->base, elements_in(t), key_of(t, t->rank), t->op, t->exactly);
  if (here && out->kind >= 0) coll_accept(out, 0, (size_t)elements_in(t) * (size_t)t->type->extent);
  check_at(describe(t), t->item);
  return coll_call(&call);
}

// The exact result of element `index` in 113 bits, and by how much a result may be off (MPI leaves the order open).
static void expect_near(const struct Task* t, const void* result, int first) {
  int parts = t->type->kind == kComplex && t->op == kSum ? 2 : 1;
  int bytes = t->type->kind == kComplex ? t->type->bytes / 2 : t->type->bytes;
  double epsilon = bytes == 4 ? 0x1p-23 : bytes == 8 ? 0x1p-52 : 0x1p-52;
  int ranks = ranks_in(t);
  int step = t->count > 300 ? t->count / 100 : 1;
  for (int i = 0; i < t->count; i += step) {
    for (int part = 0; part < parts; ++part) {
      __float128 sum = 0, weight = 0, product = 1;
      for (int r = 0; r < ranks; ++r) {
        __float128 value = operand_value(t->type, key_of(t, r), first + i, part);
        sum += value;
        weight += value < 0 ? -value : value;
        product *= value;
      }
      __float128 wanted = t->op == kSum ? sum : product;
      __float128 bound = (t->op == kSum ? weight : product < 0 ? -product : product) * ranks * epsilon;
      __float128 off = (__float128)operand_read(t->type, result, i, part) - wanted;
      if (off < 0) off = -off;
      if (off > bound) {
        EXPECT(false, "%s: element %d is %.17g, exactly %.17g, off by more than %.3g", describe(t), i,
               operand_read(t->type, result, i, part), (double)wanted, (double)bound);
        return;
      }
    }
  }
}

// Where the host's result is another one: is this rank's what the operands give? A host may be wrong.
static bool expect_chosen(const struct Task* t, const void* result, int first) {
  int ranks = ranks_in(t);
  for (int i = 0; i < t->count; ++i) {
    unsigned char wanted[64], other[64];
    for (int r = 0; r < ranks; ++r) {
      uint64_t key = key_of(t, r) + (uint64_t)(first + i);
      operand_fill(t->type, r ? other : wanted, 1, key, t->op, true);
      if (r) operand_choose(t->type, wanted, other, t->op);
    }
    if (operand_differs(t->type, (const unsigned char*)result + (size_t)i * (size_t)t->type->extent, wanted, 1, t->op) <
        0)
      continue;
    EXPECT(false, "%s: element %d is not what the operands give", describe(t), i);
    return false;
  }
  return true;
}

static void pick_counts(struct Task* t, int count, uint64_t* shared) {
  t->total = 0;
  for (int r = 0; r < t->size; ++r) {
    t->counts[r] = t->what == kReduceScatterBlock ? count : coll_chance(shared, 25) ? 0 : coll_pick(shared, count + 1);
    t->total += t->counts[r];
  }
  t->count = scatters(t->what) ? t->counts[t->rank] : count;
}

static void compare(const struct Task* t, struct CollBuffer* mine, struct CollBuffer* again, struct CollBuffer* host) {
  if (!has_result(t)) return;
  // Padding of elements, and behind the result of a Reduce_scatter in place, may hold anything.
  size_t written = (size_t)(t->in_place ? elements_in(t) : t->count) * (size_t)t->type->extent;
  bool general = !t->exactly && (t->op == kSum || t->op == kProd) &&
                 (t->type->kind == kFloat || (t->type->kind == kComplex && t->op == kSum));
  int bad = operand_differs(t->type, mine->base, again->base, t->count, kOps);
  EXPECT(bad < 0, "%s: element %d differs when the call is repeated", describe(t), bad);
  int first = 0;
  for (int r = 0; r < t->rank && scatters(t->what); ++r) first += t->counts[r];
  if (general) {
    expect_near(t, mine->base, first);
  } else if (t->exactly || t->type->kind != kComplex) {
    bad = operand_differs(t->type, mine->base, host->base, t->count, t->op);
    bool host_wrong = bad >= 0 && t->type->kind == kPair && (t->op == kMinloc || t->op == kMaxloc) &&
                      expect_chosen(t, mine->base, first);
    EXPECT(bad < 0 || host_wrong, "%s: element %d is not the host's (%s memory)", describe(t), bad, coll_kind(mine));
  }
  coll_accept(mine, 0, written);
  coll_accept(again, 0, written);
}

static void reduce_task(struct Task* t, struct CollLoop* loop) {
  unsigned char stack[50000];
  coll_lend_stack(stack, sizeof stack);
  struct CollBuffer in, mine, again, host;
  MPI_Aint in_bytes = (MPI_Aint)elements_in(t) * t->type->extent, bytes = (MPI_Aint)t->count * t->type->extent;
  if (t->in_place && in_bytes > bytes) bytes = in_bytes;
  t->key = check_key((int)check_seed(), t->item, t->what * 8 + t->form, t->op);
  coll_make(&in, 0, in_bytes, &loop->own);
  coll_make(&mine, 0, bytes, &loop->own);
  coll_make(&again, 0, bytes, &loop->own);
  coll_make(&host, 0, bytes, &loop->own);
  operand_fill(t->type, in.base, elements_in(t), key_of(t, t->rank), t->op, t->exactly);
  coll_accept(&in, 0, (size_t)in_bytes);
  struct Task apart = *t;  // a host may fail in place where this test is not about it
  apart.in_place = false;
  int host_code = reduce_once(&apart, coll_host(), &in, &host), code = reduce_once(t, t->comm, &in, &mine);
  EXPECT(check_class(code) == check_class(host_code), "%s: %s, the host gives %s", describe(t),
         check_class_name(check_class(code)), check_class_name(check_class(host_code)));
  if (code == MPI_SUCCESS && host_code == MPI_SUCCESS) {
    OK(reduce_once(t, t->comm, &in, &again));
    compare(t, &mine, &again, &host);
    if (t->what == kExscan && t->rank == 0) {
      coll_accept(&mine, 0, (size_t)bytes);  // undefined there, but nothing beside it
      coll_accept(&again, 0, (size_t)bytes);
    }
    coll_verify(&mine, describe(t));
    coll_verify(&again, describe(t));
    if (t->what == kAllreduce && t->type->extent == t->type->bytes && t->type->kind == kFloat && t->type->bytes < 16 &&
        (t->op == kSum || t->op == kProd)) {
      coll_expect_same(coll_hash(mine.base, (size_t)bytes), describe(t));
    }
  }
  coll_verify(&in, "the operands of a reduction");
  coll_free(&in);
  coll_free(&mine);
  coll_free(&again);
  coll_free(&host);
  coll_lend_stack(NULL, 0);
}

static int pick_count(uint64_t* shared, int extent, int size) {
  static const int kBytes[] = {4096, 16384, 65536, 1 << 20, 4 << 20};
  int roll = coll_pick(shared, 100);
  if (roll < 15) return roll % 2;
  if (roll < 50) return 2 + coll_pick(shared, 40);
  if (roll < 65) return 1000 + coll_pick(shared, 9);
  int count = kBytes[roll < 96 ? coll_pick(shared, 3) : 3 + coll_pick(shared, size < 4 ? 2 : 1)] / extent;
  return count + coll_pick(shared, 3) - 1;
}

// What the standard does not define is reduced by the host. MPICH, which serves much of it, then ends the job when it
// scatters in place: the result is moved to the front by a memcpy that asserts that nothing overlaps.
static bool is_left_to_the_host(const struct Task* t) { return !(t->type->ops & 1 << t->op); }

// Everything at random, mostly operations that fit the datatype.
static void at_random(MPI_Comm comm, int rank, int size, enum CollWhat what, enum CollForm form, bool in_place) {
  struct CollLoop loop = coll_loop(check_key(what, form, in_place, 3), 6, 4000);
  while (coll_next(&loop)) {
    struct Task t = {.what = what, .form = form, .comm = comm, .rank = rank, .size = size, .item = loop.item};
    t.type = operand(coll_pick(&loop.shared, operand_count()));
    static const int kFloatOps[] = {kSum, kMax, kProd, kSum};
    t.op = coll_pick(&loop.shared, kOps);
    if (t.type->kind == kFloat || t.type->kind == kComplex) t.op = kFloatOps[t.op % 4];
    if (t.type->kind == kPair) t.op = kMinloc + t.op % 2;
    if (in_place && scatters(what) && is_left_to_the_host(&t)) continue;
    t.exactly = t.type->kind == kHalf || coll_chance(&loop.shared, 50);
    t.root = coll_pick(&loop.shared, size);
    t.in_place = in_place;
    int count = pick_count(&loop.shared, t.type->extent, size);
    pick_counts(&t, scatters(what) ? count / size : count, &loop.shared);
    reduce_task(&t, &loop);
  }
}
static void apart(MPI_Comm comm, int rank, int size, enum CollWhat what, enum CollForm form) {
  at_random(comm, rank, size, what, form, false);
}
static void in_place(MPI_Comm comm, int rank, int size, enum CollWhat what, enum CollForm form) {
  at_random(comm, rank, size, what, form, true);
}
#define BOTH(name, what)                      \
  COLL_CASES(coll_reduce, name, what, apart); \
  COLL_CASES(coll_in_place, name, what, in_place)
BOTH(reduce, kReduce);
BOTH(allreduce, kAllreduce);
BOTH(reduce_scatter, kReduceScatter);
BOTH(reduce_scatter_block, kReduceScatterBlock);
BOTH(scan, kScan);
BOTH(exscan, kExscan);

// Each operation with each datatype once, few elements, fitting or not. The seed moves the beginning, so that runs that
// have no time for all of them differ in which ones they take.
static void every_pair(MPI_Comm comm, int rank, int size, enum CollWhat what) {
  int pairs = operand_count() * kOps;
  struct CollLoop loop = coll_loop(check_key(what, 4, 4, 4), 12, pairs);
  int begin = coll_pick(&loop.shared, pairs), step = pairs % 7 ? 7 : pairs % 11 ? 11 : 1;  // reaches all pairs
  while (coll_next(&loop)) {
    int at = (begin + loop.item * step) % pairs;
    struct Task t = {.what = what, .form = kBlocking, .comm = comm, .rank = rank, .size = size, .item = loop.item};
    t.type = operand(at / kOps);
    t.op = at % kOps;
    t.exactly = true;
    t.root = loop.item % size;
    pick_counts(&t, 1 + coll_pick(&loop.shared, 20), &loop.shared);
    reduce_task(&t, &loop);
  }
}
CASE(coll_pairs, reduce) { every_pair(comm, rank, size, kReduce); }
CASE(coll_pairs, allreduce) { every_pair(comm, rank, size, kAllreduce); }
CASE(coll_pairs, reduce_scatter) { every_pair(comm, rank, size, kReduceScatter); }
CASE(coll_pairs, reduce_scatter_block) { every_pair(comm, rank, size, kReduceScatterBlock); }
CASE(coll_pairs, scan) { every_pair(comm, rank, size, kScan); }
CASE(coll_pairs, exscan) { every_pair(comm, rank, size, kExscan); }

// MPI_Reduce_local against one reduction of two operands: the host's own table of operations.
CASE(coll_pairs, reduce_local) {
  struct CollLoop loop = coll_loop(5, 50, operand_count() * kOps);
  while (coll_next(&loop)) {
    const struct Operand* type = operand(loop.item % operand_count());
    int op = loop.item / operand_count() % kOps;
    size_t bytes = 33 * (size_t)type->extent;
    unsigned char *in = check_buffer(bytes), *inout = check_buffer(bytes), *out = check_buffer(bytes);
    operand_fill(type, in, 33, 1, op, true);
    operand_fill(type, inout, 33, 2, op, true);
    // On one rank a reduction is a copy; the two operands have to come from one process here.
    int code = MPI_Reduce_local(in, inout, 33, type->type, operand_op(op));
    operand_fill(type, out, 33, 2, op, true);
    int again = MPI_Reduce_local(in, out, 33, type->type, operand_op(op));
    EXPECT_EQ(check_class(again), check_class(code));
    if (code == MPI_SUCCESS) EXPECT(operand_differs(type, inout, out, 33, kOps) < 0, "%s: not repeatable", type->name);
  }
}
