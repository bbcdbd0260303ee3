// The parts of `zerohop tune`: measuring what messages cost (measure.cpp), and the algorithms that a model takes by
// such costs (choose.cpp).
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "coll/algorithms/selection.h"
#include "tools/bench/hosts.h"

namespace zh::tools {

/// `zerohop tune --json`: measures what messages cost here, at every distance, and what caches there are, and writes it
/// as a profile.
struct MeasureOptions {
  HostOptions hosts;  ///< its machines: measure between nodes, too, that are made of namespaces
  std::string json_path;
  std::string base = "gigabit-like";  ///< profile whose costs between nodes are taken over: one machine has none
  bool pretend_nodes = false;         ///< measure between pretended nodes (the setting node_ranks), too
  std::string between;                ///< ... or between nodes to which this launcher brings two ranks
  bool link = false;  ///< also two pairs at once, for which that launcher brings two ranks to each of two nodes
  int rounds = 0;     ///< 0: 8, or as many from 6 on as fit into 45 s
};

/// The command's exit code: 0 with a profile written, 1 where the machine gave none that can be kept, 2 where it could
/// not be measured.
int measure_profile(const MeasureOptions& options);

/// `zerohop tune --model`. Measures nothing itself.
struct ChooseOptions {
  std::string profile;
  std::vector<uint32_t> ranks = {2, 4, 8};
  uint32_t nodes = 1;
  uint32_t processors = 0;  ///< 0: as the profile has it
  std::vector<std::string> abis{std::begin(coll::kAbis), std::end(coll::kAbis)};
  bool save = false;
  bool as_json = false;
};

/// The command's exit code: 2 if there is nothing to predict or the table cannot be kept.
int choose_by_model(const ChooseOptions& options);

}  // namespace zh::tools
