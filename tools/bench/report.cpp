// See report.h.
#include "tools/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/options.h"
#include "tools/cli/text.h"

namespace zh::tools {
namespace {

std::vector<std::string> peer_names(const Judged& judged) {
  std::set<std::string> names;
  for (const Row& r : judged.rows)
    for (const auto& [name, ignored] : r.peers) names.insert(name);
  return {names.begin(), names.end()};
}

/// Rows below one heading.
/// The variant of a collective is its form.
std::string form_of(const CaseKey& k) {
  const bool is_form = k.variant.starts_with("nonblocking") || k.variant.starts_with("persistent");
  return is_form ? " " + k.variant : "";
}
auto heading_key(const Row& r) {
  return std::make_tuple(r.key.bench, form_of(r.key), r.key.buffers, r.key.ranks, r.placement, r.host);
}

}  // namespace

std::string case_text(const CaseKey& k) {
  std::string t = format_size(k.size);
  if (k.bench == "matmul") t = fmt::format("{0:g} x {0:g}", k.param);
  if (k.bench == "queues" || k.bench == "first") t += fmt::format(" {} {:g}", k.variant, k.param);
  if (k.bench == "skew") t += fmt::format(" {}", k.variant);
  if (k.bench == "skew" && k.metric == "c3_us") t += fmt::format(" c2={:g}", k.param);
  const bool strided = k.bench == "strided" || k.bench.ends_with("_bcast");
  if (strided && k.param > 0) t += fmt::format("{:g}S", k.param);  // "4K8S", as the paper has it
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
  const bool resolved =
      std::ranges::any_of(judged.rows, [](const Row& r) { return r.to_own_host.valid || r.to_best_peer.valid; });
  return fmt::format(
      "\n{} launches, {} left out (placement changed during them)\n"
      "Times in µs: {}.\nnear: the first two ranks share a core's caches, far: they do not; raw: without MPI.\n"
      "Intervals hold the median ratio with 95 %; [?]: too few rounds.\n{}",
      judged.launches, judged.mixed, times,
      resolved || judged.rows.empty()
          ? ""
          : "No ratio is resolved: that takes 6 launches of each side at one placement, near "
            "or far. Give it more --rounds, or `zerohop python by_placement --minutes "
            "20`, on a machine that nothing else uses.\n");
}

std::string table_of(const Judged& judged, bool rate) {
  const std::vector<std::string> peers = peer_names(judged);
  const bool with_raw = std::any_of(judged.rows.begin(), judged.rows.end(), [](const Row& r) { return r.raw_us; });
  // Rows come by case; with several hosts or numbers of ranks the next row would be below another heading.
  std::vector<const Row*> rows;
  for (const Row& r : judged.rows) rows.push_back(&r);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row* a, const Row* b) { return heading_key(*a) < heading_key(*b); });
  std::vector<std::string> heads = {"size"};
  if (with_raw) heads.emplace_back("raw");
  heads.insert(heads.end(), peers.begin(), peers.end());
  heads.insert(heads.end(), {"zerohop", "/ best peer (95 %)", "/ own host (95 %)", "host / host"});
  if (rate) heads.emplace_back("MB/s");
  std::string out;
  for (size_t i = 0; i < rows.size();) {
    const Row& first = *rows[i];
    out += fmt::format("\n{}{} · {} · raw line {} µs\n", first.key.bench, form_of(first.key), launches_text(first),
                       number_text(first.line_us));
    Table table(heads);
    for (; i < rows.size() && heading_key(*rows[i]) == heading_key(first); ++i) {
      const Row& r = *rows[i];
      std::vector<std::string> cells = {case_text(r.key)};
      if (with_raw) cells.push_back(r.raw_us ? number_text(*r.raw_us) : "-");
      for (const std::string& p : peers) {
        const auto it = r.peers.find(p);
        cells.push_back(it == r.peers.end() ? "-" : number_text(it->second.mid) + (p == r.best_peer ? "*" : " "));
      }
      cells.insert(cells.end(), {number_text(r.zerohop.mid), interval_text(r.to_best_peer),
                                 interval_text(r.to_own_host), interval_text(r.noise)});
      const bool timed = rate && r.key.metric == "time_us" && r.key.size > 0 && r.zerohop.mid > 0;
      if (timed) cells.push_back(fmt::format("{:.0f}", static_cast<double>(r.key.size) / r.zerohop.mid));
      table.add(std::move(cells));
    }
    out += table.text();
  }
  return out;
}

nlohmann::json json_of(const Judged& judged) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& r : judged.rows) {
    nlohmann::json peers = nlohmann::json::object();
    for (const auto& [name, value] : r.peers) peers[name] = interval_json(value);
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
    row["to_heap_off"] = interval_json(r.to_heap_off);
    if (r.raw_us) row["raw_us"] = *r.raw_us;
    rows.push_back(std::move(row));
  }
  return {{"schema", "zerohop-bench-judged/1"},
          {"launches", judged.launches},
          {"mixed", judged.mixed},
          {"rows", std::move(rows)}};
}

}  // namespace zh::tools
