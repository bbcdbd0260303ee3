// Every operation on every type, on every target that this CPU has, against one element at a time: all short lengths,
// odd addresses, the result over either operand, and bytes around it.
// label one-thread: ^test_simd[.]
#include "simd/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "simd/elements.h"
#include "simd/targets.h"

namespace zh::simd {
namespace {

using Bytes = std::vector<unsigned char>;
using Random = std::mt19937_64;
constexpr size_t kMost = 130;
constexpr size_t kGuard = 64;

template <class T>
T load(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
void store(void* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

/// What a test knows of one type: how to make an element, what an operation gives, whether two results are the same.
struct Model {
  Type type;
  std::vector<Op> ops;
  void (*make)(Random& random, void* p);
  void (*reference)(Op op, const void* a, const void* b, void* out);
  bool (*same)(Op op, const void* x, const void* y);
};

const std::vector<Op> kLogicalOps = {Op::kLand, Op::kLor, Op::kLxor};
const std::vector<Op> kComplexOps = {Op::kSum, Op::kProd};
const std::vector<Op> kFloatOps = {Op::kSum, Op::kProd, Op::kMax, Op::kMin};
const std::vector<Op> kPairOps = {Op::kMaxloc, Op::kMinloc};
const std::vector<Op> kIntegerOps = {Op::kMax, Op::kMin,  Op::kSum,  Op::kProd, Op::kLand,
                                     Op::kLor, Op::kLxor, Op::kBand, Op::kBor,  Op::kBxor};

template <class T>
bool same_bytes(Op /*op*/, const void* x, const void* y) {
  return std::memcmp(x, y, sizeof(T)) == 0;
}

template <class T>
void make_integer(Random& random, void* p) {
  const uint64_t r = random();
  constexpr T kSpecial[] = {0, 1, std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), static_cast<T>(-1)};
  store(p, r % 4 == 0 ? kSpecial[(r >> 8) % 5] : static_cast<T>(r >> 8));
}

template <class T>
void integer_reference(Op op, const void* pa, const void* pb, void* out) {
  const T a = load<T>(pa);
  const T b = load<T>(pb);
  // Arithmetic modulo 2^64 ends in the same low bits as that of the type.
  const auto ua = static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(a));
  const auto ub = static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(b));
  switch (op) {
    case Op::kMax:
      return store<T>(out, a < b ? b : a);
    case Op::kMin:
      return store<T>(out, b < a ? b : a);
    case Op::kSum:
      return store(out, static_cast<T>(ua + ub));
    case Op::kProd:
      return store(out, static_cast<T>(ua * ub));
    case Op::kLand:
      return store(out, static_cast<T>(a && b));
    case Op::kLor:
      return store(out, static_cast<T>(a || b));
    case Op::kLxor:
      return store(out, static_cast<T>(!a != !b));
    case Op::kBand:
      return store(out, static_cast<T>(ua & ub));
    case Op::kBor:
      return store(out, static_cast<T>(ua | ub));
    case Op::kBxor:
      return store(out, static_cast<T>(ua ^ ub));
    default:
      FAIL();
  }
}

template <class T>
T make_number(Random& random) {
  const uint64_t r = random();
  const double numbers[] = {0.0,
                            -0.0,
                            1.0,
                            -1.0,
                            std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(),
                            std::nan(""),
                            -std::nan(""),
                            6e-8,
                            65504.0};
  if (r % 4 == 0) return static_cast<T>(numbers[(r >> 8) % std::size(numbers)]);
  return static_cast<T>(std::ldexp(static_cast<double>(static_cast<int64_t>(r)), static_cast<int>(r % 9) - 63));
}

template <class T>
void make_float(Random& random, void* p) {
  store(p, make_number<T>(random));
}

/// Products are rounded before they are added, also where the compiler of this file would fuse them.
template <class T>
T rounded(T v) {
  volatile T kept = v;
  return kept;
}

template <class T>
void float_reference(Op op, const void* pa, const void* pb, void* out) {
  const T a = load<T>(pa);
  const T b = load<T>(pb);
  switch (op) {
    case Op::kMax:
      return store<T>(out, a > b ? a : b);
    case Op::kMin:
      return store<T>(out, a < b ? a : b);
    case Op::kSum:
      return store<T>(out, static_cast<T>(a + b));
    case Op::kProd:
      return store<T>(out, static_cast<T>(a * b));
    default:
      FAIL();
  }
}

/// The same number: all bits that count. A sum that is not a number may carry either operand's payload.
template <class T>
bool same_number(Op op, const void* px, const void* py) {
  const T x = load<T>(px);
  const T y = load<T>(py);
  const bool nan_x = x != x;
  const bool nan_y = y != y;
  if (nan_x || nan_y)
    return nan_x && nan_y && (op == Op::kSum || op == Op::kProd || sizeof(T) > 8 || same_bytes<T>(op, px, py));
  return x == y && std::signbit(static_cast<long double>(x)) == std::signbit(static_cast<long double>(y));
}

template <class T>
void make_complex(Random& random, void* p) {
  store(p, Complex<T>{make_number<T>(random), make_number<T>(random)});
}

template <class T>
void complex_reference(Op op, const void* pa, const void* pb, void* out) {
  const auto a = load<Complex<T>>(pa);
  const auto b = load<Complex<T>>(pb);
  if (op == Op::kSum) return store(out, Complex<T>{a.re + b.re, a.im + b.im});
  store(out, Complex<T>{rounded(a.re * b.re) - rounded(a.im * b.im), rounded(a.re * b.im) + rounded(a.im * b.re)});
}

template <class T>
bool same_complex(Op op, const void* x, const void* y) {
  const size_t half = sizeof(T);
  return same_number<T>(op, x, y) &&
         same_number<T>(op, static_cast<const char*>(x) + half, static_cast<const char*>(y) + half);
}

template <class V, class I>
void make_pair(Random& random, void* p) {
  // Few values, so that many are equal.
  store(p, Pair<V, I>{static_cast<V>(static_cast<int>(random() % 5) - 2),
                      static_cast<I>(static_cast<int>(random() % 1000))});
}

template <class V, class I>
void pair_reference(Op op, const void* pa, const void* pb, void* out) {
  const auto a = load<Pair<V, I>>(pa);
  const auto b = load<Pair<V, I>>(pb);
  if (a.value == b.value) return store(out, a.index < b.index ? a : b);
  store(out, (a.value > b.value) == (op == Op::kMaxloc) ? a : b);
}

template <class V, class I>
bool same_pair(Op /*op*/, const void* px, const void* py) {
  const auto x = load<Pair<V, I>>(px);
  const auto y = load<Pair<V, I>>(py);
  return x.value == y.value && x.index == y.index;
}

template <class T>
Model integer_model(Type type, const std::vector<Op>& ops = kIntegerOps) {
  return {type, ops, make_integer<T>, integer_reference<T>, same_bytes<T>};
}
template <class T>
Model float_model(Type type) {
  return {type, kFloatOps, make_float<T>, float_reference<T>, same_number<T>};
}
template <class T>
Model complex_model(Type type) {
  return {type, kComplexOps, make_complex<T>, complex_reference<T>, same_complex<T>};
}
template <class V, class I>
Model pair_model(Type type) {
  return {type, kPairOps, make_pair<V, I>, pair_reference<V, I>, same_pair<V, I>};
}

const std::vector<Model>& models() {
  static const std::vector<Model> all = {
    integer_model<int8_t>(Type::kInt8),
    integer_model<int16_t>(Type::kInt16),
    integer_model<int32_t>(Type::kInt32),
    integer_model<int64_t>(Type::kInt64),
    integer_model<uint8_t>(Type::kUint8),
    integer_model<uint16_t>(Type::kUint16),
    integer_model<uint32_t>(Type::kUint32),
    integer_model<uint64_t>(Type::kUint64),
#if ZH_HAVE_HALF
    float_model<Half>(Type::kHalf),
#endif
    float_model<float>(Type::kFloat),
    float_model<double>(Type::kDouble),
    float_model<long double>(Type::kLongDouble),
    complex_model<float>(Type::kComplexFloat),
    complex_model<double>(Type::kComplexDouble),
    complex_model<long double>(Type::kComplexLongDouble),
    integer_model<uint8_t>(Type::kBool, kLogicalOps),
    integer_model<uint8_t>(Type::kLogical1, kLogicalOps),
    integer_model<uint16_t>(Type::kLogical2, kLogicalOps),
    integer_model<uint32_t>(Type::kLogical4, kLogicalOps),
    integer_model<uint64_t>(Type::kLogical8, kLogicalOps),
    pair_model<float, int>(Type::kFloatInt),
    pair_model<double, int>(Type::kDoubleInt),
    pair_model<long, int>(Type::kLongInt),
    pair_model<int, int>(Type::kIntInt),
    pair_model<short, int>(Type::kShortInt),
    pair_model<long double, int>(Type::kLongDoubleInt),
    pair_model<float, float>(Type::kFloatFloat),
    pair_model<double, double>(Type::kDoubleDouble),
  };
  return all;
}

/// Operands and expected results of kMost elements.
struct Sample {
  Bytes a;
  Bytes b;
  Bytes want;
};

Sample sample_of(const Model& m, Op op) {
  const size_t size = size_of(m.type);
  Sample s{Bytes(kMost * size), Bytes(kMost * size), Bytes(kMost * size)};
  Random random(static_cast<uint64_t>(m.type) * 100 + static_cast<uint64_t>(op));
  for (size_t at = 0; at < s.a.size(); at += size) {
    m.make(random, s.a.data() + at);
    m.make(random, s.b.data() + at);
    m.reference(op, s.a.data() + at, s.b.data() + at, s.want.data() + at);
  }
  return s;
}

enum class Place { kApart, kOverA, kOverB };

/// Runs the kernel on the first n elements at odd addresses; returns the result, or nothing when a byte around it
/// changed.
Bytes run(Kernel kernel, const Sample& s, size_t bytes, size_t n, Place place, size_t shift) {
  Bytes a(kGuard + shift + bytes + kGuard, 0xa5);
  Bytes b(kGuard + (shift * 3) % 32 + bytes + kGuard, 0xa5);
  Bytes apart(kGuard + (shift * 7) % 32 + bytes + kGuard, 0xa5);
  unsigned char* pa = a.data() + kGuard + shift;
  unsigned char* pb = b.data() + kGuard + (shift * 3) % 32;
  if (bytes > 0) std::memcpy(pa, s.a.data(), bytes);
  if (bytes > 0) std::memcpy(pb, s.b.data(), bytes);
  Bytes& target = place == Place::kOverA ? a : place == Place::kOverB ? b : apart;
  unsigned char* out = place == Place::kOverA   ? pa
                       : place == Place::kOverB ? pb
                                                : apart.data() + kGuard + (shift * 7) % 32;
  kernel(pa, pb, out, n);
  const auto start = out - target.data();
  Bytes result(out, out + bytes);
  for (size_t i = 0; i < target.size(); ++i) {
    const bool inside = i >= static_cast<size_t>(start) && i < static_cast<size_t>(start) + bytes;
    if (!inside && target[i] != 0xa5) return {};
  }
  return result;
}

std::span<const Target> all_targets() {
  size_t count = 0;
  const Target* targets = usable_targets(&count);
  return {targets, count};
}

/// Runs each kernel of each target on a sample: the first `n` elements, for all that tries(try_it) calls
/// try_it(n, place, shift) with.
template <typename Tries>
void expect_as_reference(const Tries& tries) {
  for (const Target& target : all_targets()) {
    for (const Model& m : models()) {
      const size_t size = size_of(m.type);
      for (const Op op : m.ops) {
        const Kernel kernel = kernel_on(target, op, m.type);
        const Sample s = sample_of(m, op);
        ASSERT_NE(kernel, nullptr);
        tries([&](size_t n, Place place, size_t shift) {
          const Bytes got = run(kernel, s, n * size, n, place, shift);
          ASSERT_EQ(got.size(), n * size) << "bytes around the result changed";
          for (size_t at = 0; at < got.size(); at += size) {
            ASSERT_TRUE(m.same(op, got.data() + at, s.want.data() + at))
                << target.name << " op " << static_cast<int>(op) << " type " << static_cast<int>(m.type) << " n " << n
                << " element " << at / size << " place " << static_cast<int>(place) << " shift " << shift;
          }
        });
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Reduce, EveryTargetEveryOperationAndTypeAtEveryShortLength) {
  expect_as_reference([](const auto& try_it) {
    for (size_t n = 0; n <= kMost; ++n) try_it(n, static_cast<Place>(n % 3), (n * 5) % 32);
  });
}

TEST(Reduce, TheResultMayLieOverEitherOperandAtEveryAddress) {
  expect_as_reference([](const auto& try_it) {
    for (const Place place : {Place::kApart, Place::kOverA, Place::kOverB}) {
      for (size_t shift = 0; shift < 32; shift += 3) try_it(kMost, place, shift);
    }
  });
}

TEST(Reduce, EveryTargetAndEveryCutGivesTheSameBits) {
  for (const Type type : {Type::kFloat, Type::kDouble, Type::kComplexFloat, Type::kComplexDouble}) {
    const size_t size = size_of(type);
    Bytes a(kMost * size);
    Bytes b(kMost * size);
    Random random(7);
    const bool single = type == Type::kFloat || type == Type::kComplexFloat;
    for (size_t at = 0; at < a.size(); at += single ? 4 : 8) {
      for (Bytes* v : {&a, &b}) {
        const double x = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 64) - 96);
        single ? store(v->data() + at, static_cast<float>(x)) : store(v->data() + at, x);
      }
    }
    for (const Op op : {Op::kSum, Op::kProd, Op::kMax, Op::kMin}) {
      if (kernel(op, type) == nullptr) continue;
      Bytes whole(a.size());
      kernel(op, type)(a.data(), b.data(), whole.data(), kMost);
      for (const Target& target : all_targets()) {
        const Kernel k = kernel_on(target, op, type);
        for (size_t cut = 0; cut <= kMost; ++cut) {
          Bytes parts(a.size());
          k(a.data(), b.data(), parts.data(), cut);
          k(a.data() + cut * size, b.data() + cut * size, parts.data() + cut * size, kMost - cut);
          ASSERT_EQ(parts, whole) << target.name << " cut " << cut;
        }
      }
    }
  }
}

TEST(Reduce, OnlyWhatTheStandardDefinesHasAKernel) {
  std::vector<std::vector<bool>> defined(static_cast<size_t>(Type::kCount),
                                         std::vector<bool>(static_cast<size_t>(Op::kCount)));
  for (const Model& m : models()) {
    for (const Op op : m.ops) defined[static_cast<size_t>(m.type)][static_cast<size_t>(op)] = true;
  }
  for (size_t type = 0; type <= static_cast<size_t>(Type::kCount); ++type) {
    for (size_t op = 0; op <= static_cast<size_t>(Op::kCount); ++op) {
      const bool wanted = type < defined.size() && op < defined[type].size() && defined[type][op];
      for (const Target& target : all_targets()) {
        EXPECT_EQ(kernel_on(target, static_cast<Op>(op), static_cast<Type>(type)) != nullptr, wanted)
            << target.name << " type " << type << " op " << op;
      }
    }
  }
}

TEST(Reduce, AnOperandThatIsNoNumberLosesOnTheLeftAndWinsOnTheRight) {
  const double nan = std::nan("");
  const double a[] = {nan, 1, nan, 0.0, -0.0};
  const double b[] = {1, nan, nan, -0.0, 0.0};
  for (const Op op : {Op::kMax, Op::kMin}) {
    double out[5];
    kernel(op, Type::kDouble)(a, b, out, 5);
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(load<uint64_t>(&out[i]), load<uint64_t>(&b[i]));
  }
}

TEST(Reduce, EqualValuesGiveTheLowerIndex) {
  const Pair<double, int> a[] = {{2, 7}, {2, 3}, {1, 9}};
  const Pair<double, int> b[] = {{2, 3}, {2, 7}, {2, 4}};
  Pair<double, int> out[3];
  kernel(Op::kMaxloc, Type::kDoubleInt)(a, b, out, 3);
  EXPECT_EQ(out[0].index, 3);
  EXPECT_EQ(out[1].index, 3);
  EXPECT_EQ(out[2].index, 4);
  kernel(Op::kMinloc, Type::kDoubleInt)(a, b, out, 3);
  EXPECT_EQ(out[0].index, 3);
  EXPECT_EQ(out[1].index, 3);
  EXPECT_EQ(out[2].index, 9);
}

TEST(Reduce, ThePlainTargetIsLast) {
  ASSERT_FALSE(all_targets().empty());
  EXPECT_STREQ(all_targets().back().name, "generic");
  for (size_t type = 0; type < static_cast<size_t>(Type::kCount); ++type) {
    EXPECT_GT(size_of(static_cast<Type>(type)), 0U);
  }
}

}  // namespace
}  // namespace zh::simd
