// Derived types of a megabyte and more, thousands of pieces, wide gaps; every pairing of layouts and arrival orders.
#include "check.h"

// Layouts of the same signature (kInts ints), by number.
enum { kInts = 300000, kLayouts = 6, kSpace = 8 * kInts };

static MPI_Datatype make(int layout) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  if (layout == 0) OK(MPI_Type_contiguous(kInts, MPI_INT, &type));
  if (layout == 1) OK(MPI_Type_vector(kInts, 1, 2, MPI_INT, &type));       // every other int
  if (layout == 2) OK(MPI_Type_vector(30, 10000, 12345, MPI_INT, &type));  // few long pieces
  if (layout == 3) OK(MPI_Type_vector(2000, 150, 1100, MPI_INT, &type));   // pieces of 600 bytes
  if (layout == 4) {                                                       // irregular, descending
    int *lengths = malloc(3000 * sizeof(int)), *displacements = malloc(3000 * sizeof(int));
    for (int i = 0; i < 3000; ++i) {
      lengths[i] = i % 2 ? 150 : 50;
      displacements[i] = (2999 - i) * 155;
    }
    OK(MPI_Type_indexed(3000, lengths, displacements, MPI_INT, &type));
    free(lengths);
    free(displacements);
  }
  if (layout == 5) {  // nested: planes of rows of pairs
    MPI_Datatype row, plane;
    OK(MPI_Type_vector(50, 2, 4, MPI_INT, &row));
    OK(MPI_Type_create_hvector(30, 1, 240 * sizeof(int), row, &plane));
    OK(MPI_Type_create_hvector(100, 1, 8000 * sizeof(int), plane, &type));
    OK(MPI_Type_free(&row));
    OK(MPI_Type_free(&plane));
  }
  OK(MPI_Type_commit(&type));
  return type;
}

// The position of the i-th int of a layout.
static int place(int layout, int i) {
  switch (layout) {
    case 1:
      return 2 * i;
    case 2:
      return i / 10000 * 12345 + i % 10000;
    case 3:
      return i / 150 * 1100 + i % 150;
    case 4: {
      int two = i / 200, rest = i % 200, block = rest < 50 ? 2 * two : 2 * two + 1;
      return (2999 - block) * 155 + (rest < 50 ? rest : rest - 50);
    }
    case 5:
      return i / 3000 * 8000 + i / 100 % 30 * 240 + i % 100 / 2 * 4 + i % 2;
    default:
      return i;
  }
}

static void exchange(MPI_Comm comm, int rank, int size, int from, int to, bool posted_first) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  MPI_Datatype send_type = make(from), receive_type = make(to);
  int *out = check_buffer(kSpace * 4ul), *in = check_buffer(kSpace * 4ul);
  for (int i = 0; i < kInts; ++i) out[place(from, i)] = rank * 1000003 + i;
  MPI_Request requests[2];
  if (posted_first) {
    OK(MPI_Irecv(in, 1, receive_type, left, 1, comm, &requests[0]));
    OK(MPI_Barrier(comm));
    OK(MPI_Isend(out, 1, send_type, right, 1, comm, &requests[1]));
  } else {
    OK(MPI_Isend(out, 1, send_type, right, 1, comm, &requests[1]));
    OK(MPI_Barrier(comm));
    OK(MPI_Irecv(in, 1, receive_type, left, 1, comm, &requests[0]));
  }
  MPI_Status statuses[2];
  OK(MPI_Waitall(2, requests, statuses));
  int elements = -1;
  OK(MPI_Get_elements(&statuses[0], receive_type, &elements));
  EXPECT_EQ(elements, kInts);
  EXPECT_EACH(kInts, in[place(to, i)] == left * 1000003 + i, "layout %d to %d: int %d is %d, expected %d", from, to, i,
              in[place(to, i)], left * 1000003 + i);
  for (int i = 0; i < kInts; ++i) in[place(to, i)] = UNTOUCHED_INT;
  EXPECT_BYTES(in, kSpace * 4ul, UNTOUCHED);  // and nothing between the pieces
  OK(MPI_Type_free(&send_type));
  OK(MPI_Type_free(&receive_type));
}

#define PAIRING(name, from, to)                                                    \
  CASE(types_large, name##_posted) { exchange(comm, rank, size, from, to, true); } \
  CASE(types_large, name##_unexpected) { exchange(comm, rank, size, from, to, false); }
PAIRING(fine_to_flat, 1, 0)
PAIRING(flat_to_fine, 0, 1)
PAIRING(fine_to_fine, 1, 1)
PAIRING(coarse_to_coarse, 2, 2)
PAIRING(coarse_to_flat, 2, 0)
PAIRING(medium_to_coarse, 3, 2)
PAIRING(flat_to_medium, 0, 3)
PAIRING(irregular_to_fine, 4, 1)
PAIRING(medium_to_irregular, 3, 4)
PAIRING(nested_to_flat, 5, 0)
PAIRING(nested_to_irregular, 5, 4)
PAIRING(irregular_to_irregular, 4, 4)

CASE(types_large, many_items_of_a_gapped_struct) {
  struct Item {
    char c;
    double d;
    short s;
    int i;
  };
  enum { kItems = 60000 };
  struct Item *out = check_buffer(kItems * sizeof *out), *in = check_buffer(kItems * sizeof *in);
  int lengths[] = {1, 1, 1, 1};
  MPI_Aint displacements[] = {offsetof(struct Item, c), offsetof(struct Item, d), offsetof(struct Item, s),
                              offsetof(struct Item, i)};
  MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT}, raw, item;
  OK(MPI_Type_create_struct(4, lengths, displacements, types, &raw));
  OK(MPI_Type_create_resized(raw, 0, sizeof(struct Item), &item));
  OK(MPI_Type_commit(&item));
  for (int i = 0; i < kItems; ++i) {
    out[i].c = (char)i;
    out[i].d = rank + i;
    out[i].s = (short)(i % 30000);
    out[i].i = rank - i;
  }
  OK(MPI_Sendrecv(out, kItems, item, right, 1, in, kItems, item, left, 1, comm, MPI_STATUS_IGNORE));
  EXPECT_EACH(kItems, in[i].c == (char)i && in[i].d == left + i && in[i].s == i % 30000 && in[i].i == left - i,
              "item %d is %d %g %d %d", i, in[i].c, in[i].d, in[i].s, in[i].i);
  OK(MPI_Type_free(&raw));
  OK(MPI_Type_free(&item));
}

CASE(types_large, huge_stride) {
  // Sixteen pieces, 4 MiB apart.
  size_t stride = 4u << 20;
  unsigned char *out = calloc(16, stride), *in = calloc(16, stride);
  MPI_Datatype type;
  OK(MPI_Type_create_hvector(16, 5000, (MPI_Aint)stride, MPI_BYTE, &type));
  OK(MPI_Type_commit(&type));
  for (int i = 0; i < 16; ++i) check_fill(out + (size_t)i * stride, 5000, check_key(rank, i, 0, 0));
  OK(MPI_Sendrecv(out, 1, type, right, 1, in, 1, type, left, 1, comm, MPI_STATUS_IGNORE));
  for (int i = 0; i < 16; ++i) {
    EXPECT_FILL(in + (size_t)i * stride, 5000, check_key(left, i, 0, 0));
    EXPECT_EQ(in[(size_t)i * stride + 5000], 0);
  }
  OK(MPI_Type_free(&type));
  free(out);
  free(in);
}
