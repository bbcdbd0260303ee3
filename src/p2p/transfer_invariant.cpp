// What a transfer promises while it is under way. Either end may ask at any time: what the other end counts is read in
// the order that keeps the answer true meanwhile. Called where a transfer is offered, matched and released in builds
// with assertions, and by tests.
#include "p2p/transfer.h"

#include <algorithm>

namespace zh::p2p {

namespace {

bool is_well(const copy::RemoteBufferShm& buffer) {
  return buffer.from() <= buffer.end() && buffer.end() <= buffer.bytes;
}
bool lies_in(const SpanShm& span, uint64_t bytes) { return span.from <= bytes && span.bytes <= bytes - span.from; }
}  // namespace

uint64_t ClaimShm::claimed(uint64_t first, uint64_t end) const {
  return std::clamp(next_.load_relaxed(), first, end) - first;
}

const char* ClaimShm::broken_invariant(uint64_t first) const {
  return next_.load_relaxed() < first ? "bytes are claimed from the first one on" : nullptr;
}

const char* TransferShm::broken_invariant() const {
  if (!is_well(source)) return "what can be mapped of a source lies inside it";
  if (window == 0 || window > kCellWindow || !std::has_single_bit(window)) return "a window is a power of two of cells";
  if (direct > static_cast<uint8_t>(Direct::kLater) || parked > 1) return "a transfer says who copies it";
  if (state.load_relaxed() > static_cast<uint32_t>(TransferState::kFound)) return "a transfer is offered or matched";
  if (returned.load_relaxed() > static_cast<uint32_t>(Returned::kTaken)) return "a range is handed back once";
  if (const char* broken = claim.broken_invariant(source.from()); broken != nullptr) return broken;
  const bool over = released.load_acquire() != 0;  // L1 -> L0: the receiver's last access
  // What was moved before what was claimed, and what was emptied before what was filled: either may grow meanwhile.
  const uint64_t moved_by_sender = pushed.load_acquire();    // W1 -> W0: the claim
  const uint64_t moved_by_receiver = pulled.load_acquire();  // U1 -> U0: the claim
  const uint64_t claimed = claim.claimed(source.from(), source.end());
  if (moved_by_sender + moved_by_receiver > claimed) return "pushed + pulled bytes were claimed";
  const uint32_t emptied = consumed.load_acquire();  // V0 -> V1: the cells that are emptied
  const uint32_t filled = published.load_acquire();  // P0 -> P1: the cells
  if (filled - emptied > window) return "consumed <= published <= consumed + window";
  if (over && claimed != source.end() - source.from()) return "a message is complete when its transfer is released";
  if (over && filled != emptied) return "all cells are empty when a transfer is released";
  for (uint32_t i = emptied; i != filled; ++i) {
    for (const SpanShm& span : cells[i % window].spans) {
      if (!lies_in(span, source.bytes)) return "a cell holds bytes of its message";
    }
  }
  return nullptr;
}

const char* TransferShm::broken_match() const {
  if (state.load_relaxed() != static_cast<uint32_t>(TransferState::kOffered)) return "a transfer is matched once";
  if (!is_well(target)) return "what can be mapped of a target lies inside it";
  return broken_invariant();
}

}  // namespace zh::p2p
