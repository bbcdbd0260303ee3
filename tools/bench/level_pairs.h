// Which processors stand for which distance of a machine, and which distances stand for the levels of the mlog_nP
// models. Pure functions over a topology; called by `zerohop tune --json` and `bench raw`. It refuses to know what is
// measured there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "node/machine.h"
#include "os/affinity.h"

namespace zh::tools {

/// The set of one processor, and the numbers of a set.
[[nodiscard]] os::CpuSet only(uint32_t cpu);
[[nodiscard]] std::vector<uint32_t> numbers_of(const os::CpuSet& set);

/// The allowed processors so that those that share something are neighbours; by number where nothing is known.
[[nodiscard]] std::vector<uint32_t> in_order(const node::Machine& machine, const os::CpuSet& allowed);

struct LevelPair {
  node::Level level = node::Level::kSelf;
  uint32_t first = 0;  ///< processor numbers, as the kernel has them
  uint32_t second = 0;
  bool operator==(const LevelPair&) const = default;
};

/// A pair for each distance that two of the `allowed` processors have, nearest first. The first of a pair is the first
/// processor, in hwloc's order, of those that are nearer to each other than that. O(processors).
[[nodiscard]] std::vector<LevelPair> plan_pairs(const node::Machine& machine, const os::CpuSet& allowed);

/// Which of the planned distances the models take for theirs (mlog_nP paper, section 3.2).
struct ModelLevels {
  /// Two cores that share the last-level cache and none before it; where no two do, the nearest other distance.
  std::optional<node::Level> intra_chip;
  /// The farthest distance beyond that: another socket, else another memory node, else another last-level cache.
  std::optional<node::Level> inter_chip;
  uint32_t chips_per_node = 1;  ///< sockets, memory nodes or last-level caches, as inter_chip has it; 1 without it
};
[[nodiscard]] ModelLevels model_levels(const node::Machine::Summary& machine, std::span<const LevelPair> pairs);

}  // namespace zh::tools
