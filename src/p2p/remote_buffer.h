// A message's buffer as a peer can reach it: by address through the kernel, or mapped. Told by its owner when a receive
// is posted and when a transfer is offered or matched.
#pragma once

#include <cstdint>

#include "base/shm_types.h"
#include "copy/region_ref.h"

namespace zh::p2p {

/// In place of a layout: it is too long to publish, so only the owner can read or write the buffer.
constexpr Offset kHiddenLayout = ~Offset{0};

/// Writers: its owner, before publication. Readers: the peer of the message, after. Invariant: immutable once
/// published; `region` may only be used for an access that is begun with `epoch` (shm/access.h). Wrap: none. Crash:
/// describes a dead process's memory, which no access reaches.
struct RemoteBufferShm {
  uint64_t address;        ///< in its owner's address space
  uint64_t bytes;          ///< packed bytes (capacity, for a receive)
  Offset layout;           ///< published layout; kNoOffset = contiguous
  uint32_t epoch;          ///< the owner's when it looked for the region
  int32_t region_fd;       ///< descriptor of the mappable region in its owner, if region.region != 0
  copy::RegionRef region;  ///< region 0: not mapped

  [[nodiscard]] bool reachable() const { return layout != kHiddenLayout; }
  [[nodiscard]] bool mapped() const { return region.region != 0; }
};
static_assert(kShmSafe<RemoteBufferShm> && sizeof(RemoteBufferShm) == 48);

}  // namespace zh::p2p
