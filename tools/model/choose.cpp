// See choose.h.
#include "tools/model/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "coll/algorithms/algorithms.h"
#include "coll/algorithms/precedence.h"
#include "tools/model/case.h"

namespace zh::tools {
namespace {

/// Sums of the same terms in another order differ in their last bits.
constexpr double kAhead = 1 - 1e-9;

Takeover fastest(std::span<const std::string_view> algorithms, uint64_t bytes, const TimeOf& time_of) {
  Takeover best{bytes, algorithms[0], time_of(algorithms[0], bytes)};
  for (const std::string_view algorithm : algorithms.subspan(1)) {
    const double us = time_of(algorithm, bytes);
    if (us < best.us * kAhead) best = {bytes, algorithm, us};
  }
  return best;
}

/// The least size above `below` from which on `later` is ahead, given that it is at later.from_bytes.
Takeover narrowed(Takeover later, uint64_t below, std::string_view earlier, const TimeOf& time_of) {
  constexpr uint64_t kStep = 8;
  while (later.from_bytes - below > std::max(kStep, below / 50)) {
    const uint64_t middle = (below + later.from_bytes) / 2 / kStep * kStep;
    if (middle <= below) break;
    const double us = time_of(later.algorithm, middle);
    if (us < time_of(earlier, middle) * kAhead) {
      later = {middle, later.algorithm, us};
    } else {
      below = middle;
    }
  }
  return later;
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return text;
}

}  // namespace

std::vector<Takeover> takeovers(std::span<const std::string_view> algorithms, uint64_t first, uint64_t last,
                                const TimeOf& time_of) {
  std::vector<Takeover> out;
  if (algorithms.empty()) return out;
  for (uint64_t bytes = first; bytes <= last; bytes *= 2) {
    const Takeover best = fastest(algorithms, bytes, time_of);
    if (out.empty()) {
      out.push_back(best);
    } else if (best.algorithm != out.back().algorithm) {
      out.push_back(narrowed(best, bytes / 2, out.back().algorithm, time_of));
    }
  }
  return out;
}

Crossing crossing_of(ModelCase c, const model::Parameters& parameters, const ChunkOf& chunk_of) {
  Crossing out{c.collective, {}, {}};
  std::vector<std::string_view> algorithms;
  const uint64_t last = c.collective == coll::Collective::kBarrier ? kComparedFrom : kComparedTo;
  const auto schedules_at = [&](std::string_view algorithm, uint64_t bytes, std::string* problem) {
    c.algorithm = algorithm;
    c.bytes = bytes;
    c.chunk = chunk_of(bytes);
    return schedules_of(c, kManyWalks, problem);
  };
  for (const coll::Algorithm& algorithm : coll::algorithms(c.collective)) {
    std::string problem;
    (void)schedules_at(algorithm.name, last, &problem);
    if (problem.empty()) algorithms.push_back(algorithm.name);
    if (!problem.empty()) out.left_out[algorithm.name] = problem;
  }
  std::map<std::pair<std::string_view, uint64_t>, double> known;
  out.takeovers = takeovers(algorithms, kComparedFrom, last, [&](std::string_view algorithm, uint64_t bytes) {
    const auto [it, is_new] = known.try_emplace({algorithm, bytes}, 0.0);
    if (!is_new) return it->second;
    std::string problem;
    const std::vector<coll::Schedule> schedules = schedules_at(algorithm, bytes, &problem);
    // Smaller chunks may have too many steps where the largest vector's have not.
    it->second = problem.empty() ? walk_us(c, schedules, kComparisonModel, parameters) : HUGE_VAL;
    return it->second;
  });
  std::erase_if(out.takeovers, [](const Takeover& t) { return !std::isfinite(t.us); });
  return out;
}

Predicted predicted_table(coll::Collective collective, const model::Cluster& cluster, const coll::Tiles& tiles,
                          const model::Parameters& parameters) {
  ModelCase c;
  c.collective = collective;
  c.cluster = cluster;
  c.blocks = cluster.nodes > 1;  // there schedules serve blocking calls alone
  const bool known = tiles != coll::Tiles{};
  const auto chunk_of = [&](uint64_t bytes) {
    return coll::unasked_chunk(known ? tiles.chunk_of(bytes) : kUsualChunkBytes, bytes);
  };
  const auto is_tiled = [&](std::string_view algorithm) {
    return known && coll::algorithm(collective, algorithm)->cuts(problem_of(c));
  };
  const auto us_at = [&](std::string_view algorithm, uint64_t bytes) {
    c.algorithm = algorithm;
    c.bytes = bytes;
    c.chunk = chunk_of(bytes);
    std::string problem;
    const std::vector<coll::Schedule> schedules = schedules_of(c, kManyWalks, &problem);
    return std::pair(walk_us(c, schedules, kComparisonModel, parameters), beyond_tables(c, schedules, parameters));
  };
  Crossing crossing = crossing_of(c, parameters, chunk_of);
  Predicted out{{}, std::move(crossing.left_out)};
  for (size_t i = 0; i < crossing.takeovers.size(); ++i) {
    const Takeover& t = crossing.takeovers[i];
    const uint64_t end = i + 1 < crossing.takeovers.size() ? crossing.takeovers[i + 1].from_bytes : UINT64_MAX;
    const bool tiled = is_tiled(t.algorithm);
    std::vector<uint64_t> sizes = {t.from_bytes};
    for (const uint64_t tile : {tiles.small, tiles.large}) {
      if (tiled && tile > t.from_bytes && tile < end) sizes.push_back(tile);
    }
    for (const uint64_t bytes : sizes) {
      coll::Selection::Entry entry{};
      entry.collective = collective;
      entry.ranks = cluster.ranks;
      entry.several_nodes = cluster.nodes > 1;
      entry.from_bytes = out.entries.empty() ? 0 : bytes;
      entry.algorithm = coll::algorithm(collective, t.algorithm);
      if (tiled) entry.chunk_bytes = chunk_of(bytes);
      const auto [us, beyond] = us_at(t.algorithm, bytes);
      out.entries.push_back({entry, us, beyond});
    }
  }
  return out;
}

std::string predicted_heading(const model::Parameters& parameters, const std::string& file, const std::string& day) {
  return "# Algorithms of collectives, predicted by `zerohop tune --model --save`. Nothing of it was measured.\n" +
         one_line(fmt::format("# {}, walks of {}, profile {} ({}): {}", day, name_of(kComparisonModel), parameters.name,
                              file, parameters.about)) +
         "\n";
}

}  // namespace zh::tools
