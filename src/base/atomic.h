// The only home of std::atomic. The memory order is part of each operation's name, so that every acquire and release
// can be seen and paired at a glance. With ZH_INSTRUMENTED another type takes its place, and the shipped code runs
// under it unchanged: in the model checker (tests/model), and on machines that are only described (tests/emulation).
#pragma once

#include <cstdint>

#ifdef ZH_INSTRUMENTED
#include "model_check/atomic.h"
#else
#include <atomic>
#include <type_traits>

namespace zh {

/// A lock-free atomic integer or enum; usable in shared memory (no hidden lock, no pointer). Function pointers of one
/// process are the exception.
template <typename T>
class Atomic {
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(std::atomic<T>::is_always_lock_free, "shared memory needs address-free atomics");

 public:
  Atomic() = default;
  constexpr explicit Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  [[nodiscard]] T load_relaxed() const { return value_.load(std::memory_order_relaxed); }
  [[nodiscard]] T load_acquire() const { return value_.load(std::memory_order_acquire); }
  void store_relaxed(T v) { value_.store(v, std::memory_order_relaxed); }
  void store_release(T v) { value_.store(v, std::memory_order_release); }
  T exchange_acq_rel(T v) { return value_.exchange(v, std::memory_order_acq_rel); }
  T fetch_add_relaxed(T v) { return value_.fetch_add(v, std::memory_order_relaxed); }
  T fetch_add_acq_rel(T v) { return value_.fetch_add(v, std::memory_order_acq_rel); }
  T fetch_sub_acq_rel(T v) { return value_.fetch_sub(v, std::memory_order_acq_rel); }
  T fetch_or_relaxed(T v) { return value_.fetch_or(v, std::memory_order_relaxed); }
  T fetch_and_relaxed(T v) { return value_.fetch_and(v, std::memory_order_relaxed); }
  /// On failure `expected` holds the value seen (relaxed).
  bool cas_acquire(T& expected, T desired) {
    return value_.compare_exchange_strong(expected, desired, std::memory_order_acquire, std::memory_order_relaxed);
  }
  /// On failure `expected` holds the value seen (acquire).
  bool cas_acq_rel(T& expected, T desired) {
    return value_.compare_exchange_strong(expected, desired, std::memory_order_acq_rel, std::memory_order_acquire);
  }
  bool cas_relaxed(T& expected, T desired) {
    return value_.compare_exchange_strong(expected, desired, std::memory_order_relaxed, std::memory_order_relaxed);
  }

 private:
  std::atomic<T> value_{};
};

/// Full barrier; only where a store must be seen before a later load (Dekker-like handshakes).
inline void fence_seq_cst() { std::atomic_thread_fence(std::memory_order_seq_cst); }

}  // namespace zh
#endif

namespace zh {

/// Tells the CPU that this is a spin loop.
inline void cpu_relax() {
#if defined(ZH_INSTRUMENTED)
  mc::relax();
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Asks for a line that will be read.
inline void prefetch_for_read(const void* p) {
#ifdef ZH_INSTRUMENTED
  mc::prefetch(p);
#else
  __builtin_prefetch(p);
#endif
}

/// Asks for a line to be owned by this CPU, before the store that needs it.
inline void prefetch_for_write(const void* p) {
#if defined(__x86_64__)
  // The built-in one becomes a prefetch for reading where the compiler may not assume the instruction; CPUs without it
  // take it for a no-operation.
  asm volatile("prefetchw %0" ::"m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1);
#endif
}

}  // namespace zh
