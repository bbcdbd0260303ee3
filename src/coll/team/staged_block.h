// A member's block of staged collectives: how far it is in the one at hand, and where it puts what others take. Written
// and read by NonblockingStaged only.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/shm_types.h"

namespace zh::coll {

/// Of `stage`: the steps of a collective, below its number + 1.
constexpr unsigned kStageBits = 24;
/// Steps of one that is over for this member.
constexpr uint64_t kAllSteps = (uint64_t{1} << kStageBits) - 1;

/// Writers: the owner. Readers: all members. Invariant: `stage` and `done` never go back while `context` stays, which
/// is 0 or names the team that the block serves; `stage` is 0 or counts a step. What is behind `stage` is immutable
/// from the store of a collective's first step until all members are through with it. Wrap: numbers keep 40 bits.
/// Crash: a step that does not come; who waits sees the death.
struct StagedBlockShm {
  alignas(kPairBytes) Atomic<uint64_t> context;
  Atomic<uint64_t> done;  ///< the owner needs nothing from others any more for collectives up to this number + 1
  alignas(kPairBytes) Atomic<uint64_t> stage;  ///< (number + 1) << kStageBits | steps done
  uint64_t digest;                             ///< what the owner takes the collective for
  uint64_t bytes;                              ///< of a piece
  Offset area;                                 ///< kStagingBytes; kNoOffset: it takes another way

  /// For the owner, while it serves no team: nothing is done.
  void reset() {
    done.store_relaxed(0);
    stage.store_relaxed(0);
  }
  /// For any member.
  [[nodiscard]] const char* broken_invariant(uint64_t team) const {
    const uint64_t now = stage.load_relaxed();
    const uint64_t serves = context.load_relaxed();
    if (serves != 0 && serves != team) return nullptr;  // another team's by now
    return now != 0 && (now & kAllSteps) == 0 ? "who has begun a staged collective has done a step of it" : nullptr;
  }
};
static_assert(kShmSafe<StagedBlockShm>);

}  // namespace zh::coll
