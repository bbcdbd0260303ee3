// See choose.h.
#include "tools/model/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "tools/model/case.h"
#include "tools/model/crossing.h"

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

/// The algorithm that is ahead at a size.
std::string_view fastest_at(const Crossing& crossing, uint64_t bytes) {
  std::string_view algorithm = crossing.takeovers.front().algorithm;
  for (const Takeover& t : crossing.takeovers) {
    if (t.from_bytes <= bytes) algorithm = t.algorithm;
  }
  return algorithm;
}

/// Makes the lines of one table.
class ChoiceTable {
 public:
  ChoiceTable(ModelCase c, const coll::Tiles& tiles, const model::Parameters& parameters)
      : c_(std::move(c)), tiles_(tiles), known_(tiles != coll::Tiles{}), parameters_(parameters) {}

  [[nodiscard]] uint64_t chunk_of(uint64_t bytes) const { return known_ ? tiles_.chunk_of(bytes) : kUsualChunkBytes; }
  [[nodiscard]] bool by_domains(std::string_view algorithm) const {
    return coll::algorithm(c_.collective, algorithm)->by_domains;
  }
  /// Whether the algorithm passes vectors on in tiles. Leaders of nodes do not: the model does not know the host.
  [[nodiscard]] bool tiled(std::string_view algorithm) {
    c_.algorithm = algorithm;
    return known_ && algorithm != coll::kHostLeaders && c_.collective != coll::Collective::kBarrier &&
           cuts(c_, tiles_.chunk_of(kComparedTo));
  }
  /// The line of an algorithm from `bytes` on; `first`: from 0 on.
  [[nodiscard]] PredictedEntry line(std::string_view algorithm, uint64_t bytes, bool first) {
    coll::Selection::Entry entry{};
    entry.collective = c_.collective;
    entry.ranks = c_.cluster.ranks;
    entry.several_nodes = c_.cluster.nodes > 1;
    entry.from_bytes = first ? 0 : bytes;
    entry.algorithm = coll::algorithm(c_.collective, algorithm);
    if (tiled(algorithm)) entry.chunk_bytes = chunk_of(bytes);
    const uint64_t chunk = algorithm == coll::kHostLeaders ? 0 : chunk_of(bytes);
    return {entry, us_at(c_, bytes, chunk, parameters_)};
  }

 private:
  ModelCase c_;
  const coll::Tiles& tiles_;
  bool known_;
  const model::Parameters& parameters_;
};

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
  ChoiceTable table(c, tiles, parameters);
  const auto chunk_of = [&table](uint64_t bytes) { return table.chunk_of(bytes); };
  const auto by_domains = [&table](const Takeover& t) { return table.by_domains(t.algorithm); };
  Crossing crossing = crossing_of(c, parameters, chunk_of);
  Crossing flat;
  if (std::ranges::any_of(crossing.takeovers, by_domains)) flat = crossing_of(c, parameters, chunk_of, false);
  Predicted out{{}, std::move(crossing.left_out)};
  for (size_t i = 0; i < crossing.takeovers.size(); ++i) {
    const Takeover& t = crossing.takeovers[i];
    const uint64_t end = i + 1 < crossing.takeovers.size() ? crossing.takeovers[i + 1].from_bytes : UINT64_MAX;
    std::vector<uint64_t> sizes = {t.from_bytes};
    const bool splits = by_domains(t) || table.tiled(t.algorithm);
    for (const uint64_t tile : {tiles.small, tiles.large}) {
      if (splits && tile > t.from_bytes && tile < end) sizes.push_back(tile);
    }
    for (const uint64_t bytes : sizes) {
      const bool first = i == 0 && bytes == t.from_bytes;
      out.entries.push_back(table.line(t.algorithm, bytes, first));
      // Jobs whose ranks are not bound obey the table as well: at the same sizes it says who is fastest for them.
      if (by_domains(t)) out.entries.push_back(table.line(fastest_at(flat, bytes), bytes, first));
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
