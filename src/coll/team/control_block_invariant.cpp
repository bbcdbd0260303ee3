// What a member's control block promises. Called by its owner where it hands something over in builds with assertions,
// and by tests. A member may look at another one's at any time: numbers are read in the order that keeps the answer
// true meanwhile.
#include "coll/team/control_block.h"

namespace zh::coll {

namespace {
constexpr uint32_t kStageShift = 32;

bool is_well(const copy::RemoteBufferShm& buffer) {
  return buffer.from() <= buffer.end() && buffer.end() <= buffer.bytes;
}
}  // namespace

const char* ContributionShm::broken_invariant(uint32_t ring_bytes) const {
  if (way > ContributionWay::kNothing) return "a contribution says where it is";
  const bool beside_flag = way == ContributionWay::kInline || way == ContributionWay::kPartial;
  if (beside_flag && bytes > kInlineBytes) return "a contribution beside its flag fits there";
  const bool whole = way == ContributionWay::kRing || way == ContributionWay::kBlocks;
  const bool in_ring = whole || way == ContributionWay::kRingTable || way == ContributionWay::kMemoryTable;
  if (in_ring && (ring_at % kBlockBytes != 0 || ring_at >= ring_bytes)) return "a ring is used in whole blocks";
  if (whole && bytes > ring_bytes - ring_at) return "a contribution does not leave its ring";
  if (way == ContributionWay::kBlocks && (stride > kMostEdges || bytes < stride * sizeof(NeighborBlockShm)))
    return "a table of blocks fits what it begins";
  const bool in_memory = way == ContributionWay::kMemory || way == ContributionWay::kMemoryTable;
  if (in_memory && !is_well(source)) return "what can be mapped of a source lies inside it";
  return way == ContributionWay::kMemory && !is_well(target) ? "what can be mapped of a target lies inside it"
                                                             : nullptr;
}

const char* FallbackShm::broken_invariant(uint32_t members) const {
  if (static_cast<uint32_t>(word.load_relaxed()) >= members) return "a fallback request names a member";
  return to_owner > 1 ? "a fallback request has a direction" : nullptr;
}

const char* ControlBlockShm::broken_invariant(uint64_t team, uint32_t members, const LargerBlockShm* grown) const {
  const uint64_t serves = context.load_relaxed();
  if (serves != 0 && serves != team) return nullptr;  // another team's by now
  if (static_cast<uint32_t>(fallback.word.load_relaxed()) >= members) return "a fallback request names a member";
  if (const char* broken = throttle.broken_invariant(members); broken != nullptr) return broken;
  const ContributionShm* const used = grown != nullptr ? grown->slots : slots;
  const uint32_t count = grown != nullptr ? kSlots : kFirstSlots;
  uint32_t latest[kSlots];
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t stage = used[i].stage.load_acquire();  // CT1 <- CT0: whatever was done before
    const uint32_t in_steps = static_cast<uint32_t>(stage >> kStageShift);
    const uint32_t seq = used[i].seq.load_acquire();  // CS1 <- CS0: whatever was done before
    if ((seq != 0 && seq % count != i) || (in_steps != 0 && in_steps % count != i)) return "a collective has one slot";
    latest[i] = static_cast<int32_t>(in_steps - seq) > 0 ? in_steps : seq;
  }
  const uint32_t ended = done.load_acquire();  // CN1 <- CN0: nothing, but what comes later is not seen earlier
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t seq = latest[i];
    if (seq != 0 && static_cast<int32_t>(seq - ended) > 1)
      return "nobody begins a collective before the last one ended";
  }
  return nullptr;
}

}  // namespace zh::coll
