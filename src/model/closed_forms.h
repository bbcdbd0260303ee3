// The closed forms of broadcasts put together for a cluster: which equation, with which parameters. Called by `zerohop
// model` and the tests. For what the paper has no form there is the walk of schedules (coll/analysis/walk.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/cluster.h"
#include "model/parameters.h"

namespace zh::model {

/// A broadcast, by the names that algorithms have in schedules.
struct Broadcast {
  std::string_view algorithm;  ///< "linear", "binomial", "hierarchical"
  Cluster cluster;
  uint32_t root = 0;
  MessageShape shape;
  uint64_t segment_bytes = 0;  ///< hierarchical: size of a segment (equation 9); 0: whole messages (equation 8)
};

struct Prediction {
  double us = 0;
  std::string_view equation;  ///< where it stands in the paper
};

/// Nothing for other algorithms and other models than the paper's. O(ranks).
[[nodiscard]] std::optional<Prediction> closed_form(Model model, const Parameters& parameters, const Broadcast& bcast);

/// The cost of one message by level, as a model has it: equations 3, 5 and 4.
[[nodiscard]] CostByLevel message_us(Model model, const Parameters& parameters, MessageShape shape);

}  // namespace zh::model
