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

/// A buffer is adopted at this use. That costs as much as 8 to 15 messages gain where ranks have caches of their own,
/// and 30 to 60 where they share one; waiting for about as many loses little in long runs, and nothing where buffers
/// are used a few times.
constexpr uint32_t kUses = 10;

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

/// Up to this much, a forked child copies what is shared; beyond it, it becomes private before the fork.
constexpr uint64_t kForkCopyBytes = 8 << 20;
/// The same where forks seem to be the program's habit.
constexpr uint64_t kForkAgainBytes = 1 << 20;
/// After so many forks before which memory had to become private, nothing is adopted any more.
constexpr uint32_t kMaxForkReturns = 8;

/// Why nothing can be put into memory files under this system's settings; null if nothing speaks against it.
[[nodiscard]] const char* system_obstacle();

}  // namespace zh::heap
