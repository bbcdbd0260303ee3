// How a process names mappable memory to its peers. Shared by the side that owns it and the side that maps it.
#pragma once

#include <cstdint>

namespace zh::copy {

/// What a peer does with memory.
enum class Direction : uint8_t { kRead, kWrite };

/// Peers map regions in pieces of this size.
constexpr uint64_t kWindowBytes = 32 << 20;

/// Names bytes of a region so that another process can map them. `region` 0 means "not mapped".
struct RegionRef {
  uint32_t region = 0;
  uint32_t generation = 0;  ///< the memory file's (os::file_generation)
  uint64_t offset = 0;      ///< bytes from the region's start
};

}  // namespace zh::copy
