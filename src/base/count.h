// A number for statistics: changed by one thread at a time, read by any, also of another process.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace zh {

class Count {
 public:
  // One writer at a time, so no read-modify-write: it costs what a plain number costs.
  Count& operator+=(uint64_t n) {
    value_.store_relaxed(value_.load_relaxed() + n);
    return *this;
  }
  Count& operator++() { return *this += 1; }
  void set(uint64_t n) { value_.store_relaxed(n); }
  operator uint64_t() const { return value_.load_relaxed(); }  // NOLINT(google-explicit-constructor): reads as a number

 private:
  Atomic<uint64_t> value_;
};

}  // namespace zh
