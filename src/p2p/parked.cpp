// Parked sends. A turn looks at every transfer under way, and with thousands of them, which a receiver takes in an
// order of its own, a message would cost as many looks as there are others. So those beyond the first ones are parked:
// the receiver tells of the match, and each turn looks at a few more, for what needs no match and for hints that were
// lost.
#include <algorithm>

#include "p2p/rendezvous.h"

namespace zh::p2p {

namespace {
constexpr size_t kLooksPerTurn = 16;
}  // namespace

void Rendezvous::unpark(Request* r) {
  parked_.remove(r);
  r->parked = false;
  sends_.push_back(r);
}

bool Rendezvous::look_at_parked() {
  bool moved = false;
  ZH_CHECK_INVARIANT(channels_.part().state.matched.broken_invariant(requests_.size()));
  for (Atomic<uint32_t>& slot : channels_.part().state.matched.slots) {
    if (slot.load_relaxed() == 0) continue;
    // H1 -> H0: the match after the hint. It may be an old one, of a request that is another message's now.
    Request* r = requests_.at(slot.exchange_acq_rel(0) - 1);
    if (r->stage != Stage::kTransfer || !r->parked) continue;
    unpark(r);
    ++channels_.counters().unparked;
  }
  for (size_t looks = std::min(kLooksPerTurn, parked_.size); looks != 0; --looks) {
    Request* r = parked_.head;
    if (!is_offered(r)) {
      unpark(r);
      continue;
    }
    parked_.remove(r);
    parked_.push_back(r);
    moved = advance_send(r) || moved;
  }
  return moved;
}

}  // namespace zh::p2p
