// The edges of a neighbourhood from a rank to itself. Used by neighbor.cpp, which makes copies of them, and by the
// shim, which finds out before whether they fit.
#pragma once

#include <cstdint>
#include <span>

namespace zh::coll {

/// Calls f(place in destinations, place in sources) for each of `self`: the k-th of one list is the k-th of the other.
template <typename F>
void each_own_edge(std::span<const uint32_t> sources, std::span<const uint32_t> destinations, uint32_t self, F&& f) {
  uint32_t to = 0;
  for (uint32_t from = 0; from < sources.size(); ++from) {
    if (sources[from] != self) continue;
    while (to < destinations.size() && destinations[to] != self) ++to;
    if (to == destinations.size()) return;
    f(to++, from);
  }
}

}  // namespace zh::coll
