// Tiles: how large the chunks of a large vector are, by the machine's caches, as the mlog_nP paper has it (section 7).
// Called by the command that writes a table of algorithms by a model; refuses to know where sizes of caches come from.
#pragma once

#include <bit>
#include <cstdint>

namespace zh::coll {

/// Sizes of chunks in bytes, powers of two. 0: not known, there are no such chunks.
struct Tiles {
  uint64_t small = 0;  ///< fits L1 (the paper's fitL1CacheSize)
  uint64_t large = 0;  ///< fits L2 (fitL2CacheSize), larger than `small`

  /// The chunk of a vector (section 7.1, Fig. 5): 0, whole, below the small tile; small tiles below the large one; else
  /// large ones.
  [[nodiscard]] uint64_t chunk_of(uint64_t bytes) const {
    if (large > 0 && bytes >= large) return large;
    return bytes >= small ? small : 0;
  }
  bool operator==(const Tiles&) const = default;
};

/// The paper found 8 KiB best with an L1 of 32 KiB, and 1 MiB with an L2 of 8 MiB (mlog_nP, section 7.3, Figs. 6 and
/// 7). So a tile takes a quarter of L1 and an eighth of L2, rounded down to a power of two. A cache of 0 bytes is not
/// known.
[[nodiscard]] inline Tiles tiles_for(uint64_t l1_bytes, uint64_t l2_bytes) {
  Tiles tiles{std::bit_floor(l1_bytes / 4), std::bit_floor(l2_bytes / 8)};
  if (tiles.large <= tiles.small) tiles.large = 0;
  return tiles;
}

}  // namespace zh::coll
