// Parked sends. A turn looks at every transfer under way, and with thousands of them, which a receiver takes in an
// order of its own, a message would cost as many looks as there are others. So those beyond the first ones are parked:
// the receiver tells of the match, and each turn looks at a few more, for what needs no match and for hints that were
// lost.
#include <algorithm>

#include "p2p/endpoint.h"

namespace zh::p2p {

namespace {
constexpr size_t kLooksPerTurn = 16;
}  // namespace

void Endpoint::tell_matched(const TransferShm& t) {
  MatchedShm& matched = peers_[t.sender].part->state.matched;
  const uint32_t at = matched.next.fetch_add_relaxed(1) % MatchedShm::kSlots;
  // H0 -> H1: the match before the hint.
  matched.slots[at].store_release(t.request + 1);
}

void Endpoint::unpark(Request* r) {
  parked_.remove(r);
  r->parked = false;
  sends_.push_back(r);
}

bool Endpoint::look_at_parked() {
  bool moved = false;
  ZH_CHECK_INVARIANT(part_->state.matched.broken_invariant(request_count_));
  for (Atomic<uint32_t>& slot : part_->state.matched.slots) {
    if (slot.load_relaxed() == 0) continue;
    // H1 -> H0: the match after the hint. It may be an old one, of a request that is another message's now.
    Request* r = request_at(slot.exchange_acq_rel(0) - 1);
    if (r->stage != Stage::kTransfer || !r->parked) continue;
    unpark(r);
    ++counters().unparked;
  }
  for (size_t looks = std::min(kLooksPerTurn, parked_.size); looks != 0; --looks) {
    Request* r = parked_.head;
    if (at<TransferShm>(base_, r->transfer)->load_state() == TransferState::kMatched) {  // T0 -> T1
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
