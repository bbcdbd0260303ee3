// A member's control block: what it tells the other members of a team in shared memory, its contribution to each
// collective with a flag beside it. Read and written by the algorithms of this folder only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/shm_types.h"
#include "coll/sizes.h"
#include "coll/team/throttle.h"
#include "copy/remote_buffer.h"

namespace zh::coll {

/// Collectives that a member may be ahead of another. Where ranks outnumber CPUs, so many take one change of process.
/// kFirstSlots: on the control block; kSlots: once it has grown. kGrowAt: the number of the collective before which a
/// member makes a larger block.
#ifdef ZH_MODEL_CHECK
constexpr uint32_t kSlots = 2;  // every reuse is met soon
constexpr uint32_t kFirstSlots = 2;
constexpr uint32_t kGrowAt = 2;
#else
constexpr uint32_t kSlots = 64;
constexpr uint32_t kFirstSlots = 8;
constexpr uint32_t kGrowAt = 16;
#endif
/// The ring in which small contributions lie, and its unit.
constexpr uint32_t kBlockBytes = 1 << 10;
#ifdef ZH_MODEL_CHECK
constexpr uint32_t kRingBytes = kBlockBytes;
constexpr uint32_t kFirstRingBytes = kBlockBytes;
#else
constexpr uint32_t kRingBytes = 128 << 10;
constexpr uint32_t kFirstRingBytes = 16 << 10;
#endif
/// Bytes of payload in the flag's own line and those behind it.
constexpr uint64_t kInlineBytes = 560;
/// Shared memory of one member in a staged reduction. Measured: half of it is slower with 2 and with 8 members, twice
/// as much is slower with 8.
constexpr uint64_t kStagingBytes = 256 << 10;

/// The edges of one buffer: what lies before and behind its mapped part (copy/remote_buffer.h).
struct EdgePairShm {
  std::byte head[copy::kEdgeMax + 1];  ///< bytes [0, from()) of the buffer
  std::byte tail[copy::kEdgeMax + 1];  ///< ... from end() on
};
/// Stands for the edges of the memory that a member offers, which the others cannot map.
/// Writers: `source` by the owner, `target` by whoever writes those bytes, each its own. Readers: the others; the
/// owner. Invariant: a byte of `source` is written before the slot is published or, in a collective in steps, before
/// the step that makes it; one of `target` is the owner's to read when all members have done the collective. Wrap:
/// none. Crash: nobody uses the team any more.
struct EdgesShm {
  EdgePairShm source;
  EdgePairShm target;
};
static_assert(kShmSafe<EdgesShm>);

/// Where a member's contribution to one collective is.
enum class ContributionWay : uint16_t {
  kInline,       ///< `bytes` behind the flag
  kPartial,      ///< of a leader: as kInline, of its whole group
  kRing,         ///< `bytes` in the ring, from `ring_at`
  kMemory,       ///< where `source` and `target` say; pieces of several members, of `bytes`, are `stride` apart
  kRingTable,    ///< the ring has a PieceShm for every member, and the pieces behind
  kMemoryTable,  ///< the same, but the pieces lie in `source`
  kBlocks,       ///< the ring has `stride` NeighborBlockShm and the short ones of these blocks, in `bytes` together
  kMessage,      ///< a message brings it
  kWritten,      ///< its owner writes `bytes` into the root's memory
  kWithRoot,     ///< of a leader, for its group: the root's slot says more
  kNothing       ///< there is none: its owner could not take part
};
/// `bytes` of kNothing: as long as nothing else.
constexpr uint64_t kNoBytes = ~uint64_t{0};

/// One piece of a contribution, in a table of one for every member.
struct PieceShm {
  uint64_t from;  ///< bytes from the start of the table, or of `source`
  uint64_t bytes;
};
static_assert(kShmSafe<PieceShm>);
/// A table of pieces has to fit into the first ring.
constexpr uint32_t kMembersMax = kFirstRingBytes / sizeof(PieceShm);

/// One block of a neighbourhood.
struct NeighborBlockShm {
  uint64_t bytes;
  uint32_t from;    ///< bytes from the start of the table; its largest number: a message brings it
  uint16_t member;  ///< whose it is
  uint16_t nth;     ///< blocks for the same member before it
};
static_assert(kShmSafe<NeighborBlockShm>);
/// On one side of a member.
constexpr uint32_t kMostEdges = 64;

/// A member's contribution to collective number `seq`.
/// Writers: its owner, once every member has done the collective that had the slot before (and, in the ring, those that
/// used it last).
/// Readers: members, once `seq` is the number of the collective they are in. Invariant: everything but `seq`,
/// `stage` and `staging` is immutable from the store of `seq` until all members have done that collective. Before it,
/// `way` is set, what it says of payload fits there, and what can be mapped of `source` and `target` lies inside them.
/// Wrap: only equality of `seq` is asked, and a slot's old number is as far behind as there are slots. Crash: a flag
/// that does not come; who waits sees the death.
struct alignas(kPairBytes) ContributionShm {
  Atomic<uint32_t> seq;
  ContributionWay way;
  uint64_t bytes;  ///< beside the flag, because every reader asks whether it is as many as it expects
  std::byte payload[kInlineBytes];
  copy::RemoteBufferShm source;
  uint32_t ring_at;  ///< byte of the ring
  uint32_t apart;    ///< kMemory. 1: most other members share no cache with the owner
  alignas(kPairBytes) copy::RemoteBufferShm target;
  Atomic<uint64_t> stage;  ///< seq << 32 | steps done, of collectives in steps
  uint64_t stride;
  Offset staging;  ///< of a staged reduction, once `stage` counts a step; kNoOffset: no memory
  Offset edges;    ///< EdgesShm of `source` and `target`; kNoOffset: there are none, or no memory for them

  /// For the owner, while no team is served.
  void reset() {
    seq.store_relaxed(0);
    stage.store_relaxed(0);
  }
  /// For the owner before it publishes, and for members after (control_block_invariant.cpp). `ring_bytes`: of the ring
  /// that goes with the slot.
  [[nodiscard]] const char* broken_invariant(uint32_t ring_bytes) const;
};
static_assert(kShmSafe<ContributionShm> && offsetof(ContributionShm, source) == 9 * kLineBytes);

/// The result of a small reduction, on member 0's control block, made by that member or by whichever arrived last;
/// where members are in groups (grouped.cpp), on every leader's, for its group. Writers: who makes it; its owner.
/// Readers: the others. Invariant: as ContributionShm's; who arrives has done all collectives before, so nobody reads
/// the old result when all have arrived; `left` never goes back. Wrap: `left` is compared by difference. Crash: as
/// ContributionShm.
struct alignas(kPairBytes) ResultShm {
  enum class What : uint32_t {
    kHere,
    kNone,   ///< there is none, because contributions differ in length
    kAbove,  ///< the owner's leader tells
  };
  Atomic<uint32_t> seq;
  Atomic<uint32_t> left;  ///< the latest collective of which the owner, a leader, does not tell its group
  What what;
  uint32_t reserved;
  std::byte payload[kInlineBytes];
  /// Of more than kInlineBytes, or for the program's own code, until the block has grown.
  alignas(kPairBytes) std::byte large[kFirstSmallBytes];

  /// For who makes it, before `seq`, and for the others after.
  [[nodiscard]] const char* broken_invariant() const {
    return what > What::kAbove ? "there is a result or there is none" : nullptr;
  }
};
static_assert(kShmSafe<ResultShm>);

/// What a member could not reach, and asks the owner to send or receive as a message.
/// Writers: the one who asks. Readers: the owner named, and only it the fields behind `word`, which may change as soon
/// as its message has come. Invariant: they are immutable from the store of `word`, which names a member, until then.
/// Wrap: `word` is only compared for change. Crash: a message that does not come.
struct FallbackShm {
  Atomic<uint64_t> word;  ///< count of fallback requests << 32 | member whose memory could not be reached
  uint64_t from;
  uint64_t bytes;
  uint64_t to_owner;  ///< 1: into the owner's `target`; 0: out of its `source`

  /// For who asks (control_block_invariant.cpp).
  [[nodiscard]] const char* broken_invariant(uint32_t members) const;
};
static_assert(kShmSafe<FallbackShm>);

/// What takes the place of a control block's slots, ring and room for results once the team has been used for a while
/// (growth.cpp). It stays with the control block.
/// Writers, Readers, Crash: as ControlBlockShm. Invariant: as its slots' and ring's. Wrap: as ContributionShm.
struct LargerBlockShm {
  ContributionShm slots[kSlots];
  alignas(kPairBytes) std::byte result[kSmallBytes];
  alignas(kPairBytes) std::byte ring[kRingBytes];

  /// For the owner, before it tells of it.
  void reset() {
    for (ContributionShm& slot : slots) slot.reset();
  }
};
static_assert(kShmSafe<LargerBlockShm>);

/// Writers: the owner; `throttle` and `result` as they say; `arrivals` by every member, on the control block of member
/// 0 only. Readers: all members. Invariant: `done` never goes back while `context` stays; `context` is 0 or names the
/// team that the control block serves. Of n slots, the number of whose collectives mod n is i have slot i, and no slot
/// or step is of one that comes after done + 1. `larger` is kNoOffset or a LargerBlockShm, and changes only before the
/// owner has done collective kGrowAt. Wrap: `done` and `arrivals` are compared by difference. Crash: nobody uses the
/// team any more.
struct ControlBlockShm {
  alignas(kPairBytes) Atomic<uint64_t> context;
  alignas(kPairBytes) Atomic<uint32_t> done;  ///< collectives for which the owner needs nothing from others any more
  FallbackShm fallback;
  ThrottleShm throttle;  ///< of those that copy from or into the owner's memory
  alignas(kPairBytes) Atomic<uint32_t> arrivals;
  Atomic<uint64_t> larger;  ///< LargerBlockShm, for members that have seen collective kGrowAt done
  ResultShm result;
  ContributionShm slots[kFirstSlots];
  alignas(kPairBytes) std::byte ring[kFirstRingBytes];

  /// For the owner, while it serves no team: nothing is done.
  void reset() {
    done.store_relaxed(0);
    fallback.word.store_relaxed(0);
    arrivals.store_relaxed(0);
    throttle.inside.store_relaxed(0);
    result.seq.store_relaxed(0);
    result.left.store_relaxed(0);
    for (ContributionShm& slot : slots) slot.reset();
  }
  /// For any member (control_block_invariant.cpp). `grown`: what is used in place of its slots; or null.
  [[nodiscard]] const char* broken_invariant(uint64_t team, uint32_t members, const LargerBlockShm* grown) const;
};
static_assert(kShmSafe<ControlBlockShm>);

}  // namespace zh::coll
