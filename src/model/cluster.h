// Where ranks are, for the models: in blocks on nodes of one size or dealt out to them in turn, and in blocks on the
// chips of a node. It refuses to know machines.
#pragma once

#include <array>
#include <cstdint>

#include "model/parameters.h"

namespace zh::model {

struct Cluster {
  uint32_t ranks = 1;           ///< a multiple of nodes
  uint32_t nodes = 1;           ///< >= 1
  uint32_t chips_per_node = 1;  ///< >= 1
  bool cyclic = false;          ///< ranks are dealt out to the nodes in turn
  /// How many of a node's ranks work at once; 0: all of them, as in the paper. Only the walk knows it.
  uint32_t processors_per_node = 0;

  [[nodiscard]] uint32_t ranks_per_node() const { return ranks / nodes; }
  [[nodiscard]] uint32_t node_of(uint32_t rank) const { return cyclic ? rank % nodes : rank / ranks_per_node(); }
  /// The how manyeth of its node it is.
  [[nodiscard]] uint32_t place_of(uint32_t rank) const { return cyclic ? rank / nodes : rank % ranks_per_node(); }
  /// Chips are filled in order, as evenly as it goes.
  [[nodiscard]] uint32_t chip_of(uint32_t rank) const;
  /// The level of a message between two ranks.
  [[nodiscard]] CommLevel level(uint32_t a, uint32_t b) const;
};

/// The cluster on nodes that have the chips and processors of these parameters.
[[nodiscard]] Cluster on_nodes_of(const Parameters& parameters, Cluster cluster);

/// Something counted, or priced, by CommLevel.
using CountByLevel = std::array<uint32_t, kLevels>;
using CostByLevel = std::array<double, kLevels>;

/// Steps of a binomial tree over so many ranks: log2, rounded up. The paper takes a power of two (section 7.2).
[[nodiscard]] uint32_t tree_steps(uint32_t ranks);

/// How many of the root's sends of a linear broadcast go by each level. O(ranks).
[[nodiscard]] CountByLevel linear_sends(const Cluster& cluster, uint32_t root);

/// The longest distance to a leaf of the binomial broadcast tree of section 5.2, as transfers by level: in each of the
/// tree_steps() steps every rank that has the message sends it on, and a rank is as far as the steps that led to it.
/// `us`: a message's cost by level, which decides what is longest. The 2log{2,3}P form's n is the intra-node part.
/// O(ranks).
[[nodiscard]] CountByLevel binomial_distance(const Cluster& cluster, uint32_t root, const CostByLevel& us);

}  // namespace zh::model
