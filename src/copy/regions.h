// Mapped buffers: «address -> (region, offset)», by which a peer reaches a buffer without the kernel.
// The owner registers memory of a memfd (MPI_Alloc_mem now, the shared heap later); a peer maps it lazily, in windows,
// within a budget, least recently used first out. It refuses to know messages; it never first-touches a peer's pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/status.h"

namespace zh::copy {

/// Names bytes of a region so that another process can map them. `region` 0 means "not mapped".
struct RegionRef {
  uint32_t region = 0;
  uint32_t generation = 0;  ///< changes when the region's id is used again
  uint64_t offset = 0;      ///< bytes from the region's start
};

/// This process's own mappable memory (serves MPI_Alloc_mem). Thread safe.
class RegionOwner {
 public:
  RegionOwner();
  ~RegionOwner();
  RegionOwner(const RegionOwner&) = delete;
  RegionOwner& operator=(const RegionOwner&) = delete;

  /// Allocates n bytes (64-byte aligned, populated by the caller's NUMA node); null when the budget is used up.
  [[nodiscard]] void* allocate(size_t n, size_t alignment);
  /// False if `p` did not come from allocate().
  bool free(void* p);
  /// Fills `*ref` if [address, address + n) lies in one live allocation of a region. O(1) or O(log), no lock on a miss.
  [[nodiscard]] bool locate(const void* address, size_t n, RegionRef* ref) const;
  /// Descriptor of a region, for peers' /proc/<pid>/fd; -1 if none was made yet.
  [[nodiscard]] int descriptor(uint32_t region) const;

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

  /// Address of [ref.offset, +n) of process `pid`'s region whose descriptor there is `remote_fd`; null if it cannot be
  /// mapped (the caller then takes another way). `peer` is the node-local index, the key of the cache.
  [[nodiscard]] std::byte* resolve(uint32_t peer, int pid, int remote_fd, const RegionRef& ref, size_t n);
  void forget(uint32_t peer);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zh::copy
