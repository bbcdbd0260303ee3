// This process's own memory as peers can map it, wherever it comes from: what the program asked for (MPI_Alloc_mem,
// regions.h) and what lies in the shared heap. Called by point-to-point when a message begins.
#pragma once

#include <cstddef>
#include <cstdint>

#include "copy/region_ref.h"
#include "heap/shared_heap.h"

namespace zh::copy {

class RegionOwner;

/// A buffer as a peer can map it: bytes [from, end) of it.
struct MappedBuffer {
  RegionRef region;  ///< of the buffer's first byte, whether that byte can be mapped or not
  int32_t fd = -1;   ///< descriptor of the region in its owner
  uint64_t from = 0;
  uint64_t end = 0;
};

/// What it is worth to a rank that peers can map a buffer.
struct MappingGain {
  uint64_t least = 0;     ///< bytes: from here on mapping is the fastest way, with data written before and read after
  float ns_per_byte = 0;  ///< ... and saves so much time at each end, against the next best way

  [[nodiscard]] uint64_t saves_ns(uint64_t bytes) const {
    return bytes < least ? 0 : static_cast<uint64_t>(static_cast<float>(bytes) * ns_per_byte);
  }
};

enum class Published : uint8_t {
  kNot,       ///< not mappable
  kFirstUse,  ///< mappable when messages go on using it
  kMapped,
  kAskAgain,  ///< when the message's length is known
};

class MappedMemory {
 public:
  /// Either may be null.
  MappedMemory(const RegionOwner* regions, heap::SharedHeap* heap) : regions_(regions), heap_(heap) {}

  /// Knows the shared heap no longer.
  void leave_heap() { heap_ = nullptr; }

  [[nodiscard]] bool any() const { return regions_ != nullptr || heap_ != nullptr; }
  [[nodiscard]] bool revocable() const { return heap_ != nullptr; }

  /// Why the heap left memory private the latest time, and how often it has.
  struct Declined {
    uint64_t times = 0;
    const char* why = "";
  };
  [[nodiscard]] Declined declined() const;

  /// For a buffer that a message is about to use, once per message: whether peers shall map it, and then where. Memory
  /// that messages use again becomes mappable here. `exact` false: `n` is an upper bound, as for a receive whose
  /// message has not come; then nothing is made of memory that the message may never need, if it would be much.
  [[nodiscard]] Published publish(const void* address, size_t n, bool exact, const heap::BufferUse& use,
                                  MappedBuffer* out) const;

 private:
  const RegionOwner* regions_;
  heap::SharedHeap* heap_;
};

}  // namespace zh::copy
