// The instruction sets for which there are reduction kernels. Seen by reduce.cpp, which takes the best, and by tests
// and benchmarks, which run each one that this CPU has.
#pragma once

#include <cstddef>

#include "simd/reduce.h"

namespace zh::simd {

struct Target {
  const char* name;
  Kernel (*find)(Op op, Type type);  ///< null also where the target has no loop of its own
};

constexpr size_t kMaxTargets = 4;

/// The targets that this CPU can run, best first, the plain loops ("generic") last; `*count` receives how many.
[[nodiscard]] const Target* usable_targets(size_t* count);

/// The target's loop, or the plain one where it has none; null where the operation is not defined on the type.
[[nodiscard]] Kernel kernel_on(const Target& target, Op op, Type type);

/// Writes those with vector loops, best first, and returns how many (fewer than kMaxTargets).
size_t vector_targets(Target* out);

}  // namespace zh::simd
