// Mapped buffers: «address -> (region, offset)», by which a peer reaches a buffer without the kernel.
// The owner registers memory of a memfd (MPI_Alloc_mem now, the shared heap later); a peer maps it lazily, in windows,
// within a budget, least recently used first out. It refuses to know messages; it never first-touches a peer's pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace zh::copy {

/// Regions are sized, and mapped by peers, in multiples of this.
constexpr uint64_t kWindowBytes = 32 << 20;

/// Names bytes of a region so that another process can map them. `region` 0 means "not mapped".
struct RegionRef {
  uint32_t region = 0;
  uint32_t generation = 0;  ///< changes when the region's id is used again
  uint64_t offset = 0;      ///< bytes from the region's start
};

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
  /// Memory held now, idle pages that wait for reuse included.
  [[nodiscard]] uint64_t backed_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A peer's regions as this process maps them. One object per Rank; not thread safe (the engine serialises).
class RegionCache {
 public:
  explicit RegionCache(size_t budget_bytes);
  ~RegionCache();
  RegionCache(const RegionCache&) = delete;
  RegionCache& operator=(const RegionCache&) = delete;

  /// The address stays valid until the next call of resolve() or forget(): ask again for each chunk, it is cheap.
  /// Address of [ref.offset, +n) of process `pid`'s region whose descriptor there is `remote_fd`; null if it cannot be
  /// mapped (the caller then takes another way). `peer` is the node-local index, the key of the cache.
  [[nodiscard]] std::byte* resolve(uint32_t peer, int pid, int remote_fd, const RegionRef& ref, size_t n);
  void forget(uint32_t peer);
  [[nodiscard]] uint64_t mapped_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zh::copy
