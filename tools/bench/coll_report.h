// The table of `zerohop bench coll` and its summary by collective. Called at the end of the rounds with what the judge
// made of them; starts nothing.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/bench/judge.h"

namespace zh::tools {

/// Zerohop's calls timed in one block, the least of all launches, by host and case.
using Repetitions = std::map<std::pair<std::string, CaseKey>, int>;
Repetitions repetitions_of(const std::vector<LaunchRecord>& records);

/// Geometric mean of the median ratios of those sizes that have one.
struct MeanRatio {
  double mean = 0;  ///< 0 of no size
  int sizes = 0;
};

/// One collective over all its sizes.
struct CollSummary {
  CaseKey key;  ///< size 0
  std::string placement;
  std::string host;
  int sizes = 0;
  MeanRatio to_best_peer;  ///< at each size its own best peer
  MeanRatio to_own_host;
};
std::vector<CollSummary> summaries_of(const Judged& judged);

/// Whether its mean lies above what the project wants it to be; false where some size lacks a ratio.
bool misses_goal(const CollSummary& summary);

/// One block of lines per collective, then the summary, `with_goals` beside each what it should be.
std::string coll_table_of(const Judged& judged, const Repetitions& repetitions, bool with_goals);
nlohmann::json json_of(const std::vector<CollSummary>& summaries);

}  // namespace zh::tools
