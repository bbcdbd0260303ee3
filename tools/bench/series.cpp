// See series.h.
#include "tools/bench/series.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/bench/report.h"
#include "tools/cli/text.h"

namespace zh::tools {
namespace {

/// The series with the least ratio to the host.
std::string fastest_of(const std::map<std::string, SeriesCell>& by_series) {
  std::string best;
  for (const auto& [series, cell] : by_series) {
    if (!cell.to_host.empty() && (best.empty() || cell.ratio() < by_series.at(best).ratio())) best = series;
  }
  return best;
}

}  // namespace

std::vector<SeriesTable> series_tables(const std::vector<LaunchRecord>& launches,
                                       const std::function<std::string(const LaunchRecord&)>& name_of) {
  std::vector<SeriesTable> tables;
  for (const LaunchRecord& r : launches) {
    const std::string series = name_of(r);
    if (series.empty()) continue;
    auto t = std::ranges::find(tables, r.group, &SeriesTable::group);
    if (t == tables.end()) {
      t = tables.emplace(t);
      t->group = r.group;
      t->ranks = r.document.value("ranks", 0);
      t->processors = r.document.value("processors", 0);
      t->spread = spread_of(r.document);
    }
    if (r.zerohop) t->host = r.host;
    t->rounds = std::max(t->rounds, r.round + 1);
    if (std::ranges::find(t->series, series) == t->series.end()) t->series.push_back(series);
    const LaunchSamples launch = samples_of(r);
    for (const auto& [key, sample] : launch.samples) {
      t->collective = key.bench;
      SeriesCell& cell = t->cells[key.size][series];
      if (key.metric == "t_max_us") cell.slowest_us.push_back(sample.value);
      if (key.metric != "time_us") continue;
      cell.us.push_back(sample.value);
      if (sample.to_own_host) cell.to_host.push_back(*sample.to_own_host);
    }
  }
  return tables;
}

std::string series_text(const SeriesTable& table) {
  std::vector<std::string> heads = {"bytes"};
  heads.insert(heads.end(), table.series.begin(), table.series.end());
  Table text(heads, 0);
  for (const auto& [size, by_series] : table.cells) {
    const std::string best = fastest_of(by_series);
    std::vector<std::string> cells = {std::to_string(size)};
    for (const std::string& s : table.series) {
      const auto cell = by_series.find(s);
      std::string told = cell == by_series.end() ? "-" : number_text(cell->second.time());
      if (cell != by_series.end() && !cell->second.to_host.empty())
        told += fmt::format(" ({}){}", number_text(cell->second.ratio()), s == best ? "*" : " ");
      cells.push_back(told);
    }
    text.add(std::move(cells));
  }
  return text.text();
}

nlohmann::json series_rows(
    const std::vector<SeriesTable>& tables,
    const std::function<void(const SeriesTable&, const std::string& series, nlohmann::json* row)>& add) {
  nlohmann::json rows = nlohmann::json::array();
  for (const SeriesTable& t : tables) {
    for (const auto& [size, by_series] : t.cells) {
      for (const auto& [series, cell] : by_series) {
        nlohmann::json row = {{"collective", t.collective},
                              {"ranks", t.ranks},
                              {"processors", t.processors},
                              {"machines", t.spread.machines},
                              {"in_turn", t.spread.in_turn},
                              {"under", t.host},
                              {"bytes", size},
                              {"us", interval_json(median_interval(cell.us))},
                              {"slowest_us", interval_json(median_interval(cell.slowest_us))},
                              {"to_host", interval_json(median_interval(cell.to_host))}};
        add(t, series, &row);
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

}  // namespace zh::tools
