// See judge.h.
#include "tools/bench/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace zh::tools {
namespace {

using Json = nlohmann::json;

std::vector<double> block_ratios(const std::vector<double>& top, const std::vector<double>& below) {
  std::vector<double> r;
  for (size_t i = 0; i < std::min(top.size(), below.size()); ++i) {
    if (below[i] > 0) r.push_back(top[i] / below[i]);
  }
  return r;
}

/// Blocks run in the order host, zerohop, host: each block of zerohop makes one pair with either neighbour. (Their mean
/// would be drawn up by one disturbed block, and zerohop look faster than it is.)
Sample sample_of(const std::vector<std::vector<double>>& arms, const std::vector<std::string>& names) {
  Sample s;
  const auto z = std::find(names.begin(), names.end(), "zerohop");
  if (z == names.end()) {
    s.value = median(arms.front());
    if (arms.size() == 2) s.noise = median(block_ratios(arms[1], arms[0]));
    return s;
  }
  const auto at = static_cast<size_t>(z - names.begin());
  s.value = median(arms[at]);
  if (arms.size() == 3 && at == 1) {
    std::vector<double> pairs = block_ratios(arms[1], arms[0]);
    for (const double r : block_ratios(arms[1], arms[2])) pairs.push_back(r);
    s.to_own_host = median(pairs);
    std::vector<double> host = arms[0];
    host.insert(host.end(), arms[2].begin(), arms[2].end());
    s.host = median(host);
    s.noise = median(block_ratios(arms[2], arms[0]));
  } else if (arms.size() == 2 && at == 1) {
    s.to_own_host = median(block_ratios(arms[1], arms[0]));
  }
  return s;
}

/// The paired values of one row, one entry per round.
struct LaunchSeries {
  std::string machines;
  std::vector<double> zerohop;
  std::vector<double> lines;
  std::vector<double> own;
  std::vector<double> noise;
  std::vector<double> heap_off;                           // zerohop / zerohop without the shared heap
  std::map<std::string, std::vector<double>> peer;        // every round in which the peer had the row's placement
  std::map<std::string, std::vector<double>> peer_ratio;  // zerohop / peer
};

bool more_is_better(const std::string& metric) { return metric == "over_share" || metric == "arrived_share"; }
bool is_time(const std::string& metric) { return metric.ends_with("_us"); }

void finish(Row* row, const LaunchSeries& s, const RawLimits& raw) {
  row->machines = s.machines;
  row->rounds = static_cast<int>(s.zerohop.size());
  row->zerohop = median_interval(s.zerohop);
  row->line_us = median(s.lines);
  row->to_own_host = median_interval(s.own);
  row->noise = median_interval(s.noise);
  row->to_heap_off = median_interval(s.heap_off);
  for (const auto& [host, values] : s.peer) {
    row->peers[host] = median_interval(values);
    const double mine = row->peers[host].mid;
    const bool first = row->best_peer.empty();
    const double best = first ? 0 : row->peers[row->best_peer].mid;
    if (first || (more_is_better(row->key.metric) ? mine > best : mine < best)) row->best_peer = host;
  }
  if (!row->best_peer.empty() && is_time(row->key.metric)) {
    if (const auto it = s.peer_ratio.find(row->best_peer); it != s.peer_ratio.end())
      row->to_best_peer = median_interval(it->second);
  }
  const std::string kind = row->key.bench == "rate" ? "ring" : row->key.buffers;
  if (const auto it = raw.find({row->placement, kind, row->key.size}); it != raw.end()) row->raw_us = it->second;
}

}  // namespace

MachineSpread spread_of(const Json& document) {
  const auto machine_of = document.value("machine_of", std::vector<int>{});
  const auto last = std::max_element(machine_of.begin(), machine_of.end());
  if (last == machine_of.end()) return {};
  return {*last + 1, !std::is_sorted(machine_of.begin(), machine_of.end())};
}

std::string machines_text(const Json& document) { return machines_text(spread_of(document)); }

std::string machines_text(const MachineSpread& spread) {
  return spread.machines == 1 ? "" : fmt::format("{} machines{}", spread.machines, spread.in_turn ? " in turn" : "");
}

void add_raw_document(const nlohmann::json& document, RawLimits* out) {
  if (!document.is_object()) return;
  const std::string whole = document.value("placement", "");
  for (const Json& r : document.value("rows", Json::array())) {
    if (!r.is_object()) continue;
    const double us = r.value("us", 0.0);
    const std::string placement = r.value("placement", whole);
    const std::string buffers = r.value("buffers", "");
    const uint64_t size = r.value("size", uint64_t{0});
    if (us <= 0 || placement.empty() || size == 0) continue;
    auto keep = [&](const char* kind) {
      auto [it, fresh] = out->try_emplace({placement, kind, size}, us);
      if (!fresh) it->second = std::min(it->second, us);
    };
    // A mapped buffer may be copied like a private one.
    if (buffers == "private" || buffers == "mapped") {
      for (const char* kind : {"malloc", "static", "alloc_mem"}) keep(kind);
    }
    if (buffers == "ring") keep("ring");
  }
}

LaunchSamples samples_of(const LaunchRecord& record) {
  LaunchSamples p;
  p.record = &record;
  const Json& d = record.document;
  p.placement = d.value("placement", "none");
  const Json line = d.value("line_us", Json::object());
  p.line_us = (line.value("before", 0.0) + line.value("after", 0.0)) / 2;
  const int ranks = d.value("ranks", 0);
  const auto names = d.value("arms", std::vector<std::string>{});
  for (const Json& c : d.value("cases", Json::array())) {
    CaseKey key;
    key.bench = c.value("bench", "");
    key.size = c.value("size", uint64_t{0});
    key.buffers = c.value("buffers", "");
    key.variant = c.value("variant", "");
    key.ranks = ranks;
    for (const char* name : {"depth", "use", "c2_us", "order", "stride"}) {
      if (c.contains(name)) key.param = c[name].get<double>();
    }
    if (key.bench == "skew") key.variant = record.setting.empty() ? "measured_defaults" : record.setting;
    const Json metrics = c.value("metrics", Json::object());  // items() of a temporary would outlive it
    for (const auto& [metric, arms_json] : metrics.items()) {
      key.metric = metric;
      const auto arms = arms_json.get<std::vector<std::vector<double>>>();
      if (arms.empty() || arms.size() != names.size()) continue;
      Sample s = sample_of(arms, names);
      s.line_us = p.line_us;
      p.samples[key] = s;
    }
  }
  // What a whole job takes, of launches that are made for it.
  for (const auto& [key, sample] : std::map(p.samples)) {
    if (key.bench != "everybody" || key.metric != "time_us") continue;
    CaseKey whole = key;
    whole.metric = "wall_s";
    p.samples[whole] = {.value = record.wall_s, .line_us = p.line_us};
  }
  return p;
}

Judged judge(const std::vector<LaunchRecord>& records, const RawLimits& raw) {
  Judged result;
  std::vector<LaunchSamples> launches;
  for (const LaunchRecord& r : records) {
    ++result.launches;
    LaunchSamples p = samples_of(r);
    // "several": on several machines the first two ranks' line says nothing of the job.
    if (p.placement != "near" && p.placement != "far" && p.placement != "several") {
      ++result.mixed;
      continue;
    }
    launches.push_back(std::move(p));
  }
  std::map<std::tuple<CaseKey, std::string, std::string>, LaunchSeries> series;
  for (const LaunchSamples& z : launches) {
    if (!z.record->zerohop || z.record->setting == kHeapOffSetting) continue;
    for (const auto& [key, sample] : z.samples) {
      LaunchSeries& s = series[{key, z.placement, z.record->host}];
      s.machines = machines_text(z.record->document);
      s.zerohop.push_back(sample.value);
      s.lines.push_back(sample.line_us);
      if (sample.to_own_host && is_time(key.metric)) s.own.push_back(*sample.to_own_host);
      if (sample.noise && is_time(key.metric)) s.noise.push_back(*sample.noise);
      for (const LaunchSamples& p : launches) {
        const LaunchRecord& r = *p.record;
        if (r.round != z.record->round || r.group != z.record->group || p.placement != z.placement) continue;
        const auto it = p.samples.find(key);
        if (it == p.samples.end()) continue;
        if (r.setting == kHeapOffSetting && r.host == z.record->host && it->second.value > 0) {
          s.heap_off.push_back(sample.value / it->second.value);
        }
        if (r.zerohop) continue;
        s.peer[r.host].push_back(it->second.value);
        if (it->second.value > 0) s.peer_ratio[r.host].push_back(sample.value / it->second.value);
      }
    }
  }
  for (const auto& [id, s] : series) {
    Row row;
    std::tie(row.key, row.placement, row.host) = id;
    finish(&row, s, raw);
    result.rows.push_back(std::move(row));
  }
  return result;
}

}  // namespace zh::tools
