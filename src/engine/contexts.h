// Names of communicators inside the engine: every member derives the same 64 bits without a message. No MPI here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zh::engine {

/// Mixes `value` into `seed` (the finaliser of SplitMix64, which is a bijection of 64 bits).
constexpr uint64_t mix(uint64_t seed, uint64_t value) {
  uint64_t x = seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Hash of an ordered list of world ranks.
constexpr uint64_t hash_group(const int* world_ranks, size_t n) {
  uint64_t hash = mix(0x7a65726f686f70ULL, n);
  for (size_t i = 0; i < n; ++i) hash = mix(hash, static_cast<uint64_t>(world_ranks[i]));
  return hash;
}

constexpr uint64_t kWorldContext = mix(1, 1);

/// A communicator made by a call that is collective over its parent: `creations` such calls were made before this one.
constexpr uint64_t derive_context(uint64_t parent, uint64_t creations, uint64_t group) {
  return mix(mix(mix(parent, 0), creations), group);
}

/// MPI_Comm_create_group: collective over the group only, so counted by (parent, group, tag).
constexpr uint64_t derive_group_context(uint64_t parent, uint64_t group, int tag, uint64_t same_calls) {
  return mix(mix(mix(mix(parent, 1), group), static_cast<uint64_t>(static_cast<uint32_t>(tag))), same_calls);
}

// A communicator's messages for its collectives: the nonblocking ones, each persistent one, the team's, the leaders'.
constexpr uint64_t nonblocking_context(uint64_t comm) { return mix(comm, 2); }
constexpr uint64_t persistent_context(uint64_t comm, uint64_t init) { return mix(mix(comm, 3), init); }
constexpr uint64_t team_context(uint64_t comm) { return mix(comm, 4); }
constexpr uint64_t leaders_context(uint64_t comm) { return mix(comm, 5); }
/// Of `started`, one of the first two: what members tell each other before small and before large collectives.
constexpr uint64_t small_context(uint64_t started) { return mix(started, 6); }
constexpr uint64_t large_context(uint64_t started) { return mix(started, 7); }

}  // namespace zh::engine
