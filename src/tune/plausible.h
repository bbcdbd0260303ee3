// Which measured curves can be true, and whether two jobs have found the same. Pure functions; called where curves are
// measured and where they are read back, so that a bad file, whoever wrote it, turns no choice.
#pragma once

#include <cstdint>
#include <string>

#include "node/node.h"
#include "tune/profile.h"

namespace zh::tune {

/// Empties the curves that no machine has: a time that bytes and lines do not explain, times that fall where sizes
/// rise, a copy from mapped memory that is slower than two copies, points that scatter; all curves where the line was
/// not one of the distance that they stand for, by `bounds`, which only the measuring job knows. A line that no machine
/// has, because a side did not run, is forgotten. Returns their names, "" if all can be.
std::string drop_impossible(DistanceClass* c, const node::LineBounds& bounds = {});

/// What two jobs know together: `now` beside what is kept. Curves that agree are averaged and count one job more; where
/// the cells disagree, nothing counts but what was found last; another way that disagrees is left to the built-in
/// choice. Of no use with empty cells: then the kept ones stay. `attempts` counts both.
[[nodiscard]] DistanceClass joined(const DistanceClass& kept, const DistanceClass& now);

/// What a quick look measures: one size by two ways. 0: not measured, because the way does not work or something else
/// ran.
struct Look {
  static constexpr uint64_t kBytes = 64 << 10;
  float line_ns = 0;
  float mapped_both_us = 0;
  float cma_write_us = 0;
};
enum class LookVerdict : uint8_t { kUnknown, kHolds, kContradicts };

/// Whether what a job sees now is what `kept` says. Unknown where nothing could be compared, or where the ranks are at
/// another distance now, of which `kept` says nothing.
[[nodiscard]] LookVerdict judge(const DistanceClass& kept, const Look& look);

/// Whether a job should look at `c` at `now`, seconds since 1970: it is in force, and the last look is long ago or was
/// a contradiction.
[[nodiscard]] bool wants_look(const DistanceClass& c, int64_t now);

/// Notes a verdict in `c`. The last one of kMostDoubts contradictions takes the class out of force: jobs measure again.
void note_look(DistanceClass* c, LookVerdict verdict, int64_t now);

}  // namespace zh::tune
