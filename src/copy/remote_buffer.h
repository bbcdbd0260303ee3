// A rank's buffer as a peer can reach it: by address through the kernel, or mapped. Told by its owner when a receive is
// posted, when a transfer is offered or matched, and when a collective begins. Only whole pages can be mapped, so that
// the first and the last bytes of a mapped buffer, its edges, may not be.
#pragma once

#include <cstdint>

#include "base/shm_types.h"
#include "copy/region_ref.h"

namespace zh::copy {

/// In place of a layout: it is too long to publish, or the kernel's module has not been told of the buffer, so only the
/// owner can read or write it.
constexpr Offset kHiddenLayout = ~Offset{0};

/// Most bytes of an edge: less than a page.
constexpr unsigned kEdgeBits = 12;
constexpr uint64_t kEdgeMax = (uint64_t{1} << kEdgeBits) - 1;

/// Writers: its owner, before publication. Readers: the peers that it is told, after. Invariant: immutable once
/// published; `region` may only be used for an access that is begun with `epoch` (shm/access.h). Wrap: none. Crash:
/// describes a dead process's memory, which no access reaches.
struct RemoteBufferShm {
  uint64_t address;   ///< in its owner's address space
  uint64_t bytes;     ///< packed bytes (capacity, for a receive)
  Offset layout;      ///< published layout; kNoOffset = contiguous
  uint32_t epoch;     ///< the owner's when it looked for the region
  int32_t region_fd;  ///< descriptor of the mappable region in its owner, if region.region != 0
  RegionRef region;   ///< of the buffer's first byte, whether that can be mapped or not; region 0: not mapped
  uint64_t span;      ///< end() << 12 | from()

  [[nodiscard]] bool reachable() const { return layout != kHiddenLayout; }
  /// A part of it is: bytes [from(), end()).
  [[nodiscard]] bool mapped() const { return region.region != 0; }
  /// Of a buffer that is not mapped: all of it.
  [[nodiscard]] uint64_t from() const { return span & kEdgeMax; }
  [[nodiscard]] uint64_t end() const { return span >> kEdgeBits; }
  /// from <= kEdgeMax
  void set_span(uint64_t from, uint64_t end) { span = end << kEdgeBits | from; }
  /// Contiguous memory of which nothing is mapped, which leaves the region's other fields without a meaning. Field by
  /// field: a whole description made elsewhere would be read back in wider words than it was written in, which the
  /// processor waits for.
  void set_private(const void* base, uint64_t size) {
    address = reinterpret_cast<uint64_t>(base);
    bytes = size;
    layout = kNoOffset;
    region.region = 0;
    set_span(0, size);
  }
  /// Bytes [from, end) can be mapped under `with_epoch`.
  void set_mapped(const RegionRef& ref, int32_t fd, uint32_t with_epoch, uint64_t from, uint64_t end) {
    region = ref;
    region_fd = fd;
    epoch = with_epoch;
    set_span(from, end);
  }
};
static_assert(kShmSafe<RemoteBufferShm> && sizeof(RemoteBufferShm) == 56);

}  // namespace zh::copy
