// Predefined datatypes of reductions and operands of which the result is known: integers of all bits, floats whose sums
// and products are exact, pairs with ties, truth values. Refuses to know any communicator.
#include "coll_operand.h"

#include <complex.h>
#include <wchar.h>

static struct Operand table[96];
static int entries;

// Sets of operations, and what the standard defines for the groups of its datatypes (MPI 4.1 section 6.9.2).
enum {
  kOrder = 1 << kMax | 1 << kMin,
  kArith = 1 << kSum | 1 << kProd,
  kLogic = 1 << kLand | 1 << kLor | 1 << kLxor,
  kBits = 1 << kBand | 1 << kBor | 1 << kBxor,
  kPlaces = 1 << kMinloc | 1 << kMaxloc,
  kForNumber = kOrder | kArith | kBits,
  kForCInteger = kForNumber | kLogic,
  kForFloat = kOrder | kArith,
};

// The C types of numbers: s(hort), i(nt), l(ong), f(loat), d(ouble) and (long double) x, of whose bytes ten count.
static int bytes_of(char c) { return c == 's' ? 2 : c == 'i' || c == 'f' ? 4 : c == 'x' ? 10 : 8; }

static void put_number(unsigned char* at, char c, double value) {
  if (c == 's') memcpy(at, &(short){(short)value}, 2);
  if (c == 'i') memcpy(at, &(int){(int)value}, 4);
  if (c == 'l') memcpy(at, &(long){(long)value}, 8);
  if (c == 'f') memcpy(at, &(float){(float)value}, 4);
  if (c == 'd') memcpy(at, &value, 8);
  if (c == 'x') memcpy(at, &(long double){value}, 10);
}

static long double get_number(const unsigned char* at, char c) {
  short s;
  int i;
  long l;
  float f;
  double d;
  long double x = 0;
  if (c == 's') return memcpy(&s, at, 2), s;
  if (c == 'i') return memcpy(&i, at, 4), i;
  if (c == 'l') return memcpy(&l, at, 8), l;
  if (c == 'f') return memcpy(&f, at, 4), f;
  if (c == 'd') return memcpy(&d, at, 8), d;
  return memcpy(&x, at, 10), x;
}

// The type of a float of so many bytes.
static char float_of(int bytes) { return bytes == 4 ? 'f' : bytes == 8 ? 'd' : 'x'; }

static void add(const char* name, MPI_Datatype type, enum OperandKind kind, int bytes, int ops) {
  int size = 0;
  MPI_Aint lb = 0, extent = 0;
  if (type == MPI_DATATYPE_NULL) return;
  if (MPI_Type_size(type, &size) != MPI_SUCCESS || size <= 0) return;  // the host lacks the language or the format
  if (MPI_Type_get_extent(type, &lb, &extent) != MPI_SUCCESS) return;
  table[entries++] =
      (struct Operand){.name = name, .type = type, .kind = kind, .bytes = bytes, .extent = (int)extent, .ops = ops};
}

static void add_pair(const char* name, MPI_Datatype type, char value, char index) {
  const int before = entries, at = bytes_of(value) == 10 ? 16 : bytes_of(value) > 4 ? 8 : 4;
  add(name, type, kPair, at * 2, kPlaces);
  if (entries == before) return;
  table[before].value = value;
  table[before].index = index;
  table[before].index_at = at;
}

int operand_count(void) {
  if (entries) return entries;
#define INTEGER(t, c) add(#t, t, kInteger, sizeof(c), kForCInteger);
  INTEGER(MPI_SIGNED_CHAR, signed char)
  INTEGER(MPI_UNSIGNED_CHAR, unsigned char)
  INTEGER(MPI_SHORT, short)
  INTEGER(MPI_UNSIGNED_SHORT, unsigned short)
  INTEGER(MPI_INT, int)
  INTEGER(MPI_UNSIGNED, unsigned)
  INTEGER(MPI_LONG, long)
  INTEGER(MPI_UNSIGNED_LONG, unsigned long)
  INTEGER(MPI_LONG_LONG, long long)
  INTEGER(MPI_UNSIGNED_LONG_LONG, unsigned long long)
  INTEGER(MPI_INT8_T, int8_t)
  INTEGER(MPI_INT16_T, int16_t)
  INTEGER(MPI_INT32_T, int32_t)
  INTEGER(MPI_INT64_T, int64_t)
  INTEGER(MPI_UINT8_T, uint8_t)
  INTEGER(MPI_UINT16_T, uint16_t)
  INTEGER(MPI_UINT32_T, uint32_t)
  INTEGER(MPI_UINT64_T, uint64_t)
  add("MPI_AINT", MPI_AINT, kInteger, sizeof(MPI_Aint), kForNumber);
  add("MPI_OFFSET", MPI_OFFSET, kInteger, sizeof(MPI_Offset), kForNumber);
  add("MPI_COUNT", MPI_COUNT, kInteger, sizeof(MPI_Count), kForNumber);
  add("MPI_BYTE", MPI_BYTE, kInteger, 1, kBits);
  add("MPI_CHAR", MPI_CHAR, kInteger, 1, 0);
  add("MPI_WCHAR", MPI_WCHAR, kInteger, sizeof(wchar_t), 0);
  add("MPI_C_BOOL", MPI_C_BOOL, kTruth, 1, kLogic);
  add("MPI_FLOAT", MPI_FLOAT, kFloat, 4, kForFloat);
  add("MPI_DOUBLE", MPI_DOUBLE, kFloat, 8, kForFloat);
  add("MPI_LONG_DOUBLE", MPI_LONG_DOUBLE, kFloat, 16, kForFloat);
  add("MPI_C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX, kComplex, 8, kArith);
  add("MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX, kComplex, 16, kArith);
  add("MPI_C_LONG_DOUBLE_COMPLEX", MPI_C_LONG_DOUBLE_COMPLEX, kComplex, 32, kArith);
  add("MPI_CXX_BOOL", MPI_CXX_BOOL, kTruth, 1, kLogic);
  add("MPI_CXX_FLOAT_COMPLEX", MPI_CXX_FLOAT_COMPLEX, kComplex, 8, kArith);
  add("MPI_CXX_DOUBLE_COMPLEX", MPI_CXX_DOUBLE_COMPLEX, kComplex, 16, kArith);
  add_pair("MPI_FLOAT_INT", MPI_FLOAT_INT, 'f', 'i');
  add_pair("MPI_DOUBLE_INT", MPI_DOUBLE_INT, 'd', 'i');
  add_pair("MPI_LONG_INT", MPI_LONG_INT, 'l', 'i');
  add_pair("MPI_SHORT_INT", MPI_SHORT_INT, 's', 'i');
  add_pair("MPI_2INT", MPI_2INT, 'i', 'i');
  add_pair("MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT, 'x', 'i');
  add("MPI_INTEGER", MPI_INTEGER, kInteger, 4, kForNumber);
  add("MPI_INTEGER1", MPI_INTEGER1, kInteger, 1, kForNumber);
  add("MPI_INTEGER2", MPI_INTEGER2, kInteger, 2, kForNumber);
  add("MPI_INTEGER4", MPI_INTEGER4, kInteger, 4, kForNumber);
  add("MPI_INTEGER8", MPI_INTEGER8, kInteger, 8, kForNumber);
  add("MPI_LOGICAL", MPI_LOGICAL, kTruth, 4, kLogic);
  add("MPI_CHARACTER", MPI_CHARACTER, kInteger, 1, 0);
  add("MPI_REAL", MPI_REAL, kFloat, 4, kForFloat);
  add("MPI_DOUBLE_PRECISION", MPI_DOUBLE_PRECISION, kFloat, 8, kForFloat);
  add("MPI_REAL4", MPI_REAL4, kFloat, 4, kForFloat);
  add("MPI_REAL8", MPI_REAL8, kFloat, 8, kForFloat);
  add("MPI_COMPLEX", MPI_COMPLEX, kComplex, 8, kArith);
  add("MPI_DOUBLE_COMPLEX", MPI_DOUBLE_COMPLEX, kComplex, 16, kArith);
  add("MPI_COMPLEX8", MPI_COMPLEX8, kComplex, 8, kArith);
  add("MPI_COMPLEX16", MPI_COMPLEX16, kComplex, 16, kArith);
  add_pair("MPI_2INTEGER", MPI_2INTEGER, 'i', 'i');
  add_pair("MPI_2REAL", MPI_2REAL, 'f', 'f');
  add_pair("MPI_2DOUBLE_PRECISION", MPI_2DOUBLE_PRECISION, 'd', 'd');
#ifdef MPI_REAL2
  add("MPI_REAL2", MPI_REAL2, kHalf, 2, kForFloat);
#endif
#ifdef MPIX_C_FLOAT16
  add("MPIX_C_FLOAT16", MPIX_C_FLOAT16, kHalf, 2, 0);
#endif
  return entries;
}

const struct Operand* operand(int index) { return &table[index]; }

static const char* const kOpNames[kOps] = {"MAX", "MIN", "SUM",  "PROD", "LAND",   "BAND",
                                           "LOR", "BOR", "LXOR", "BXOR", "MINLOC", "MAXLOC"};
const char* operand_op_name(int op) { return kOpNames[op]; }
MPI_Op operand_op(int op) {
  MPI_Op ops[kOps] = {MPI_MAX, MPI_MIN, MPI_SUM,  MPI_PROD, MPI_LAND,   MPI_BAND,
                      MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
  return ops[op];
}

// Products stay exact and away from zero: powers of two, few of them not one.
static double exact(uint64_t draw, int op) {
  static const double kFactors[] = {1, -1, 1, 2, 1, 0.5, -1, 1};
  return op == kProd ? kFactors[draw % 8] : (double)(int)(draw % 200) - 99.5 - (op == kSum ? 0.5 : 0);
}

static double general(uint64_t draw) { return ((double)(draw >> 11) / 9007199254740992.0 - 0.3) * 3; }

double operand_value(const struct Operand* type, uint64_t key, int index, int part) {
  uint64_t state = key + (uint64_t)index;
  uint64_t draw = check_random(&state);
  if (part) draw = check_random(&draw);
  double value = general(draw);
  return type->bytes / (type->kind == kComplex ? 2 : 1) == 4 ? (double)(float)value : value;
}

static void put_pair(const struct Operand* type, unsigned char* at, uint64_t draw) {
  put_number(at, type->value, (int)(draw % 5) - 2);
  put_number(at + type->index_at, type->index, (int)(draw >> 8) % 100);
}

// All bits, but where Open MPI is not to be compared with: its sums of 8 and 16 bits stop at the largest value instead
// of wrapping, and it compares addresses and offsets as if they had no sign.
static uint64_t integer(const struct Operand* type, uint64_t draw, int op) {
  if (type->bytes <= 2 && op == kSum) return draw % 8;  // 16 ranks, the most that there are: at most 112
  if (type->bytes <= 2 && op == kProd) return draw % 8 == 0 ? 2 : 1;
  bool place = strcmp(type->name, "MPI_AINT") == 0 || strcmp(type->name, "MPI_OFFSET") == 0 ||
               strcmp(type->name, "MPI_COUNT") == 0;
  return place ? draw >> 1 : draw;
}

static void put_one(const struct Operand* type, unsigned char* at, uint64_t key, int index, int op, bool exactly) {
  uint64_t state = key + (uint64_t)index, draw = check_random(&state);
  int half = type->bytes / 2;
  switch (type->kind) {
    case kInteger:
      draw = integer(type, draw, op);
      memcpy(at, &draw, (size_t)type->bytes);
      break;
    case kTruth: {
      uint64_t truth = draw % 3 != 0;
      memcpy(at, &truth, (size_t)type->bytes);
      break;
    }
    case kHalf: {
      static const uint16_t kHalves[] = {0x3C00, 0xBC00, 0x4000, 0x3800};  // 1, -1, 2, 0.5
      memcpy(at, &kHalves[draw % 4], 2);
      break;
    }
    case kFloat:
      put_number(at, float_of(type->bytes), exactly ? exact(draw, op) : operand_value(type, key, index, 0));
      break;
    case kComplex:
      put_number(at, float_of(half), exactly ? exact(draw, op) : operand_value(type, key, index, 0));
      // A product of numbers on an axis stays exact.
      put_number(at + half, float_of(half),
                 !exactly      ? operand_value(type, key, index, 1)
                 : op == kProd ? 0
                               : exact(draw >> 20, op));
      break;
    case kPair:
      put_pair(type, at, draw);
      break;
  }
}

void operand_fill(const struct Operand* type, void* out, int count, uint64_t key, int op, bool exactly) {
  for (int i = 0; i < count; ++i) {
    put_one(type, (unsigned char*)out + (size_t)i * (size_t)type->extent, key, i, op, exactly);
  }
}

static bool same_float(const unsigned char* a, const unsigned char* b, int bytes) {
  return get_number(a, float_of(bytes)) == get_number(b, float_of(bytes));
}

// The bytes that carry a value; the others are padding, which nobody has to keep.
static bool same_one(const struct Operand* type, const unsigned char* a, const unsigned char* b, int op) {
  int half = type->bytes / 2;
  if (type->kind == kComplex) {
    if (op == kProd) return same_float(a, b, half) && same_float(a + half, b + half, half);  // a zero has two signs
    size_t value = half == 16 ? 10 : (size_t)half;
    return memcmp(a, b, value) == 0 && memcmp(a + half, b + half, value) == 0;
  }
  if (type->kind == kFloat && type->bytes == 16) return memcmp(a, b, 10) == 0;
  if (type->kind == kPair) {
    const int at = type->index_at;
    return memcmp(a, b, (size_t)bytes_of(type->value)) == 0 &&
           memcmp(a + at, b + at, (size_t)bytes_of(type->index)) == 0;
  }
  return memcmp(a, b, (size_t)type->bytes) == 0;
}

int operand_differs(const struct Operand* type, const void* a, const void* b, int count, int op) {
  const unsigned char *x = a, *y = b;
  for (int i = 0; i < count; ++i) {
    size_t at = (size_t)i * (size_t)type->extent;
    if (!same_one(type, x + at, y + at, op)) return i;
  }
  return -1;
}

double operand_read(const struct Operand* type, const void* base, int index, int part) {
  int bytes = type->kind == kComplex ? type->bytes / 2 : type->bytes;
  const unsigned char* at = (const unsigned char*)base + (size_t)index * (size_t)type->extent + part * bytes;
  return (double)get_number(at, float_of(bytes));
}

void operand_choose(const struct Operand* type, void* pair, const void* other, int op) {
  const long double value = get_number(pair, type->value), other_value = get_number(other, type->value);
  const unsigned char *index = (const unsigned char*)pair + type->index_at,
                      *other_index = (const unsigned char*)other + type->index_at;
  bool further = op == kMinloc ? other_value < value : other_value > value;
  bool before = get_number(other_index, type->index) < get_number(index, type->index);
  if (further || (other_value == value && before)) memcpy(pair, other, (size_t)type->extent);
}
