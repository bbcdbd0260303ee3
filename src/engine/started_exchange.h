// What a member gives and takes in a started collective that a problem describes. Used by SmallStarted and
// LargeStarted.
#pragma once

#include "coll/schedule/problem.h"
#include "coll/schedule/run.h"
#include "coll/team/exchange.h"

namespace zh::engine {

/// How far a call is.
enum class StartedProgress : uint8_t {
  kWaits,
  kEnded,    ///< its code says how
  kUnserved  ///< all members take another way for it, and it is forgotten here
};

/// Pieces of one contribution.
[[nodiscard]] inline uint32_t pieces_of(const coll::Problem& p) {
  const bool one_each = p.collective == coll::Collective::kReduceScatter ||
                        p.collective == coll::Collective::kScatter || p.collective == coll::Collective::kAlltoall;
  return one_each ? p.ranks() : 1;
}

[[nodiscard]] coll::Exchange exchange_of(const coll::Problem& problem, uint64_t number, const coll::Call& buffers);

}  // namespace zh::engine
