// Which processes that came of this one by fork() still run the same program image. No descriptor is needed, so a child
// that closes all of its descriptors still counts. Called by src/heap around fork(); nothing here allocates.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "base/atomic.h"

namespace zh::os {

/// Writers: the process that forks reserves a slot before; its child takes it; the kernel marks it when the child ends
/// or runs another program (robust mutex). Readers: every process of the family.
/// Invariant: a slot that was reserved and not found ended may have a living process behind it.
/// Wrap: slots are used once; beyond the last one a process counts as living for ever.
/// Crash: a child that dies before it takes its slot counts as living for ever: memory is kept, nothing is lost.
struct DescendantsShm {
  static constexpr uint32_t kSlots = 60;
  Atomic<uint32_t> reserved;
  Atomic<uint32_t> taken[kSlots];  ///< 0 reserved, 1 taken, 2 ended
  pthread_mutex_t life[kSlots];
};

class Descendants {
 public:
  constexpr Descendants() = default;
  /// Before a fork. False if no memory could be had (then all_ended() stays false).
  bool reserve();
  /// In the child, first thing.
  void take();
  /// True if no process that was forked after the first reserve() runs the same image any more.
  [[nodiscard]] bool all_ended();

 private:
  DescendantsShm* shm_ = nullptr;
  uint32_t mine_ = 0;
  uint32_t own_ = ~0U;  ///< this process's slot in its parent's table
  bool lost_ = false;
};

}  // namespace zh::os
