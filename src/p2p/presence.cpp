// Whether a peer is there, and what gets it going: the word of a rank that sleeps, and that of the helper of one that
// sits in a call of the host.
#include "os/clock.h"
#include "os/futex.h"
#include "p2p/channels.h"

namespace zh::p2p {

namespace {
constexpr uint64_t kCallEveryUs = 100;
}  // namespace

// Several threads of the owner may sleep: each looks for itself when all are woken.
void Channels::wake_sleeper(Atomic<uint32_t>& word, uint32_t seen) {
  if (word.cas_relaxed(seen, seen + 1)) os::futex_wake(word, os::kWakeAll);
}

uint32_t Channels::announce_sleep() {
  peers_[0].part->state.sleepers.fetch_add_relaxed(1);
  const uint32_t word = part_->state.sleeping.fetch_or_relaxed(1) | 1;
  fence_seq_cst();  // Z1 -> Z1: the word is out before the rings and flags are looked at once more
  return word;
}

void Channels::end_sleep(uint32_t word, bool only_thread) {
  if (only_thread) part_->state.sleeping.cas_relaxed(word, word - 1);
  peers_[0].part->state.sleepers.fetch_add_relaxed(~0U);
}

// The helper takes the word back before it looks around, so that a call is never lost; one that comes too late for
// what it was about is repeated.
void Channels::call_helper(Channel& peer) {
  Atomic<uint32_t>& word = peer.part->state.helper;
  auto expected = static_cast<uint32_t>(Helper::kWaits);
  if (word.load_relaxed() != expected) return;
  const uint64_t now = os::ticks();
  if (now - peer.called_ticks < os::ticks_in_us(kCallEveryUs)) return;
  if (!word.cas_relaxed(expected, static_cast<uint32_t>(Helper::kCalled))) return;
  peer.called_ticks = now;
  os::futex_wake(word, 1);
  ++counters().helpers_called;
}

}  // namespace zh::p2p
