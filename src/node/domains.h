// Domains: a node's ranks divided by the farthest distance that they span, as leaders of sockets, memory nodes or
// last-level caches need it. Called by the joiner (by the node's leader); refuses to know hwloc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "node/node.h"

namespace zh::node {

/// The number of every rank's domain, by first ranks from 0 on: sockets if the ranks are on several, else memory nodes,
/// else last-level caches (the levels kOtherSocket, kSameSocket, kSameNuma between ranks of different domains).
/// `levels`: of each pair by the topology, row by row; `own`: by rank, of two of its own CPUs that are farthest apart
/// (Machine::level(cpus, cpus)). All are of domain 0 where no rank is farther than kSharedL3 from another one, or some
/// rank may run in several domains. O(ranks^2).
[[nodiscard]] std::vector<uint32_t> domains_of(std::span<const Level> levels, std::span<const Level> own);

}  // namespace zh::node
