// See tiles.h.
#include "coll/algorithms/tiles.h"

#include <bit>

namespace zh::coll {

uint64_t Tiles::chunk_of(uint64_t bytes) const {
  if (large > 0 && bytes >= large) return large;
  return bytes >= small ? small : 0;
}

Tiles tiles_for(uint64_t l1_bytes, uint64_t l2_bytes) {
  constexpr uint64_t kShareOfL1 = 4;
  constexpr uint64_t kShareOfL2 = 8;
  Tiles tiles{std::bit_floor(l1_bytes / kShareOfL1), std::bit_floor(l2_bytes / kShareOfL2)};
  if (tiles.large <= tiles.small) tiles.large = 0;
  return tiles;
}

}  // namespace zh::coll
