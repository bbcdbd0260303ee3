// Words that members compare by one allreduce: the least of a word and of its complement is the word and its complement
// only where all gave the same word.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/types.h"
#include "simd/reduce.h"

namespace zh::coll {

/// The least of uint64_t.
[[nodiscard]] inline Reduction least_word() {
  Reduction how;
  how.element_bytes = sizeof(uint64_t);
  how.kernel = simd::kernel(simd::Op::kMin, simd::Type::kUint64);
  return how;
}

/// N words of this member; after an allreduce of `words` by the least, whether all members gave the same.
template <size_t N>
struct Compared {
  explicit Compared(const uint64_t (&given)[N]) {
    for (size_t i = 0; i < N; ++i) words[i] = given[i];
    for (size_t i = 0; i < N; ++i) words[N + i] = ~given[i];
  }
  [[nodiscard]] bool alike() const {
    for (size_t i = 0; i < N; ++i) {
      if (words[i] != ~words[N + i]) return false;
    }
    return true;
  }

  static constexpr size_t kCount = 2 * N;
  uint64_t words[kCount];
};

}  // namespace zh::coll
