// This process's own memory as peers can map it, wherever it comes from: what the program asked for (MPI_Alloc_mem,
// regions.h) and what lies in the shared heap. Called by point-to-point when a message begins.
#pragma once

#include <cstddef>
#include <cstdint>

#include "copy/region_ref.h"

namespace zh::heap {
class SharedHeap;
}

namespace zh::copy {

class RegionOwner;

/// A buffer as a peer can map it.
struct MappedBuffer {
  RegionRef region;
  int32_t fd = -1;  ///< descriptor of the region in its owner
};

enum class Published : uint8_t {
  kNot,       ///< not mappable
  kFirstUse,  ///< mappable from its next use on
  kMapped,
  kAskAgain,  ///< when the message's length is known
};

class MappedMemory {
 public:
  /// Either may be null.
  MappedMemory(const RegionOwner* regions, heap::SharedHeap* heap) : regions_(regions), heap_(heap) {}

  [[nodiscard]] bool any() const { return regions_ != nullptr || heap_ != nullptr; }
  [[nodiscard]] bool revocable() const { return heap_ != nullptr; }

  /// Whether [address, address + n) is in mappable memory now. No system call.
  [[nodiscard]] bool contains(const void* address, size_t n) const;

  /// For a buffer that a message is about to use, once per message: whether peers shall map it, and then where. Memory
  /// of the heap is mapped from its second use on. `exact` false: `n` is an upper bound, as for a receive whose message
  /// has not come; memory that the message may never need is not made then, if it would be much.
  [[nodiscard]] Published publish(const void* address, size_t n, bool exact, MappedBuffer* out) const;

 private:
  const RegionOwner* regions_;
  heap::SharedHeap* heap_;
};

}  // namespace zh::copy
