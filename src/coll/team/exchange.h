// One call of a started collective as one member sees it: what it gives, and what it does with what others give.
// Written by engine::SmallStarted and engine::LargeStarted, read by the teams of started collectives.
#pragma once

#include <cstdint>

#include "coll/types.h"

namespace zh::coll {

/// Every contribution consists of `pieces` of `bytes`; all members agree on both, or there is an error.
struct Exchange {
  uint64_t number = 0;  ///< of the call, the same on all members; those of one member ascend
  /// pieces * bytes. Read when the call begins or some time later, as the team says.
  const void* give = nullptr;
  bool gives = false;  ///< also where a contribution has no bytes
  /// The members whose contributions it takes: [first, end).
  uint32_t first = 0;
  uint32_t end = 0;
  uint32_t pieces = 1;
  uint32_t piece = 0;  ///< which of them it takes of each
  uint64_t bytes = 0;
  /// Gets those pieces one behind another, or combined. Written in advance() only.
  void* out = nullptr;
  Reduction how;  ///< has a kernel: pieces are combined in the order of members
};

}  // namespace zh::coll
