// When each step of a schedule would run: simulates all ranks in logical time. Used to draw schedules. It refuses to
// know machines; what they take is the walk's (walk.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coll/schedule/problem.h"
#include "coll/schedule/schedule.h"

namespace zh::coll {

struct Span {
  double start = 0;
  double end = 0;
};

struct Timeline {
  std::vector<std::vector<Span>> spans;  ///< by rank and step; both ends of a message have the same
  double end = 0;                        ///< when the last rank is done
};

/// A rank does one thing of each kind at a time: a copy or reduction, a send and a receive inside its node, a send and
/// a receive between nodes; what was ready first goes first. That is the one-ported model of the mlog_nP paper (section
/// 4), by level, so that work inside nodes overlaps with the network (multicore collectives paper, section 4.1).
/// A copy, reduction or shared step, which is work of all ranks of its node at the same time, takes 1, a message inside
/// a node 2, one between nodes 4, whatever their bytes; a step of leaders 4 for each doubling of their number.
/// The schedules must be proved (check.h). O(steps log steps).
[[nodiscard]] Timeline timeline(std::span<const Schedule> schedules, const Layout& layout);

}  // namespace zh::coll
