// The choice of kernels: the best target of this CPU. See reduce.h.
#include "simd/reduce.h"

#include "simd/catalogue.h"
#include "simd/targets.h"

namespace zh::simd {
namespace {

template <class Operation, class Element>
struct PlainLoop {
  static void run(const void* a, const void* b, void* out, size_t n) { plain_loop<Operation, Element>(a, b, out, n); }
  static constexpr Kernel kernel = &run;
};

struct TargetList {
  Target targets[kMaxTargets];
  size_t count = 0;
};

const TargetList& target_list() {
  static const TargetList list = [] {
    TargetList l;
    l.count = vector_targets(l.targets);
    l.targets[l.count++] = {"generic", &catalogue::find<PlainLoop>};
    return l;
  }();
  return list;
}

}  // namespace

const Target* usable_targets(size_t* count) {
  *count = target_list().count;
  return target_list().targets;
}

Kernel kernel_on(const Target& target, Op op, Type type) {
  const Kernel own = target.find(op, type);
  return own != nullptr ? own : catalogue::find<PlainLoop>(op, type);
}

Kernel kernel(Op op, Type type) { return kernel_on(target_list().targets[0], op, type); }

size_t size_of(Type type) {
  switch (type) {
    case Type::kInt8:
    case Type::kUint8:
    case Type::kBool:
    case Type::kLogical1:
      return 1;
    case Type::kInt16:
    case Type::kUint16:
    case Type::kHalf:
    case Type::kLogical2:
      return 2;
    case Type::kInt32:
    case Type::kUint32:
    case Type::kFloat:
    case Type::kLogical4:
      return 4;
    case Type::kInt64:
    case Type::kUint64:
    case Type::kDouble:
    case Type::kLogical8:
      return 8;
    case Type::kLongDouble:
      return sizeof(long double);
    case Type::kComplexFloat:
      return sizeof(Complex<float>);
    case Type::kComplexDouble:
      return sizeof(Complex<double>);
    case Type::kComplexLongDouble:
      return sizeof(Complex<long double>);
    case Type::kFloatInt:
      return sizeof(Pair<float, int>);
    case Type::kDoubleInt:
      return sizeof(Pair<double, int>);
    case Type::kLongInt:
      return sizeof(Pair<long, int>);
    case Type::kIntInt:
      return sizeof(Pair<int, int>);
    case Type::kShortInt:
      return sizeof(Pair<short, int>);
    case Type::kLongDoubleInt:
      return sizeof(Pair<long double, int>);
    case Type::kFloatFloat:
      return sizeof(Pair<float, float>);
    case Type::kDoubleDouble:
      return sizeof(Pair<double, double>);
    case Type::kCount:
      break;
  }
  return 0;
}

}  // namespace zh::simd
