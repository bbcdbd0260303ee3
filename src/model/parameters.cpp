// See parameters.h.
#include "model/parameters.h"

#include <algorithm>
#include <limits>

namespace zh::model {
namespace {

/// Costs of a distance are either those of a level of the models, or its own tables.
std::string fault_of(const std::vector<MeasuredLevel>& measured) {
  for (const MeasuredLevel& m : measured) {
    const std::string where = "measured_levels, " + m.level + ": ";
    const bool stands = std::any_of(kAllLevels.begin(), kAllLevels.end(),
                                    [&](CommLevel level) { return name_of(level) == m.stands_for; });
    if (!m.stands_for.empty() && !stands) return where + "stands_for: intra-cmp, inter-cmp or inter-node, please";
    if (stands && m.costs != LevelCosts{})
      return where + "its costs are in levels." + m.stands_for + "; no tables here";
    if (stands) continue;
    if (const std::string fault = m.costs.fault(); !fault.empty()) return where + fault;
  }
  return "";
}

}  // namespace

std::string_view name_of(CommLevel level) {
  constexpr std::string_view kNames[] = {"intra-cmp", "inter-cmp", "inter-node"};
  return kNames[static_cast<size_t>(level)];
}

std::string_view name_of(Model model) {
  constexpr std::string_view kNames[] = {"log3P", "2log{2,3}P", "mlog_nP", "mlog_nP+links"};
  return kNames[static_cast<size_t>(model)];
}

CommLevel priced_as(Model model, CommLevel level) {
  if (model == Model::kLog3P) return CommLevel::kInterNode;
  if (model == Model::kTwoLog23P && level == CommLevel::kInterChip) return CommLevel::kIntraChip;
  return level;
}

const LevelCosts& Parameters::at(CommLevel level) const {
  const bool absent = level == CommLevel::kInterChip && !has_inter_chip;
  return levels[static_cast<size_t>(absent ? CommLevel::kIntraChip : level)];
}

double Parameters::last_bytes(uint64_t stride, bool between_nodes) const {
  double last = std::numeric_limits<double>::infinity();
  const auto see = [&last](const CostTable& table) {
    if (!table.empty()) last = std::min(last, table.points.back().bytes);
  };
  for (const CommLevel level : kAllLevels) {
    if (level == CommLevel::kInterNode && !between_nodes) continue;
    see(at(level).overhead);
    see(at(level).network);
    for (const StridedCosts::Row& row : at(level).latency.rows) {
      if (stride > 0) see(row.table);
    }
  }
  return last;
}

std::string Parameters::fault() const {
  constexpr uint32_t kMostChips = 1024;
  if (chips_per_node == 0 || chips_per_node > kMostChips) return "chips_per_node: a number from 1 to 1024, please";
  if (processors_per_node > kMostProcessors) return "processors_per_node: a number from 0 to 1048576, please";
  for (const CommLevel level : kAllLevels) {
    if (level == CommLevel::kInterChip && !has_inter_chip) continue;
    const LevelCosts& costs = levels[static_cast<size_t>(level)];
    const std::string where = "levels." + std::string(name_of(level)) + ".";
    const bool between = level == CommLevel::kInterNode;
    if (between && costs.network.empty()) return where + "network: no points; the level between nodes needs it";
    if (!between && !costs.network.empty()) return where + "network: a message inside a node uses none; leave it out";
    if (!between && !costs.link.empty()) return where + "link: a message inside a node uses none; leave it out";
    if (const std::string fault = costs.fault(); !fault.empty()) return where + fault;
    for (const CostTable::Point& point : costs.link.points) {
      if (point.us > costs.network.us_at(point.bytes))
        return where + "link: a message is on the link for a part of its network time, not longer";
    }
  }
  return fault_of(facts.levels);
}

}  // namespace zh::model
