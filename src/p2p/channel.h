// What a rank keeps about one peer, both directions; and what an Endpoint is configured by.
#pragma once

#include <cstdint>
#include <vector>

#include "base/log.h"
#include "node/line_time.h"
#include "p2p/line_watch.h"
#include "p2p/part.h"
#include "p2p/request.h"
#include "p2p/types.h"
#include "shm/envelope_ring.h"
#include "shm/payload_ring.h"
#include "tune/choice.h"

namespace zh::copy {
class RegionOwner;
}
namespace zh::heap {
class SharedHeap;
}

namespace zh::p2p {

struct EndpointConfig {
  bool cma = true;
  int skew = -1;  ///< -1 and 1: follow the receiver's skew; 0: never
  const copy::RegionOwner* regions = nullptr;
  heap::SharedHeap* heap = nullptr;
  float near_line_ns = node::kNearLineNs;  ///< line times that make a pair near, or far, while the job runs
  float far_line_ns = node::kFarLineNs;
  float most_line_ns = node::kMostLineNs;  ///< ... and above which one tells nothing
  Log log;                                 ///< told of each decision at level debug
  uint32_t polled_senders = 8;             ///< of a receiver; those that connect later ring its bell
  Ablations ablations;
  uint64_t push_at_start = 128 << 10;  ///< bytes that starting a send copies itself; the rest whoever comes first
};

/// A payload ring that a larger one has replaced, until its last block is free.
struct OldRing {
  Offset offset;
  uint64_t bytes;
  shm::PayloadRing payload;
};

struct Channel {
  PartShm* part = nullptr;
  QueuesShm* guard = nullptr;  ///< its queues, or those whose lock is that of all (Ablations::coarse_lock)
  shm::EnvelopeProducer out;
  shm::BellShm* bell = nullptr;  ///< rung behind each envelope; null: the peer polls this rank's ring
  shm::PayloadRing payload;
  shm::PayloadRing overflow;  ///< for what a lagging receiver leaves lying, beyond the size that is good for caches
  tune::PairChoice choice;
  tune::PairChoice near;  ///< what `choice` is while the peer is near ...
  tune::PairChoice far;   ///< ... and else
  bool is_far = false;
  LineWatch watch;
  WaitingSends waiting;  ///< Sender's
  std::vector<OldRing> old;
  bool listening = false;  ///< its ring towards this rank is among the Matcher's sources
  bool dead = false;
  bool stalled = false;  ///< it takes nothing: sends that find no room are copied at once, until there is some again
  bool heard = true;     ///< something of its has come since the latest short message to it
  uint32_t full_streak = 0;
  uint64_t called_ticks = 0;  ///< when its helper was called

  /// It sits in a call of the host, where it takes no messages.
  [[nodiscard]] bool in_host() const {
    return part->state.helper.load_relaxed() != static_cast<uint32_t>(Helper::kNotInHost);
  }
};

}  // namespace zh::p2p
