// Sleeping on a word of shared memory. Called by src/shm (waiting) and tests. It refuses to know who wakes whom and
// why.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace zh::os {

enum class Wake : uint8_t {
  kWoken,    ///< a wake came (or a spurious return: check the condition again)
  kChanged,  ///< the word did not hold `expected`
  kTimedOut,
};

constexpr uint64_t kForever = ~uint64_t{0};

/// Sleeps while `word` holds `expected`, at most timeout_ns. Works between processes.
Wake futex_wait(const Atomic<uint32_t>& word, uint32_t expected, uint64_t timeout_ns = kForever);
/// Wakes up to `count` sleepers; returns how many.
int futex_wake(Atomic<uint32_t>& word, int count);
constexpr int kWakeAll = 0x7fffffff;

}  // namespace zh::os
