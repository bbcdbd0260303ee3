// Skew detection of the hybrid paper (section 4.2): a receiver whose unexpected queue stays long lags behind its
// senders; medium messages then go through cells so that the senders are released, and back again when it has caught
// up. Seen directly in shared memory by whoever drains, so no control message is needed. Called under the receiver's
// lock.
#pragma once

#include "p2p/part.h"

namespace zh::p2p {

constexpr uint32_t kSkewLength = 8;            ///< "long": this many unexpected messages or more
constexpr uint32_t kSkewArrivals = 8;          ///< ... at this many arrivals in a row
constexpr uint32_t kSkewShort = 2;             ///< "short": at most this many ...
constexpr uint32_t kSkewMatches = 64;          ///< ... at this many matches in a row
constexpr uint64_t kSkewBytesMax = 256 << 10;  ///< larger messages stay with the single copy

/// A message became unexpected. True if the receiver has just been found lagging.
inline bool note_unexpected(PartShm& part) {
  QueuesShm& q = part.queues;
  // A receiver that is just a little late each time has a short queue all the same.
  if (q.unexpected_count.load_relaxed() > kSkewShort) q.short_streak = 0;
  if (q.unexpected_count.load_relaxed() < kSkewLength) {
    q.long_streak = 0;
    return false;
  }
  if (++q.long_streak < kSkewArrivals || part.state.skewed.load_relaxed() != 0) return false;
  part.state.skewed.store_relaxed(1);
  return true;
}

/// A receive found its message. True if the receiver has just caught up.
inline bool note_match(PartShm& part) {
  QueuesShm& q = part.queues;
  if (part.state.skewed.load_relaxed() == 0) return false;
  if (q.unexpected_count.load_relaxed() > kSkewShort) {
    q.short_streak = 0;
    return false;
  }
  if (++q.short_streak < kSkewMatches) return false;
  part.state.skewed.store_relaxed(0);
  q.long_streak = 0;
  return true;
}

}  // namespace zh::p2p
