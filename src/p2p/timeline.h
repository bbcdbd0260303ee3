// The latest calls and messages of a rank, with their times, for a picture of what it did. In shared memory, so that
// they outlive their rank; there only if somebody has asked. Written by the protocols and the layers above, read by
// whoever makes the picture. Refuses to know what functions and keys mean.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/shm_types.h"
#include "p2p/counters.h"

namespace zh::p2p {

struct Event {
  enum class Kind : uint8_t {
    kCall,
    kCollective,  ///< what the call is that ends next
    kSent,        ///< the sender needs the buffer no longer
    kReceived,
    kSentByHost,  ///< given to the host, for a rank of another node
  };
  uint64_t begin_ticks = 0;  ///< of a call, or of a message that both ends move, else 0
  uint64_t end_ticks = 0;
  uint64_t context = 0;
  uint64_t bytes = 0;
  uint64_t key = 0;   ///< of a collective as in CallCounts; of a message its envelope's number, as both ends know it
  int32_t peer = -1;  ///< index on the node, or rank of the world where the host has the message
  int32_t tag = 0;
  uint32_t thread = 0;    ///< tells those of a rank apart
  uint16_t function = 0;  ///< of the layer above
  Kind kind = Kind::kCall;
  Path path = Path::kInline;
};

/// A ring of events.
/// Writers: the owner, one thread at a time. Readers: any process, at any time.
/// Invariant: `written` events are told; event i is at i % kEvents from then on until event i + kEvents is being told.
/// Wrap: none in 64 bits. Crash: what the rank was telling is missing.
struct TimelineShm {
  static constexpr uint64_t kEvents = 1 << 16;
  static constexpr size_t kWords = sizeof(Event) / sizeof(uint64_t);
  alignas(kPairBytes) Atomic<uint64_t> written;
  alignas(kPairBytes) Atomic<uint64_t> words[kEvents][kWords];

  void add(const Event& event) {
    const auto told = std::bit_cast<std::array<uint64_t, kWords>>(event);
    const uint64_t n = written.load_relaxed();
    for (size_t i = 0; i < kWords; ++i) words[n % kEvents][i].store_release(told[i]);  // TN0 -> TN1: that n are written
    written.store_release(n + 1);                                                      // TN2 -> TN3: the event
  }
  /// How many have been told: event n is there if it is less, and at least first_of() that.
  [[nodiscard]] uint64_t told() const { return written.load_acquire(); }  // TN3 <- TN2
  [[nodiscard]] static uint64_t first_of(uint64_t told) { return told - std::min(told, kEvents - 1); }
  /// False once it has been written over, or is just being.
  [[nodiscard]] bool read(uint64_t n, Event* out) const {
    std::array<uint64_t, kWords> seen;
    for (size_t i = 0; i < kWords; ++i) seen[i] = words[n % kEvents][i].load_acquire();  // TN1 <- TN0
    *out = std::bit_cast<Event>(seen);
    return written.load_relaxed() < n + kEvents;
  }
};
static_assert(kShmSafe<TimelineShm> && sizeof(Event) % sizeof(uint64_t) == 0);

}  // namespace zh::p2p
