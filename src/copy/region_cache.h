// Peers' regions as this process maps them: windows of 32 MiB, made when they are first needed, read-only until this
// process writes, least recently used out first. It refuses to know messages; it never makes memory in a peer's file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "copy/region_ref.h"

namespace zh::copy {

/// What the cache did so far, for the statistics.
struct WindowStats {
  uint64_t mapped = 0;    ///< windows made
  uint64_t unmapped = 0;  ///< ... and given up for others
  uint64_t pages = 0;     ///< pages of 4 KiB asked for in advance, so that a copy does not fault on them one by one
  uint64_t refused = 0;   ///< regions that could not be opened, windows that could not be mapped
};

/// One object per Rank; not thread safe (the engine serialises).
class RegionCache {
 public:
  /// `budget_bytes` of address space, at least one window.
  explicit RegionCache(size_t budget_bytes);
  ~RegionCache();
  RegionCache(const RegionCache&) = delete;
  RegionCache& operator=(const RegionCache&) = delete;

  /// Address of ref.offset in process `pid`'s region whose descriptor there is `remote_fd`; null if it cannot be
  /// mapped (the caller then takes another way). `*run` receives how many of the `n` bytes follow there: fewer when
  /// they go on in the next window. Valid until the next call of resolve() or forget(): ask again for each piece, it
  /// is cheap. `peer` is the node-local index, the key of the cache.
  [[nodiscard]] std::byte* resolve(uint32_t peer, int pid, int remote_fd, const RegionRef& ref, uint64_t n,
                                   Direction direction, uint64_t* run);
  void forget(uint32_t peer);
  [[nodiscard]] uint64_t mapped_bytes() const;
  [[nodiscard]] const WindowStats& stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zh::copy
