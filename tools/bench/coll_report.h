// The table of `zerohop bench coll` and its summary by collective. Called at the end of the rounds with what the judge
// made of them; starts nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/bench/judge.h"

namespace zh::tools {

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

/// Times and ratios of each collective, then the summary and the sizes at which zerohop is slower.
std::string coll_table_of(const Judged& judged);
nlohmann::json json_of(const std::vector<CollSummary>& summaries);

}  // namespace zh::tools
