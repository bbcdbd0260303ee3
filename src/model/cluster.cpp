// See cluster.h.
#include "model/cluster.h"

#include <bit>
#include <vector>

namespace zh::model {

uint32_t Cluster::chip_of(uint32_t rank) const {
  return static_cast<uint32_t>(uint64_t{place_of(rank)} * chips_per_node / ranks_per_node());
}

CommLevel Cluster::level(uint32_t a, uint32_t b) const {
  if (node_of(a) != node_of(b)) return CommLevel::kInterNode;
  return chip_of(a) == chip_of(b) ? CommLevel::kIntraChip : CommLevel::kInterChip;
}

Cluster on_nodes_of(const Parameters& parameters, Cluster cluster) {
  cluster.chips_per_node = parameters.chips_per_node;
  cluster.processors_per_node = parameters.processors_per_node;
  return cluster;
}

uint32_t tree_steps(uint32_t ranks) { return static_cast<uint32_t>(std::bit_width(ranks - 1)); }

CountByLevel linear_sends(const Cluster& cluster, uint32_t root) {
  CountByLevel sends{};
  for (uint32_t rank = 0; rank < cluster.ranks; ++rank) {
    if (rank != root) ++sends[static_cast<size_t>(cluster.level(root, rank))];
  }
  return sends;
}

CountByLevel binomial_distance(const Cluster& cluster, uint32_t root, const CostByLevel& us) {
  struct Distance {
    double us = 0;
    CountByLevel steps{};
  };
  // v is the rank counted from the root on. Those that have the message before a step are the multiples of 2 * reach.
  std::vector<Distance> at(cluster.ranks);
  Distance longest;
  for (uint32_t reach = 1U << tree_steps(cluster.ranks) >> 1; reach > 0; reach /= 2) {
    for (uint64_t v = 0; v + reach < cluster.ranks; v += 2 * uint64_t{reach}) {
      const auto from = static_cast<uint32_t>((v + root) % cluster.ranks);
      const auto to = static_cast<uint32_t>((v + reach + root) % cluster.ranks);
      const auto level = static_cast<size_t>(cluster.level(from, to));
      at[v].us += us[level];
      ++at[v].steps[level];
      at[v + reach] = at[v];
      if (at[v].us > longest.us) longest = at[v];
    }
  }
  return longest.steps;
}

}  // namespace zh::model
