// Operands of members combined in rank order by a kernel. Used by the reductions of this folder.
#pragma once

#include <cstdint>
#include <cstring>

#include "coll/types.h"

namespace zh::coll {

/// out = operands of members [first, last] combined in their order, from the right; n bytes of each, at
/// operand(member). `how` has a kernel. `out` is none of the operands, or the one of `last`.
template <typename Operand>
[[gnu::always_inline]] inline void fold_by_kernel(uint32_t first, uint32_t last, uint64_t n, std::byte* out,
                                                  const Reduction& how, const Operand& operand) {
  const uint64_t count = n / how.element_bytes;
  const std::byte* right = operand(last);
  if (first == last && n != 0) std::memcpy(out, right, n);
  for (uint32_t i = last; i-- > first;) {
    how.kernel(operand(i), right, out, count);
    right = out;
  }
}

}  // namespace zh::coll
