// What bounds the shared heap on a machine, and what keeps it from being used there at all. Called by the heap when it
// is first used, and by `zerohop info` and `zerohop doctor`, which tell the same before a program runs.
#pragma once

#include <cstdint>

namespace zh::heap {

constexpr uint64_t kPage = 4096;
/// Smaller allocations stay with libc.
constexpr uint64_t kMinBytes = 16 << 10;
/// Memory files start at multiples of this in the span, so that peers' windows are aligned.
constexpr uint64_t kFileAlignment = 32 << 20;

/// The span may become this many times what the machine has, for free pages between allocations cost address space. A
/// cgroup's limit says nothing about that: it acts when memory is touched, as it does for libc.
constexpr uint64_t kSpanFactor = 4;
constexpr uint64_t kMinSpan = 64 << 20;
#ifdef __SANITIZE_THREAD__  // which follows memory in a few stretches of the address space only
constexpr uint64_t kMaxSpan = uint64_t{1} << 33;
constexpr uint64_t kPlaceFirst = uint64_t{0x7e90'0000'0000};
#else
constexpr uint64_t kMaxSpan = uint64_t{1} << 39;
constexpr uint64_t kPlaceFirst = uint64_t{0x3000'0000'0000};
#endif
/// The share of RLIMIT_AS that the span may take: one part in so many.
constexpr uint64_t kSpanPartOfLimit = 4;

/// Where the span begins: one of a few places from kPlaceFirst on, by chance, in a stretch of the address space that
/// neither systems nor other allocators use. Nothing is reserved there; it is mapped as allocations ask for it, so that
/// limits which the program sets for itself later count what is in use.
constexpr uint64_t kPlaceBytes = 2 * kMaxSpan;  ///< the span and, behind it, its tables
constexpr uint32_t kPlaces = 32;

/// Address space that allocations may come to take, of a machine with `physical` bytes of memory and a process that may
/// map `address_space` bytes (RLIMIT_AS, ~0 without one); 0 where that is too little to begin with.
[[nodiscard]] constexpr uint64_t span_bytes(uint64_t physical, uint64_t address_space) {
  uint64_t bytes = physical > kMaxSpan / kSpanFactor ? kMaxSpan : kSpanFactor * physical;
  if (address_space / kSpanPartOfLimit < bytes) bytes = address_space / kSpanPartOfLimit;
  bytes = bytes / kFileAlignment * kFileAlignment;
  return bytes < kMinSpan ? 0 : bytes;
}
constexpr const char* kNoSpan = "too little address space (ulimit -v)";

/// Why nothing can be put into memory files under this system's settings; null if nothing speaks against it.
[[nodiscard]] const char* system_obstacle();

}  // namespace zh::heap
