// The edges of a neighbourhood from a rank to itself. Used by neighbor.cpp, which makes copies of them, and by the
// shim, which finds out before whether they fit.
#pragma once

#include "coll/schedule/problem.h"

namespace zh::coll {

/// Calls f(place in destinations, place in sources) for each: the k-th of one list is the k-th of the other.
template <typename F>
void each_own_edge(const Problem& p, F&& f) {
  uint32_t to = 0;
  for (uint32_t from = 0; from < p.sources.size(); ++from) {
    if (p.sources[from] != p.self) continue;
    while (to < p.destinations.size() && p.destinations[to] != p.self) ++to;
    if (to == p.destinations.size()) return;
    f(to++, from);
  }
}

}  // namespace zh::coll
