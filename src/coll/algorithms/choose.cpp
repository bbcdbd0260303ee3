// See choose.h.
#include "coll/algorithms/choose.h"

#include "coll/sizes.h"

namespace zh::coll {

uint32_t pieces_of(const Problem& p) {
  const bool one_each = p.collective == Collective::kReduceScatter || p.collective == Collective::kScatter ||
                        p.collective == Collective::kAlltoall;
  return one_each ? p.ranks() : 1;
}

bool small_fits(const Problem& p) {
  return p.uniform && p.ranks() <= kMostNonblockingRanks && p.bytes() <= kSlotBytes / pieces_of(p) &&
         p.bytes() <= kMostReadBytes / p.ranks();
}

// Gather and scatter are faster as messages of any length.
bool pipelined_fits(const Problem& p) {
  if (!p.uniform || p.ranks() < 2 || p.ranks() > kMostNonblockingRanks || p.bytes() < kLeastPipelinedBytes)
    return false;
  switch (p.collective) {
    case Collective::kReduce:
    case Collective::kAllreduce:
    case Collective::kReduceScatter:
      return p.element_bytes <= kLeastRoomBytes;
    case Collective::kBcast:
      return p.bytes() <= kLargestPipelinedBcast;
    case Collective::kAllgather:
    case Collective::kAlltoall:
      return p.bytes() <= kLargestPipelinedPiece;
    default:
      return false;
  }
}

}  // namespace zh::coll
