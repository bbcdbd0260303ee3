// Which way a collective goes, and the sizes at which each way begins. Pure: it follows from the call and from facts
// that all ranks know alike. Asked by the engine, and by the commands that print it.
#pragma once

#include <cstdint>

#include "coll/schedule/problem.h"

namespace zh::coll {

/// Pieces of one rank's contribution.
[[nodiscard]] uint32_t pieces_of(const Problem& p);

/// Whether a nonblocking call of ranks that are all on one node is small enough for slots in shared memory.
[[nodiscard]] bool small_fits(const Problem& p);
/// Whether one may go through staging areas in pieces, where there is a kernel for its operation.
[[nodiscard]] bool pipelined_fits(const Problem& p);

}  // namespace zh::coll
