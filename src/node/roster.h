// Which ranks share a machine and a node, from one key of each rank. Used by the joiner and by tests; it refuses to
// know what a key is made of, and how ranks exchange keys.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace zh::node {

/// A rank's place in 8 bytes, all that a rank learns of ranks on other machines: the machine's name in the upper 40
/// bits, and in the lower 24 that of what may share memory there (containers of one machine may not). Names are hashes.
/// That two of 1,000 machines get one name happens once in two million jobs; cards tell (Joiner::identify).
[[nodiscard]] constexpr uint64_t place_key(uint64_t machine_hash, uint64_t node_hash) {
  return (machine_hash << 24) | (node_hash & 0xffffff);
}
[[nodiscard]] constexpr uint64_t machine_of(uint64_t key) { return key >> 24; }

struct Roster {
  std::vector<uint32_t> node_of;  ///< by world rank; nodes are numbered in the order of their first ranks
  uint32_t nodes = 0;
  bool one_machine = true;   ///< for all ranks
  std::vector<int> machine;  ///< world ranks on this rank's machine, ascending
  std::vector<int> members;  ///< ... on its node
};

/// `keys`: of all ranks. `node_ranks` > 0: nodes have this many ranks at most, the first ones of those with equal keys,
/// the next ones, and so on. `self`: this rank. O(ranks).
[[nodiscard]] Roster make_roster(std::span<const uint64_t> keys, uint32_t node_ranks, int self);

}  // namespace zh::node
