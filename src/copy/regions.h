// Mappable memory that the program asks for (MPI_Alloc_mem): an allocator inside memfd regions, and «address ->
// (region, offset)», by which a peer reaches a buffer without the kernel. Its memory is backed and touched when it is
// allocated, so that no peer does it. It refuses to know messages and peers; their side is region_cache.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "copy/region_ref.h"

namespace zh::copy {

/// This process's own mappable memory (serves MPI_Alloc_mem). Thread safe.
class RegionOwner {
 public:
  /// `budget_bytes`: memory that may be held altogether; 0 = half of what the machine and the cgroup have to give.
  explicit RegionOwner(uint64_t budget_bytes = 0);
  ~RegionOwner();
  RegionOwner(const RegionOwner&) = delete;
  RegionOwner& operator=(const RegionOwner&) = delete;

  /// Allocates n bytes (at least 64-byte aligned; pages backed and touched by the calling thread, so that they lie on
  /// its NUMA node and no peer touches them first); null when the budget or memory is used up.
  [[nodiscard]] void* allocate(size_t n, size_t alignment);
  /// False if `p` did not come from allocate().
  bool free(void* p);
  /// Fills `*ref` if [address, address + n) lies in one live allocation of a region. O(1) or O(log), no lock on a miss.
  [[nodiscard]] bool locate(const void* address, size_t n, RegionRef* ref) const;
  /// Descriptor of a region, for peers' /proc/<pid>/fd; -1 if none was made yet.
  [[nodiscard]] int descriptor(uint32_t region) const;
  /// Whether anything was ever allocated.
  [[nodiscard]] bool used() const;
  /// In a forked child, while its parent waits: what is allocated becomes the child's own. Above `most_bytes` it is not
  /// copied; then the child has the parent's later writes to pages to which it has not written itself. Does not
  /// allocate. False if the system refused, so that parent and child share pages.
  bool copy_in_child(uint64_t most_bytes);
  /// Memory held now, idle pages that wait for reuse included.
  [[nodiscard]] uint64_t backed_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zh::copy
