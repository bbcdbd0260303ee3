// Giving the CPU to another thread, and waiting for another process that is in the middle of something short.
#pragma once

#include <sched.h>

#include <cstdint>

#include "base/atomic.h"

namespace zh::os {

/// sched_yield: lets another runnable thread have this CPU; returns at once if there is none.
inline void yield_cpu() { sched_yield(); }

/// Between two looks at what another process is about to do: that takes well under a microsecond, unless it has lost
/// its CPU, or its life. So the first looks follow each other, and then the CPU is offered to others between them.
class Backoff {
 public:
  /// After `spins` looks the CPU is offered; of all looks every `check_every`-th is to ask whether the other lives.
  constexpr Backoff(uint32_t spins, uint32_t check_every) : spins_(spins), check_every_(check_every) {}

  /// After a look in vain. True when it is time to ask.
  [[nodiscard]] bool pause() {
    if (++looks_ < spins_) {
      cpu_relax();
      return false;
    }
    yield_cpu();
    return looks_ % check_every_ == 0;
  }
  /// The other has moved.
  void reset() { looks_ = 0; }

 private:
  uint32_t spins_;
  uint32_t check_every_;
  uint32_t looks_ = 0;
};

}  // namespace zh::os
