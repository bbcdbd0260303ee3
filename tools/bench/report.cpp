// See report.h.
#include "tools/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/options.h"

namespace zh::tools {
namespace {

void pad(std::string* line, const std::string& cell, size_t width) {
  *line += cell;
  line->append(cell.size() < width ? width - cell.size() : 1, ' ');
}

std::vector<std::string> peer_names(const Judged& judged) {
  std::set<std::string> names;
  for (const Row& r : judged.rows)
    for (const auto& [name, ignored] : r.peers) names.insert(name);
  return {names.begin(), names.end()};
}

size_t case_width(const Judged& judged) {
  size_t w = 6;
  for (const Row& r : judged.rows) w = std::max(w, case_text(r.key).size() + 2);
  return w;
}

/// Rows below one heading.
auto heading_key(const Row& r) { return std::tie(r.key.bench, r.key.buffers, r.key.ranks, r.placement, r.host); }

std::string judgement_text(const Judgement& j) {
  const char* sign = j.limit->compare == Compare::kValueAtLeast ? ">=" : "<=";
  return fmt::format("    {:<13} {} {} {:.3g}: {}  ({})\n", name_of(j.verdict), name_of(j.limit->compare), sign,
                     j.bound, interval_text(j.value), j.limit->text);
}

}  // namespace

std::string case_text(const CaseKey& k) {
  std::string t = format_size(k.size);
  if (k.bench == "matmul") t = fmt::format("{0:g} x {0:g}", k.param);
  if (k.bench == "queues" || k.bench == "first") t += fmt::format(" {} {:g}", k.variant, k.param);
  if (k.bench == "skew") t += fmt::format(" {}", k.variant);
  if (k.bench == "skew" && k.metric == "c3_us") t += fmt::format(" c2={:g}", k.param);
  if (k.bench == "strided" && k.param > 0) t += fmt::format("{:g}S", k.param);  // "4K8S", as the paper has it
  if (k.bench == "overlap" || k.bench == "breakdown") t += " " + k.variant;
  if (k.metric != "time_us") t += " " + k.metric;
  return t;
}

nlohmann::json interval_json(const Interval& i) {
  if (i.count == 0) return nullptr;
  return {{"median", i.mid},        {"low", i.low},     {"high", i.high},
          {"coverage", i.coverage}, {"count", i.count}, {"valid", i.valid}};
}

std::string number_text(double v) {
  if (v == 0) return "0";
  if (v >= 1000) return fmt::format("{:.0f}", v);
  if (v >= 100) return fmt::format("{:.1f}", v);
  return v >= 10 ? fmt::format("{:.2f}", v) : fmt::format("{:.3f}", v);
}

std::string interval_text(const Interval& i) {
  if (i.count == 0) return "-";
  return i.valid ? fmt::format("{} [{}, {}]", number_text(i.mid), number_text(i.low), number_text(i.high))
                 : fmt::format("{} [?]", number_text(i.mid));
}

std::string launches_text(const Row& row) {
  return fmt::format("{} · {} ranks{} · {} · zerohop under {} · {} rounds", row.key.buffers, row.key.ranks,
                     row.machines.empty() ? "" : " on " + row.machines, row.placement, row.host, row.rounds);
}

std::string closing_of(const Judged& judged, const std::string& times) {
  return fmt::format(
      "\n{} launches, {} left out (placement changed during them)\n"
      "Times in µs: {}.\nIntervals hold the median ratio with 95 %; [?]: too few rounds.\n",
      judged.launches, judged.mixed, times);
}

std::string table_of(const Judged& judged, TableParts parts) {
  const std::vector<std::string> peers = peer_names(judged);
  const size_t width = case_width(judged);
  const bool with_raw = std::any_of(judged.rows.begin(), judged.rows.end(), [](const Row& r) { return r.raw_us; });
  // Rows come by case; with several hosts or numbers of ranks the next row would be below another heading.
  std::vector<const Row*> rows;
  for (const Row& r : judged.rows) rows.push_back(&r);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row* a, const Row* b) { return heading_key(*a) < heading_key(*b); });
  std::string out;
  const Row* before = nullptr;
  int counts[3] = {0, 0, 0};
  for (const Row* row : rows) {
    const Row& r = *row;
    if (before == nullptr || heading_key(*before) != heading_key(r)) {
      out += fmt::format("\n{} · {} · raw line {} µs\n", r.key.bench, launches_text(r), number_text(r.line_us));
      std::string line;
      pad(&line, "size", width);
      if (with_raw) pad(&line, "raw", 10);
      for (const std::string& p : peers) pad(&line, p, 11);
      pad(&line, "zerohop", 11);
      pad(&line, "/ best peer (95 %)", 27);
      pad(&line, "/ own host (95 %)", 27);
      pad(&line, "host / host", 27);
      if (parts.rate) line += "MB/s";
      out += line + "\n";
    }
    before = row;
    std::string line;
    pad(&line, case_text(r.key), width);
    if (with_raw) pad(&line, r.raw_us ? number_text(*r.raw_us) : "-", 10);
    for (const std::string& p : peers) {
      const auto it = r.peers.find(p);
      const std::string mark = p == r.best_peer ? "*" : "";
      pad(&line, it == r.peers.end() ? "-" : number_text(it->second.mid) + mark, 11);
    }
    pad(&line, number_text(r.zerohop.mid), 11);
    pad(&line, interval_text(r.to_best_peer), 27);
    pad(&line, interval_text(r.to_own_host), 27);
    pad(&line, interval_text(r.noise), 27);
    if (parts.rate && r.key.metric == "time_us" && r.zerohop.mid > 0)
      line += fmt::format("{:.0f}", static_cast<double>(r.key.size) / r.zerohop.mid);
    out += line + "\n";
    if (!parts.limits) continue;
    for (const Judgement& j : r.judgements) {
      out += judgement_text(j);
      ++counts[static_cast<int>(j.verdict)];
    }
  }
  if (counts[0] + counts[1] + counts[2] > 0)
    out += fmt::format("\nlimits: {} met, {} missed, {} not resolved\n", counts[0], counts[1], counts[2]);
  return out;
}

nlohmann::json json_of(const Judged& judged) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& r : judged.rows) {
    nlohmann::json peers = nlohmann::json::object();
    for (const auto& [name, value] : r.peers) peers[name] = interval_json(value);
    nlohmann::json limits_json = nlohmann::json::array();
    for (const Judgement& j : r.judgements) {
      limits_json.push_back({{"limit", j.limit->text},
                             {"compare", name_of(j.limit->compare)},
                             {"bound", j.bound},
                             {"value", interval_json(j.value)},
                             {"verdict", name_of(j.verdict)}});
    }
    nlohmann::json row = {{"bench", r.key.bench},     {"metric", r.key.metric},   {"size", r.key.size},
                          {"buffers", r.key.buffers}, {"variant", r.key.variant}, {"param", r.key.param},
                          {"ranks", r.key.ranks},     {"placement", r.placement}, {"host", r.host},
                          {"rounds", r.rounds},       {"line_us", r.line_us},     {"best_peer", r.best_peer}};
    row["machines"] = r.machines;
    row["peers"] = std::move(peers);
    row["zerohop"] = interval_json(r.zerohop);
    row["to_best_peer"] = interval_json(r.to_best_peer);
    row["to_own_host"] = interval_json(r.to_own_host);
    row["host_to_host"] = interval_json(r.noise);
    if (r.raw_us) row["raw_us"] = *r.raw_us;
    row["limits"] = std::move(limits_json);
    rows.push_back(std::move(row));
  }
  return {{"schema", "zerohop-bench-judged/1"},
          {"launches", judged.launches},
          {"mixed", judged.mixed},
          {"rows", std::move(rows)}};
}

std::string csv_of(const Judged& judged) {
  const std::vector<std::string> peers = peer_names(judged);
  std::string out = "bench,metric,size,buffers,variant,param,ranks,placement,host,rounds,line_us,raw_us";
  for (const std::string& p : peers) out += "," + p;
  out += ",best_peer,zerohop,ratio,ratio_low,ratio_high,own_host,own_host_low,own_host_high,host_host,verdicts\n";
  for (const Row& r : judged.rows) {
    out += fmt::format("{},{},{},{},{},{:g},{},{},{},{},{:.4g},", r.key.bench, r.key.metric, r.key.size, r.key.buffers,
                       r.key.variant, r.key.param, r.key.ranks, r.placement, r.host, r.rounds, r.line_us);
    if (r.raw_us) out += fmt::format("{:.5g}", *r.raw_us);
    for (const std::string& p : peers) {
      const auto it = r.peers.find(p);
      out += it == r.peers.end() ? "," : fmt::format(",{:.5g}", it->second.mid);
    }
    std::string verdicts;
    for (const Judgement& j : r.judgements)
      verdicts += fmt::format("{}{}<{:.3g}:{}", verdicts.empty() ? "" : ";", name_of(j.limit->compare), j.bound,
                              name_of(j.verdict));
    out += fmt::format(",{},{:.5g},{:.4g},{:.4g},{:.4g},{:.4g},{:.4g},{:.4g},{:.4g},{}\n", r.best_peer, r.zerohop.mid,
                       r.to_best_peer.mid, r.to_best_peer.low, r.to_best_peer.high, r.to_own_host.mid,
                       r.to_own_host.low, r.to_own_host.high, r.noise.mid, verdicts);
  }
  return out;
}

}  // namespace zh::tools
