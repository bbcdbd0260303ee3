// Which steps of a group's ranks are one: the k-th shared step of a rank is the k-th of all others of its node, and the
// k-th step of leaders of one the k-th of all others. Used by the checker, the timeline and the walk.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "coll/schedule/problem.h"
#include "coll/schedule/schedule.h"

namespace zh::coll {

/// A step of a rank.
struct StepOf {
  uint32_t rank = 0;
  uint32_t step = 0;
};

struct SharedSteps {
  /// Those who take a step together, in the group's order; `root` is the place of the root,
  /// or stands for all.
  struct Group {
    std::vector<StepOf> ends;
    uint32_t root = 0;
    [[nodiscard]] const StepOf& root_end() const { return ends[root]; }
  };
  std::vector<Group> groups;
  std::vector<std::vector<uint32_t>> group_of;  ///< by rank and step; kNoStep for steps that are not shared
  std::string complaint;                        ///< "" if the steps of each group fit each other

  [[nodiscard]] const Group* group(uint32_t rank, uint32_t step) const {
    const uint32_t g = group_of[rank][step];
    return g == kNoStep ? nullptr : &groups[g];
  }
};

/// `schedules`: those of all ranks. O(steps).
[[nodiscard]] SharedSteps match_shared(std::span<const Schedule> schedules, const Layout& layout);

}  // namespace zh::coll
