// A number for statistics: changed by one thread at a time, read by any, also of another process.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace zh {

class Count {
 public:
  Count& operator+=(uint64_t n) {
#if defined(__x86_64__) && !defined(ZH_INSTRUMENTED)
    asm("addq %1, %0" : "+m"(value_) : "er"(n));  // as of a plain number: two relaxed accesses would be three
#else
    value_.store_relaxed(value_.load_relaxed() + n);
#endif
    return *this;
  }
  Count& operator++() { return *this += 1; }
  void set(uint64_t n) { value_.store_relaxed(n); }
  operator uint64_t() const { return value_.load_relaxed(); }  // NOLINT(google-explicit-constructor): reads as a number

 private:
  Atomic<uint64_t> value_;
};

}  // namespace zh
