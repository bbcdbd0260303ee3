// Whose rings a rank looks at. It polls those of the first senders that connect. Senders that come later ring its bell
// when they have published, so that a turn costs no more however many ranks a node has. Held by the Matcher; it refuses
// to know what is in a ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "p2p/channels.h"
#include "shm/bell.h"
#include "shm/envelope_ring.h"

namespace zh::p2p {

class Sources {
 public:
  explicit Sources(Channels& channels) : channels_(channels), listed_(channels.node().size(), 0) {}

  /// The senders whose rings may hold something, as of the latest update(): all that are polled, and those that rang
  /// and have not been found empty since.
  [[nodiscard]] const std::vector<uint32_t>& open() const { return open_; }
  void update() {
    look_for_new();
    if (!ringing_.empty()) take_bells();
  }
  /// Listens to those that have connected.
  void look_for_new() {
    if (channels_.part().state.announced.load_relaxed() != announced_seen_) find();
  }
  /// It may have died between a message and its bell, or between its ring and its announcement.
  void note_death(uint32_t sender) {
    find();
    look_at(sender);
  }

  [[nodiscard]] bool arrived(uint32_t sender) const {
    shm::EnvelopeRingShm* ring = channels_.ring_from(sender);
    return ring != nullptr && shm::EnvelopeConsumer::ready(ring);
  }

 private:
  void find();
  /// Into open(), until its ring is seen empty.
  void look_at(uint32_t sender);
  void take_bells();

  Channels& channels_;
  std::vector<uint32_t> open_;     ///< the first `polled_` of them stay
  std::vector<uint8_t> listed_;    ///< by sender: it is in open_
  std::vector<uint32_t> ringing_;  ///< all that ring
  size_t polled_ = 0;
  size_t next_silent_ = 0;  ///< of ringing_: looked at next though it may not have rung
  uint32_t announced_seen_ = 0;
};

}  // namespace zh::p2p
