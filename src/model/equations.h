// The equations of the mlog_nP paper (Tu, Fan, Zhan, Zhao: Performance analysis and optimization of MPI collective
// operations on multi-core clusters), each as one function. Called by closed_forms.h and the tests. All times in µs,
// sizes in bytes. They refuse to know where parameters come from.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "model/cluster.h"
#include "model/parameters.h"

namespace zh::model {

/// One implicit transfer along a message's path: o_i and l_i, µs.
struct TransferCost {
  double overhead_us = 0;
  double latency_us = 0;
};

/// A message's whole path in the terms of section 3.1: o_mw = o_0 + o_2 and l_mw = l_0 + l_2 are both ends together,
/// o_net = o_1. µs.
struct PathCost {
  double o_mw = 0;
  double l_mw = 0;
  double o_net = 0;
  /// What one of the two ends costs, o_mw / 2 + l_mw / 2.
  [[nodiscard]] double end_us() const { return (o_mw + l_mw) / 2; }
};
/// The terms of a level's parameters: o_mw = 2 f(s, 1)_0, l_mw = 2 f(s, d)_0, o_net = f(s, 1)_1 (as in equation 6).
[[nodiscard]] PathCost path_cost(const LevelCosts& costs, MessageShape shape);

/// Equation 1, section 3.1, log_nP: T = sum over the n transfers of o_i + l_i.
[[nodiscard]] double logn_p(std::span<const TransferCost> transfers);

/// Equation 2, section 3.1, log_3P by transfers: T = {o_0 + l_0} + {o_1 + l_1} + {o_2 + l_2}.
[[nodiscard]] double log3_p(const std::array<TransferCost, 3>& transfers);

/// Equation 3, section 3.1, log_3P: T = o_mw + l_mw + o_net.
[[nodiscard]] double log3_p(const PathCost& cost);

/// Equation 4, section 4.1, mlog_nP: T_i = sum over the n_i transfers of level i of o_j + l_j. n_i is 2 inside a node
/// and 3 between nodes.
[[nodiscard]] double mlogn_p(const Parameters& parameters, CommLevel level, MessageShape shape);

/// Equation 5, section 4.2, 2log{2,3}P: T_0 = o_mw + l_mw inside a node, T_1 = o'_mw + l'_mw + o'_net between nodes.
/// The paper prints o'_mw in the place of o'_net; its equation 6 and the sentence below it show what is meant.
[[nodiscard]] double two_log23_p(const PathCost& cost, bool between_nodes);

/// Equation 6, section 4.2, the same by f: T_0 = 2 f0(s,1)_0 + 2 f0(s,d)_0; T_1 = 2 f1(s,1)_0 + 2 f1(s,d)_0 +
/// f1(s,1)_1.
[[nodiscard]] double two_log23_p(const Parameters& parameters, bool between_nodes, MessageShape shape);

/// Equation 7, section 7.2: T_tree = T(m) * log2 P. Also the log_3P form of the binomial broadcast (section 5.2). The
/// logarithm is rounded up where P is no power of two, which the paper takes it to be; so it is in equations 8 and 9.
[[nodiscard]] double tree(double us, uint32_t ranks);

/// Equation 8, section 7.2, hierarchical tree: T' = T_intra(m) * log2(P/N) + T_inter(m) * log2 N.
[[nodiscard]] double hierarchical_tree(double intra_us, double inter_us, uint32_t ranks, uint32_t nodes);

/// Equation 9, section 7.2, with data tiling: T'' = sum over n segments of T_intra(m/n) * log2(P/N), + T_inter(m) *
/// log2 N. `segment_us` is T_intra(m/n).
[[nodiscard]] double tiled_tree(double segment_us, uint32_t segments, double inter_us, uint32_t ranks, uint32_t nodes);

/// Section 5.2, without number, linear broadcast by log_3P: P * (o'_mw/2 + l'_mw/2) + o'_net. P - 1 ends at the root
/// and the last receiver's.
[[nodiscard]] double linear_log3_p(const PathCost& inter, uint32_t ranks);

/// Section 5.2, without number, linear broadcast by 2log{2,3}P: (P/n - 1) * (o_mw/2 + l_mw/2) + (P - (P/n - 1) - 1) *
/// (o'_mw/2 + l'_mw/2) + o'_net; messages inside the node go first. As printed it counts the root's P - 1 ends alone,
/// one fewer than the log_3P form. On one node o'_net is left out: no message crosses the network.
[[nodiscard]] double linear_two_log23_p(const PathCost& intra, const PathCost& inter, uint32_t ranks, uint32_t nodes);

/// The same with the sends of each level by themselves, for mlog_nP. The paper prints no such form; where both levels
/// of a node cost the same it is linear_two_log23_p().
[[nodiscard]] double linear_mlogn_p(const std::array<PathCost, kLevels>& costs, const CountByLevel& sends);

/// Section 5.2, without number, binomial broadcast by 2log{2,3}P: (o_mw + l_mw) * n + (o'_mw + l'_mw + o'_net) *
/// (log2 P - n). `n`: transfers inside nodes along the longest distance to a leaf (binomial_distance()).
[[nodiscard]] double binomial_two_log23_p(double intra_us, double inter_us, uint32_t ranks, uint32_t n);

/// Transfers one after the other, each at its level's cost: the same for any number of levels. The paper prints no such
/// form; with two levels it is binomial_two_log23_p().
[[nodiscard]] double distance_us(const CostByLevel& us, const CountByLevel& steps);

}  // namespace zh::model
