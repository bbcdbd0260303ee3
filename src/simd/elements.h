// The elements and operations of reductions as C++ types, and the plain loop over them: the whole of the semantics,
// which vector loops must reproduce bit for bit. Included by the plain and the vector kernels; knows no CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace zh::simd {

// GCC 12 predefines the limits of _Float16 on AArch64, but knows the type in C only; __fp16 is the same format.
#if defined(__FLT16_MANT_DIG__) && !(defined(__aarch64__) && !defined(__clang__) && __GNUC__ < 13)
#define ZH_HAVE_HALF 1
using Half = _Float16;
#elif defined(__ARM_FP16_FORMAT_IEEE)
#define ZH_HAVE_HALF 1
using Half = __fp16;
#else
#define ZH_HAVE_HALF 0
#endif

template <class T>
struct Complex {
  T re;
  T im;
};

/// What maxloc and minloc work on.
template <class V, class I>
struct Pair {
  V value;
  I index;
};

template <class T>
inline constexpr bool is_complex = false;
template <class T>
inline constexpr bool is_complex<Complex<T>> = true;

namespace detail {
/// Unsigned and at least as wide as int: narrower ones would be promoted to int, whose overflow is undefined.
template <class T>
using Wide = std::common_type_t<T, unsigned>;
}  // namespace detail

// Integer sums, products and bitwise operations are asked for with unsigned elements only: they wrap around, and the
// bits are those of the signed ones.

struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a > b ? a : b;
  }
};

struct Min {
  template <class T>
  static T apply(T a, T b) {
    return a < b ? a : b;
  }
};

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_complex<T>) {
      return {a.re + b.re, a.im + b.im};
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(detail::Wide<T>{a} + detail::Wide<T>{b});
    } else {
      return static_cast<T>(a + b);
    }
  }
};

struct Prod {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_complex<T>) {
      // The formula as it stands: no repair of infinities (C, annex G), which would cost a branch per element.
      return {a.re * b.re - a.im * b.im, a.im * b.re + a.re * b.im};
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(detail::Wide<T>{a} * detail::Wide<T>{b});
    } else {
      return static_cast<T>(a * b);
    }
  }
};

#define ZH_SIMD_OPERATION(name, result) \
  struct name {                         \
    template <class T>                  \
    static T apply(T a, T b) {          \
      return static_cast<T>(result);    \
    }                                   \
  };
ZH_SIMD_OPERATION(Land, a != 0 && b != 0)
ZH_SIMD_OPERATION(Lor, a != 0 || b != 0)
ZH_SIMD_OPERATION(Lxor, (a != 0) != (b != 0))
ZH_SIMD_OPERATION(Band, (a & b))
ZH_SIMD_OPERATION(Bor, (a | b))
ZH_SIMD_OPERATION(Bxor, (a ^ b))
#undef ZH_SIMD_OPERATION

// The value that Max or Min gives, with its index; of equal values the lower index.
struct Maxloc {
  template <class V, class I>
  static Pair<V, I> apply(const Pair<V, I>& a, const Pair<V, I>& b) {
    Pair<V, I> r = a.value > b.value ? a : b;
    if (a.value == b.value) r.index = Min::apply(a.index, b.index);
    return r;
  }
};

struct Minloc {
  template <class V, class I>
  static Pair<V, I> apply(const Pair<V, I>& a, const Pair<V, I>& b) {
    Pair<V, I> r = a.value < b.value ? a : b;
    if (a.value == b.value) r.index = Min::apply(a.index, b.index);
    return r;
  }
};

/// out[i] = Operation(a[i], b[i]). Elements go through memcpy, for they may lie at any address. Always inlined, so that
/// files compiled for different CPUs share no copy of it.
template <class Operation, class Element>
[[gnu::always_inline]] inline void plain_loop(const void* a, const void* b, void* out, size_t n) {
  const auto* x = static_cast<const unsigned char*>(a);
  const auto* y = static_cast<const unsigned char*>(b);
  auto* o = static_cast<unsigned char*>(out);
  for (size_t i = 0; i < n * sizeof(Element); i += sizeof(Element)) {
    Element left;
    Element right;
    __builtin_memcpy(&left, x + i, sizeof(Element));
    __builtin_memcpy(&right, y + i, sizeof(Element));
    const Element result = Operation::apply(left, right);
    __builtin_memcpy(o + i, &result, sizeof(Element));
  }
}

}  // namespace zh::simd
