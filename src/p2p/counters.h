// What one rank's point-to-point did: messages and bytes by path and size, and every decision that a user may ask
// about. Plain numbers owned by one Endpoint; the engine prints them (ZEROHOP_STATS).
#pragma once

#include <bit>
#include <cstdint>

namespace zh::p2p {

/// The way of a message's bytes.
enum class Path : uint8_t { kInline, kEager, kCells, kCma, kMapped, kSelf, kCount };
constexpr uint32_t kPaths = static_cast<uint32_t>(Path::kCount);
/// Size class i holds sizes in [2^(i-1), 2^i); class 0 is empty messages.
constexpr uint32_t kSizeClasses = 44;
constexpr uint32_t size_class(uint64_t bytes) {
  const auto w = static_cast<uint32_t>(std::bit_width(bytes));
  return w < kSizeClasses ? w : kSizeClasses - 1;
}

struct Tally {
  uint64_t messages = 0;
  uint64_t bytes = 0;
  void add(uint64_t n) {
    ++messages;
    bytes += n;
  }
};

struct Counters {
  Tally sent[kPaths][kSizeClasses];
  Tally received[kPaths][kSizeClasses];
  uint64_t bytes_by_sender = 0;    ///< single copies made by the sending end
  uint64_t bytes_by_receiver = 0;  ///< single copies made by the receiving end
  uint64_t copies_by_sender = 0;   ///< single-copy messages whose every byte one end moved, or both
  uint64_t copies_by_receiver = 0;
  uint64_t copies_by_both = 0;
  uint64_t mapped_by_one = 0;   ///< this rank's sends over mapped memory that one end copied ...
  uint64_t mapped_by_both = 0;  ///< ... or both
  uint64_t edge_bytes = 0;      ///< of mapped buffers, sent through cells because their pages are not mapped as a whole
  uint64_t first_uses = 0;      ///< buffers of the shared heap that are mapped from their next use on
  uint64_t revoked = 0;         ///< mapped buffers of peers that could not be used to the end because the peer forked
  uint64_t cranked = 0;         ///< times this rank turned a peer's queues
  uint64_t cranked_envelopes = 0;
  uint64_t helpers_called = 0;  ///< times this rank called the helper of a receiver that is in the host
  uint64_t entries_lent = 0;    ///< queue entries given to receivers that are away
  Tally buffered;               ///< small sends copied because the receiver is in the host and has not asked for them
  uint64_t skew_detours = 0;    ///< messages sent through cells because the receiver lagged
  uint64_t skew_on = 0;         ///< times this rank, as receiver, was found lagging
  uint64_t skew_off = 0;
  uint64_t parked = 0;    ///< sends that began behind many others, and are looked at when they are matched ...
  uint64_t unparked = 0;  ///< ... and those of which the receiver told so
  uint64_t ring_full = 0;
  uint64_t rings_grown = 0;
  uint64_t pull_failed = 0;  ///< single copies that ended early and went on through cells
  uint64_t push_failed = 0;
  uint64_t slept = 0;
  uint64_t company = 0;           ///< times that a peer was found on the same CPU
  uint64_t distance_changes = 0;  ///< times that a peer was found near instead of far, or far instead of near
  uint64_t woken = 0;             ///< sleeps that a peer has ended
  Tally collective_mapped;        ///< accesses of collectives to other ranks' memory, mapped ...
  Tally collective_cma;           ///< ... or through the kernel

  void count_sent(Path path, uint64_t bytes) { add(sent[static_cast<uint32_t>(path)], bytes); }
  void count_received(Path path, uint64_t bytes) { add(received[static_cast<uint32_t>(path)], bytes); }

 private:
  static void add(Tally (&row)[kSizeClasses], uint64_t bytes) { row[size_class(bytes)].add(bytes); }
};

}  // namespace zh::p2p
