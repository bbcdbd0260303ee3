// Calibration of the tick counter; see clock.h.
#include "os/clock.h"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace zh::os {
namespace {

#if defined(__x86_64__)
/// One reading of both clocks, taken within as few ticks as possible.
struct Pair {
  uint64_t ticks;
  uint64_t ns;
};

Pair read_both() {
  Pair best{};
  uint64_t narrowest = ~uint64_t{0};
  for (int i = 0; i < 8; ++i) {
    const uint64_t before = ticks();
    const uint64_t ns = now_ns();
    const uint64_t after = ticks();
    if (after - before < narrowest) {
      narrowest = after - before;
      best = {before + (after - before) / 2, ns};
    }
  }
  return best;
}

/// On the wall, also while the machine sleeps.
uint64_t boot_ns() {
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

/// Before anyone asks, so that nobody has to wait for a second reading; of some use for a while only, for a machine may
/// sleep, and a process be put away, and the clocks then part.
const Pair kAtLoad = read_both();
const uint64_t kLoadedNs = boot_ns();
constexpr uint64_t kUsefulNs = 10'000'000'000;
#endif

double measure() {
#if defined(__x86_64__)
  const bool useful = kAtLoad.ns != 0 && boot_ns() - kLoadedNs < kUsefulNs && ticks() > kAtLoad.ticks;
  const Pair first = useful ? kAtLoad : read_both();
  while (now_ns() - first.ns < 1'000'000) {
  }
  const Pair last = read_both();
  return static_cast<double>(last.ticks - first.ticks) * 1000.0 / static_cast<double>(last.ns - first.ns);
#elif defined(__aarch64__)
  uint64_t hz;
  asm volatile("mrs %0, cntfrq_el0" : "=r"(hz));
  return static_cast<double>(hz) / 1e6;
#else
  return 1000.0;
#endif
}

}  // namespace

double ticks_per_us() {
  // A constant of the machine, not state: the same for every rank of the process.
  static const double value = measure();
  return value;
}

bool ticks_are_steady() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx)) return false;
  return (edx & (1u << 8)) != 0;
#else
  return true;
#endif
}

bool cpu_is_virtual() {
#if defined(__x86_64__)
  constexpr unsigned kHypervisor = 1u << 31;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & kHypervisor) != 0;
#else
  return false;
#endif
}

bool cpu_is_emulated() {
#if defined(__x86_64__)
  if (!cpu_is_virtual()) return false;
  unsigned eax = 0;
  unsigned name[3] = {};
  __cpuid(0x40000000, eax, name[0], name[1], name[2]);
  return std::memcmp(name, "TCGTCGTCGTCG", sizeof name) == 0;
#else
  return false;
#endif
}

}  // namespace zh::os
