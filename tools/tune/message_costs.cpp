// See message_costs.h.
#include "tools/tune/message_costs.h"

#include <algorithm>
#include <map>
#include <utility>

namespace zh::tools {
namespace {

using nlohmann::json;

/// By stride and size, so that contiguous messages come first.
using Key = std::pair<uint64_t, uint64_t>;

/// One launch's values of a metric of a benchmark, µs.
std::map<Key, double> times_of(const json& document, const char* bench, const char* metric) {
  std::map<Key, double> times;
  const json cases = document.value("cases", json::array());
  for (const json& c : cases) {
    if (c.value("bench", "") != bench) continue;
    const json metrics = c.value("metrics", json::object());
    if (!metrics.contains(metric) || metrics[metric].empty()) continue;
    const double us = median(metrics[metric].front().get<std::vector<double>>());
    if (us > 0) times[{static_cast<uint64_t>(c.value("stride", 0.0)), c.value("size", uint64_t{0})}] = us;
  }
  return times;
}

using Values = std::map<Key, std::vector<double>>;

std::vector<MessageCost> over_launches(const Values& values) {
  std::vector<MessageCost> out;
  for (const auto& [key, us] : values) out.push_back({key.second, key.first, median_interval(us)});
  return out;
}

model::CostTable table_of(const std::vector<MessageCost>& costs) {
  model::CostTable table;
  for (const MessageCost& cost : costs) table.points.push_back({static_cast<double>(cost.bytes), cost.us.mid});
  return table;
}

std::string cost_placement(const LaunchRecord& launch) { return launch.document.value("placement", ""); }

/// near, far or several (machines), whichever most launches had.
std::string most_common_placement(std::span<const LaunchRecord> launches) {
  std::map<std::string, int> counts;
  for (const LaunchRecord& launch : launches) ++counts[cost_placement(launch)];
  std::string most;
  int most_launches = 0;
  for (const char* placement : {"near", "far", "several"}) {
    if (counts[placement] <= most_launches) continue;
    most = placement;
    most_launches = counts[placement];
  }
  return most;
}

}  // namespace

bool MessageCost::noisy() const {
  constexpr double kQuarter = 1.25;
  return !us.valid || us.low <= 0 || us.high > kQuarter * us.low;
}

MessageCosts message_costs_of(std::span<const LaunchRecord> launches) {
  MessageCosts out;
  out.placement = most_common_placement(launches);
  Values values, busy, gaps;
  std::vector<double> lines;
  for (const LaunchRecord& launch : launches) {
    if (out.placement.empty() || cost_placement(launch) != out.placement) {
      ++out.left_out;
      continue;
    }
    ++out.launches;
    const json line = launch.document.value("line_us", json::object());
    lines.push_back((line.value("before", 0.0) + line.value("after", 0.0)) / 2);
    for (const auto& [key, us] : times_of(launch.document, "prtt", "overhead_us")) busy[key].push_back(us);
    for (const auto& [key, us] : times_of(launch.document, "prtt", "gap_us")) gaps[key].push_back(us);
    const std::map<Key, double> times = times_of(launch.document, "strided", "time_us");
    for (const auto& [key, us] : times) {
      const auto& [stride, bytes] = key;
      const auto contiguous = times.find({0, bytes});
      if (stride == 0) {
        values[key].push_back(us / 2);
      } else if (contiguous != times.end()) {
        values[key].push_back((us - contiguous->second) / 2);
      }
    }
  }
  // Machines made of namespaces share a line, but no message goes by it.
  out.line_us = lines.empty() || out.placement == "several" ? 0 : median(lines);
  out.costs = over_launches(values);
  out.busy = over_launches(busy);
  out.gaps = over_launches(gaps);
  return out;
}

model::LevelCosts level_costs(const MessageCosts& measured) {
  model::LevelCosts level;
  std::vector<model::StridedCosts::Row>& rows = level.latency.rows;
  for (const MessageCost& cost : measured.costs) {
    // A strided message that is no dearer than a contiguous one has no latency.
    const model::CostTable::Point point{static_cast<double>(cost.bytes), std::max(0.0, cost.us.mid)};
    if (cost.stride == 0) {
      level.overhead.points.push_back(point);
      continue;
    }
    if (rows.empty() || rows.back().stride != cost.stride) rows.push_back({cost.stride, {}});
    rows.back().table.points.push_back(point);
  }
  level.gap = table_of(measured.gaps);
  return level;
}

model::LevelCosts between_costs(const MessageCosts& between, const MessageCosts& two_pairs) {
  model::LevelCosts level = level_costs(between);
  const model::CostTable halves = std::exchange(level.overhead, {});
  if (halves.empty()) return level;
  for (const model::CostTable::Point& busy : table_of(between.busy).points) {
    const double half = halves.us_at(busy.bytes);
    level.overhead.points.push_back({busy.bytes, std::min(busy.us, half)});
    level.network.points.push_back({busy.bytes, 2 * (half - level.overhead.points.back().us)});
  }
  for (const model::CostTable::Point& both : table_of(two_pairs.gaps).points) {
    const double more = std::max(0.0, both.us - level.gap.us_at(both.bytes));
    level.link.points.push_back({both.bytes, std::min(more, level.network.us_at(both.bytes))});
  }
  return level;
}

}  // namespace zh::tools
