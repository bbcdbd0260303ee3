// See equations.h.
#include "model/equations.h"

namespace zh::model {

PathCost path_cost(const LevelCosts& costs, MessageShape shape) {
  return {2 * costs.overhead.us_at(shape.bytes), 2 * costs.latency.us_at(shape.bytes, shape.stride),
          costs.network.us_at(shape.bytes)};
}

double logn_p(std::span<const TransferCost> transfers) {
  double us = 0;
  for (const TransferCost& t : transfers) us += t.overhead_us + t.latency_us;
  return us;
}

double log3_p(const std::array<TransferCost, 3>& transfers) { return logn_p(transfers); }

double log3_p(const PathCost& cost) { return cost.o_mw + cost.l_mw + cost.o_net; }

double mlogn_p(const Parameters& parameters, CommLevel level, MessageShape shape) {
  const LevelCosts& costs = parameters.at(level);
  const TransferCost end{costs.overhead.us_at(shape.bytes), costs.latency.us_at(shape.bytes, shape.stride)};
  // Packets on the network are contiguous, so there l is 0 (section 3.1).
  const std::array<TransferCost, 3> transfers = {end, end, {costs.network.us_at(shape.bytes), 0}};
  return logn_p(std::span(transfers).first(costs.network.empty() ? 2 : 3));
}

double two_log23_p(const PathCost& cost, bool between_nodes) {
  return cost.o_mw + cost.l_mw + (between_nodes ? cost.o_net : 0);
}

double two_log23_p(const Parameters& parameters, bool between_nodes, MessageShape shape) {
  const LevelCosts& costs = parameters.at(between_nodes ? CommLevel::kInterNode : CommLevel::kIntraChip);
  const double ends = 2 * costs.overhead.us_at(shape.bytes) + 2 * costs.latency.us_at(shape.bytes, shape.stride);
  return between_nodes ? ends + costs.network.us_at(shape.bytes) : ends;
}

double tree(double us, uint32_t ranks) { return us * tree_steps(ranks); }

double hierarchical_tree(double intra_us, double inter_us, uint32_t ranks, uint32_t nodes) {
  return intra_us * tree_steps(ranks / nodes) + inter_us * tree_steps(nodes);
}

double tiled_tree(double segment_us, uint32_t segments, double inter_us, uint32_t ranks, uint32_t nodes) {
  return segments * (segment_us * tree_steps(ranks / nodes)) + inter_us * tree_steps(nodes);
}

double linear_log3_p(const PathCost& inter, uint32_t ranks) {
  return ranks == 1 ? 0 : ranks * inter.end_us() + inter.o_net;
}

double linear_two_log23_p(const PathCost& intra, const PathCost& inter, uint32_t ranks, uint32_t nodes) {
  const uint32_t own_node = ranks / nodes - 1;
  const uint32_t others = ranks - own_node - 1;
  return own_node * intra.end_us() + others * inter.end_us() + (others > 0 ? inter.o_net : 0);
}

double linear_mlogn_p(const std::array<PathCost, kLevels>& costs, const CountByLevel& sends) {
  double us = 0;
  for (size_t i = 0; i < kLevels; ++i) us += sends[i] * costs[i].end_us();
  const auto between = static_cast<size_t>(CommLevel::kInterNode);
  return sends[between] > 0 ? us + costs[between].o_net : us;
}

double binomial_two_log23_p(double intra_us, double inter_us, uint32_t ranks, uint32_t n) {
  return intra_us * n + inter_us * (tree_steps(ranks) - n);
}

double distance_us(const CostByLevel& us, const CountByLevel& steps) {
  double sum = 0;
  for (size_t i = 0; i < kLevels; ++i) sum += us[i] * steps[i];
  return sum;
}

}  // namespace zh::model
