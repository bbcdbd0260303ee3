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
  switch (op) {
    case Op::kLand:
      return Loop<Land, U>::kernel;
    case Op::kLor:
      return Loop<Lor, U>::kernel;
    case Op::kLxor:
      return Loop<Lxor, U>::kernel;
    default:
      return nullptr;
  }
}

template <template <class Operation, class Element> class Loop, class T>
Kernel complex(Op op) {
  switch (op) {
    case Op::kSum:
      return Loop<Sum, T>::kernel;
    case Op::kProd:
      return Loop<Prod, T>::kernel;
    default:
      return nullptr;
  }
}

template <template <class Operation, class Element> class Loop, class T>
Kernel floating(Op op) {
  switch (op) {
    case Op::kMax:
      return Loop<Max, T>::kernel;
    case Op::kMin:
      return Loop<Min, T>::kernel;
    default:
      return complex<Loop, T>(op);
  }
}

template <template <class Operation, class Element> class Loop, class T>
Kernel integer(Op op) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case Op::kMax:
      return Loop<Max, T>::kernel;
    case Op::kMin:
      return Loop<Min, T>::kernel;
    case Op::kSum:
      return Loop<Sum, U>::kernel;
    case Op::kProd:
      return Loop<Prod, U>::kernel;
    case Op::kBand:
      return Loop<Band, U>::kernel;
    case Op::kBor:
      return Loop<Bor, U>::kernel;
    case Op::kBxor:
      return Loop<Bxor, U>::kernel;
    default:
      return logical<Loop, T>(op);
  }
}

template <template <class Operation, class Element> class Loop, class V, class I>
Kernel pair(Op op) {
  switch (op) {
    case Op::kMaxloc:
      return Loop<Maxloc, Pair<V, I>>::kernel;
    case Op::kMinloc:
      return Loop<Minloc, Pair<V, I>>::kernel;
    default:
      return nullptr;
  }
}

/// Of a type that is a value and its place.
template <template <class Operation, class Element> class Loop>
Kernel find_pair(Op op, Type type) {
  switch (type) {
    case Type::kFloatInt:
      return pair<Loop, float, int>(op);
    case Type::kDoubleInt:
      return pair<Loop, double, int>(op);
    case Type::kLongInt:
      return pair<Loop, long, int>(op);
    case Type::kIntInt:
      return pair<Loop, int, int>(op);
    case Type::kShortInt:
      return pair<Loop, short, int>(op);
    case Type::kLongDoubleInt:
      return pair<Loop, long double, int>(op);
    case Type::kFloatFloat:
      return pair<Loop, float, float>(op);
    case Type::kDoubleDouble:
      return pair<Loop, double, double>(op);
    default:
      return nullptr;
  }
}

template <template <class Operation, class Element> class Loop>
Kernel find(Op op, Type type) {
  switch (type) {
    case Type::kInt8:
      return integer<Loop, int8_t>(op);
    case Type::kInt16:
      return integer<Loop, int16_t>(op);
    case Type::kInt32:
      return integer<Loop, int32_t>(op);
    case Type::kInt64:
      return integer<Loop, int64_t>(op);
    case Type::kUint8:
      return integer<Loop, uint8_t>(op);
    case Type::kUint16:
      return integer<Loop, uint16_t>(op);
    case Type::kUint32:
      return integer<Loop, uint32_t>(op);
    case Type::kUint64:
      return integer<Loop, uint64_t>(op);
    case Type::kHalf:
#if ZH_HAVE_HALF
      return floating<Loop, Half>(op);
#else
      return nullptr;
#endif
    case Type::kFloat:
      return floating<Loop, float>(op);
    case Type::kDouble:
      return floating<Loop, double>(op);
    case Type::kLongDouble:
      return floating<Loop, long double>(op);
    case Type::kComplexFloat:
      return complex<Loop, Complex<float>>(op);
    case Type::kComplexDouble:
      return complex<Loop, Complex<double>>(op);
    case Type::kComplexLongDouble:
      return complex<Loop, Complex<long double>>(op);
    case Type::kBool:
    case Type::kLogical1:
      return logical<Loop, uint8_t>(op);
    case Type::kLogical2:
      return logical<Loop, uint16_t>(op);
    case Type::kLogical4:
      return logical<Loop, uint32_t>(op);
    case Type::kLogical8:
      return logical<Loop, uint64_t>(op);
    case Type::kFloatInt:
    case Type::kDoubleInt:
    case Type::kLongInt:
    case Type::kIntInt:
    case Type::kShortInt:
    case Type::kLongDoubleInt:
    case Type::kFloatFloat:
    case Type::kDoubleDouble:
      return find_pair<Loop>(op, type);
    case Type::kCount:
      break;
  }
  return nullptr;
}

}  // namespace zh::simd::catalogue
