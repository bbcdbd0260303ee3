// Derived datatypes, each sent to contiguous memory and back into its own layout: a byte-exact map of what moves.
// The oracle is MPI_Pack/Unpack of the host on a small scale, and explicit index arithmetic on a large one.
#include "check.h"

enum { kIntSpace = 4096 };

// Sends one item of `type` laid over `out`, receives it as one item of the same type into untouched memory, and as
// plain ints; `map[i]` says which int of the layout comes i-th.
static void round_trip(MPI_Comm comm, int rank, int size, MPI_Datatype type, const int* map, int count, int base) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  int *out = check_buffer(kIntSpace * 4), *in = check_buffer(kIntSpace * 4),
      *flat = check_buffer((size_t)count * 4 + 4);
  for (int i = 0; i < kIntSpace; ++i) out[i] = rank * 1000000 + i;
  OK(MPI_Type_commit(&type));
  MPI_Status status = check_blank_status();
  // typed -> flat
  OK(MPI_Sendrecv(out + base, 1, type, right, 1, flat, count, MPI_INT, left, 1, comm, &status));
  EXPECT_STATUS(&status, left, 1, MPI_INT, count);
  for (int i = 0; i < count; ++i) {
    int expected = left * 1000000 + base + map[i];
    if (flat[i] == expected) continue;
    EXPECT(false, "typed to flat: element %d is %d, expected %d", i, flat[i], expected);
    break;
  }
  // flat -> typed
  for (int i = 0; i < count; ++i) flat[i] = -5 - i - rank;
  MPI_Status typed = check_blank_status();
  OK(MPI_Sendrecv(flat, count, MPI_INT, right, 2, in + base, 1, type, left, 2, comm, &typed));
  if (count > 0) EXPECT_STATUS(&typed, left, 2, type, 1);
  int elements = -1;
  OK(MPI_Get_elements(&typed, type, &elements));
  EXPECT_EQ(elements, count);
  bool* written = calloc(kIntSpace, sizeof *written);
  for (int i = 0; i < count; ++i) {
    int at = base + map[i];
    written[at] = true;
    if (in[at] != -5 - i - left) {
      EXPECT(false, "flat to typed: int %d is %d, expected %d", map[i], in[at], -5 - i - left);
      break;
    }
  }
  for (int i = 0; i < kIntSpace; ++i) {
    if (written[i] || in[i] == (int)0xEEEEEEEE) continue;
    EXPECT(false, "flat to typed: int %d outside of the type was written", i - base);
    break;
  }
  free(written);
  // typed -> typed, nonblocking, the receive posted first
  memset(in, UNTOUCHED, kIntSpace * 4);
  MPI_Request requests[2];
  OK(MPI_Irecv(in + base, 1, type, left, 3, comm, &requests[0]));
  OK(MPI_Isend(out + base, 1, type, right, 3, comm, &requests[1]));
  OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < count; ++i) {
    if (in[base + map[i]] == left * 1000000 + base + map[i]) continue;
    EXPECT(false, "typed to typed: int %d is %d", map[i], in[base + map[i]]);
    break;
  }
  OK(MPI_Type_free(&type));
}

static int map_ints[kIntSpace];

CASE(types_basic, contiguous) {
  MPI_Datatype type;
  OK(MPI_Type_contiguous(100, MPI_INT, &type));
  for (int i = 0; i < 100; ++i) map_ints[i] = i;
  round_trip(comm, rank, size, type, map_ints, 100, 0);
}

CASE(types_basic, vector) {
  MPI_Datatype type;
  OK(MPI_Type_vector(50, 3, 8, MPI_INT, &type));
  for (int i = 0; i < 150; ++i) map_ints[i] = i / 3 * 8 + i % 3;
  round_trip(comm, rank, size, type, map_ints, 150, 0);
}

CASE(types_basic, vector_of_one_block) {
  MPI_Datatype type;
  OK(MPI_Type_vector(1, 77, 3, MPI_INT, &type));
  for (int i = 0; i < 77; ++i) map_ints[i] = i;
  round_trip(comm, rank, size, type, map_ints, 77, 0);
}

CASE(types_basic, vector_negative_stride) {
  MPI_Datatype type;
  OK(MPI_Type_vector(40, 2, -5, MPI_INT, &type));
  for (int i = 0; i < 80; ++i) map_ints[i] = -(i / 2) * 5 + i % 2;
  round_trip(comm, rank, size, type, map_ints, 80, 1000);
}

CASE(types_basic, hvector) {
  MPI_Datatype type;
  OK(MPI_Type_create_hvector(30, 4, 7 * sizeof(int), MPI_INT, &type));
  for (int i = 0; i < 120; ++i) map_ints[i] = i / 4 * 7 + i % 4;
  round_trip(comm, rank, size, type, map_ints, 120, 0);
}

CASE(types_basic, indexed) {
  int lengths[] = {3, 0, 1, 7, 2}, displacements[] = {10, 500, 0, 40, 100}, n = 0;
  MPI_Datatype type;
  OK(MPI_Type_indexed(5, lengths, displacements, MPI_INT, &type));
  for (int b = 0; b < 5; ++b) {
    for (int i = 0; i < lengths[b]; ++i) map_ints[n++] = displacements[b] + i;
  }
  round_trip(comm, rank, size, type, map_ints, n, 0);
}

CASE(types_basic, indexed_descending) {
  int lengths[60], displacements[60], n = 0;
  for (int b = 0; b < 60; ++b) {
    lengths[b] = 1 + b % 3;
    displacements[b] = 600 - 10 * b;
    for (int i = 0; i < lengths[b]; ++i) map_ints[n++] = displacements[b] + i;
  }
  MPI_Datatype type;
  OK(MPI_Type_indexed(60, lengths, displacements, MPI_INT, &type));
  round_trip(comm, rank, size, type, map_ints, n, 0);
}

CASE(types_basic, hindexed_negative) {
  int lengths[] = {2, 5, 1}, n = 0;
  MPI_Aint displacements[] = {-40 * 4, 8 * 4, -3 * 4};
  MPI_Datatype type;
  OK(MPI_Type_create_hindexed(3, lengths, displacements, MPI_INT, &type));
  for (int b = 0; b < 3; ++b) {
    for (int i = 0; i < lengths[b]; ++i) map_ints[n++] = (int)(displacements[b] / 4) + i;
  }
  round_trip(comm, rank, size, type, map_ints, n, 100);
}

CASE(types_basic, indexed_block) {
  int displacements[50];
  for (int b = 0; b < 50; ++b) displacements[b] = b * b;
  for (int i = 0; i < 50; ++i) map_ints[i] = i * i;
  MPI_Datatype type;
  OK(MPI_Type_create_indexed_block(50, 1, displacements, MPI_INT, &type));
  round_trip(comm, rank, size, type, map_ints, 50, 0);
}

CASE(types_basic, hindexed_block) {
  MPI_Aint displacements[20];
  for (int b = 0; b < 20; ++b) displacements[b] = (b % 2 ? 200 + b * 3 : 100 - b * 3) * 4;
  for (int i = 0; i < 60; ++i) map_ints[i] = (int)(displacements[i / 3] / 4) + i % 3;
  MPI_Datatype type;
  OK(MPI_Type_create_hindexed_block(20, 3, displacements, MPI_INT, &type));
  round_trip(comm, rank, size, type, map_ints, 60, 0);
}

CASE(types_basic, one_displaced_block) {
  const MPI_Aint displacement = 7 * 4;
  for (int i = 0; i < 5; ++i) map_ints[i] = 7 + i;
  MPI_Datatype type;
  OK(MPI_Type_create_hindexed_block(1, 5, &displacement, MPI_INT, &type));
  round_trip(comm, rank, size, type, map_ints, 5, 0);
}

CASE(types_basic, struct_of_blocks) {
  int lengths[] = {2, 1, 3}, n = 0;
  MPI_Aint displacements[] = {0, 40, 16};
  MPI_Datatype types[] = {MPI_INT, MPI_INT, MPI_INT}, type;
  OK(MPI_Type_create_struct(3, lengths, displacements, types, &type));
  for (int b = 0; b < 3; ++b) {
    for (int i = 0; i < lengths[b]; ++i) map_ints[n++] = (int)(displacements[b] / 4) + i;
  }
  round_trip(comm, rank, size, type, map_ints, n, 0);
}

CASE(types_basic, struct_of_derived) {
  MPI_Datatype row, types[3], type;
  OK(MPI_Type_vector(5, 1, 3, MPI_INT, &row));
  int lengths[] = {1, 2, 1}, n = 0;
  MPI_Aint displacements[] = {0, 100 * 4, 50 * 4};
  types[0] = row;
  types[1] = MPI_INT;
  types[2] = row;
  OK(MPI_Type_create_struct(3, lengths, displacements, types, &type));
  OK(MPI_Type_free(&row));  // the struct keeps what it is made of
  for (int i = 0; i < 5; ++i) map_ints[n++] = 3 * i;
  for (int i = 0; i < 2; ++i) map_ints[n++] = 100 + i;
  for (int i = 0; i < 5; ++i) map_ints[n++] = 50 + 3 * i;
  round_trip(comm, rank, size, type, map_ints, n, 0);
}

static void subarray(MPI_Comm comm, int rank, int size, int order) {
  int sizes[] = {7, 9, 11}, parts[] = {3, 4, 5}, starts[] = {2, 1, 4}, n = 0;
  MPI_Datatype type;
  OK(MPI_Type_create_subarray(3, sizes, parts, starts, order, MPI_INT, &type));
  if (order == MPI_ORDER_C) {
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 4; ++j) {
        for (int k = 0; k < 5; ++k) map_ints[n++] = ((i + 2) * 9 + j + 1) * 11 + k + 4;
      }
    }
  } else {
    for (int k = 0; k < 5; ++k) {
      for (int j = 0; j < 4; ++j) {
        for (int i = 0; i < 3; ++i) map_ints[n++] = ((k + 4) * 9 + j + 1) * 7 + i + 2;
      }
    }
  }
  round_trip(comm, rank, size, type, map_ints, n, 0);
}
CASE(types_basic, subarray_c) { subarray(comm, rank, size, MPI_ORDER_C); }
CASE(types_basic, subarray_fortran) { subarray(comm, rank, size, MPI_ORDER_FORTRAN); }

CASE(types_basic, darray_cyclic) {
  // A 12 x 10 matrix over a 2 x 2 grid, cyclic(2) rows and block columns, the part of process 3.
  int sizes[] = {12, 10}, kinds[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, n = 0;
  int arguments[] = {2, MPI_DISTRIBUTE_DFLT_DARG}, grid[] = {2, 2};
  MPI_Datatype type;
  OK(MPI_Type_create_darray(4, 3, 2, sizes, kinds, arguments, grid, MPI_ORDER_C, MPI_INT, &type));
  for (int i = 0; i < 12; ++i) {
    if (i / 2 % 2 != 1) continue;
    for (int j = 5; j < 10; ++j) map_ints[n++] = i * 10 + j;
  }
  round_trip(comm, rank, size, type, map_ints, n, 0);
}

CASE(types_basic, dup) {
  MPI_Datatype inner, type;
  OK(MPI_Type_vector(20, 1, 4, MPI_INT, &inner));
  OK(MPI_Type_dup(inner, &type));
  OK(MPI_Type_free(&inner));
  for (int i = 0; i < 20; ++i) map_ints[i] = 4 * i;
  round_trip(comm, rank, size, type, map_ints, 20, 0);
}

CASE(types_basic, resized_overlapping_extent) {
  // Items interleave: each has every fourth int, the next item starts one int later.
  MPI_Datatype column, narrow, type;
  OK(MPI_Type_vector(10, 1, 4, MPI_INT, &column));
  OK(MPI_Type_create_resized(column, 0, sizeof(int), &narrow));
  OK(MPI_Type_contiguous(4, narrow, &type));
  for (int i = 0; i < 40; ++i) map_ints[i] = i % 10 * 4 + i / 10;
  round_trip(comm, rank, size, type, map_ints, 40, 0);
  OK(MPI_Type_free(&column));
  OK(MPI_Type_free(&narrow));
}

CASE(types_basic, resized_negative_lower_bound) {
  MPI_Datatype pair, wide, type;
  OK(MPI_Type_contiguous(2, MPI_INT, &pair));
  OK(MPI_Type_create_resized(pair, -3 * (MPI_Aint)sizeof(int), 9 * sizeof(int), &wide));
  OK(MPI_Type_contiguous(6, wide, &type));
  for (int i = 0; i < 12; ++i) map_ints[i] = i / 2 * 9 + i % 2;
  round_trip(comm, rank, size, type, map_ints, 12, 20);
  OK(MPI_Type_free(&pair));
  OK(MPI_Type_free(&wide));
}

CASE(types_basic, nested_four_deep) {
  MPI_Datatype a, b, c, type;
  OK(MPI_Type_vector(2, 1, 2, MPI_INT, &a));                   // ints 0, 2; extent 3
  OK(MPI_Type_contiguous(2, a, &b));                           // 0 2 3 5; extent 6
  OK(MPI_Type_create_hvector(3, 1, 10 * sizeof(int), b, &c));  // + 0, 10, 20; extent 26
  int lengths[] = {1, 1}, displacements[] = {0, 2};
  OK(MPI_Type_indexed(2, lengths, displacements, c, &type));
  int n = 0, four[] = {0, 2, 3, 5};
  for (int outer = 0; outer < 2; ++outer) {
    for (int i = 0; i < 12; ++i) map_ints[n++] = outer * 2 * 26 + i / 4 * 10 + four[i % 4];
  }
  round_trip(comm, rank, size, type, map_ints, n, 0);
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
  for (int i = 0; i < kRows * 3; ++i) {
    int expected = i % 3 ? (int)0xEEEEEEEE : left * 1000000 + i;
    if (in[i] == expected) continue;
    EXPECT(false, "int %d is %d, expected %d", i, in[i], expected);
    break;
  }
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
  MPI_Request requests[2];
  OK(MPI_Irecv(in, 1, type, left, 1, comm, &requests[0]));
  OK(MPI_Type_free(&type));
  OK(MPI_Barrier(comm));
  OK(MPI_Isend(out, kBlocks, MPI_INT, right, 1, comm, &requests[1]));
  OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < kBlocks; ++i) {
    if (in[at[i]] == left * 1000000 + i) continue;
    EXPECT(false, "int %d is %d, expected %d", at[i], in[at[i]], left * 1000000 + i);
    break;
  }
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
