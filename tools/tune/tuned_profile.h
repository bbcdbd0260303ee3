// What `zerohop tune --json` has measured, as a parameter set: which distance stands for which level of the models,
// what is kept beside them, and what the sources say. Pure functions; called by measure.cpp. It refuses to know
// how anything was measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/parameters.h"
#include "tools/bench/level_pairs.h"
#include "tools/tune/message_costs.h"
#include "tune/caches.h"
#include "tune/profile.h"

namespace zh::tools {

struct PairMeasured {
  LevelPair pair;
  MessageCosts costs;  ///< without launches: none could be used
};

struct NodesMeasured {
  std::string how;  ///< what the nodes were: "2 machines made of namespaces of this one, ..."
  MessageCosts costs;
  MessageCosts two_pairs;  ///< at once; without launches: nobody measured them
};

struct MachineMeasured {
  std::vector<PairMeasured> pairs;  ///< all that were planned; that of levels.intra_chip has launches
  ModelLevels levels;
  std::optional<NodesMeasured> between;
  uint32_t processors = 0;  ///< that jobs may use
  std::vector<model::CacheSize> caches;
  std::vector<model::CopyThresholds> copies;
  std::vector<model::Contention> contention;
  std::string host;
  std::string date;
  tune::MachineId machine;

  /// Null if that level was not planned.
  [[nodiscard]] const PairMeasured* at(std::optional<node::Level> level) const;
};

/// Levels that were not measured between nodes are those of `base`.
[[nodiscard]] model::Parameters parameters_of(const MachineMeasured& measured, const model::Parameters& base);

/// "4K8S" as the mlog_nP paper writes it: 4 KiB at a stride of 8 bytes; "4K" without a stride.
[[nodiscard]] std::string name_of(const MessageCost& cost);

/// Those that the topology or the sweep knows. `described`: bytes by the topology.
[[nodiscard]] std::vector<model::CacheSize> cache_sizes(const std::array<tune::CacheFound, tune::kCaches>& found,
                                                        const tune::CacheBytes& described);

/// Of the distances whose curves are in force.
[[nodiscard]] std::vector<model::CopyThresholds> copy_thresholds(const tune::Profile& profile);

}  // namespace zh::tools
