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
[[nodiscard]] std::span<const Algorithm> neighbor_algorithms();

constexpr std::string_view kHostLeadersSource = "HAN: Luo et al. 2020 (a tuned module between nodes)";

inline bool always(const Problem&) { return true; }
inline bool if_several_nodes(const Problem& p) { return p.layout->nodes() > 1; }
inline bool if_blocking(const Problem& p) { return p.blocks; }
inline bool if_uniform(const Problem& p) { return p.uniform; }
inline bool if_several_nodes_uniform(const Problem& p) { return if_several_nodes(p) && p.uniform; }
inline bool if_commutative(const Problem& p) { return p.commutative; }
/// For what combines by nodes: their ranks must follow each other unless the order does not matter.
inline bool if_nodes_in_order(const Problem& p) { return p.commutative || p.layout->consecutive(); }
inline bool if_several_nodes_in_order(const Problem& p) { return if_several_nodes(p) && if_nodes_in_order(p); }
/// For what leaves a node's pieces where they lie.
inline bool if_several_nodes_consecutive(const Problem& p) { return if_several_nodes(p) && p.layout->consecutive(); }

}  // namespace zh::coll
