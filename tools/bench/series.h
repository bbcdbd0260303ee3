// Series of times by size: what launches of one kind took, as medians of their blocks. Used by the benchmarks that
// set several ways of zerohop beside each other (`bench algorithms`, `bench figure`); knows nothing of what differs.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "tools/bench/stats.h"

namespace zh::tools {

/// One way at one size: a value for each launch.
struct SeriesCell {
  std::vector<double> us;          ///< mean over the ranks; of zerohop's arm where there is one
  std::vector<double> slowest_us;  ///< of the slowest rank
  std::vector<double> to_host;     ///< by the host's arms of the same launch

  /// A case of a launch's document, whose arms are the host alone or kPairedArms. False: it is neither.
  bool add(const nlohmann::json& one_case);
  [[nodiscard]] double time() const { return median(us); }
  [[nodiscard]] double ratio() const { return median(to_host); }
};

}  // namespace zh::tools
