// What is proved of one rank's schedule by itself: bounds, waits, races, and the order of tags and of shared steps.
// Used by check.cpp alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "coll/schedule/problem.h"
#include "coll/schedule/schedule.h"

namespace zh::coll {

/// What a fault of that step begins with.
[[nodiscard]] std::string step_name(size_t rank, size_t step);

/// "" or the first fault. O(steps^2) where there are few, else about O(steps).
[[nodiscard]] std::string check_rank(const Problem& problem, const Schedule& schedule, uint32_t rank);

}  // namespace zh::coll
