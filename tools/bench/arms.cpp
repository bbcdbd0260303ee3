// See arms.h.
#include "tools/bench/arms.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>

#include "base/options.h"
#include "tools/bench/command.h"
#include "tools/bench/report.h"
#include "tools/cli/text.h"

namespace zh::tools {
namespace {

constexpr const char* kTurn = ":turn";

/// The table's row that a name means; null if there is none.
const OptionSpec* option_of(const std::string& name, const std::string& value) {
  Options tried;
  if (!tried.set(name, value, Source::kCommandLine).ok()) return nullptr;
  for (size_t i = 0; i < option_table().size(); ++i) {
    if (tried.source(static_cast<Opt>(i)) == Source::kCommandLine) return &option_table()[i];
  }
  return nullptr;
}

std::pair<std::string, std::string> name_and_value(const std::string& word) {
  const size_t equal = word.find('=');
  return {word.substr(0, equal), equal == std::string::npos ? "" : word.substr(equal + 1)};
}

std::vector<std::string> words_of(const std::string& text) {
  const size_t colon = text.find(':');
  return colon == std::string::npos ? std::vector<std::string>{} : split(text.substr(colon + 1));
}

std::optional<JobLayout> read_layout(std::string_view text) {
  JobLayout l;
  l.in_turn = text.ends_with(kTurn);
  if (l.in_turn) text.remove_suffix(std::string_view(kTurn).size());
  const char* end = text.data() + text.size();
  const auto nodes = std::from_chars(text.data(), end, l.nodes);
  if (nodes.ec != std::errc() || nodes.ptr == end || *nodes.ptr != 'x') return std::nullopt;
  const auto ranks = std::from_chars(nodes.ptr + 1, end, l.ranks_per_node);
  const auto fits = [](int n) { return n >= 1 && n <= kMostRanks; };
  if (ranks.ec != std::errc() || ranks.ptr != end || !fits(l.nodes) || !fits(l.ranks_per_node)) return std::nullopt;
  return l.ranks() < 2 || l.ranks() > kMostRanks ? std::nullopt : std::optional(l);
}

/// What a row is, apart from its series.
using ArmsKey = std::tuple<CaseKey, std::string, std::string>;  // case, machines_text(), placement

struct ArmsRow {
  std::map<std::string, std::vector<std::pair<const LaunchRecord*, Sample>>> by_series;
};

std::string series_of(const LaunchRecord& r) { return r.zerohop ? r.setting : r.host; }

/// A host that has no bare launches stands there by its arms beside zerohop's.
std::map<ArmsKey, ArmsRow> arms_table(const std::vector<LaunchRecord>& launches) {
  std::map<ArmsKey, ArmsRow> table;
  const auto is_bare = [&](const std::string& host) {
    return std::ranges::any_of(launches, [&](const LaunchRecord& r) { return !r.zerohop && r.host == host; });
  };
  for (const LaunchRecord& r : launches) {
    const LaunchSamples launch = samples_of(r);
    for (const auto& [key, sample] : launch.samples) {
      CaseKey at = key;
      if (at.bench == "skew") at.variant.clear();  // the judge's name of the setting, which is the series here
      ArmsRow& row = table[{at, machines_text(r.document), launch.placement}];
      row.by_series[series_of(r)].emplace_back(&r, sample);
      if (sample.host && !is_bare(r.host)) row.by_series[r.host].emplace_back(&r, Sample{.value = *sample.host});
    }
  }
  return table;
}

struct ArmsCell {
  Interval value;
  Interval to_host;
};

ArmsCell cell_of(const std::vector<std::pair<const LaunchRecord*, Sample>>& launches) {
  std::vector<double> values;
  std::vector<double> ratios;
  for (const auto& [record, sample] : launches) {
    values.push_back(sample.value);
    if (sample.to_own_host) ratios.push_back(*sample.to_own_host);
  }
  return {median_interval(values), median_interval(ratios)};
}

/// Hosts first, then the arms, as the first round had them.
std::vector<std::string> series_in_order(const std::vector<LaunchRecord>& launches) {
  std::vector<std::string> names;
  for (const bool host : {true, false}) {
    for (const LaunchRecord& r : launches) {
      const std::string name = host ? r.host : series_of(r);
      if (!contains(names, name)) names.push_back(name);
    }
  }
  return names;
}

std::string arms_heading(const ArmsKey& at) {
  const auto& [key, machines, placement] = at;
  return fmt::format("\n{}{}{} · {} · {} ranks{} · {}\n", key.bench, key.variant.empty() ? "" : " ", key.variant,
                     key.buffers, key.ranks, machines.empty() ? "" : " on " + machines, placement);
}

}  // namespace

Arm arm_of(const std::string& text) {
  Arm arm;
  arm.name = text.substr(0, text.find(':'));
  for (const std::string& word : words_of(text)) {
    const auto [name, value] = name_and_value(word);
    const OptionSpec* spec = option_of(name, value);
    if (spec != nullptr) (is_variable(*spec) ? arm.variables : arm.settings)[spec->name] = value;
  }
  return arm;
}

std::string wrong_arm(const std::string& text) {
  if (text.empty() || text[0] == ':') return "an arm has a name: NAME or NAME:OPTION=VALUE,...";
  for (const std::string& word : words_of(text)) {
    const auto [name, value] = name_and_value(word);
    Options tried;
    if (!tried.set(name, value, Source::kCommandLine).ok()) return tried.complaint();
  }
  return "";
}

JobLayout job_layout_of(const std::string& text) { return read_layout(text).value_or(JobLayout()); }

std::string wrong_layout(const std::string& text) {
  return read_layout(text)
             ? ""
             : fmt::format("no layout: {} (nodes x ranks on each, 2 to {} ranks, such as 4x8 or 4x8:turn)", text,
                           kMostRanks);
}

const Hosts* LayoutHosts::of(const HostOptions& o, const Hosts& plain, const JobLayout& layout,
                             const std::string& command, const std::string& program) {
  if (layout.nodes == 1 || !o.mpiexec.empty()) return &plain;
  const std::pair key(layout.nodes, layout.in_turn);
  const auto found = on_machines_.find(key);
  if (found != on_machines_.end()) return &found->second;
  HostOptions on = o;
  on.machines = layout.nodes;
  on.cyclic = layout.in_turn;
  auto hosts = choose_hosts(on, true, command, program);
  return hosts ? &on_machines_.emplace(key, *std::move(hosts)).first->second : nullptr;
}

std::string arms_text(const std::vector<LaunchRecord>& launches) {
  const std::vector<std::string> names = series_in_order(launches);
  std::vector<std::string> heads = {"size"};
  heads.insert(heads.end(), names.begin(), names.end());
  const std::map<ArmsKey, ArmsRow> rows = arms_table(launches);
  std::map<std::string, Table> tables;  // by heading
  for (const auto& [at, row] : rows) {
    const CaseKey& key = std::get<CaseKey>(at);
    if (key.metric == "t_min_us") continue;
    std::vector<std::string> cells = {case_text(key)};
    for (const std::string& name : names) {
      const auto series = row.by_series.find(name);
      if (series == row.by_series.end()) {
        cells.emplace_back("-");
        continue;
      }
      const ArmsCell cell = cell_of(series->second);
      const std::string ratio = cell.to_host.count > 0 ? fmt::format(" ({})", number_text(cell.to_host.mid)) : "";
      cells.push_back(number_text(cell.value.mid) + ratio);
    }
    tables.try_emplace(arms_heading(at), heads).first->second.add(std::move(cells));
  }
  std::string out;
  for (const auto& [heading, table] : tables) out += heading + table.text();
  return out +
         "\nTimes in µs, medians over the launches; in brackets by the host's own in the same launch. --json has "
         "every launch.\n";
}

nlohmann::json arms_rows(const std::vector<LaunchRecord>& launches) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [at, row] : arms_table(launches)) {
    const CaseKey& key = std::get<CaseKey>(at);
    for (const auto& [series, of_series] : row.by_series) {
      const LaunchRecord& first = *of_series.front().first;
      const MachineSpread spread = spread_of(first.document);
      const ArmsCell cell = cell_of(of_series);
      nlohmann::json single = nlohmann::json::array();
      for (const auto& [record, sample] : of_series) {
        single.push_back({{"round", record->round}, {"value", sample.value}});
        if (sample.to_own_host) single.back()["to_host"] = *sample.to_own_host;
      }
      rows.push_back({{"bench", key.bench},
                      {"variant", key.variant},
                      {"buffers", key.buffers},
                      {"bytes", key.size},
                      {"param", key.param},
                      {"metric", key.metric},
                      {"ranks", key.ranks},
                      {"processors", first.document.value("processors", 0)},
                      {"machines", spread.machines},
                      {"in_turn", spread.in_turn},
                      {"placement", std::get<2>(at)},
                      {"series", series},
                      {"zerohop", series != first.host},
                      {"host", first.host},
                      {"value", interval_json(cell.value)},
                      {"to_host", interval_json(cell.to_host)},
                      {"launches", std::move(single)}});
    }
  }
  return rows;
}

}  // namespace zh::tools
