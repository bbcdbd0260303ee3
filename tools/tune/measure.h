// `zerohop tune --json`: measures what messages cost here, at every distance, and what caches there are, and writes it
// as a profile for `zerohop model`.
#pragma once

#include <string>

#include "tools/bench/hosts.h"

namespace zh::tools {

struct MeasureOptions {
  HostOptions hosts;  ///< its machines: measure between nodes, too, that are made of namespaces
  std::string json_path;
  std::string base = "gigabit-like";  ///< profile whose costs between nodes are taken over: one machine has none
  bool pretend_nodes = false;         ///< measure between nodes that ZEROHOP_NODE_RANKS makes of the machine, too
  std::string between;                ///< ... or between nodes to which this launcher brings two ranks
  int rounds = 0;                     ///< 0: 8, or as many from 6 on as fit into 45 s
};

/// The command's exit code: 0 with a profile written, 1 where the machine gave none that can be kept, 2 where it could
/// not be measured.
int measure_profile(const MeasureOptions& options);

}  // namespace zh::tools
