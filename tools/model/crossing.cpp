// See crossing.h.
#include "tools/model/crossing.h"

#include <cmath>
#include <utility>

#include "coll/algorithms/algorithms.h"

namespace zh::tools {

Crossing crossing_of(ModelCase c, const model::Parameters& parameters, const ChunkOf& chunk_of, bool with_domains) {
  Crossing out{c.collective, {}, {}};
  std::vector<std::string_view> algorithms;
  const bool divides = with_domains && divides_node(c, parameters);
  const uint64_t last = c.collective == coll::Collective::kBarrier ? kComparedFrom : kComparedTo;
  // Leaders take vectors whole where nobody has measured chunks.
  const auto chunk_for = [&](uint64_t bytes) { return c.algorithm == coll::kHostLeaders ? 0 : chunk_of(bytes); };
  for (const coll::Algorithm& algorithm : coll::algorithms(c.collective)) {
    if (algorithm.by_domains && !divides) continue;
    c.algorithm = algorithm.name;
    c.bytes = last;
    c.chunk = chunk_for(last);
    std::string problem;
    (void)schedules_of(c, kManyWalks, &problem);
    if (problem.empty()) algorithms.push_back(algorithm.name);
    if (!problem.empty()) out.left_out[algorithm.name] = problem;
  }
  std::map<std::pair<std::string_view, uint64_t>, double> known;
  out.takeovers = takeovers(algorithms, kComparedFrom, last, [&](std::string_view algorithm, uint64_t bytes) {
    const auto [it, is_new] = known.try_emplace({algorithm, bytes}, 0.0);
    if (!is_new) return it->second;
    c.algorithm = algorithm;
    c.bytes = bytes;
    c.chunk = chunk_for(bytes);
    std::string problem;
    const auto schedules = schedules_of(c, kManyWalks, &problem);
    // Smaller chunks may have too many steps where the largest vector's have not.
    it->second = problem.empty() ? walk_us(c, schedules, kComparisonModel, parameters) : HUGE_VAL;
    return it->second;
  });
  std::erase_if(out.takeovers, [](const Takeover& t) { return !std::isfinite(t.us); });
  return out;
}

}  // namespace zh::tools
