// See judge.h.
#include "tools/model/judge.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "base/options.h"
#include "coll/algorithms/algorithms.h"
#include "tools/model/choose.h"

namespace zh::tools {
namespace {

using Cases = std::vector<const MeasuredCase*>;

auto cluster_key(const ModelCase& c) { return std::make_tuple(c.collective, c.cluster.ranks, c.cluster.nodes); }
auto cell_key(const ModelCase& c) { return std::tuple_cat(cluster_key(c), std::make_tuple(c.bytes)); }

std::string judged_setting(const ModelCase& c) {
  return c.chunk == kUsualChunkBytes ? c.algorithm : c.algorithm + "/" + format_size(c.chunk);
}

bool overlap(const Interval& a, const Interval& b) { return a.low <= b.high && b.low <= a.high; }

/// Whether the measurement tells their times apart: both have an interval of 95 %, and these do not overlap.
bool apart(const Interval& a, const Interval& b) { return a.valid && b.valid && !overlap(a, b); }

/// What is cut at least: a chunk that is as large as the vector cuts nothing.
uint64_t pieces_of(uint64_t chunk, uint64_t bytes) { return chunk == 0 ? bytes : std::min(chunk, bytes); }

/// Of a cell's cases the choice's algorithm with the chunk that is closest to it; null if the algorithm is not there.
const MeasuredCase* closest(const Cases& cases, const Choice& choice, uint64_t bytes) {
  const uint64_t wanted = pieces_of(choice.chunk.value_or(kUsualChunkBytes), bytes);
  const auto off = [&](const MeasuredCase* m) {
    const auto pieces = static_cast<double>(std::max<uint64_t>(pieces_of(m->what.chunk, bytes), 1));
    return std::abs(std::log(pieces / static_cast<double>(std::max<uint64_t>(wanted, 1))));
  };
  const MeasuredCase* found = nullptr;
  for (const MeasuredCase* m : cases) {
    if (m->what.algorithm == choice.algorithm && (found == nullptr || off(m) < off(found))) found = m;
  }
  return found;
}

JudgedChoice judged(const std::optional<Choice>& choice, const Cases& cases, const MeasuredCase& best) {
  JudgedChoice out;
  if (!choice) return out;
  out.choice = *choice;
  const uint64_t bytes = best.what.bytes;
  const MeasuredCase* measured = closest(cases, *choice, bytes);
  if (measured == nullptr) return out;
  out.measured_as = judged_setting(measured->what);
  out.other_chunk = choice->chunk && pieces_of(*choice->chunk, bytes) != pieces_of(measured->what.chunk, bytes);
  out.ratio = measured->us.mid / best.us.mid;
  if (out.ratio <= kNearRatio) {
    out.quality = Quality::kNearBest;
  } else {
    out.quality = apart(measured->us, best.us) ? Quality::kWorse : Quality::kNotResolved;
  }
  return out;
}

void add(const JudgedChoice& choice, ChoiceCount* count) {
  switch (choice.quality) {
    case Quality::kNearBest:
      ++count->near_best;
      break;
    case Quality::kNotResolved:
      ++count->not_resolved;
      break;
    case Quality::kWorse:
      ++count->worse;
      break;
    case Quality::kNotMeasured:
      ++count->not_measured;
      break;
  }
  count->greatest_ratio = std::max(count->greatest_ratio, choice.ratio);
}

}  // namespace

Chooser by_model(const model::Parameters& parameters, const coll::Tiles& tiles) {
  using Key = decltype(cluster_key(ModelCase()));
  auto tables = std::make_shared<std::map<Key, std::vector<PredictedEntry>>>();
  return [&parameters, tiles, tables](const ModelCase& cell) -> std::optional<Choice> {
    if (cell.cluster.ranks > kManyWalks.ranks) return std::nullopt;
    const auto [table, is_new] = tables->try_emplace(cluster_key(cell));
    if (is_new) {
      const model::Cluster cluster = measured_cluster(cell.cluster, parameters);
      table->second = predicted_table(cell.collective, cluster, tiles, parameters).entries;
    }
    std::optional<Choice> choice;
    for (const auto& [entry, us] : table->second) {
      if (entry.from_bytes <= cell.bytes) choice = Choice{std::string(entry.algorithm->name), entry.chunk_bytes};
    }
    return choice;
  };
}

std::optional<Choice> built_in(const ModelCase& cell) {
  ModelCase c = cell;
  c.chunk = kUsualChunkBytes;
  c.team = c.cluster.nodes > 1;  // the measured calls block
  const std::string_view algorithm = coll::choose(problem_of(c));
  return Choice{std::string(algorithm), algorithm == coll::kHostLeaders ? 0 : c.chunk};
}

bool JudgedCell::surely_slower_than_host() const {
  return own_to_host && judge_at_most(*own_to_host, kSlowerThanHost) == Verdict::kMissed;
}

std::vector<JudgedCell> judged_cells(const std::vector<MeasuredCase>& cases, const Chooser& model,
                                     const Chooser& standard) {
  std::vector<decltype(cell_key(ModelCase()))> order;
  std::map<decltype(cell_key(ModelCase())), Cases> named, own;
  for (const MeasuredCase& m : cases) {
    if (m.what.stride != 0) continue;  // no collective of MPI's
    Cases& of_cell = (m.what.algorithm == kOwnChoice ? own : named)[cell_key(m.what)];
    if (m.what.algorithm != kOwnChoice && of_cell.empty()) order.push_back(cell_key(m.what));
    of_cell.push_back(&m);
  }
  std::vector<JudgedCell> out;
  for (const auto& key : order) {
    const Cases& settings = named[key];
    if (settings.size() < 2) continue;
    const MeasuredCase& best = **std::ranges::min_element(settings, {}, [](const auto* m) { return m->us.mid; });
    JudgedCell& cell = out.emplace_back();
    cell.what = best.what;
    cell.what.algorithm.clear();
    cell.what.chunk = 0;
    cell.best = judged_setting(best.what);
    cell.best_us = best.us;
    cell.settings = static_cast<int>(settings.size());
    cell.told = std::ranges::all_of(settings, [&](const auto* m) { return m == &best || apart(m->us, best.us); });
    cell.model = judged(model(cell.what), settings, best);
    cell.standard = judged(standard(cell.what), settings, best);
    const Cases& by_itself = own[key];
    if (!by_itself.empty() && by_itself.front()->to_host.mid > 0) cell.own_to_host = by_itself.front()->to_host;
  }
  return out;
}

void add(const JudgedCell& cell, JudgedSum* sum) {
  if (sum->cells == 0) sum->what = cell.what;
  ++sum->cells;
  sum->told += cell.told ? 1 : 0;
  add(cell.model, &sum->model);
  add(cell.standard, &sum->standard);
  sum->slower_than_host += cell.slower_than_host() ? 1 : 0;
  sum->surely_slower_than_host += cell.surely_slower_than_host() ? 1 : 0;
}

std::vector<JudgedSum> sums_of(const std::vector<JudgedCell>& cells) {
  std::vector<JudgedSum> out;
  for (const JudgedCell& cell : cells) {
    const auto same = [&](const JudgedSum& s) { return cluster_key(s.what) == cluster_key(cell.what); };
    auto it = std::ranges::find_if(out, same);
    if (it == out.end()) it = out.insert(out.end(), JudgedSum());
    add(cell, &*it);
  }
  return out;
}

}  // namespace zh::tools
