// Memory that runs out, for tests of what comes of it: the forms of operator new that may give null. Included by one
// file of a test program, since it replaces them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace zh::test {

inline thread_local uint64_t least_refused_bytes = ~uint64_t{0};

/// While one lives, this thread gets no memory of so many bytes and more from where it may get none.
class ShortMemory {
 public:
  explicit ShortMemory(uint64_t least_bytes) { least_refused_bytes = least_bytes; }
  ~ShortMemory() { least_refused_bytes = ~uint64_t{0}; }
  ShortMemory(const ShortMemory&) = delete;
  ShortMemory& operator=(const ShortMemory&) = delete;
};

namespace detail {
template <typename Allocate>
void* unless_short(std::size_t bytes, const Allocate& allocate) noexcept {
  if (bytes >= least_refused_bytes) return nullptr;
  try {
    return allocate();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
}  // namespace detail

}  // namespace zh::test

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return zh::test::detail::unless_short(bytes, [bytes] { return ::operator new(bytes); });
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return zh::test::detail::unless_short(bytes, [bytes] { return ::operator new[](bytes); });
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return zh::test::detail::unless_short(bytes, [bytes, alignment] { return ::operator new(bytes, alignment); });
}
