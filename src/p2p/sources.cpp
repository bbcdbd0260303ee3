#include "p2p/sources.h"

#include <bit>

namespace zh::p2p {

void Sources::find() {
  // A3 -> A2: rings announced before are seen below.
  announced_seen_ = channels_.part().state.announced.load_acquire();
  for (uint32_t i = 0; i < channels_.size(); ++i) {
    if (channels_[i].listening) continue;
    shm::EnvelopeRingShm* ring = channels_.ring_from(i);
    if (ring == nullptr) continue;
    channels_[i].listening = true;
    if (ring->rings_bell != 0) {
      ringing_.push_back(i);
    } else {
      listed_[i] = 1;
      open_.insert(open_.begin() + static_cast<ptrdiff_t>(polled_++), i);
    }
  }
}

void Sources::look_at(uint32_t sender) {
  if (listed_[sender] != 0 || channels_.ring_from(sender) == nullptr) return;
  listed_[sender] = 1;
  open_.push_back(sender);
}

// A ring leaves the list when it is seen empty after its bell was taken. Whatever comes later rings again. One that has
// not rung is looked at as well, each in its turn, since a sender may be stopped between a message and its bell.
void Sources::take_bells() {
  size_t kept = polled_;
  for (size_t i = polled_; i < open_.size(); ++i) {
    if (arrived(open_[i])) {
      open_[kept++] = open_[i];
    } else {
      listed_[open_[i]] = 0;
    }
  }
  open_.resize(kept);
  shm::BellShm* const bells = channels_.part().bells(channels_.size());
  for (uint32_t word = 0; word < shm::BellShm::words(channels_.size()); ++word) {
    for (uint64_t rung = bells[word].take(); rung != 0; rung &= rung - 1) {
      look_at(word * shm::BellShm::kSenders + static_cast<uint32_t>(std::countr_zero(rung)));
    }
  }
  if (++next_silent_ >= ringing_.size()) next_silent_ = 0;
  if (const uint32_t silent = ringing_[next_silent_]; arrived(silent)) look_at(silent);
}

}  // namespace zh::p2p
