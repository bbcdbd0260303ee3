// What a rank keeps about one peer, both directions.
#pragma once

#include <cstdint>
#include <vector>

#include "copy/kernels.h"
#include "p2p/line_watch.h"
#include "p2p/part.h"
#include "p2p/request.h"
#include "p2p/types.h"
#include "shm/envelope_ring.h"
#include "shm/payload_ring.h"
#include "tune/choice.h"

namespace zh::p2p {

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
  uint32_t written_bytes = 0;  ///< of its latest message that this end wrote, which came in a block or in cells
  uint64_t called_ticks = 0;   ///< when its helper was called

  void note_written(uint64_t bytes) {
    constexpr uint64_t kMost = copy::WriteAhead::kMostBytes;
    written_bytes = static_cast<uint32_t>(bytes < kMost ? bytes : kMost);
  }
  /// It sits in a call of the host, where it takes no messages.
  [[nodiscard]] bool in_host() const {
    return part->state.helper.load_relaxed() != static_cast<uint32_t>(Helper::kNotInHost);
  }
};

}  // namespace zh::p2p
