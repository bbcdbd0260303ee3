// Reduction kernels of MPI's predefined operations (MPI standard 6.9.2, 6.9.4), chosen once at run time by CPU. Called
// by the collectives and MPI_Reduce_local; it refuses to know MPI handles, ranks and who owns the memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zh::simd {

enum class Op : uint8_t { kMax, kMin, kSum, kProd, kLand, kBand, kLor, kBor, kLxor, kBxor, kMaxloc, kMinloc, kCount };

/// Element types as they lie in memory; the shim maps MPI's many names onto these. Pair types are C structs of the
/// value followed by an int (or of two equal Fortran values), with the compiler's padding.
enum class Type : uint8_t {
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kHalf,  ///< IEEE binary16, where the compiler has _Float16
  kFloat,
  kDouble,
  kLongDouble,
  kComplexFloat,
  kComplexDouble,
  kComplexLongDouble,
  kBool,      ///< C _Bool: logical operations give 0 or 1
  kLogical1,  ///< Fortran LOGICAL of that many bytes: true is any value but 0, logical operations give 0 or 1
  kLogical2,
  kLogical4,
  kLogical8,
  kFloatInt,
  kDoubleInt,
  kLongInt,
  kIntInt,
  kShortInt,
  kLongDoubleInt,
  kFloatFloat,    ///< MPI_2REAL
  kDoubleDouble,  ///< MPI_2DOUBLE_PRECISION
  kCount,
};

/// out[i] = a[i] op b[i] for i < n. `a` is the operand of the lower rank. `out` may be `a` or `b`, no other overlap; no
/// alignment is assumed. The same inputs give the same bits whatever n, the position and the CPU's vector width, except
/// that of two operands that are not numbers either may lend a sum or product its payload.
/// - max is a > b ? a : b and min a < b ? a : b, as in MPICH and Open MPI: b where either is not a number, or for two
/// zeros.
/// - maxloc and minloc choose the value by the same rule; of equal values the result has the lower index.
/// - Integers wrap around. A complex product is the plain formula, without C's repair of infinities.
using Kernel = void (*)(const void* a, const void* b, void* out, size_t n);

/// Null where the MPI standard does not define the operation on the type, or the compiler lacks the type.
[[nodiscard]] Kernel kernel(Op op, Type type);
/// Bytes from one element to the next (the C struct's size for pairs).
[[nodiscard]] size_t size_of(Type type);

}  // namespace zh::simd
