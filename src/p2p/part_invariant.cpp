// What a rank's part promises beside its queues, whoever asks. Called by crash tests of all parts, also of the dead,
// by unit tests, and where builds with assertions hand such a thing over.
#include "p2p/part.h"

namespace zh::p2p {

const char* MatchedShm::broken_invariant(uint32_t requests) const {
  for (const Atomic<uint32_t>& slot : slots) {
    if (slot.load_relaxed() > requests) return "a hint of a match is 0 or the index + 1 of a request";
  }
  return nullptr;
}

const char* RankStateShm::broken_invariant() const {
  if (helper.load_relaxed() > static_cast<uint32_t>(Helper::kCalled)) return "`helper` is one of Helper";
  return skewed.load_relaxed() > 1 ? "`skewed` is 0 or 1" : nullptr;
}

const char* CallsShm::broken_invariant() const {
  for (uint32_t i = 0; i < kEntries; ++i) {
    const auto& e = entries[i];
    const uint64_t context = e.context.load_acquire();                  // CL3 <- CL2
    const uint64_t call = e.call.load_acquire();                        // CL1 <- CL0
    if (context == 0 || e.context.load_relaxed() != context) continue;  // none, or another one meanwhile
    if ((context + (call >> kDigestBits)) % kEntries != i) return "an entry's context and number choose its place";
  }
  return nullptr;
}

const char* CallCounts::broken_invariant() const {
  const uint64_t other = rows[kRows].key;
  if (other != 0 && other != kOther) return "the last row counts what has none of its own";
  for (uint32_t i = 0; i <= kRows; ++i) {
    const Row& row = rows[i];
    if (row.key == 0 && (row.calls != 0 || row.bytes != 0)) return "a row without key counts nothing";
    for (uint32_t k = 0; k < i; ++k) {
      if (row.key != 0 && row.key == rows[k].key) return "a key has one row";
    }
  }
  return nullptr;
}

const char* PartShm::broken_invariant(uint32_t ranks) const {
  if (const char* broken = state.broken_invariant(); broken != nullptr) return broken;
  if (const char* broken = access.broken_invariant(ranks); broken != nullptr) return broken;
  if (const char* broken = queues.lock.broken_invariant(ranks); broken != nullptr) return broken;
  if (const char* broken = calls.broken_invariant(); broken != nullptr) return broken;
  if (queues.broken.load_relaxed() > 1) return "queues are broken or not";
  const auto* rings = reinterpret_cast<const Atomic<uint64_t>*>(this + 1);
  for (uint32_t sender = 0; sender < ranks; ++sender) {
    if (rings[sender].load_relaxed() % kLineBytes != 0) return "`in` holds offsets of rings";
  }
  const auto* bells = reinterpret_cast<const shm::BellShm*>(reinterpret_cast<const std::byte*>(this) + bells_at(ranks));
  for (uint32_t first = 0; first < ranks; first += shm::BellShm::kSenders, ++bells) {
    if (const char* broken = bells->broken_invariant(ranks - first); broken != nullptr) return broken;
  }
  return nullptr;
}

}  // namespace zh::p2p
