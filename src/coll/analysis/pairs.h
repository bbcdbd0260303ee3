// Which send of one rank meets which receive of another: messages of a pair and tag match in order (MPI standard 3.5).
// Used by the checker and the timeline.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "coll/schedule/schedule.h"

namespace zh::coll {

struct Pairs {
  /// partner[rank][step]: the step of rank steps[step].peer at the other end; kNoStep for copies and reductions.
  std::vector<std::vector<uint32_t>> partner;
  std::string complaint;  ///< "" if every message has two ends of one size
};

/// `schedules`: those of all ranks. O(messages log messages).
[[nodiscard]] Pairs pair_messages(std::span<const Schedule> schedules);

}  // namespace zh::coll
