// Building blocks of types that live in shared memory: the line size, offsets instead of pointers, layout checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace zh {

/// Unit of sharing between caches. Two adjacent lines are fetched together on x86, so hot words of different writers
/// are kept kPairBytes apart.
constexpr size_t kLineBytes = 64;
constexpr size_t kPairBytes = 128;

/// Unit of bookkeeping of memory; the system's pages may be larger.
constexpr uint64_t kPage = 4096;

/// A position in the node's segment, in bytes from its start. 0 (the segment's header) means "none".
using Offset = uint64_t;
constexpr Offset kNoOffset = 0;

template <typename T>
[[nodiscard]] T* at(std::byte* base, Offset offset) {
  return reinterpret_cast<T*>(base + offset);
}

constexpr uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

/// What every *Shm type promises; static_assert it below the type.
template <typename T>
constexpr bool kShmSafe =
    std::is_standard_layout_v<T> && !std::is_polymorphic_v<T> && std::is_trivially_destructible_v<T>;

}  // namespace zh
