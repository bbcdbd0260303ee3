// Time: the monotonic clock, and the CPU's tick counter for hot paths. Nothing here knows what is being timed.
#pragma once

#include <cstdint>
#include <ctime>

namespace zh::os {

/// CLOCK_MONOTONIC, nanoseconds; the same on every process of the machine.
[[nodiscard]] inline uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

/// The clock on the wall.
[[nodiscard]] inline int64_t seconds_since_1970() { return static_cast<int64_t>(std::time(nullptr)); }

/// Cheap counter (about 10 ns or less) for short intervals; comparable between processes where ticks_are_steady().
[[nodiscard]] inline uint64_t ticks() {
#if defined(__x86_64__)
  uint64_t low = 0, high = 0;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return low + (high << 32U);  // an addition may move the sum, too
#elif defined(__aarch64__)
  uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return now_ns();
#endif
}

/// Ticks in a microsecond. Measured once per process, by what has passed since it was loaded if that is 1 ms to 10 s,
/// else in a millisecond, where the CPU does not tell.
[[nodiscard]] double ticks_per_us();
/// A time in ticks.
[[nodiscard]] inline uint64_t ticks_in_us(double us) { return static_cast<uint64_t>(ticks_per_us() * us); }
/// Whether the counter runs at a constant rate in all power states (x86: invariant TSC).
[[nodiscard]] bool ticks_are_steady();
/// Whether a hypervisor may hide which processors share a core, and change it (x86).
[[nodiscard]] bool cpu_is_virtual();
/// Whether a program plays this processor (QEMU without hardware virtualisation, x86): then no time says anything.
[[nodiscard]] bool cpu_is_emulated();

/// Says when a time has passed since it last said so; the first question only starts it.
class Interval {
 public:
  bool over(double us) {
    const uint64_t now = ticks();
    const bool is_over = next_ != 0 && now >= next_;
    if (is_over || next_ == 0) next_ = now + ticks_in_us(us);
    return is_over;
  }

 private:
  uint64_t next_ = 0;
};

}  // namespace zh::os
