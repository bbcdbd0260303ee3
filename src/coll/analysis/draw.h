// Draws schedules as an SVG picture: a lane for every rank, grouped by node, steps over time, messages as arrows. Used
// by the schedule command.
#pragma once

#include <span>
#include <string>

#include "coll/analysis/timeline.h"
#include "coll/schedule/problem.h"
#include "coll/schedule/schedule.h"

namespace zh::coll {

/// `title` is put above it. The schedules must be proved, and `times` be theirs.
[[nodiscard]] std::string draw(std::span<const Schedule> schedules, const Layout& layout, const Timeline& times,
                               const std::string& title);

/// A step in words: "send input [0, 4096) to rank 3".
[[nodiscard]] std::string describe(const Step& step);

}  // namespace zh::coll
