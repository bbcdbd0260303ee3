// Predefined operations and datatypes by handle, from predefined.table, and the program's own operations.
#include "mpi/handles/reduction.h"

#include <cstring>
#include <mutex>
#include <utility>

namespace zh::mpi {

HandleMap<OpInfo> ops;

namespace {

/// What the elements of a predefined datatype are (the groups of MPI standard 6.9.2).
enum class Element : uint8_t {
  kSigned,
  kUnsigned,
  kNumber,  ///< Fortran's integers, addresses and counts: no logical operations
  kReal,
  kLongDouble,
  kComplex,
  kLongComplex,
  kBool,
  kLogical,
  kByte,  ///< bitwise operations only
  kPair,
};

struct KnownType {
  MPI_Datatype handle{};
  Element element = Element::kByte;
  simd::Type pair = simd::Type::kCount;
};

std::mutex ops_mutex;
HandleMap<KnownType> known_types;

#define ZH_PAIR(name, layout, symbol) ZH_TYPE(name, kPair, symbol)
#define ZH_OP(...)
constexpr size_t kTypes = 0
#define ZH_TYPE(...) +1
#include "mpi/handles/predefined.table"
    ;
#undef ZH_TYPE
#undef ZH_PAIR
#undef ZH_OP
KnownType type_table[kTypes];

/// The type for 1, 2, 4 or 8 bytes.
simd::Type by_size(uint64_t bytes, simd::Type one, simd::Type two, simd::Type four, simd::Type eight) {
  switch (bytes) {
    case 1:
      return one;
    case 2:
      return two;
    case 4:
      return four;
    case 8:
      return eight;
    default:
      return simd::Type::kCount;
  }
}

simd::Type simd_type(const KnownType& known, uint64_t bytes) {
  using simd::Type;
  constexpr Type kNone = Type::kCount;
  switch (known.element) {
    case Element::kSigned:
    case Element::kNumber:
      return by_size(bytes, Type::kInt8, Type::kInt16, Type::kInt32, Type::kInt64);
    case Element::kUnsigned:
      return by_size(bytes, Type::kUint8, Type::kUint16, Type::kUint32, Type::kUint64);
    case Element::kReal:
      return by_size(bytes, kNone, Type::kHalf, Type::kFloat, Type::kDouble);
    case Element::kLongDouble:
      return bytes == sizeof(long double) ? Type::kLongDouble : kNone;
    case Element::kComplex:
      return by_size(bytes / 2, kNone, kNone, Type::kComplexFloat, Type::kComplexDouble);
    case Element::kLongComplex:
      return bytes == 2 * sizeof(long double) ? Type::kComplexLongDouble : kNone;
    case Element::kBool:
      return by_size(bytes, Type::kBool, kNone, kNone, kNone);
    case Element::kLogical:
      return by_size(bytes, Type::kLogical1, Type::kLogical2, Type::kLogical4, Type::kLogical8);
    case Element::kByte:
      return by_size(bytes, Type::kUint8, kNone, kNone, kNone);
    case Element::kPair:
      return known.pair;
  }
  return kNone;
}

/// The standard gives some datatypes fewer operations than their kernels could do; the host judges the others.
bool allowed(Element element, simd::Op op) {
  const bool bitwise = op == simd::Op::kBand || op == simd::Op::kBor || op == simd::Op::kBxor;
  const bool logical = op == simd::Op::kLand || op == simd::Op::kLor || op == simd::Op::kLxor;
  if (element == Element::kByte) return bitwise;
  return element != Element::kNumber || !logical;
}

constexpr int kFunctionCount = 1 << 30;  ///< elements per call that an int surely holds

// A function with an int count knows nothing but its arguments, so each operation has one of its own.
constexpr size_t kLargeOps = 256;
Atomic<LargeUserFunction*> large_functions[kLargeOps];

template <size_t kSlot>
void call_large(void* in, void* inout, int* n, MPI_Datatype* type) {
  MPI_Count count = *n;
  large_functions[kSlot].load_relaxed()(in, inout, &count, type);
}

template <size_t... kSlots>
constexpr std::array<MPI_User_function*, sizeof...(kSlots)> make_callers(std::index_sequence<kSlots...>) {
  return {&call_large<kSlots>...};
}
constexpr auto kLargeCallers = make_callers(std::make_index_sequence<kLargeOps>());
size_t large_ops = 0;

}  // namespace

void load_predefined([[maybe_unused]] void* library) {
  KnownType* next = type_table;
#if defined(ZH_ABI_OMPI)
#define ZH_HANDLE(kind, name, symbol) static_cast<kind>(host_object(library, #symbol))
#else
#define ZH_HANDLE(kind, name, symbol) MPI_##name
#endif
#define ZH_ROW(name, element_, pair_, symbol)                                            \
  *next = {ZH_HANDLE(MPI_Datatype, name, symbol), Element::element_, simd::Type::pair_}; \
  if (next->handle != MPI_Datatype{} && next->handle != MPI_DATATYPE_NULL)               \
    known_types.insert(key_of(next->handle), next);                                      \
  ++next;
#define ZH_TYPE(name, element_, symbol) ZH_ROW(name, element_, kCount, symbol)
#define ZH_PAIR(name, layout, symbol) ZH_ROW(name, kPair, layout, symbol)
#define ZH_OP(name, op_, symbol)                               \
  {                                                            \
    static OpInfo info;                                        \
    info.op = simd::Op::op_;                                   \
    const MPI_Op handle = ZH_HANDLE(MPI_Op, name, symbol);     \
    if (handle != MPI_Op{}) ops.insert(key_of(handle), &info); \
  }
#include "mpi/handles/predefined.table"
#undef ZH_OP
#undef ZH_PAIR
#undef ZH_TYPE
#undef ZH_ROW
#undef ZH_HANDLE
}

bool has_kernels(MPI_Datatype type) { return known_types.find(key_of(type)) != nullptr; }

void find_kernels(TypeInfo* info) {
  const KnownType* known = known_types.find(key_of(info->handle));
  // The program's own operations take any elements that lie without gaps.
  if (info->kind == TypeInfo::Kind::kContiguous && static_cast<int64_t>(info->size) == info->extent) {
    info->element_bytes = info->size;
  }
  if (known == nullptr) return;
  const simd::Type type = simd_type(*known, info->size);
  if (type == simd::Type::kCount || static_cast<int64_t>(simd::size_of(type)) != info->extent) return;
  info->element_bytes = simd::size_of(type);
  for (size_t i = 0; i < info->kernels.size(); ++i) {
    const auto op = static_cast<simd::Op>(i);
    if (allowed(known->element, op)) info->kernels[i] = simd::kernel(op, type);
  }
}

void remember_op(MPI_Op op, bool commutative) {
  auto* info = new OpInfo;
  info->commutative = commutative;
  info->handle = op;
  const TableLock lock(ops_mutex);
  ops.insert(key_of(op), info);
}

void drop(OpInfo* op) {
  // OF0 -> OF1: the last user's calls of the operation before the host frees it
  if (op->users.fetch_sub_acq_rel(1) != 1) return;
  if (op->freed) host.Op_free(&op->handle);
  delete op;
}

int free_op(MPI_Op* op) {
  const MPI_Op old = *op;
  OpInfo* info = ops.find(key_of(old));
  if (info == nullptr || info->op != simd::Op::kCount) return host.Op_free(op);
  {
    const TableLock lock(ops_mutex);
    ops.erase(key_of(old));
  }
  if (info->users.load_relaxed() > 1) {
    info->freed = true;
    *op = MPI_OP_NULL;
  } else if (const int error = host.Op_free(op); error != MPI_SUCCESS) {
    const TableLock lock(ops_mutex);
    ops.insert(key_of(old), info);
    return error;
  }
  drop(info);
  return MPI_SUCCESS;
}

int create_large_op(LargeUserFunction* function, int commute, MPI_Op* op) {
  ZH_LARGE_CALL(host.Op_create_c(function, commute, op));
  size_t slot = 0;
  {
    const TableLock lock(ops_mutex);
    while (slot < large_ops && large_functions[slot].load_relaxed() != function) ++slot;  // programs repeat themselves
    if (slot == kLargeOps) return raise(MPI_COMM_SELF, MPI_ERR_NO_MEM);
    large_functions[slot].store_relaxed(function);
    if (slot == large_ops) ++large_ops;
  }
  return host.Op_create(kLargeCallers[slot], commute, op);
}

void run_user_op(void* user_op, void* in, void* inout, uint64_t n) {
  const auto& x = *static_cast<const UserOp*>(user_op);
  auto* from = static_cast<std::byte*>(in);
  auto* to = static_cast<std::byte*>(inout);
  while (n > 0) {
    const int count = n < kFunctionCount ? static_cast<int>(n) : kFunctionCount;
    host.Reduce_local(from, to, count, x.type, x.op);
    n -= static_cast<uint64_t>(count);
    from += static_cast<uint64_t>(count) * x.element_bytes;
    to += static_cast<uint64_t>(count) * x.element_bytes;
  }
}

}  // namespace zh::mpi
