// The rounds of a reduction through staging areas: what a member puts into its own one, combines and takes. Blocking
// and nonblocking reductions differ only in how members wait for each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "coll/team/control_block.h"
#include "coll/types.h"
#include "copy/kernels.h"

namespace zh::coll {

/// Of the staging area: a piece for every member, twice, since members are at most one step apart.
constexpr uint64_t kStagingHalf = kStagingBytes / 2;

/// Each member combines one slice of all vectors, in rank order: `slices(i)` is the first byte of member i's,
/// `slices(size)` the end of the last; `area(i)` is member i's staging area. In step s a member puts round s, takes the
/// results of round s - 2 and combines round s - 1 of its slice, when all have ended step s - 1: what is read was
/// written one step ago, and its half of the area is written again one step later. (The partition of DPML, SC'17,
/// inside one node. Accumulating in turn into one shared vector, as YHCCL does, SC'23, copies less in and gives up the
/// rank order.)
template <typename Slices, typename Area>
struct StagedSlices {
  struct Piece {
    uint64_t from;   ///< of the whole vector
    uint64_t bytes;  ///< 0: the slice has ended
  };

  uint32_t size;
  uint32_t self;
  uint64_t room;      ///< bytes of half an area for a slice
  uint64_t piece;     ///< most bytes of a slice in one round
  uint64_t streamed;  ///< pieces of so many bytes and more go past this rank's caches
  Slices slices;
  Area area;
  StagingOrder order = StagingOrder::kFree;

  [[nodiscard]] Piece piece_of(uint64_t round, uint32_t slice) const {
    const uint64_t from = slices(slice) + round * piece;
    const uint64_t end = slices(slice + 1);
    return {from, from < end ? std::min(piece, end - from) : 0};
  }
  /// Where a member's piece of a slice is in its area; of its own slice, the result.
  [[nodiscard]] std::byte* room_of(uint64_t round, uint32_t member, uint32_t slice) const {
    return area(member) + round % 2 * kStagingHalf + slice * room;
  }
  void put(uint64_t round, uint32_t slice, const std::byte* in) const {
    const Piece p = piece_of(round, slice);
    if (p.bytes != 0) copy::copy_bytes(room_of(round, self, slice), in + p.from, p.bytes, store_of(p.bytes));
  }
  void put_for_others(uint64_t round, const std::byte* in) const {
    for (uint32_t k = 1; k < size; ++k) put(round, after_self(k), in);
  }
  /// The results of others' slices.
  void take(uint64_t round, std::byte* out) const {
    for (uint32_t k = 0; k < size; ++k) {
      const uint32_t i = order == StagingOrder::kParallel ? k : after_self(k);
      const Piece p = piece_of(round, i);
      if (i != self && p.bytes != 0)
        copy::copy_bytes(out + p.from, room_of(round, i, i), p.bytes, copy::Store::kTemporal);
    }
  }
  /// `out`: the vector that takes all results, or null. `slice_out`: takes that of this slice only, which is not handed
  /// on; or null. `acc`: memory for a piece. `fold(bytes, to, operand)` combines operand(0), operand(1) ..., from the
  /// last one on: members' in their order or, cyclic, those from this one on.
  template <typename Fold>
  void combine(uint64_t round, const std::byte* in, std::byte* out, std::byte* slice_out, std::byte* acc,
               const Fold& fold) const {
    const Piece p = piece_of(round, self);
    if (p.bytes == 0) return;
    // In place, an input must last until it has been combined.
    const bool straight = out != nullptr && out != in;
    if (slice_out != nullptr) acc = slice_out + (p.from - slices(self));
    if (straight) acc = out + p.from;
    fold(p.bytes, acc, [&](uint32_t k) {
      const uint32_t i = order == StagingOrder::kCyclic ? after_self(size - 1 - k) : k;
      return i == self ? in + p.from : room_of(round, i, self);
    });
    if (slice_out != nullptr) return;
    copy::copy_bytes(room_of(round, self, self), acc, p.bytes, store_of(p.bytes));
    if (out != nullptr && !straight) copy::copy_bytes(out + p.from, acc, p.bytes, copy::Store::kTemporal);
  }

 private:
  [[nodiscard]] copy::Store store_of(uint64_t bytes) const {
    return bytes >= streamed ? copy::Store::kNonTemporal : copy::Store::kTemporal;
  }
  [[nodiscard]] uint32_t after_self(uint32_t k) const { return self + k < size ? self + k : self + k - size; }
};
template <typename Slices, typename Area>
StagedSlices(uint32_t, uint32_t, uint64_t, uint64_t, uint64_t, Slices, Area) -> StagedSlices<Slices, Area>;

}  // namespace zh::coll
