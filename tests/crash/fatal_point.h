// Where a process of a crash test ends itself.
#pragma once

namespace zh::test {

/// This process dies by SIGKILL when it comes for the `hits`-th time to a crash point (base/crash_point.h) whose name
/// begins like that.
void die_at(const char* point, int hits);

}  // namespace zh::test
