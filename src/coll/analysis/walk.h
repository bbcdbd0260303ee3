// When each rank is done with a schedule if messages cost what the mlog_nP models say: the general form of their closed
// forms, for every collective and algorithm. Used by `zerohop schedule --profile`, `tune --model` and the tests. It
// refuses to know machines: the prices come from a parameter set (model/pricing.h).
#pragma once

#include <span>

#include "coll/analysis/timeline.h"
#include "coll/schedule/schedule.h"
#include "model/pricing.h"

namespace zh::coll {

/// A rank's processor does one thing at a time, what became ready first: a copy or reduction, its end of a send, its
/// end of a receive; o and l are the time in which it is engaged (mlog_nP paper, sections 3.1 and 4.1). A send is
/// complete when its end is, whatever the receiver does. The message reaches the receiver o_net later, and is there
/// when the receiver's end is done. A rank begins receptions no closer together than the gap. Where the prices have
/// links, the messages out of a node take turns on its link, and so do those into it; the last part of o_net is on the
/// receiving one. Who has come to a shared step does nothing else until all of its node have and it is over, which
/// takes the work of all of them copying at once (Pricing::shared). Where a node has fewer processors than ranks, a
/// rank waits for one that is free, whichever it is, and the copies of a shared step take turns; a rank that waits for
/// a message leaves its processor to others, and that costs nothing. Nothing else is scarce: there is no contention on
/// memory, and no rendezvous. Both ends of a message have spans of their own here. The schedules must be proved
/// (check.h); ends at infinity if not all steps could be taken. O(steps log steps).
[[nodiscard]] Timeline walk(std::span<const Schedule> schedules, const model::Pricing& pricing);

}  // namespace zh::coll
