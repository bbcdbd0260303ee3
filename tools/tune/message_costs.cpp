// See message_costs.h.
#include "tools/tune/message_costs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace zh::tools {
namespace {

using nlohmann::json;

/// By stride and size, so that contiguous messages come first.
using Key = std::pair<uint64_t, uint64_t>;

/// One launch's one-way times, µs.
std::map<Key, double> times_of(const json& document) {
  std::map<Key, double> times;
  const json cases = document.value("cases", json::array());
  for (const json& c : cases) {
    if (c.value("bench", "") != "strided") continue;
    const json metrics = c.value("metrics", json::object());
    if (!metrics.contains("time_us") || metrics["time_us"].empty()) continue;
    const double us = median(metrics["time_us"].front().get<std::vector<double>>());
    if (us > 0) times[{static_cast<uint64_t>(c.value("stride", 0.0)), c.value("size", uint64_t{0})}] = us;
  }
  return times;
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
  std::map<Key, std::vector<double>> values;
  std::vector<double> lines;
  for (const LaunchRecord& launch : launches) {
    if (out.placement.empty() || cost_placement(launch) != out.placement) {
      ++out.left_out;
      continue;
    }
    ++out.launches;
    const json line = launch.document.value("line_us", json::object());
    lines.push_back((line.value("before", 0.0) + line.value("after", 0.0)) / 2);
    const std::map<Key, double> times = times_of(launch.document);
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
  for (const auto& [key, us] : values) out.costs.push_back({key.second, key.first, median_interval(us)});
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
  return level;
}

model::LevelCosts between_costs(const MessageCosts& inside, const MessageCosts& between) {
  model::LevelCosts level = level_costs(between);
  const std::vector<model::CostTable::Point> halves = std::move(level.overhead.points);
  level.overhead.points.clear();
  for (const model::CostTable::Point& own : level_costs(inside).overhead.points) {
    const auto half = std::find_if(halves.begin(), halves.end(), [&](const auto& p) { return p.bytes == own.bytes; });
    if (half == halves.end()) continue;
    level.overhead.points.push_back(own);
    level.network.points.push_back({own.bytes, std::max(0.0, 2 * (half->us - own.us))});
  }
  return level;
}

}  // namespace zh::tools
