// The checker: proves that the schedules of all ranks together do what their collective promises, whatever the speed of
// ranks and messages. Used by the tests and the schedule command. It believes nothing that the builders do: it sees
// only problems and schedules.
#pragma once

#include <span>
#include <string>

#include "coll/schedule/problem.h"
#include "coll/schedule/schedule.h"

namespace zh::coll {

struct Verdict {
  /// "" if proved; else the first fault found: which rank, which step, what is wrong.
  std::string fault;
  bool gave_up = false;  ///< the fault is that the proof grew beyond its limits: nothing is known of the schedules
  uint64_t steps = 0;
  uint64_t messages = 0;
  uint64_t message_bytes = 0;
  uint64_t node_messages = 0;  ///< those between nodes
  uint64_t node_bytes = 0;
  [[nodiscard]] bool proved() const { return fault.empty(); }
};

/// Where a proof gives up.
struct CheckLimits {
  /// Stretches of bytes of one origin that the buffers of all ranks hold together, some 100 bytes of memory each. Those
  /// that are moved until the end are 16 times as many at most.
  uint64_t stretches = ~uint64_t{0} / 16;
};

/// What is proved, for problems[r] and schedules[r] of ranks r = 0..P-1:
/// - every message has two ends of one size; messages of one pair and tag start in order on both sides
/// - no step waits for a later one, or leaves a buffer's bounds, or writes the input
/// - of two steps of a rank that touch the same bytes, one of them writing, one waits for the other
/// - all steps complete, even if a send completes only when its receive has started; so they do as well if some or all
///   sends complete at once, since that only takes waits away
/// - every output holds what the collective defines: each byte the right byte of the right rank's input; for a
///   reduction a term with every contributor once, in rank order unless it commutes, the same term on all ranks of an
///   allreduce; bytes that the collective does not define stay as they were; a barrier's ranks have heard of all others
/// Values are symbolic, and since no two steps race, one execution stands for all.
[[nodiscard]] Verdict check(std::span<const Problem> problems, std::span<const Schedule> schedules,
                            const CheckLimits& limits = {});

}  // namespace zh::coll
