// The instrumented twin of zh::Atomic: the same interface, each operation a step of the model checker. It takes the
// place of std::atomic below src/base/atomic.h when ZH_INSTRUMENTED is defined, so that the shipped headers run under
// the checker unchanged. The value itself stays in place and keeps its size, so the layouts of shared types hold as
// well.
#pragma once

#include <cstdint>
#include <type_traits>

#include "checker.h"

// Where an operation stands in the source; filled in by the compiler at the call. It names the operation in traces and
// lets the mutation tests weaken exactly one.
#define ZH_MC_SITE ::zh::mc::Site site = {__builtin_FILE(), __builtin_LINE(), __builtin_FUNCTION()}

namespace zh {

template <typename T>
class Atomic {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);

 public:
  Atomic() = default;
  constexpr explicit Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  [[nodiscard]] T load_relaxed(ZH_MC_SITE) const { return load(mc::Order::kRelaxed, site); }
  [[nodiscard]] T load_acquire(ZH_MC_SITE) const { return load(mc::Order::kAcquire, site); }
  void store_relaxed(T v, ZH_MC_SITE) { store(v, mc::Order::kRelaxed, site); }
  void store_release(T v, ZH_MC_SITE) { store(v, mc::Order::kRelease, site); }
  T exchange_acq_rel(T v, ZH_MC_SITE) {
    return update([v](T) { return v; }, mc::Order::kAcqRel, site);
  }
  T fetch_add_relaxed(T v, ZH_MC_SITE) {
    return update([v](T old) { return static_cast<T>(old + v); }, mc::Order::kRelaxed, site);
  }
  T fetch_add_acq_rel(T v, ZH_MC_SITE) {
    return update([v](T old) { return static_cast<T>(old + v); }, mc::Order::kAcqRel, site);
  }
  T fetch_sub_acq_rel(T v, ZH_MC_SITE) {
    return update([v](T old) { return static_cast<T>(old - v); }, mc::Order::kAcqRel, site);
  }
  T fetch_or_relaxed(T v, ZH_MC_SITE) {
    return update([v](T old) { return static_cast<T>(old | v); }, mc::Order::kRelaxed, site);
  }
  T fetch_and_relaxed(T v, ZH_MC_SITE) {
    return update([v](T old) { return static_cast<T>(old & v); }, mc::Order::kRelaxed, site);
  }
  bool cas_acquire(T& expected, T desired, ZH_MC_SITE) {
    return cas(expected, desired, mc::Order::kAcquire, mc::Order::kRelaxed, site);
  }
  bool cas_acq_rel(T& expected, T desired, ZH_MC_SITE) {
    return cas(expected, desired, mc::Order::kAcqRel, mc::Order::kAcquire, site);
  }
  bool cas_relaxed(T& expected, T desired, ZH_MC_SITE) {
    return cas(expected, desired, mc::Order::kRelaxed, mc::Order::kRelaxed, site);
  }

 private:
  static uint64_t bits(T v) { return static_cast<uint64_t>(v); }
  static T value(uint64_t b) { return static_cast<T>(b); }

  T load(mc::Order order, const mc::Site& site) const { return value(mc::load(&value_, bits(value_), order, site)); }
  void store(T v, mc::Order order, const mc::Site& site) {
    mc::store(&value_, bits(value_), bits(v), order, site);
    value_ = v;
  }
  template <typename F>
  T update(F&& f, mc::Order order, const mc::Site& site) {
    const T old = value(mc::update_begin(&value_, bits(value_), order, site));
    const T next = f(old);
    mc::update_end(&value_, bits(next), order, site);
    value_ = next;
    return old;
  }
  bool cas(T& expected, T desired, mc::Order success, mc::Order failure, const mc::Site& site) {
    uint64_t seen = bits(expected);
    if (!mc::compare(&value_, bits(value_), &seen, success, failure, site)) {
      expected = value(seen);
      return false;
    }
    mc::update_end(&value_, bits(desired), success, site);
    value_ = desired;
    return true;
  }

  T value_{};
};

inline void fence_seq_cst(ZH_MC_SITE) { mc::fence(site); }

}  // namespace zh

#undef ZH_MC_SITE
