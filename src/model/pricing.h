// What the parts of a message, and work inside a rank, cost by a model: the prices of a walk along a schedule
// (coll/analysis/walk.h). It refuses to know schedules.
#pragma once

#include <cstdint>

#include "model/cluster.h"
#include "model/parameters.h"

namespace zh::model {

/// µs. One end each (o + l), the network between them (o_net), how much of it the message keeps a link busy (0: links
/// do not count), and the least time from the start of a reception to that of the next one (g).
struct MessagePrice {
  double send = 0;
  double network = 0;
  double link = 0;
  double receive = 0;
  double gap = 0;
};

/// Holds references: parameters and cluster have to outlive it.
class Pricing {
 public:
  /// `stride`: of all messages, in bytes; 0: contiguous.
  Pricing(Model model, const Parameters& parameters, const Cluster& cluster, uint64_t stride)
      : model_(model), parameters_(parameters), cluster_(cluster), stride_(stride) {}

  [[nodiscard]] MessagePrice message(uint32_t from, uint32_t to, uint64_t bytes) const;
  [[nodiscard]] uint32_t node_of(uint32_t rank) const { return cluster_.node_of(rank); }
  [[nodiscard]] uint32_t nodes() const { return cluster_.nodes; }
  /// Of a node, for which its ranks wait; 0: each rank has one of its own.
  [[nodiscard]] uint32_t processors() const {
    return cluster_.processors_per_node < cluster_.ranks_per_node() ? cluster_.processors_per_node : 0;
  }
  /// A copy inside a rank: one implicit transfer by the processor, f(s, 1)_0 of the nearest level. A reduction is
  /// priced as a copy, for want of a parameter in the models.
  [[nodiscard]] double work(uint64_t bytes) const;
  /// What so many ranks of a node copy at once, of so many bytes each: one copy. With links it takes longer by as much
  /// as the profile's readers take longer than one alone (Contention); with more than it knows, on the continued line.
  [[nodiscard]] double shared(uint64_t bytes, uint32_t readers) const;

 private:
  Model model_;
  const Parameters& parameters_;
  const Cluster& cluster_;
  uint64_t stride_;
};

}  // namespace zh::model
