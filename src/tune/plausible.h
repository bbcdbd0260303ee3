// Which measured curves can be true, and whether two jobs have found the same. Pure functions; called where curves are
// measured and where they are read back, so that a bad file, whoever wrote it, turns no choice.
#pragma once

#include <string>

#include "tune/profile.h"

namespace zh::tune {

/// Empties the curves that no machine has: a time that bytes and lines do not explain, times that fall where sizes
/// rise, a copy from mapped memory that is slower than two copies, points that scatter; all curves where the line was
/// not one of the distance that they stand for. Returns their names, "" if all can be.
std::string drop_impossible(DistanceClass* c);

/// What two jobs know together: `now` beside what is kept. Curves that agree are averaged and count one job more; where
/// the cells disagree, nothing counts but what was found last; another way that disagrees is left to the built-in
/// choice. Of no use with empty cells: then the kept ones stay. `attempts` counts both.
[[nodiscard]] DistanceClass joined(const DistanceClass& kept, const DistanceClass& now);

}  // namespace zh::tune
