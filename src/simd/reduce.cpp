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
#define ZH_SIMD_SIZE(name, klass, ...) \
  case Type::name:                     \
    return sizeof(__VA_ARGS__);
    // NOLINTNEXTLINE(bugprone-branch-clone): some types are alike
    ZH_SIMD_TYPES(ZH_SIMD_SIZE)
#undef ZH_SIMD_SIZE
    case Type::kHalf:
      return 2;
    case Type::kCount:
      break;
  }
  return 0;
}

}  // namespace zh::simd
