// Times a cache line between ranks, and corrects the levels by it: virtual machines hide and change the real topology.
// Called by the joiner; refuses to know how ranks were found.
#pragma once

#include <cstdint>
#include <vector>

#include "node/node.h"
#include "node/segment_map.h"

namespace zh::node {

/// Bounces a line with other ranks of the node in an order that all ranks know (all pairs up to 8 ranks, else
/// distances of powers of two) and writes this rank's row of the `lines` matrix. A pair takes some 60 us, and a few
/// milliseconds if one of the two does not come. `who`: the ranks that measure, ascending; `patient`: they may have to
/// wait for a processor first, since other ranks have only just gone to sleep. Ranks that are not in `who` sleep until
/// the others have ended.
void measure_lines(std::byte* base, uint32_t self, const std::vector<uint32_t>& who, bool patient);

/// What `who` have measured between a and b: the matrix `rows` of `ranks` times `ranks`; 0 if nothing.
[[nodiscard]] float line_between(const float* rows, uint32_t ranks, uint32_t a, uint32_t b);

/// The bounds for these measurements. None without a hypervisor: cores of one cache have lines of 25 to 50 ns there
/// (docs/design/scale.md), which nothing tells from a core's two threads. Nor where a rank has such lines to two
/// others, since two threads is what a core has.
[[nodiscard]] LineBounds line_bounds(const float* rows, uint32_t ranks, const std::vector<uint32_t>& who,
                                     bool is_virtual);

/// The level that the measurement supports. `settled`: both ranks stay where they were measured (bound to one core
/// each, or no other CPUs to go to).
[[nodiscard]] Level corrected(Level from_topology, float line_ns, bool settled, const LineBounds& bounds);

}  // namespace zh::node
