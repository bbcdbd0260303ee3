// What judging a call answers, in point-to-point and collectives alike.
#pragma once

#include "mpi/shim.h"

namespace zh::mpi {

// What a step of serving a call returns: go on, the host must do the call, or else the call's own result (errors have
// been raised). What sends a collective call to the host is known to all members alike; errors are one rank's own.
constexpr int kGoOn = -2;
constexpr int kToHost = -1;
/// kToHost; `why` is a static text for the statistics.
inline int leave_to_host(const char* why) {
  shim.rank->count_fallback(why);
  return kToHost;
}

/// Returns from the calling function unless the step says to go on.
#define ZH_STEP(step)                                                \
  if (const int zh_result = (step); zh_result != kGoOn) [[unlikely]] \
  return zh_result
/// The same where the function answers the program: `by_host` is the host's call.
#define ZH_STEP_OR(step, by_host)                                    \
  if (const int zh_result = (step); zh_result != kGoOn) [[unlikely]] \
  return zh_result == kToHost ? (by_host) : zh_result

}  // namespace zh::mpi
