// The vector loops of reductions, written once with Google Highway and compiled for each target by including this file
// again (foreach_target.h). Called through targets.h. Only Highway's headers are used: which target a CPU can run is
// found out here, so that nothing of its library has to be in a foreign process.
#include "simd/targets.h"

#if ZH_HAVE_HIGHWAY

#include "simd/catalogue.h"

// The guard of foreach_target.h's repetitions: settings are read once, by the first inclusion.
#ifndef ZH_SIMD_VECTORS_SETTINGS
#define ZH_SIMD_VECTORS_SETTINGS
// The targets shall need no more of the CPU than their vectors, for that is all that is asked of it below.
#define HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLE_BMI2_FMA
#define HWY_DISABLE_F16C
// Emulated vectors are of no use: the plain loops are there.
#define HWY_BROKEN_EMU128 1
#if defined(__x86_64__)
// What lies between (SSSE3, SSE4) and the variants of AVX3 would only be more code. Newer Highways have targets that
// older ones do not name, so those that are wanted are named.
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3 | HWY_SCALAR))
#else
#define HWY_COMPILE_ONLY_STATIC
#endif
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/vectors.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace zh::simd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The unit that the vector operations see: an element, or half a complex one.
template <class Element>
struct LaneOf {
  using Type = Element;
};
template <class T>
struct LaneOf<Complex<T>> {
  using Type = T;
};

template <class Element>
inline constexpr bool has_vectors = std::is_integral_v<Element>;
template <>
inline constexpr bool has_vectors<float> = true;
template <>
inline constexpr bool has_vectors<double> = true;
template <>
inline constexpr bool has_vectors<Complex<float>> = true;
template <>
inline constexpr bool has_vectors<Complex<double>> = true;

// apply(Operation, Element, tag, a, b): the operation on whole vectors. Lane is the tag's type, passed as Element is.

template <class Element, class D, class V>
HWY_INLINE V apply(Max, Element, D /*d*/, V a, V b) {
  // Highway's Max differs between CPUs where an operand is not a number.
  if constexpr (std::is_floating_point_v<Element>) {
    return hn::IfThenElse(hn::Gt(a, b), a, b);
  } else {
    return hn::Max(a, b);
  }
}

template <class Element, class D, class V>
HWY_INLINE V apply(Min, Element, D /*d*/, V a, V b) {
  if constexpr (std::is_floating_point_v<Element>) {
    return hn::IfThenElse(hn::Lt(a, b), a, b);
  } else {
    return hn::Min(a, b);
  }
}

template <class Element, class D, class V>
HWY_INLINE V apply(Sum, Element, D /*d*/, V a, V b) {
  return hn::Add(a, b);
}

/// Exchanges the real and imaginary parts.
template <class V>
HWY_INLINE V swap_parts(float, V v) {
  return hn::Shuffle2301(v);
}
template <class V>
HWY_INLINE V swap_parts(double, V v) {
  return hn::Shuffle01(v);
}

template <class T, class D, class V>
HWY_INLINE V apply(Prod, Complex<T>, D /*d*/, V a, V b) {
  const V swapped_a = swap_parts(T{}, a);
  const V re_a = hn::OddEven(swapped_a, a);
  const V im_a = hn::OddEven(a, swapped_a);
  const V straight = hn::Mul(re_a, b);
  const V crossed = hn::Mul(im_a, swap_parts(T{}, b));
  return hn::OddEven(hn::Add(crossed, straight), hn::Sub(straight, crossed));
}

template <class Element, class D, class V>
HWY_INLINE V apply(Prod, Element, D d, V a, V b) {
  if constexpr (std::is_floating_point_v<Element> || sizeof(Element) == 2 || sizeof(Element) == 4) {
    return hn::Mul(a, b);
  } else if constexpr (sizeof(Element) == 1) {
    const hn::Repartition<uint16_t, D> wide;
    const auto a16 = hn::BitCast(wide, a);
    const auto b16 = hn::BitCast(wide, b);
    const auto low = hn::And(hn::Mul(a16, b16), hn::Set(wide, 0xff));
    const auto high = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16)));
    return hn::BitCast(d, hn::Or(high, low));
  } else {
    const hn::Repartition<uint32_t, D> narrow;
    const auto a32 = hn::BitCast(narrow, a);
    const auto b32 = hn::BitCast(narrow, b);
    const auto crossed = hn::Mul(a32, hn::Shuffle2301(b32));
    const auto upper = hn::Add(crossed, hn::Shuffle2301(crossed));
    return hn::Add(hn::MulEven(a32, b32), hn::ShiftLeft<32>(hn::BitCast(d, upper)));
  }
}

/// All bits of the lanes that are 0.
template <class D, class V>
HWY_INLINE V zeros(D d, V v) {
  return hn::VecFromMask(d, hn::Eq(v, hn::Zero(d)));
}

template <class Element, class D, class V>
HWY_INLINE V apply(Land, Element, D d, V a, V b) {
  return hn::AndNot(hn::Or(zeros(d, a), zeros(d, b)), hn::Set(d, Element{1}));
}

template <class Element, class D, class V>
HWY_INLINE V apply(Lor, Element, D d, V a, V b) {
  return hn::AndNot(zeros(d, hn::Or(a, b)), hn::Set(d, Element{1}));
}

template <class Element, class D, class V>
HWY_INLINE V apply(Lxor, Element, D d, V a, V b) {
  return hn::And(hn::Xor(zeros(d, a), zeros(d, b)), hn::Set(d, Element{1}));
}

template <class Element, class D, class V>
HWY_INLINE V apply(Band, Element, D /*d*/, V a, V b) {
  return hn::And(a, b);
}

template <class Element, class D, class V>
HWY_INLINE V apply(Bor, Element, D /*d*/, V a, V b) {
  return hn::Or(a, b);
}

template <class Element, class D, class V>
HWY_INLINE V apply(Bxor, Element, D /*d*/, V a, V b) {
  return hn::Xor(a, b);
}

template <class Operation, class Element>
void vector_loop(const void* a, const void* b, void* out, size_t n) {
  using Lane = typename LaneOf<Element>::Type;
  const hn::ScalableTag<Lane> d;
  const size_t width = hn::Lanes(d);
  const size_t lanes = n * (sizeof(Element) / sizeof(Lane));
  const auto* x = static_cast<const Lane*>(a);
  const auto* y = static_cast<const Lane*>(b);
  auto* o = static_cast<Lane*>(out);
  const auto at = [&](size_t i) HWY_ATTR {
    hn::StoreU(apply(Operation{}, Element{}, d, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, o + i);
  };
  size_t i = 0;
  for (; i + 4 * width <= lanes; i += 4 * width) {
    at(i);
    at(i + width);
    at(i + 2 * width);
    at(i + 3 * width);
  }
  for (; i + width <= lanes; i += width) at(i);
  plain_loop<Operation, Element>(x + i, y + i, o + i, n - i / (sizeof(Element) / sizeof(Lane)));
}

template <class Operation, class Element, bool vectors = has_vectors<Element>>
struct LoopOf {
  static constexpr Kernel kernel = nullptr;
};
template <class Operation, class Element>
struct LoopOf<Operation, Element, true> {
  static constexpr Kernel kernel = &vector_loop<Operation, Element>;
};
template <class Operation, class Element>
using Loop = LoopOf<Operation, Element>;

Kernel find(Op op, Type type) { return catalogue::find<Loop>(op, type); }

}  // namespace HWY_NAMESPACE
}  // namespace zh::simd
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET != HWY_SCALAR

#if HWY_ONCE
namespace zh::simd {

size_t vector_targets(Target* out) {
  size_t count = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
#if (HWY_TARGETS & HWY_AVX3) != 0
  // VBMI2 came with the cores that no longer lower their clock for 512-bit vectors (Ice Lake, Zen 4).
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vbmi2")) {
    out[count++] = {"AVX3", &N_AVX3::find};
  }
#endif
#if (HWY_TARGETS & HWY_AVX2) != 0
  if (__builtin_cpu_supports("avx2")) out[count++] = {"AVX2", &N_AVX2::find};
#endif
#elif HWY_TARGET != HWY_SCALAR
  out[count++] = {hwy::TargetName(HWY_TARGET), &HWY_NAMESPACE::find};
#endif
  return count;
}

}  // namespace zh::simd
#endif  // HWY_ONCE

#else  // ZH_HAVE_HIGHWAY

namespace zh::simd {
size_t vector_targets(Target* /*out*/) { return 0; }
}  // namespace zh::simd

#endif  // ZH_HAVE_HIGHWAY
