// See model_choose.h.
#include "model_choose.h"

#include <fmt/format.h>

#include <algorithm>

#include "coll/algorithms/algorithms.h"
#include "model_case.h"
#include "model_crossing.h"

namespace zh::tools {
namespace {

/// Whether the algorithm's steps depend on the chunk, told by the largest vector that is compared.
bool cuts(ModelCase c, uint64_t chunk) {
  c.bytes = kComparedTo;
  const auto steps = [&c](uint64_t bytes) {
    c.chunk = bytes;
    std::string problem;
    size_t n = 0;
    for (const coll::Schedule& s : schedules_of(c, kManyWalks, &problem)) n += s.steps.size();
    return n;
  };
  return chunk > 0 && steps(chunk) != steps(0);
}

double us_at(ModelCase c, uint64_t bytes, uint64_t chunk, const model::Parameters& parameters) {
  c.bytes = bytes;
  c.chunk = chunk;
  std::string problem;
  return walk_us(c, schedules_of(c, kManyWalks, &problem), kComparisonModel, parameters);
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return text;
}

}  // namespace

Predicted predicted_table(coll::Collective collective, const model::Cluster& cluster, const coll::Tiles& tiles,
                          const model::Parameters& parameters) {
  ModelCase c;
  c.collective = collective;
  c.cluster = cluster;
  c.team = cluster.nodes > 1;  // there schedules serve blocking calls alone
  const bool known = tiles != coll::Tiles{};
  const auto chunk_of = [&](uint64_t bytes) { return known ? tiles.chunk_of(bytes) : kUsualChunkBytes; };
  Crossing crossing = crossing_of(c, parameters, chunk_of);
  Predicted out{{}, std::move(crossing.left_out)};
  for (size_t i = 0; i < crossing.takeovers.size(); ++i) {
    const Takeover& t = crossing.takeovers[i];
    const uint64_t end = i + 1 < crossing.takeovers.size() ? crossing.takeovers[i + 1].from_bytes : UINT64_MAX;
    c.algorithm = t.algorithm;
    coll::Selection::Entry entry{};
    entry.collective = collective;
    entry.ranks = cluster.ranks;
    entry.several_nodes = cluster.nodes > 1;
    entry.from_bytes = i == 0 ? 0 : t.from_bytes;
    entry.algorithm = coll::algorithm(collective, t.algorithm);
    const bool tiled = known && collective != coll::Collective::kBarrier && cuts(c, tiles.chunk_of(kComparedTo));
    if (tiled) entry.chunk_bytes = chunk_of(t.from_bytes);
    out.entries.push_back({entry, t.us});
    for (const uint64_t tile : {tiles.small, tiles.large}) {
      if (!tiled || tile <= t.from_bytes || tile >= end) continue;
      entry.from_bytes = tile;
      entry.chunk_bytes = chunk_of(tile);
      out.entries.push_back({entry, us_at(c, tile, *entry.chunk_bytes, parameters)});
    }
  }
  return out;
}

std::string predicted_heading(const model::Parameters& parameters, const std::string& file, const std::string& day) {
  return "# Algorithms of collectives, predicted by `zerohop model choose --save`. Nothing of it was measured.\n" +
         one_line(fmt::format("# {}, walks of {}, profile {} ({}): {}", day, name_of(kComparisonModel), parameters.name,
                              file, parameters.about)) +
         "\n";
}

}  // namespace zh::tools
