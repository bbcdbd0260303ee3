// See parameters.h.
#include "model/parameters.h"

#include <algorithm>
#include <limits>

namespace zh::model {

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

double Parameters::last_bytes() const {
  double last = std::numeric_limits<double>::infinity();
  const auto see = [&last](const CostTable& table) {
    if (!table.empty()) last = std::min(last, table.points.back().bytes);
  };
  for (const CommLevel level : kAllLevels) {
    see(at(level).overhead);
    see(at(level).network);
    for (const StridedCosts::Row& row : at(level).latency.rows) see(row.table);
  }
  return last;
}

std::string Parameters::fault() const {
  constexpr uint32_t kMostChips = 1024;
  if (chips_per_node == 0 || chips_per_node > kMostChips) return "chips_per_node: a number from 1 to 1024, please";
  for (const CommLevel level : kAllLevels) {
    if (level == CommLevel::kInterChip && !has_inter_chip) continue;
    const LevelCosts& costs = levels[static_cast<size_t>(level)];
    const std::string where = "levels." + std::string(name_of(level)) + ".";
    if (costs.overhead.empty()) return where + "overhead: no points; every level needs it";
    const bool between = level == CommLevel::kInterNode;
    if (between && costs.network.empty()) return where + "network: no points; the level between nodes needs it";
    if (!between && !costs.network.empty()) return where + "network: a message inside a node uses none; leave it out";
    if (const std::string fault = costs.overhead.fault(); !fault.empty()) return where + "overhead: " + fault;
    if (const std::string fault = costs.latency.fault(); !fault.empty()) return where + "latency: " + fault;
    if (const std::string fault = costs.network.fault(); !fault.empty()) return where + "network: " + fault;
    if (const std::string fault = costs.gap.fault(); !fault.empty()) return where + "gap: " + fault;
    if (!between && !costs.link.empty()) return where + "link: a message inside a node uses none; leave it out";
    if (const std::string fault = costs.link.fault(); !fault.empty()) return where + "link: " + fault;
    for (const CostTable::Point& point : costs.link.points) {
      if (point.us > costs.network.us_at(point.bytes))
        return where + "link: a message is on the link for a part of its network time, not longer";
    }
  }
  return "";
}

}  // namespace zh::model
