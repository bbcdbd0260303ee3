// The byte map of a node's segment: header, one slot per rank, the levels matrix, what is known of each rank of
// the world, the ranks' parts, their annexes.
// Written while joining only; src/p2p lays out the parts. It refuses to know how the memory was made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/atomic.h"
#include "base/shm_types.h"
#include "node/layout_hash.h"

namespace zh::node {

/// First page of the segment.
/// Writers: the leader, before any other rank maps it (the collective in between publishes). Readers: all.
/// Invariant: immutable after publication, and what make_header() makes of its numbers of ranks and bytes. Wrap: none.
/// Crash: nothing to mend.
struct HeaderShm {
  uint64_t magic;
  uint64_t layout_hash;  ///< of the builds that share the segment; different builds refuse each other
  uint64_t segment_bytes;
  uint64_t rank_bytes;
  uint64_t slots;     ///< Offset of SlotShm[ranks]
  uint64_t levels;    ///< Offset of uint8_t[ranks * ranks], by the leader: Level by topology; 0x80: it may be corrected
  uint64_t lines;     ///< Offset of float[ranks * ranks], row i by rank i: nanoseconds, 0 = not measured
  uint64_t node_of;   ///< Offset of uint32_t[world_ranks], number of the rank's node
  uint64_t local_of;  ///< Offset of int32_t[world_ranks], index on this node or -1
  uint64_t every_rank;  ///< Offset of int32_t[world_ranks], 0, 1, 2, ...: the members of the world
  uint64_t parts;       ///< Offset of the first rank's part, page aligned
  uint64_t annexes;     ///< Offset of the first rank's annex, page aligned
  uint64_t annex_bytes;
  uint32_t ranks;
  uint32_t page_bytes;
  uint32_t world_ranks;  ///< of the whole job
  uint32_t reserved;

  [[nodiscard]] const char* broken_invariant() const;
};
static_assert(kShmSafe<HeaderShm> && sizeof(HeaderShm) == 120);

/// One rank's place for joining.
/// Writers: all fields by the slot's rank; `secret` by the leader alone, before another rank maps the segment.
/// Readers: all (token, word, met, failed, secret), the partner of a measurement (ball), ranks that sleep while others
/// measure (measured), whoever looks at the job from outside (pid, pid_namespace).
/// Invariant: token is 0 or the rank's token; ball and met only rise; measured is 0, then 1; failed is 0, or the
/// meeting that comes next or came last. Memory as it is at one moment tells only of the last two.
/// Wrap: ball takes each value once per join; a start has few meetings.
/// Crash: a ball or an end that does not come has a time limit, and who waits for a meeting looks whether the rank
/// lives.
struct alignas(kPairBytes) SlotShm {
  Atomic<uint64_t> token;
  Atomic<uint64_t> word;           ///< Node::leave_word()
  uint64_t secret[4];              ///< of the node's ranks, for the kernel module
  Atomic<uint32_t> measured;       ///< this rank has ended its measurements
  Atomic<uint32_t> met;            ///< meetings (Node::agree) that it has come to
  Atomic<uint32_t> failed;         ///< the meeting at which it had failed
  Atomic<uint32_t> pid;            ///< of the rank's process; 0 until it has mapped the segment
  Atomic<uint64_t> pid_namespace;  ///< its inode, in which `pid` means something
  std::byte pad[kPairBytes - 7 * sizeof(uint64_t) - 4 * sizeof(Atomic<uint32_t>)];
  Atomic<uint32_t> ball;  ///< bounced between two ranks to time a cache line
  std::byte pad2[kPairBytes - sizeof(Atomic<uint32_t>)];

  [[nodiscard]] const char* broken_invariant() const {
    if (failed.load_relaxed() > met.load_relaxed() + 1) return "a rank has failed at a meeting to come";
    return measured.load_relaxed() > 1 ? "`measured` is 0, then 1" : nullptr;
  }
};
static_assert(kShmSafe<SlotShm> && sizeof(SlotShm) == 2 * kPairBytes && offsetof(SlotShm, ball) == kPairBytes);

constexpr uint64_t kMagic = 0x31706f686f72657a;  // "zerohop1"
/// Changes with anything that two processes must agree on to share a segment: the text of all shared types, and the
/// compiler's idea of it.
constexpr uint64_t kLayoutHash = kLayoutText + sizeof(HeaderShm) + sizeof(SlotShm) + sizeof(void*);

/// How many ranks a segment is for: of its node, and of the world.
struct SegmentRanks {
  uint32_t node;
  uint32_t world;
};

/// Fills all offsets for a part of rank_bytes and an annex of annex_bytes (already page aligned) for each of the node's
/// ranks.
inline HeaderShm make_header(SegmentRanks of, uint64_t rank_bytes, uint64_t annex_bytes, uint64_t page_bytes) {
  const uint32_t ranks = of.node;
  const uint64_t table_bytes = round_up(of.world * sizeof(uint32_t), kLineBytes);
  HeaderShm h{};
  h.magic = kMagic;
  h.layout_hash = kLayoutHash;
  h.rank_bytes = rank_bytes;
  h.ranks = ranks;
  h.world_ranks = of.world;
  h.page_bytes = static_cast<uint32_t>(page_bytes);
  h.slots = round_up(sizeof(HeaderShm), kPairBytes);
  h.levels = h.slots + ranks * sizeof(SlotShm);
  h.lines = round_up(h.levels + uint64_t{ranks} * ranks, kLineBytes);
  h.node_of = round_up(h.lines + uint64_t{ranks} * ranks * sizeof(float), kLineBytes);
  h.local_of = h.node_of + table_bytes;
  h.every_rank = h.local_of + table_bytes;
  h.parts = round_up(h.every_rank + table_bytes, page_bytes);
  h.annexes = h.parts + ranks * rank_bytes;
  h.annex_bytes = annex_bytes;
  h.segment_bytes = h.annexes + ranks * annex_bytes;
  return h;
}

inline const char* HeaderShm::broken_invariant() const {
  if (ranks == 0 || page_bytes == 0) return "a segment has ranks and pages";
  if (rank_bytes % page_bytes != 0 || annex_bytes % page_bytes != 0) return "parts and annexes are whole pages";
  const HeaderShm made = make_header({ranks, world_ranks}, rank_bytes, annex_bytes, page_bytes);
  return std::memcmp(this, &made, sizeof made) != 0 ? "the header is what make_header() makes of its sizes" : nullptr;
}

}  // namespace zh::node
