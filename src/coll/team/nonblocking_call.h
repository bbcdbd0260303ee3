// One nonblocking or persistent collective of a node's ranks as one member sees it: what it gives, what it does with
// what others give, and how far it is. Written by engine::NonblockingOnNode and by the team that serves it.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "coll/types.h"

namespace zh::coll {

/// Every contribution consists of `pieces` of `bytes`. Stays where it is until it has ended; so do its buffers.
struct NonblockingCall {
  uint64_t number = 0;  ///< the same on all members; those of one member ascend
  /// pieces * bytes. Read when the call begins or some time later, as the team says.
  const void* give = nullptr;
  bool gives = false;  ///< also where a contribution has no bytes
  bool exact = false;  ///< less than there is room for is an error, too
  bool able = true;    ///< false: this member lacks what it takes, so all take another way
  /// The members whose contributions it takes: [first, end).
  uint32_t first = 0;
  uint32_t end = 0;
  uint32_t pieces = 1;
  uint32_t piece = 0;  ///< which of them it takes of each
  uint64_t bytes = 0;
  uint64_t digest = 0;  ///< members that differ in it, or in `bytes`, mean different calls
  /// Gets those pieces one behind another, or combined. Written in advance() only.
  void* out = nullptr;
  Reduction how;  ///< has a kernel: pieces are combined in the order of members

  [[nodiscard]] bool reduces() const { return how.kernel != nullptr; }

  // What has come of it:
  bool ended = false;
  bool unserved = false;  ///< all members take another way for it
  /// When it has ended: kOk; kPeerDead; what has been given to fail(); or, where members disagree on a length, on those
  /// that see it: kTruncated (more came than there is room for, or goes into a reduction) or kInvalid (less did).
  Code code = Code::kOk;

  /// For NonblockingSlots:
  struct Slots {
    bool published = false;
    bool alike = true;    ///< what has come is as long as what it gives
    uint64_t before = 0;  ///< the call that had its slot last
    uint32_t next = 0;    ///< what members before this one give is there
  } slots;
  /// For NonblockingStaged:
  struct Staged {
    uint32_t step = 0;       ///< steps that this member has done
    uint32_t rounds = 0;     ///< in which pieces go through a staging area
    uint32_t steps = 0;      ///< that it takes
    uint64_t room = 0;       ///< of one member's piece in a staging area, bytes
    uint64_t piece_now = 0;  ///< ... of them used in a round
    uint64_t slice = 0;      ///< of what a member gives, that of one member
  } staged;
};

}  // namespace zh::coll
