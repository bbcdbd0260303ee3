// How far a member is from the others, as far as it decides how it writes what they read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "coll/team/services.h"

namespace zh::coll {

constexpr uint64_t kNeverStreamed = ~uint64_t{0};

/// Contributions of so many bytes and more go past this rank's caches: most other members share none of them with it.
inline uint64_t streamed_from_most(const Services& services, std::span<const uint32_t> members, uint32_t self) {
  constexpr uint64_t kLargest = 1 << 20;  // a pair that streams from here on only shares a cache
  uint32_t apart = 0;
  uint64_t least = kNeverStreamed;
  for (uint32_t i = 0; i < members.size(); ++i) {
    const uint64_t from = i == self ? kNeverStreamed : services.streamed_from(members[i]);
    apart += from <= kLargest ? 1 : 0;
    least = std::min(least, from);
  }
  return 2 * apart > members.size() - 1 ? least : kNeverStreamed;
}

}  // namespace zh::coll
