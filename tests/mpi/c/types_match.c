// Types that differ on both sides, pair types, partial receives, packed data, absolute addresses, basic types.
#include "check.h"

CASE(types_match, vector_to_indexed) {
  enum { kItems = 12000 };
  int *out = check_buffer(kItems * 3 * 4), *in = check_buffer(kItems * 4 * 4);
  int* displacements = malloc(kItems / 2 * sizeof(int));
  for (int i = 0; i < kItems / 2; ++i) displacements[i] = (kItems / 2 - 1 - i) * 7;  // descending, blocks of two
  MPI_Datatype from, to;
  OK(MPI_Type_vector(kItems, 1, 3, MPI_INT, &from));
  OK(MPI_Type_create_indexed_block(kItems / 2, 2, displacements, MPI_INT, &to));
  OK(MPI_Type_commit(&from));
  OK(MPI_Type_commit(&to));
  for (int i = 0; i < kItems * 3; ++i) out[i] = rank * 1000000 + i;
  OK(MPI_Sendrecv(out, 1, from, right, 1, in, 1, to, left, 1, comm, MPI_STATUS_IGNORE));
  EXPECT_EACH(kItems, in[displacements[i / 2] + i % 2] == left * 1000000 + 3 * i, "item %d is %d", i,
              in[displacements[i / 2] + i % 2]);
  free(displacements);
  OK(MPI_Type_free(&from));
  OK(MPI_Type_free(&to));
}

CASE(types_match, transpose) {
  // Rows on one side, columns on the other.
  enum { kN = 150 };
  double *out = check_buffer(kN * kN * 8), *in = check_buffer(kN * kN * 8);
  MPI_Datatype column, narrow, matrix;
  OK(MPI_Type_vector(kN, 1, kN, MPI_DOUBLE, &column));
  OK(MPI_Type_create_resized(column, 0, sizeof(double), &narrow));
  OK(MPI_Type_contiguous(kN, narrow, &matrix));
  OK(MPI_Type_commit(&matrix));
  for (int i = 0; i < kN * kN; ++i) out[i] = rank * 100000.0 + i;
  OK(MPI_Sendrecv(out, kN * kN, MPI_DOUBLE, right, 1, in, 1, matrix, left, 1, comm, MPI_STATUS_IGNORE));
  EXPECT_EACH(kN * kN, in[i] == left * 100000.0 + i % kN * kN + i / kN, "element %d is %g", i, in[i]);
  OK(MPI_Type_free(&column));
  OK(MPI_Type_free(&narrow));
  OK(MPI_Type_free(&matrix));
}

CASE(types_match, pair_types) {
#define PAIR(Value, type, tag)                                                                               \
  do {                                                                                                       \
    struct Pair {                                                                                            \
      Value value;                                                                                           \
      int index;                                                                                             \
    };                                                                                                       \
    enum { kPairs = 500 };                                                                                   \
    struct Pair *out = check_buffer(kPairs * sizeof *out), *in = check_buffer(kPairs * sizeof *in);          \
    for (int i = 0; i < kPairs; ++i) out[i].value = (Value)(rank + i % 100), out[i].index = rank * 1000 + i; \
    MPI_Status status;                                                                                       \
    OK(MPI_Sendrecv(out, kPairs - 1, type, right, tag, in, kPairs, type, left, tag, comm, &status));         \
    EXPECT_STATUS(&status, left, tag, type, kPairs - 1);                                                     \
    for (int i = 0; i < kPairs - 1; ++i) {                                                                   \
      EXPECT(in[i].value == (Value)(left + i % 100) && in[i].index == left * 1000 + i, #type " pair %d", i); \
    }                                                                                                        \
    EXPECT_BYTES(&in[kPairs - 1], sizeof in[0], UNTOUCHED);                                                  \
  } while (0)
  PAIR(double, MPI_DOUBLE_INT, 1);
  PAIR(float, MPI_FLOAT_INT, 2);
  PAIR(long, MPI_LONG_INT, 3);
  PAIR(int, MPI_2INT, 4);
  PAIR(short, MPI_SHORT_INT, 5);
  PAIR(long double, MPI_LONG_DOUBLE_INT, 6);
}

// Cases of their own, because hosts fail here: each pair has two elements.
static void pair_elements(MPI_Comm comm, int rank, int size, MPI_Datatype type) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size, elements = -1;
  unsigned char *out = check_buffer(10 * 32), *in = check_buffer(10 * 32);
  MPI_Status status;
  OK(MPI_Sendrecv(out, 7, type, right, 1, in, 10, type, left, 1, comm, &status));
  OK(MPI_Get_elements(&status, type, &elements));
  EXPECT_EQ(elements, 14);
}
CASE(types_match, pair_elements_double_int) { pair_elements(comm, rank, size, MPI_DOUBLE_INT); }
CASE(types_match, pair_elements_long_double_int) { pair_elements(comm, rank, size, MPI_LONG_DOUBLE_INT); }
CASE(types_match, pair_elements_2int) { pair_elements(comm, rank, size, MPI_2INT); }
CASE(types_match, pair_elements_short_int) { pair_elements(comm, rank, size, MPI_SHORT_INT); }

CASE(types_match, pair_type_to_struct) {
  // The pair's gaps do not travel: 12 bytes an item.
  struct {
    double value;
    int index;
  } out[3] = {{1.5, 1}, {2.5, 2}, {3.5, 3}};
  unsigned char* raw = check_buffer(36);
  MPI_Datatype packed;
  int lengths[] = {1, 1};
  MPI_Aint displacements[] = {0, 8};
  MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT}, item;
  OK(MPI_Type_create_struct(2, lengths, displacements, types, &item));
  OK(MPI_Type_create_resized(item, 0, 12, &packed));
  OK(MPI_Type_commit(&packed));
  MPI_Status status;
  OK(MPI_Sendrecv(out, 3, MPI_DOUBLE_INT, right, 1, raw, 3, packed, left, 1, comm, &status));
  EXPECT_STATUS(&status, left, 1, packed, 3);
  for (int i = 0; i < 3; ++i) {
    double value;
    int index;
    memcpy(&value, raw + 12 * i, 8);
    memcpy(&index, raw + 12 * i + 8, 4);
    EXPECT(value == i + 1.5 && index == i + 1, "item %d: %g %d", i, value, index);
  }
  OK(MPI_Type_free(&item));
  OK(MPI_Type_free(&packed));
}

CASE(types_match, partial_receives_of_struct) {
  // Less than the posted items: elements are counted by basic type, what did not come stays untouched.
  int count;
  int lengths[] = {1, 1};
  MPI_Aint displacements[] = {0, 8};
  MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE}, item, first;
  struct Item {
    int i;
    double d;
  }* out = check_buffer(10 * sizeof *out), *in;
  OK(MPI_Type_create_struct(2, lengths, displacements, types, &item));
  OK(MPI_Type_create_struct(1, lengths, displacements, types, &first));
  OK(MPI_Type_commit(&item));
  // Five whole items and the int of a sixth.
  int six_lengths[] = {5, 1};
  MPI_Aint six_displacements[] = {0, 5 * sizeof(struct Item)};
  MPI_Datatype six_types[] = {item, first}, six;
  OK(MPI_Type_create_struct(2, six_lengths, six_displacements, six_types, &six));
  OK(MPI_Type_commit(&six));
  for (int i = 0; i < 10; ++i) out[i].i = rank + i, out[i].d = rank + 0.25 * i;
  in = check_buffer(10 * sizeof *in);
  MPI_Status status;
  OK(MPI_Sendrecv(out, 1, six, right, 1, in, 10, item, left, 1, comm, &status));
  OK(MPI_Get_count(&status, item, &count));
  EXPECT_EQ(count, MPI_UNDEFINED);
  OK(MPI_Get_elements(&status, item, &count));
  EXPECT_EQ(count, 11);
  for (int i = 0; i < 5; ++i) EXPECT(in[i].i == left + i && in[i].d == left + 0.25 * i, "item %d", i);
  EXPECT_EQ(in[5].i, left + 5);
  EXPECT_BYTES(&in[5].d, 8, UNTOUCHED);
  EXPECT_BYTES(&in[6], 4 * sizeof(struct Item), UNTOUCHED);
  OK(MPI_Type_free(&item));
  OK(MPI_Type_free(&first));
  OK(MPI_Type_free(&six));
}

CASE(types_match, partial_vector_large) {
  // Half of a large strided receive is used.
  int count;
  enum { kRows = 100000 };
  int *out = check_buffer(kRows / 2 * 4), *in = check_buffer(kRows * 2 * 4);
  MPI_Datatype row, narrow;
  OK(MPI_Type_contiguous(1, MPI_INT, &row));
  OK(MPI_Type_create_resized(row, 0, 8, &narrow));
  OK(MPI_Type_commit(&narrow));
  for (int i = 0; i < kRows / 2; ++i) out[i] = rank + i;
  MPI_Status status;
  OK(MPI_Sendrecv(out, kRows / 2, MPI_INT, right, 1, in, kRows, narrow, left, 1, comm, &status));
  OK(MPI_Get_count(&status, narrow, &count));
  EXPECT_EQ(count, kRows / 2);
  EXPECT_EACH(kRows, in[2 * i] == (i < kRows / 2 ? left + i : UNTOUCHED_INT) && in[2 * i + 1] == UNTOUCHED_INT,
              "row %d is %d %d", i, in[2 * i], in[2 * i + 1]);
  OK(MPI_Type_free(&row));
  OK(MPI_Type_free(&narrow));
}

CASE(types_match, packed) {
  enum { kRoom = 100000 };
  char *packed = check_buffer(kRoom), *got = check_buffer(kRoom);
  double numbers[3] = {rank + 0.5, 2, 3}, numbers_in[3];
  int* many = check_buffer(20000 * 4);
  int position = 0, value = rank + 9, value_in = -1;
  for (int i = 0; i < 20000; ++i) many[i] = rank + i;
  OK(MPI_Pack(&value, 1, MPI_INT, packed, kRoom, &position, comm));
  OK(MPI_Pack(numbers, 3, MPI_DOUBLE, packed, kRoom, &position, comm));
  OK(MPI_Pack(many, 20000, MPI_INT, packed, kRoom, &position, comm));
  MPI_Status status;
  OK(MPI_Sendrecv(packed, position, MPI_PACKED, right, 1, got, kRoom, MPI_PACKED, left, 1, comm, &status));
  EXPECT_STATUS(&status, left, 1, MPI_PACKED, position);
  position = 0;
  OK(MPI_Unpack(got, kRoom, &position, &value_in, 1, MPI_INT, comm));
  OK(MPI_Unpack(got, kRoom, &position, numbers_in, 3, MPI_DOUBLE, comm));
  OK(MPI_Unpack(got, kRoom, &position, many, 20000, MPI_INT, comm));
  EXPECT_EQ(value_in, left + 9);
  EXPECT(numbers_in[0] == left + 0.5 && numbers_in[2] == 3, "doubles");
  EXPECT(many[19999] == left + 19999, "ints");
  // Packed by one side, received as typed by the other.
  value = rank + 70;
  position = 0;
  OK(MPI_Pack(&value, 1, MPI_INT, packed, kRoom, &position, comm));
  OK(MPI_Sendrecv(packed, position, MPI_PACKED, right, 2, &value_in, 1, MPI_INT, left, 2, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(value_in, left + 70);
}

CASE(types_match, bottom_absolute_addresses) {
  int a = rank + 1;
  double* b = check_buffer(5000 * 8);
  char c[7] = "abcdef";
  c[0] = (char)('A' + rank % 20);
  for (int i = 0; i < 5000; ++i) b[i] = rank + i;
  int lengths[] = {1, 5000, 7};
  MPI_Aint displacements[3];
  MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR}, from, to;
  OK(MPI_Get_address(&a, &displacements[0]));
  OK(MPI_Get_address(b, &displacements[1]));
  OK(MPI_Get_address(c, &displacements[2]));
  OK(MPI_Type_create_struct(3, lengths, displacements, types, &from));
  int a_in = 0;
  double* b_in = check_buffer(5000 * 8);
  char c_in[7] = "";
  OK(MPI_Get_address(&a_in, &displacements[0]));
  OK(MPI_Get_address(b_in, &displacements[1]));
  OK(MPI_Get_address(c_in, &displacements[2]));
  OK(MPI_Type_create_struct(3, lengths, displacements, types, &to));
  OK(MPI_Type_commit(&from));
  OK(MPI_Type_commit(&to));
  OK(MPI_Sendrecv(MPI_BOTTOM, 1, from, right, 1, MPI_BOTTOM, 1, to, left, 1, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(a_in, left + 1);
  EXPECT(b_in[0] == left && b_in[4999] == left + 4999, "doubles");
  EXPECT(c_in[0] == 'A' + left % 20 && strcmp(c_in + 1, "bcdef") == 0, "chars");
  MPI_Request requests[2];
  a_in = 0;
  OK(MPI_Irecv(MPI_BOTTOM, 1, to, left, 2, comm, &requests[0]));
  OK(MPI_Isend(MPI_BOTTOM, 1, from, right, 2, comm, &requests[1]));
  OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  EXPECT_EQ(a_in, left + 1);
  OK(MPI_Type_free(&from));
  OK(MPI_Type_free(&to));
}

CASE(types_match, every_basic_type) {
  MPI_Datatype types[] = {MPI_CHAR,          MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_SHORT,     MPI_UNSIGNED_SHORT,
                          MPI_INT,           MPI_UNSIGNED,    MPI_LONG,          MPI_FLOAT,     MPI_UNSIGNED_LONG,
                          MPI_LONG_LONG_INT, MPI_DOUBLE,      MPI_LONG_DOUBLE,   MPI_BYTE,      MPI_UNSIGNED_LONG_LONG,
                          MPI_WCHAR,         MPI_C_BOOL,      MPI_INT8_T,        MPI_INT16_T,   MPI_INT32_T,
                          MPI_INT64_T,       MPI_UINT8_T,     MPI_UINT16_T,      MPI_UINT32_T,  MPI_UINT64_T,
                          MPI_AINT,          MPI_OFFSET,      MPI_COUNT,         MPI_C_COMPLEX, MPI_C_DOUBLE_COMPLEX};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i) {
    int type_bytes = 0;
    OK(MPI_Type_size(types[i], &type_bytes));
    int count = i % 2 ? 1000 : 3;
    size_t len_bytes = (size_t)(type_bytes * count);
    unsigned char *out = check_buffer(len_bytes), *in = check_buffer(len_bytes);
    check_fill(out, len_bytes, check_key(rank, (int)i, 0, 0));
    MPI_Status status;
    OK(MPI_Sendrecv(out, count, types[i], right, (int)i, in, count, types[i], left, (int)i, comm, &status));
    EXPECT_STATUS(&status, left, (int)i, types[i], count);
    EXPECT_FILL(in, len_bytes, check_key(left, (int)i, 0, 0));
  }
}
