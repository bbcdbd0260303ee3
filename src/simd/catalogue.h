// Which operation the MPI standard defines on which type (6.9.2, 6.9.4), written once for every kind of loop. Included
// by the plain and the vector kernels.
#pragma once

#include <type_traits>

#include "simd/elements.h"
#include "simd/reduce.h"

namespace zh::simd::catalogue {

// Each function finds the kernel of an operation for one of the standard's classes of types: Loop<Operation,
// Element>::kernel, or null where the operation is not defined on the class.

template <template <class Operation, class Element> class Loop, class T>
Kernel logical(Op op) {
  using U = std::make_unsigned_t<T>;
  if (op == Op::kLand) return Loop<Land, U>::kernel;
  if (op == Op::kLor) return Loop<Lor, U>::kernel;
  return op == Op::kLxor ? Loop<Lxor, U>::kernel : nullptr;
}

template <template <class Operation, class Element> class Loop, class T>
Kernel complex(Op op) {
  if (op == Op::kSum) return Loop<Sum, T>::kernel;
  return op == Op::kProd ? Loop<Prod, T>::kernel : nullptr;
}

template <template <class Operation, class Element> class Loop, class T>
Kernel floating(Op op) {
  if (op == Op::kMax) return Loop<Max, T>::kernel;
  return op == Op::kMin ? Loop<Min, T>::kernel : complex<Loop, T>(op);
}

template <template <class Operation, class Element> class Loop, class T>
Kernel integer(Op op) {
  using U = std::make_unsigned_t<T>;
  if (op == Op::kMax) return Loop<Max, T>::kernel;
  if (op == Op::kMin) return Loop<Min, T>::kernel;
  if (op == Op::kBand) return Loop<Band, U>::kernel;
  if (op == Op::kBor) return Loop<Bor, U>::kernel;
  if (op == Op::kBxor) return Loop<Bxor, U>::kernel;
  if (op == Op::kSum || op == Op::kProd) return complex<Loop, U>(op);
  return logical<Loop, T>(op);
}

/// Of a type that is a value and its place.
template <template <class Operation, class Element> class Loop, class T>
Kernel pair(Op op) {
  if (op == Op::kMaxloc) return Loop<Maxloc, T>::kernel;
  return op == Op::kMinloc ? Loop<Minloc, T>::kernel : nullptr;
}

/// All types but kHalf, which the compiler may lack: TYPE(name, class, element).
#define ZH_SIMD_TYPES(TYPE)                               \
  TYPE(kInt8, integer, int8_t)                            \
  TYPE(kInt16, integer, int16_t)                          \
  TYPE(kInt32, integer, int32_t)                          \
  TYPE(kInt64, integer, int64_t)                          \
  TYPE(kUint8, integer, uint8_t)                          \
  TYPE(kUint16, integer, uint16_t)                        \
  TYPE(kUint32, integer, uint32_t)                        \
  TYPE(kUint64, integer, uint64_t)                        \
  TYPE(kFloat, floating, float)                           \
  TYPE(kDouble, floating, double)                         \
  TYPE(kLongDouble, floating, long double)                \
  TYPE(kComplexFloat, complex, Complex<float>)            \
  TYPE(kComplexDouble, complex, Complex<double>)          \
  TYPE(kComplexLongDouble, complex, Complex<long double>) \
  TYPE(kBool, logical, uint8_t)                           \
  TYPE(kLogical1, logical, uint8_t)                       \
  TYPE(kLogical2, logical, uint16_t)                      \
  TYPE(kLogical4, logical, uint32_t)                      \
  TYPE(kLogical8, logical, uint64_t)                      \
  TYPE(kFloatInt, pair, Pair<float, int>)                 \
  TYPE(kDoubleInt, pair, Pair<double, int>)               \
  TYPE(kLongInt, pair, Pair<long, int>)                   \
  TYPE(kIntInt, pair, Pair<int, int>)                     \
  TYPE(kShortInt, pair, Pair<short, int>)                 \
  TYPE(kLongDoubleInt, pair, Pair<long double, int>)      \
  TYPE(kFloatFloat, pair, Pair<float, float>)             \
  TYPE(kDoubleDouble, pair, Pair<double, double>)

template <template <class Operation, class Element> class Loop>
Kernel find(Op op, Type type) {
  switch (type) {
#define ZH_SIMD_FIND(name, klass, ...) \
  case Type::name:                     \
    return klass<Loop, __VA_ARGS__>(op);
    // NOLINTNEXTLINE(bugprone-branch-clone): some types are alike
    ZH_SIMD_TYPES(ZH_SIMD_FIND)
#undef ZH_SIMD_FIND
    case Type::kHalf:
#if ZH_HAVE_HALF
      return floating<Loop, Half>(op);
#endif
    case Type::kCount:
      break;
  }
  return nullptr;
}

}  // namespace zh::simd::catalogue
