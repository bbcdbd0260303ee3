// The byte map of a node's segment: header, one slot per rank, the levels matrix, the ranks' domains and parts, their
// annexes. Written while joining only; src/p2p lays out the parts. It refuses to know how the memory was made.
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
  uint64_t slots;    ///< Offset of SlotShm[ranks]
  uint64_t levels;   ///< Offset of uint8_t[ranks * ranks], row = a, column = b
  uint64_t lines;    ///< Offset of float[ranks * ranks], nanoseconds, 0 = not measured
  uint64_t domains;  ///< Offset of uint32_t[ranks], see domains.h
  uint64_t parts;    ///< Offset of the first rank's part, page aligned
  uint64_t annexes;  ///< Offset of the first rank's annex, page aligned
  uint64_t annex_bytes;
  uint32_t ranks;
  uint32_t page_bytes;

  [[nodiscard]] const char* broken_invariant() const;
};
static_assert(kShmSafe<HeaderShm> && sizeof(HeaderShm) == 96);

/// One rank's place for joining.
/// Writers: all fields by the slot's rank. Readers: all (token), the partner of a measurement (ball), ranks that sleep
/// while others measure (measured).
/// Invariant: token is 0 or the rank's token; ball only rises; measured is 0, then 1. Memory as it is at one moment
/// tells only the last.
/// Wrap: ball takes each value once per join. Crash: a ball or an end that does not come has a time limit.
struct alignas(kPairBytes) SlotShm {
  Atomic<uint64_t> token;
  Atomic<uint32_t> measured;  ///< this rank has ended its measurements
  std::byte pad[kPairBytes - sizeof(Atomic<uint64_t>) - sizeof(Atomic<uint32_t>)];
  Atomic<uint32_t> ball;  ///< bounced between two ranks to time a cache line
  std::byte pad2[kPairBytes - sizeof(Atomic<uint32_t>)];

  [[nodiscard]] const char* broken_invariant() const {
    return measured.load_relaxed() > 1 ? "`measured` is 0, then 1" : nullptr;
  }
};
static_assert(kShmSafe<SlotShm> && sizeof(SlotShm) == 2 * kPairBytes && offsetof(SlotShm, ball) == kPairBytes);

constexpr uint64_t kMagic = 0x31706f686f72657a;  // "zerohop1"
/// Changes with anything that two processes must agree on to share a segment: the text of all shared types, and the
/// compiler's idea of it.
constexpr uint64_t kLayoutHash = kLayoutText + sizeof(HeaderShm) + sizeof(SlotShm) + sizeof(void*);

/// Fills all offsets for `ranks` parts of rank_bytes and annexes of annex_bytes (already page aligned).
inline HeaderShm make_header(uint32_t ranks, uint64_t rank_bytes, uint64_t annex_bytes, uint64_t page_bytes) {
  HeaderShm h{};
  h.magic = kMagic;
  h.layout_hash = kLayoutHash;
  h.rank_bytes = rank_bytes;
  h.ranks = ranks;
  h.page_bytes = static_cast<uint32_t>(page_bytes);
  h.slots = round_up(sizeof(HeaderShm), kPairBytes);
  h.levels = h.slots + ranks * sizeof(SlotShm);
  h.lines = round_up(h.levels + uint64_t{ranks} * ranks, kLineBytes);
  h.domains = h.lines + uint64_t{ranks} * ranks * sizeof(float);
  h.parts = round_up(h.domains + ranks * sizeof(uint32_t), page_bytes);
  h.annexes = h.parts + ranks * rank_bytes;
  h.annex_bytes = annex_bytes;
  h.segment_bytes = h.annexes + ranks * annex_bytes;
  return h;
}

inline const char* HeaderShm::broken_invariant() const {
  if (ranks == 0 || page_bytes == 0) return "a segment has ranks and pages";
  if (rank_bytes % page_bytes != 0 || annex_bytes % page_bytes != 0) return "parts and annexes are whole pages";
  const HeaderShm made = make_header(ranks, rank_bytes, annex_bytes, page_bytes);
  return std::memcmp(this, &made, sizeof made) != 0 ? "the header is what make_header() makes of its sizes" : nullptr;
}

}  // namespace zh::node
