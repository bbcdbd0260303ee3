// Whether other programs want this rank's processor. Where they do, a rank that looks for a message, or offers the
// processor by sched_yield, gets it back only when the others have had their time, milliseconds later; one that sleeps
// has it back when the message comes. It is seen by looks that come back late although nothing but a change of process
// lies between them. Called by the engine's waits; it refuses to know what is waited for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/atomic.h"

namespace zh::engine {

class BusyWatch {
 public:
  /// Two looks that microseconds lie between where the processor is this rank's own. `preemptions()`: how often this
  /// thread has lost it so far; without one more, the machine itself stood still. True if others have had it.
  template <typename Preemptions>
  bool note(uint64_t from_ns, uint64_t to_ns, Preemptions&& preemptions) {
    if (to_ns - from_ns < kLateNs) return false;
    const uint64_t lost = preemptions();
    if (lost == lost_.load_relaxed()) return false;
    lost_.store_relaxed(lost);
    // A finding holds until another look is worth what it costs: a few times what this one did, for a launcher that
    // wants a millisecond says nothing of the next fifty; and the longer others have stayed, the longer.
    const uint64_t until = until_ns_.load_relaxed();
    const uint64_t before = for_ns_.load_relaxed();
    const bool again = until != 0 && to_ns - std::min(to_ns, until) < 2 * before;
    const uint64_t now_for = std::min(again ? 2 * before : kCosts * (to_ns - from_ns), kMostNs);
    for_ns_.store_relaxed(now_for);
    until_ns_.store_relaxed(to_ns + now_for);
    return true;
  }
  /// `now`: the clock, asked only where something was found.
  template <typename Clock>
  [[nodiscard]] bool busy(Clock&& now) const {
    const uint64_t until = until_ns_.load_relaxed();
    return until != 0 && now() < until;
  }

 private:
  static constexpr uint64_t kLateNs = 700'000;  ///< the least time that a scheduler gives to one that does not wait
  static constexpr uint64_t kCosts = 4;
  static constexpr uint64_t kMostNs = 1'600'000'000;

  Atomic<uint64_t> until_ns_{0};
  Atomic<uint64_t> for_ns_{0};
  Atomic<uint64_t> lost_{0};
};

}  // namespace zh::engine
