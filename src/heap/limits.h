// What bounds the shared memory of a process, and what keeps it from being used at all. Called by the heap, and by
// `zerohop info` and `zerohop doctor`, which tell the same before a program runs.
#pragma once

#include <cstdint>

#include "base/shm_types.h"

namespace zh::heap {

/// User addresses have so many bits. A page lies in the memory file where it lies in the address space, so the file is
/// as long as that; it has memory only where pages were adopted.
#if defined(__aarch64__)
constexpr unsigned kAddressBits = 48;
#else
constexpr unsigned kAddressBits = 47;
#endif

/// Stretches of pages that may be shared at once: each divides the mapping that it lies in, and the system limits the
/// number of mappings (vm.max_map_count, 65530).
constexpr uint32_t kMaxStretches = 2048;

/// What sharing may have cost in all beyond what it has saved: so much, or a part of the time that the process has run.
/// One buffer may cost more than that, while nothing else is owed.
constexpr uint64_t kOwedNs = 10'000'000;
constexpr uint64_t kOwedPart = 100;

/// Pages exchanged in one step. That much memory is needed twice for a moment.
constexpr uint32_t kChunkPages = 64;

/// Freed blocks kept for the next allocation of their size: no more than so many, of so many bytes each and together.
constexpr uint32_t kKeptBlocks = 16;
constexpr uint64_t kKeptBlockBytes = 16 << 20;
constexpr uint64_t kKeptBytes = 32 << 20;
/// ... and no longer than this without being asked for.
constexpr uint64_t kKeptNs = 1'000'000'000;
/// Smaller blocks are never kept.
constexpr uint64_t kLeastKeptBytes = 12 << 10;

/// Why nothing can be put into memory files under this system's settings; null if nothing speaks against it.
[[nodiscard]] const char* system_obstacle();
/// The part of it that the program itself may change at any time. Cheap.
[[nodiscard]] const char* limit_obstacle();

}  // namespace zh::heap
