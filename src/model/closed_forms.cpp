// See closed_forms.h.
#include "model/closed_forms.h"

#include <algorithm>
#include <cmath>

#include "model/equations.h"

namespace zh::model {
namespace {

constexpr auto kIntra = static_cast<size_t>(CommLevel::kIntraChip);
constexpr auto kInter = static_cast<size_t>(CommLevel::kInterNode);

std::array<PathCost, kLevels> paths(Model model, const Parameters& parameters, MessageShape shape) {
  std::array<PathCost, kLevels> out;
  for (size_t i = 0; i < kLevels; ++i) out[i] = path_cost(parameters.at(priced_as(model, kAllLevels[i])), shape);
  return out;
}

Prediction linear(Model model, const Parameters& parameters, const Broadcast& b) {
  const auto costs = paths(model, parameters, b.shape);
  if (model == Model::kLog3P) return {linear_log3_p(costs[kInter], b.cluster.ranks), "section 5.2"};
  if (model == Model::kTwoLog23P) {
    return {linear_two_log23_p(costs[kIntra], costs[kInter], b.cluster.ranks, b.cluster.nodes), "section 5.2"};
  }
  return {linear_mlogn_p(costs, linear_sends(b.cluster, b.root)), "equation 4 in section 5.2's form"};
}

Prediction binomial(Model model, const Parameters& parameters, const Broadcast& b) {
  const CostByLevel us = message_us(model, parameters, b.shape);
  if (model == Model::kLog3P) return {tree(us[kInter], b.cluster.ranks), "equation 7, section 5.2"};
  const CountByLevel steps = binomial_distance(b.cluster, b.root, us);
  if (model == Model::kTwoLog23P) {
    const uint32_t n = tree_steps(b.cluster.ranks) - steps[kInter];
    return {binomial_two_log23_p(us[kIntra], us[kInter], b.cluster.ranks, n), "section 5.2"};
  }
  return {distance_us(us, steps), "equation 4 in section 5.2's form"};
}

/// The slowest node's binomial broadcast over its chips. Leaders are first of their node, but for the root.
double inside_nodes(const CostByLevel& us, const Broadcast& b) {
  const Cluster node{b.cluster.ranks_per_node(), 1, b.cluster.chips_per_node};
  const double of_root = distance_us(us, binomial_distance(node, b.cluster.place_of(b.root), us));
  return std::max(of_root, distance_us(us, binomial_distance(node, 0, us)));
}

Prediction hierarchical(Model model, const Parameters& parameters, const Broadcast& b) {
  const uint32_t segments =
      b.segment_bytes == 0
          ? 1
          : static_cast<uint32_t>(std::max(1.0, std::ceil(b.shape.bytes / static_cast<double>(b.segment_bytes))));
  const CostByLevel us = message_us(model, parameters, b.shape);
  const CostByLevel segment = message_us(model, parameters, {b.shape.bytes / segments, b.shape.stride});
  const bool tiled = segments > 1;
  if (model == Model::kMlogNP) {
    const double between = us[kInter] * tree_steps(b.cluster.nodes);
    const char* equation = tiled ? "equation 4 in equation 9's form" : "equation 4 in equation 8's form";
    return {segments * inside_nodes(segment, b) + between, equation};
  }
  const bool flat = model == Model::kLog3P;
  if (!tiled) {
    return {hierarchical_tree(us[kIntra], us[kInter], b.cluster.ranks, b.cluster.nodes),
            flat ? "equation 8 at one level" : "equation 8"};
  }
  return {tiled_tree(segment[kIntra], segments, us[kInter], b.cluster.ranks, b.cluster.nodes),
          flat ? "equation 9 at one level" : "equation 9"};
}

}  // namespace

CostByLevel message_us(Model model, const Parameters& parameters, MessageShape shape) {
  CostByLevel out{};
  for (size_t i = 0; i < kLevels; ++i) {
    const CommLevel level = priced_as(model, kAllLevels[i]);
    const PathCost cost = path_cost(parameters.at(level), shape);
    switch (model) {
      case Model::kLog3P:
        out[i] = log3_p(cost);
        break;
      case Model::kTwoLog23P:
        out[i] = two_log23_p(cost, level == CommLevel::kInterNode);
        break;
      case Model::kMlogNP:
      case Model::kLinked:
        out[i] = mlogn_p(parameters, level, shape);
        break;
    }
  }
  return out;
}

std::optional<Prediction> closed_form(Model model, const Parameters& parameters, const Broadcast& bcast) {
  if (model == Model::kLinked) return std::nullopt;
  if (bcast.algorithm == "linear") return linear(model, parameters, bcast);
  if (bcast.algorithm == "binomial") return binomial(model, parameters, bcast);
  if (bcast.algorithm == "hierarchical") return hierarchical(model, parameters, bcast);
  return std::nullopt;
}

}  // namespace zh::model
