// See compare.h.
#include "tools/model/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

#include "base/options.h"
#include "coll/algorithms/algorithms.h"
#include "model/closed_forms.h"
#include "tools/bench/algorithms.h"

namespace zh::tools {
namespace {

using nlohmann::json;

Interval interval_of(const json& j) {
  Interval out;
  if (!j.is_object()) return out;
  out.mid = j.value("median", 0.0);
  out.low = j.value("low", 0.0);
  out.high = j.value("high", 0.0);
  out.count = j.value("count", 0);
  out.valid = j.value("valid", false);
  return out;
}

/// One row; nothing where it has no algorithm, or no time.
std::optional<MeasuredCase> row_case(const json& row) {
  MeasuredCase m;
  ModelCase& c = m.what;
  c.collective = coll::collective_named(row.value("collective", ""));
  const auto setting = row.value("algorithm", std::string());  // "ring", or "ring/4K" in pieces of 4 KiB
  c.algorithm = setting.substr(0, setting.find('/'));
  c.chunk = row.value("chunk_bytes", uint64_t{0});
  c.bytes = row.value("bytes", uint64_t{0});
  c.cluster.ranks = row.value("ranks", 0u);
  c.stride = row.value("stride", uint64_t{0});
  const auto node_ranks = row.value("node_ranks", 0u);
  if (node_ranks != 0 && c.cluster.ranks % node_ranks != 0) return std::nullopt;
  c.cluster.nodes = node_ranks == 0 ? row.value("machines", 1u) : c.cluster.ranks / node_ranks;
  c.cluster.cyclic = row.value("in_turn", false);
  m.us = interval_of(row.value("slowest_us", json()));
  m.to_host = interval_of(row.value("to_host_interval", json()));
  if (m.to_host.count == 0) m.to_host.mid = m.to_host.low = m.to_host.high = row.value("to_host", 0.0);
  const bool known = c.collective != coll::Collective::kCount &&
                     (c.algorithm == kOwnChoice || coll::algorithm(c.collective, c.algorithm) != nullptr);
  if (!known || c.cluster.ranks == 0 || c.cluster.nodes == 0 || m.us.mid <= 0) return std::nullopt;
  return fault_of(c).empty() ? std::optional(m) : std::nullopt;
}

auto summary_key(const ModelCase& c, bool walk) {
  return std::make_tuple(c.collective, c.algorithm, c.chunk, c.stride != 0, c.cluster.ranks, c.cluster.nodes,
                         c.cluster.cyclic, walk);
}

}  // namespace

std::optional<std::vector<MeasuredCase>> measured_cases(const json& document, std::string* problem) {
  if (!document.is_object() || document.value("schema", "") != kAlgorithmsSchema) {
    *problem = "it is no result of `zerohop bench algorithms --json`";
    return std::nullopt;
  }
  std::vector<MeasuredCase> cases;
  bool older = false;
  try {
    for (const json& row : document.at("rows")) {
      older |= !row.contains("slowest_us");
      if (const auto m = row_case(row)) cases.push_back(*m);
    }
  } catch (const json::exception& e) {
    *problem = fmt::format("its rows are not as that command writes them ({})", e.what());
    return std::nullopt;
  }
  if (std::ranges::any_of(cases, [](const auto& m) { return m.what.algorithm != kOwnChoice; })) return cases;
  *problem = older ? "its rows have no \"slowest_us\": measure again with this zerohop"
                   : "none of its rows is an algorithm that this zerohop has, with ranks that go into nodes alike";
  return std::nullopt;
}

model::Cluster measured_cluster(const model::Cluster& cluster, const model::Parameters& parameters) {
  model::Cluster out = on_nodes_of(parameters, cluster);
  if (out.processors_per_node > 0) out.processors_per_node = std::max(1U, out.processors_per_node / cluster.nodes);
  return out;
}

Comparison compare(const MeasuredCase& measured, const model::Parameters& parameters) {
  Comparison out;
  out.measured = measured;
  ModelCase& c = out.measured.what;
  c.cluster = measured_cluster(c.cluster, parameters);
  const std::vector<coll::Schedule> schedules = schedules_of(c, kOneWalk, &out.no_walk);
  const model::MessageShape shape{static_cast<double>(c.bytes), c.stride};
  for (size_t i = 0; i < model::kAllModels.size(); ++i) {
    const model::Model m = model::kAllModels[i];
    if (out.no_walk.empty()) out.walk[i] = walk_us(c, schedules, m, parameters);
    if (c.collective != coll::Collective::kBcast) continue;
    const auto form = closed_form(m, parameters, {c.algorithm, c.cluster, c.root, shape, c.chunk});
    if (form) out.form[i] = form->us;
  }
  return out;
}

bool any(const ByModel& values) {
  return std::any_of(values.begin(), values.end(), [](const auto& value) { return value.has_value(); });
}

double relative_error(double predicted_us, double measured_us) { return predicted_us / measured_us - 1; }

std::vector<ErrorSummary> summaries(const std::vector<Comparison>& comparisons) {
  std::vector<ErrorSummary> out;
  const auto add = [&](const Comparison& c, bool walk, const ByModel& predicted) {
    const ModelCase& what = c.measured.what;
    auto it = std::find_if(out.begin(), out.end(), [&](const ErrorSummary& s) {
      return summary_key(s.what, s.walk) == summary_key(what, walk);
    });
    if (it == out.end()) {
      it = out.insert(out.end(), ErrorSummary());
      it->what = what;
      it->walk = walk;
    }
    ++it->points;
    it->spread += (c.measured.us.high - c.measured.us.low) / 2 / c.measured.us.mid;
    for (size_t i = 0; i < predicted.size(); ++i) {
      if (!predicted[i]) continue;
      const double error = std::abs(relative_error(*predicted[i], c.measured.us.mid));
      it->mean[i] = it->mean[i].value_or(0) + error;
      it->greatest[i] = std::max(it->greatest[i].value_or(0), error);
    }
  };
  for (const Comparison& c : comparisons) {
    if (any(c.form)) add(c, false, c.form);
    if (any(c.walk)) add(c, true, c.walk);
  }
  for (ErrorSummary& s : out) {
    s.spread /= s.points;
    for (std::optional<double>& mean : s.mean) {
      if (mean) *mean /= s.points;
    }
  }
  return out;
}

}  // namespace zh::tools
