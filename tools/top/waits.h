// Who waits for whom: whether ranks wait for each other in a circle, and if not, whom the others wait for. Judges two
// looks at a job; called by whatever tells of one.
#pragma once

#include <vector>

#include "tools/top/look.h"

namespace zh::tools::top {

/// Two looks tell of a wait that lasts if so much time is between them.
constexpr uint64_t kLastsNs = 300'000'000;

struct Verdict {
  std::vector<int> cycle;    ///< deadlock: each of these ranks waits for the next, the last for the first
  std::vector<int> blocked;  ///< all ranks that wait for ever: these, and those behind them
  int culprit = -1;          ///< without a deadlock: the rank for which most ranks wait; -1: nobody waits long
  std::vector<int> waiters;  ///< ... and these, perhaps through others
};

/// Ranks of the world. A wait counts if it is the same in both looks and nothing has moved in it: what a single look
/// sees of ranks one after the other may be a circle that never was.
[[nodiscard]] Verdict judge(const JobLook& before, const JobLook& now);

}  // namespace zh::tools::top
