#include "copy/mapped_memory.h"

#include "copy/regions.h"

namespace zh::copy {
namespace {

/// Regions of the heap are numbered behind those of MPI_Alloc_mem.
constexpr uint32_t kHeapRegions = 64;
/// What becomes mappable is copied once: no more than this for a message that may be short.
constexpr size_t kUnsureMax = 1 << 20;

}  // namespace

MappedMemory::Declined MappedMemory::declined() const {
  if (heap_ == nullptr) return {};
  const heap::Stats stats = heap_->stats();
  return {stats.declined, stats.declined_why};
}

Published MappedMemory::publish(const void* address, size_t n, bool exact, const heap::BufferUse& use,
                                MappedBuffer* out) const {
  RegionRef ref;
  if (regions_ != nullptr && regions_->locate(address, n, &ref)) {
    *out = {ref, regions_->descriptor(ref.region), 0, n};
    return Published::kMapped;
  }
  if (heap_ == nullptr) return Published::kNot;
  const bool unsure = !exact && n > kUnsureMax;
  heap::SharedPlace place;
  const heap::Sharing how = heap_->publish(address, n, {use.exclusive && !unsure, use.saves_ns}, &place);
  if (how != heap::Sharing::kMapped && unsure) return Published::kAskAgain;
  if (how != heap::Sharing::kMapped) return how == heap::Sharing::kLater ? Published::kFirstUse : Published::kNot;
  const int fd = heap_->descriptor(place.region);
  if (fd < 0) return Published::kNot;
  *out = {{kHeapRegions + place.region, place.generation, place.offset}, fd, place.from, place.end};
  return Published::kMapped;
}

}  // namespace zh::copy
