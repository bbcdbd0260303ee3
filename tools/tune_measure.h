// `zerohop tune --json`: measures what messages cost here and writes it as a profile for `zerohop model`.
#pragma once

#include <string>

#include "bench_hosts.h"

namespace zh::tools {

struct MeasureOptions {
  HostOptions hosts;
  std::string json_path;
  std::string base = "gigabit-like";  ///< profile whose costs between nodes are taken over: one machine has none
  bool pretend_nodes = false;         ///< measure between nodes that ZEROHOP_NODE_RANKS makes of the machine, too
  int rounds = 8;
};

/// The command's exit code: 0 with a profile written, 1 where the machine gave none that can be kept, 2 where it could
/// not be measured.
int measure_profile(const MeasureOptions& options);

}  // namespace zh::tools
