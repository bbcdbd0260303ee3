// Copy loops by SIMD width and kind of store, chosen once at run time by CPU. Called by every path that moves payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/atomic.h"
#include "base/shm_types.h"

namespace zh::copy {

/// How the destination's lines are written. Non-temporal stores push lines past the writer's cache: right for a sender
/// whose reader sits behind another cache (measured), wrong when both share one.
enum class Store : uint8_t { kTemporal, kNonTemporal };

/// Longest copy that copy_small() takes.
constexpr size_t kSmallBytes = 256;
/// Shortest copy that is streamed: a whole line is in it wherever it begins.
constexpr size_t kLeastStreamedBytes = 128;

namespace detail {

using Vector16 [[gnu::vector_size(16)]] = unsigned char;

template <typename T>
inline T load(const unsigned char* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(T));
  return value;
}
template <typename T>
inline void store(unsigned char* p, T value) {
  __builtin_memcpy(p, &value, sizeof(T));
}

/// sizeof(T) <= n <= 2 sizeof(T): two overlapping pieces, both loads before the stores.
template <typename T>
inline void copy_pair(unsigned char* d, const unsigned char* s, size_t n) {
  const T head = load<T>(s);
  const T tail = load<T>(s + n - sizeof(T));
  store(d, head);
  store(d + n - sizeof(T), tail);
}

/// Exactly 64 bytes. Separate registers: GCC 12 takes a struct of four through the stack.
inline void copy_64(unsigned char* d, const unsigned char* s) {
  const auto a = load<Vector16>(s);
  const auto b = load<Vector16>(s + 16);
  const auto c = load<Vector16>(s + 32);
  const auto e = load<Vector16>(s + 48);
  store(d, a);
  store(d + 16, b);
  store(d + 32, c);
  store(d + 48, e);
}

void copy_large(void* dst, const void* src, size_t n);
void copy_streaming(void* dst, const void* src, size_t n);

}  // namespace detail

/// Copies n <= kSmallBytes bytes, with few branches. The ranges must not overlap.
[[gnu::always_inline]] inline void copy_in_line(void* dst, const void* src, size_t n) {
  auto* d = static_cast<unsigned char*>(dst);
  const auto* s = static_cast<const unsigned char*>(src);
  if (n > 8) {
    if (n <= 16) return detail::copy_pair<uint64_t>(d, s, n);
    if (n <= 32) return detail::copy_pair<detail::Vector16>(d, s, n);
    if (n > 64) {
      size_t i = 0;
      do {
        detail::copy_64(d + i, s + i);
        i += 64;
      } while (i + 64 < n);
      return detail::copy_64(d + n - 64, s + n - 64);
    }
    detail::store(d + 16, detail::load<detail::Vector16>(s + 16));
    detail::store(d + n - 32, detail::load<detail::Vector16>(s + n - 32));
    return detail::copy_pair<detail::Vector16>(d, s, n);
  }
  if (n >= 4) return detail::copy_pair<uint32_t>(d, s, n);
  if (n >= 2) return detail::copy_pair<uint16_t>(d, s, n);
  if (n == 1) *d = *s;
}

/// The same where a call may be made.
inline void copy_small(void* dst, const void* src, size_t n) { copy_in_line(dst, src, n); }

/// Copies n bytes; the ranges must not overlap. A non-temporal copy ends with a store fence, so a later release store
/// publishes it. Below kLeastStreamedBytes both kinds are the same.
inline void copy_bytes(void* dst, const void* src, size_t n, Store store) {
  if (store == Store::kNonTemporal && n >= kLeastStreamedBytes) return detail::copy_streaming(dst, src, n);
  if (n <= kSmallBytes) return copy_small(dst, src, n);
  detail::copy_large(dst, src, n);
}

/// Asks for the lines of memory that will be written soon, a few at a time, while there is nothing else to do: the copy
/// then does not wait for each. Changes nothing, and faults nowhere.
class WriteAhead {
 public:
  /// The least for which this pays, and the most that stays in a cache until it is written.
  static constexpr uint64_t kLeastBytes = 1 << 10;
  static constexpr uint64_t kMostBytes = 256 << 10;

  WriteAhead() = default;
  WriteAhead(const void* begin, uint64_t bytes)
      : next_(static_cast<const std::byte*>(begin)),
        lines_(bytes < kLeastBytes ? 0
                                   : static_cast<uint32_t>((bytes < kMostBytes ? bytes : kMostBytes) / kLineBytes)) {}

  void step(uint32_t lines) {
    for (; lines != 0 && lines_ != 0; --lines, --lines_, next_ += kLineBytes) prefetch_for_write(next_);
  }

 private:
  const std::byte* next_ = nullptr;
  uint32_t lines_ = 0;  ///< still to be asked for
};

/// Name of the kernel set in use, for `zerohop info` ("avx512", "avx2", "generic", ...).
[[nodiscard]] const char* kernel_name();

/// A kernel set by name, so that tests and benchmarks can run each one that this CPU has.
struct CopyKernel {
  const char* name;
  void (*temporal)(void* dst, const void* src, size_t n);
  void (*streaming)(void* dst, const void* src, size_t n);  ///< ends with a store fence
};
/// The sets that this CPU can run, best first; `*count` receives how many.
[[nodiscard]] const CopyKernel* usable_kernels(size_t* count);

}  // namespace zh::copy
