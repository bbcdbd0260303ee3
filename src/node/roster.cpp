#include "node/roster.h"

#include <cstddef>
#include <unordered_map>

namespace zh::node {

Roster make_roster(std::span<const uint64_t> keys, uint32_t node_ranks, int self) {
  struct Place {
    uint32_t node = 0;   ///< where the last rank of that key is
    uint32_t ranks = 0;  ///< that have it so far
  };
  std::unordered_map<uint64_t, Place> places;
  Roster roster;
  roster.node_of.reserve(keys.size());
  for (const uint64_t key : keys) {
    Place& place = places[key];
    const bool begins = node_ranks == 0 ? place.ranks == 0 : place.ranks % node_ranks == 0;
    if (begins) place.node = roster.nodes++;
    ++place.ranks;
    roster.node_of.push_back(place.node);
  }
  const auto own = static_cast<size_t>(self);
  for (size_t rank = 0; rank < keys.size(); ++rank) {
    const bool here = machine_of(keys[rank]) == machine_of(keys[own]);
    roster.one_machine = roster.one_machine && here;
    if (here) roster.machine.push_back(static_cast<int>(rank));
    if (roster.node_of[rank] == roster.node_of[own]) roster.members.push_back(static_cast<int>(rank));
  }
  return roster;
}

}  // namespace zh::node
