// The families of algorithms, one file each. Called by algorithms.cpp alone.
#pragma once

#include "coll/algorithms/algorithms.h"
#include "coll/schedule/parts.h"

namespace zh::coll {

[[nodiscard]] std::span<const Algorithm> barrier_algorithms();
[[nodiscard]] std::span<const Algorithm> bcast_algorithms();
[[nodiscard]] std::span<const Algorithm> reduce_algorithms();
[[nodiscard]] std::span<const Algorithm> allreduce_algorithms();
[[nodiscard]] std::span<const Algorithm> reduce_scatter_algorithms();
[[nodiscard]] std::span<const Algorithm> scan_algorithms();
[[nodiscard]] std::span<const Algorithm> exscan_algorithms();
[[nodiscard]] std::span<const Algorithm> gather_algorithms();
[[nodiscard]] std::span<const Algorithm> scatter_algorithms();
[[nodiscard]] std::span<const Algorithm> allgather_algorithms();
[[nodiscard]] std::span<const Algorithm> alltoall_algorithms();

inline bool always(const Problem&) { return true; }
inline bool if_uniform(const Problem& p) { return p.uniform; }
inline bool if_commutative(const Problem& p) { return p.commutative; }
/// For what combines by nodes: their ranks must follow each other unless the order does not matter.
inline bool if_nodes_in_order(const Problem& p) { return p.commutative || p.layout->consecutive(); }

}  // namespace zh::coll
