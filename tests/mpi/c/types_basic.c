// Derived datatypes, each sent to contiguous memory and back into its own layout: a byte-exact map of what moves.
// The oracle is MPI_Pack/Unpack of the host on a small scale, and explicit index arithmetic on a large one.
#include "check.h"

enum { kIntSpace = 4096 };

// The ints of a layout in its order: map[i] says which comes i-th.
static int map[kIntSpace], map_count;
static void add(int first, int count) {
  for (int i = 0; i < count; ++i) map[map_count++] = first + i;
}

// Sends one item of `type` laid over `out`, receives it as plain ints, and these as one item of the same type into
// untouched memory.
static void round_trip(MPI_Comm comm, int rank, int left, int right, MPI_Datatype type, int base) {
  int *out = check_buffer(kIntSpace * 4), *in = check_buffer(kIntSpace * 4), count = map_count, elements = -1;
  int *flat = check_buffer((size_t)count * 4 + 4), first = left * 1000000 + base;
  for (int i = 0; i < kIntSpace; ++i) out[i] = rank * 1000000 + i;
  OK(MPI_Type_commit(&type));
  MPI_Status status = check_blank_status();
  // typed -> flat
  OK(MPI_Sendrecv(out + base, 1, type, right, 1, flat, count, MPI_INT, left, 1, comm, &status));
  EXPECT_STATUS(&status, left, 1, MPI_INT, count);
  EXPECT_EACH(count, flat[i] == first + map[i], "typed to flat: element %d is %d, expected %d", i, flat[i],
              first + map[i]);
  // flat -> typed
  for (int i = 0; i < count; ++i) flat[i] = -5 - i - rank;
  status = check_blank_status();
  OK(MPI_Sendrecv(flat, count, MPI_INT, right, 2, in + base, 1, type, left, 2, comm, &status));
  EXPECT_STATUS(&status, left, 2, type, 1);
  OK(MPI_Get_elements(&status, type, &elements));
  EXPECT_EQ(elements, count);
  EXPECT_EACH(count, in[base + map[i]] == -5 - i - left, "flat to typed: int %d is %d, expected %d", map[i],
              in[base + map[i]], -5 - i - left);
  for (int i = 0; i < count; ++i) in[base + map[i]] = UNTOUCHED_INT;
  EXPECT_BYTES(in, kIntSpace * 4, UNTOUCHED);  // and nothing outside of the type
  // typed -> typed, nonblocking, the receive posted first
  MPI_Request requests[2];
  OK(MPI_Irecv(in + base, 1, type, left, 3, comm, &requests[0]));
  OK(MPI_Isend(out + base, 1, type, right, 3, comm, &requests[1]));
  OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  EXPECT_EACH(count, in[base + map[i]] == first + map[i], "typed to typed: int %d is %d", map[i], in[base + map[i]]);
  OK(MPI_Type_free(&type));
}

// The case of one layout: what follows makes the type and adds its ints, which begin `base` ints behind the memory's
// begin.
#define LAYOUT(name, base)                           \
  static void make_##name(MPI_Datatype* type);       \
  CASE(types_basic, name) {                          \
    MPI_Datatype type;                               \
    map_count = 0;                                   \
    make_##name(&type);                              \
    round_trip(comm, rank, left, right, type, base); \
  }                                                  \
  static void make_##name(MPI_Datatype* type)

LAYOUT(contiguous, 0) {
  OK(MPI_Type_contiguous(100, MPI_INT, type));
  add(0, 100);
}

LAYOUT(vector, 0) {
  OK(MPI_Type_vector(50, 3, 8, MPI_INT, type));
  for (int i = 0; i < 50; ++i) add(8 * i, 3);
}

LAYOUT(vector_of_one_block, 0) {
  OK(MPI_Type_vector(1, 77, 3, MPI_INT, type));
  add(0, 77);
}

LAYOUT(vector_negative_stride, 1000) {
  OK(MPI_Type_vector(40, 2, -5, MPI_INT, type));
  for (int i = 0; i < 40; ++i) add(-5 * i, 2);
}

LAYOUT(hvector, 0) {
  OK(MPI_Type_create_hvector(30, 4, 7 * sizeof(int), MPI_INT, type));
  for (int i = 0; i < 30; ++i) add(7 * i, 4);
}

LAYOUT(indexed, 0) {
  int lengths[] = {3, 0, 1, 7, 2}, displacements[] = {10, 500, 0, 40, 100};
  OK(MPI_Type_indexed(5, lengths, displacements, MPI_INT, type));
  for (int b = 0; b < 5; ++b) add(displacements[b], lengths[b]);
}

LAYOUT(indexed_descending, 0) {
  int lengths[60], displacements[60];
  for (int b = 0; b < 60; ++b) {
    lengths[b] = 1 + b % 3;
    displacements[b] = 600 - 10 * b;
    add(displacements[b], lengths[b]);
  }
  OK(MPI_Type_indexed(60, lengths, displacements, MPI_INT, type));
}

LAYOUT(hindexed_negative, 100) {
  int lengths[] = {2, 5, 1};
  MPI_Aint displacements[] = {-40 * 4, 8 * 4, -3 * 4};
  OK(MPI_Type_create_hindexed(3, lengths, displacements, MPI_INT, type));
  for (int b = 0; b < 3; ++b) add((int)(displacements[b] / 4), lengths[b]);
}

LAYOUT(indexed_block, 0) {
  for (int b = 0; b < 50; ++b) add(b * b, 1);
  OK(MPI_Type_create_indexed_block(50, 1, map, MPI_INT, type));
}

LAYOUT(hindexed_block, 0) {
  MPI_Aint displacements[20];
  for (int b = 0; b < 20; ++b) {
    const int at = b % 2 ? 200 + b * 3 : 100 - b * 3;
    displacements[b] = at * 4;
    add(at, 3);
  }
  OK(MPI_Type_create_hindexed_block(20, 3, displacements, MPI_INT, type));
}

LAYOUT(one_displaced_block, 0) {
  const MPI_Aint displacement = 7 * 4;
  OK(MPI_Type_create_hindexed_block(1, 5, &displacement, MPI_INT, type));
  add(7, 5);
}

LAYOUT(struct_of_blocks, 0) {
  int lengths[] = {2, 1, 3};
  MPI_Aint displacements[] = {0, 40, 16};
  MPI_Datatype types[] = {MPI_INT, MPI_INT, MPI_INT};
  OK(MPI_Type_create_struct(3, lengths, displacements, types, type));
  for (int b = 0; b < 3; ++b) add((int)(displacements[b] / 4), lengths[b]);
}

LAYOUT(struct_of_derived, 0) {
  MPI_Datatype row;
  OK(MPI_Type_vector(5, 1, 3, MPI_INT, &row));
  int lengths[] = {1, 2, 1};
  MPI_Aint displacements[] = {0, 100 * 4, 50 * 4};
  MPI_Datatype types[] = {row, MPI_INT, row};
  OK(MPI_Type_create_struct(3, lengths, displacements, types, type));
  OK(MPI_Type_free(&row));  // the struct keeps what it is made of
  for (int i = 0; i < 5; ++i) add(3 * i, 1);
  add(100, 2);
  for (int i = 0; i < 5; ++i) add(50 + 3 * i, 1);
}

static int whole[] = {7, 9, 11}, part[] = {3, 4, 5}, corner[] = {2, 1, 4};
LAYOUT(subarray_c, 0) {
  OK(MPI_Type_create_subarray(3, whole, part, corner, MPI_ORDER_C, MPI_INT, type));
  for (int row = 0; row < 3 * 4; ++row) add(((row / 4 + 2) * 9 + row % 4 + 1) * 11 + 4, 5);
}
LAYOUT(subarray_fortran, 0) {
  OK(MPI_Type_create_subarray(3, whole, part, corner, MPI_ORDER_FORTRAN, MPI_INT, type));
  for (int row = 0; row < 5 * 4; ++row) add(((row / 4 + 4) * 9 + row % 4 + 1) * 7 + 2, 3);
}

LAYOUT(darray_cyclic, 0) {
  // A 12 x 10 matrix over a 2 x 2 grid, cyclic(2) rows and block columns, the part of process 3.
  int sizes[] = {12, 10}, kinds[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
  int arguments[] = {2, MPI_DISTRIBUTE_DFLT_DARG}, grid[] = {2, 2};
  OK(MPI_Type_create_darray(4, 3, 2, sizes, kinds, arguments, grid, MPI_ORDER_C, MPI_INT, type));
  for (int i = 0; i < 12; ++i) add(i * 10 + 5, i / 2 % 2 == 1 ? 5 : 0);
}

LAYOUT(dup, 0) {
  MPI_Datatype inner;
  OK(MPI_Type_vector(20, 1, 4, MPI_INT, &inner));
  OK(MPI_Type_dup(inner, type));
  OK(MPI_Type_free(&inner));
  for (int i = 0; i < 20; ++i) add(4 * i, 1);
}

LAYOUT(resized_overlapping_extent, 0) {
  // Items interleave: each has every fourth int, the next item starts one int later.
  MPI_Datatype column, narrow;
  OK(MPI_Type_vector(10, 1, 4, MPI_INT, &column));
  OK(MPI_Type_create_resized(column, 0, sizeof(int), &narrow));
  OK(MPI_Type_contiguous(4, narrow, type));
  for (int i = 0; i < 40; ++i) add(i % 10 * 4 + i / 10, 1);
  OK(MPI_Type_free(&column));
  OK(MPI_Type_free(&narrow));
}

LAYOUT(resized_negative_lower_bound, 20) {
  MPI_Datatype pair, wide;
  OK(MPI_Type_contiguous(2, MPI_INT, &pair));
  OK(MPI_Type_create_resized(pair, -3 * (MPI_Aint)sizeof(int), 9 * sizeof(int), &wide));
  OK(MPI_Type_contiguous(6, wide, type));
  for (int i = 0; i < 6; ++i) add(9 * i, 2);
  OK(MPI_Type_free(&pair));
  OK(MPI_Type_free(&wide));
}

LAYOUT(nested_four_deep, 0) {
  MPI_Datatype a, b, c;
  OK(MPI_Type_vector(2, 1, 2, MPI_INT, &a));                   // ints 0, 2; extent 3
  OK(MPI_Type_contiguous(2, a, &b));                           // 0 2 3 5; extent 6
  OK(MPI_Type_create_hvector(3, 1, 10 * sizeof(int), b, &c));  // + 0, 10, 20; extent 26
  int lengths[] = {1, 1}, displacements[] = {0, 2}, four[] = {0, 2, 3, 5};
  OK(MPI_Type_indexed(2, lengths, displacements, c, type));
  for (int i = 0; i < 24; ++i) add(i / 12 * 2 * 26 + i / 4 % 3 * 10 + four[i % 4], 1);
  OK(MPI_Type_free(&a));
  OK(MPI_Type_free(&b));
  OK(MPI_Type_free(&c));
}

CASE(types_basic, empty_types) {
  int zero[] = {0, 0}, displacements[] = {5, 900};
  MPI_Datatype types[4];
  OK(MPI_Type_indexed(2, zero, displacements, MPI_INT, &types[0]));
  OK(MPI_Type_contiguous(0, MPI_DOUBLE, &types[1]));
  OK(MPI_Type_create_struct(0, NULL, NULL, NULL, &types[2]));
  OK(MPI_Type_vector(3, 0, 5, MPI_INT, &types[3]));
  int* in = check_buffer(400);
  for (int i = 0; i < 4; ++i) {
    OK(MPI_Type_commit(&types[i]));
    MPI_Status status = check_blank_status();
    OK(MPI_Sendrecv(in, 3, types[i], right, i, in, 100, MPI_INT, left, i, comm, &status));
    EXPECT_STATUS(&status, left, i, MPI_INT, 0);
    OK(MPI_Sendrecv(NULL, 0, MPI_INT, right, i, in, 3, types[i], left, i, comm, MPI_STATUS_IGNORE));
    OK(MPI_Type_free(&types[i]));
  }
  EXPECT_BYTES(in, 400, UNTOUCHED);
}

// A type may be freed while operations that use it are open; they go on as if it were there.
CASE(types_basic, freed_while_in_use) {
  enum { kRows = 30000 };
  int *out = check_buffer(kRows * 3 * 4), *in = check_buffer(kRows * 3 * 4);
  for (int i = 0; i < kRows * 3; ++i) out[i] = rank * 1000000 + i;
  MPI_Datatype type;
  OK(MPI_Type_vector(kRows, 1, 3, MPI_INT, &type));
  OK(MPI_Type_commit(&type));
  MPI_Request requests[2];
  OK(MPI_Irecv(in, 1, type, left, 1, comm, &requests[0]));
  OK(MPI_Barrier(comm));
  OK(MPI_Isend(out, 1, type, right, 1, comm, &requests[1]));
  OK(MPI_Type_free(&type));
  MPI_Datatype other;  // likely to get the same handle, with another layout
  OK(MPI_Type_vector(kRows / 2, 1, 2, MPI_INT, &other));
  OK(MPI_Type_commit(&other));
  OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  EXPECT_EACH(kRows * 3, in[i] == (i % 3 ? UNTOUCHED_INT : left * 1000000 + i), "int %d is %d", i, in[i]);
  OK(MPI_Type_free(&other));
}

CASE(types_basic, freed_while_packed) {
  // More blocks than anybody describes: the host unpacks them, when the program knows of the datatype no more.
  enum { kBlocks = 300000 };
  int *out = check_buffer(kBlocks * 4), *in = check_buffer(kBlocks * 4 * 4), *at = malloc(kBlocks * sizeof *at);
  uint64_t state = 5;
  for (int i = 0; i < kBlocks; ++i) {
    at[i] = 4 * i + (int)(check_random(&state) % 3);
    out[i] = rank * 1000000 + i;
  }
  MPI_Datatype type;
  OK(MPI_Type_create_indexed_block(kBlocks, 1, at, MPI_INT, &type));
  OK(MPI_Type_commit(&type));
  MPI_Request requests[2], later;
  OK(MPI_Irecv(in, 1, type, left, 1, comm, &requests[0]));
  OK(MPI_Recv_init(in, 1, type, left, 2, comm, &later));
  OK(MPI_Type_free(&type));
  OK(MPI_Barrier(comm));
  for (int start = 0; start < 3; ++start) {
    if (start != 0) OK(MPI_Start(&later));
    MPI_Request* receive = start == 0 ? &requests[0] : &later;
    OK(MPI_Isend(out, kBlocks, MPI_INT, right, start == 0 ? 1 : 2, comm, &requests[1]));
    OK(MPI_Wait(receive, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    EXPECT_EACH(kBlocks, in[at[i]] == left * 1000000 + i, "int %d is %d, expected %d", at[i], in[at[i]],
                left * 1000000 + i);
    for (int i = 0; i < kBlocks; ++i) in[at[i]] = -1;
  }
  OK(MPI_Request_free(&later));
  free(at);
}

CASE(types_basic, handle_reuse) {
  // The same handle comes back with another layout a hundred times: nothing may be remembered of the old one.
  int *out = check_buffer(4000), *in = check_buffer(4000);
  for (int round = 1; round <= 100; ++round) {
    int stride = 1 + round % 7, count = 1 + round % 50;
    MPI_Datatype type;
    OK(MPI_Type_vector(count, 1, stride, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    for (int i = 0; i < 1000; ++i) out[i] = rank * 100 + i + round;
    OK(MPI_Sendrecv(out, 1, type, right, 1, in, count, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE));
    for (int i = 0; i < count; ++i) EXPECT_EQ(in[i], left * 100 + i * stride + round);
    OK(MPI_Type_free(&type));
  }
}

CASE(types_basic, nothing_of_no_type) {
  // Of no elements MPICH and its like take any datatype, also none, as lists of MPI_Alltoallw often hold; others
  // refuse.
  if (MPI_Send(&rank, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, comm) != MPI_SUCCESS) SKIP("the host refuses it");
  MPI_Datatype uncommitted;
  OK(MPI_Type_contiguous(3, MPI_INT, &uncommitted));
  int in = -1;
  MPI_Status status;
  OK(MPI_Sendrecv(&rank, 0, MPI_DATATYPE_NULL, right, 1, &in, 1, MPI_INT, left, 1, comm, &status));
  EXPECT_STATUS(&status, left, 1, MPI_INT, 0);
  OK(MPI_Sendrecv(&rank, 0, uncommitted, right, 2, &in, 0, uncommitted, left, 2, comm, MPI_STATUS_IGNORE));
  OK(MPI_Bcast(&in, 0, MPI_DATATYPE_NULL, 0, comm));
  // Once it is committed it has elements as ever.
  OK(MPI_Type_commit(&uncommitted));
  int out[3] = {rank, rank + 1, rank + 2}, three[3] = {0};
  OK(MPI_Sendrecv(out, 1, uncommitted, right, 3, three, 1, uncommitted, left, 3, comm, MPI_STATUS_IGNORE));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(three[i], left + i);
  OK(MPI_Type_free(&uncommitted));
  int* counts = calloc(4 * (size_t)size, sizeof(int));
  int *in_counts = counts + size, *places = counts + 2 * size;
  MPI_Datatype* types = malloc(2 * (size_t)size * sizeof(MPI_Datatype));
  for (int i = 0; i < 2 * size; ++i) types[i] = MPI_DATATYPE_NULL;
  counts[right] = in_counts[left] = 1;
  types[right] = types[size + left] = MPI_INT;
  OK(MPI_Alltoallw(&rank, counts, places, types, &in, in_counts, places, types + size, comm));
  EXPECT_EQ(in, left);
  free(types);
  free(counts);
}
