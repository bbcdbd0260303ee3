// Times a cache line between ranks, and corrects the levels by it: virtual machines hide and change the real topology.
// Called by the joiner; refuses to know how ranks were found.
#pragma once

#include <cstdint>
#include <vector>

#include "node/node.h"
#include "node/segment_map.h"

namespace zh::node {

/// Below this one-way time two hardware threads share a core's cache, whatever the topology says: measured 0.04-0.09 us
/// near against 0.19-0.38 us far on cloud machines.
constexpr float kNearLineNs = 100;
/// Above this one two "threads of one core" are separate cores.
constexpr float kFarLineNs = 150;
/// An envelope that took longer has waited for its receiver, not for the line.
constexpr float kMostLineNs = 1000;

/// Bounces a line with other ranks of the node in an order that all ranks know (all pairs up to 8 ranks, else
/// distances of powers of two) and writes this rank's row of the `lines` matrix. A pair takes some 60 us, and a few
/// milliseconds if one of the two does not come. `who`: the ranks that measure, ascending; `patient`: they may have to
/// wait for a processor first, since other ranks have only just gone to sleep. Ranks that are not in `who` sleep until
/// the others have ended.
void measure_lines(std::byte* base, uint32_t self, const std::vector<uint32_t>& who, bool patient);

/// The level that the measurement supports. `settled`: both ranks stay where they were measured (bound to one core
/// each, or no other CPUs to go to).
[[nodiscard]] Level corrected(Level from_topology, float line_ns, bool settled);

}  // namespace zh::node
