// What a block of staged collectives promises. Called by its owner where it hands something over in builds with
// assertions, and by tests.
#include "coll/team/staged_block.h"

namespace zh::coll {

const char* StagedBlockShm::broken_invariant(uint64_t team) const {
  const uint64_t now = stage.load_relaxed();
  const uint64_t serves = context.load_relaxed();
  if (serves != 0 && serves != team) return nullptr;  // another team's by now
  return now != 0 && (now & kAllSteps) == 0 ? "who has begun a staged collective has done a step of it" : nullptr;
}

}  // namespace zh::coll
