// What one rank did: messages and bytes by path and size, every decision that a user may ask about, and calls of the
// layers above. In shared memory, so that the numbers outlive their rank; the engine prints them (ZEROHOP_STATS).
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/count.h"
#include "base/shm_types.h"

namespace zh::p2p {

/// The way of a message's bytes.
enum class Path : uint8_t { kInline, kEager, kCells, kCma, kModule, kMapped, kSelf, kCount };
constexpr uint32_t kPaths = static_cast<uint32_t>(Path::kCount);
constexpr const char* kPathNames[kPaths] = {"inline", "eager", "cells", "cma", "ko", "mapped", "self"};
/// Size class i holds sizes in [2^(i-1), 2^i); class 0 is empty messages.
constexpr uint32_t kSizeClasses = 44;
constexpr uint64_t size_class(uint64_t bytes) {
  const uint64_t w =
      63U ^ static_cast<uint32_t>(__builtin_clzll(2 * bytes + 1));  // one instruction, unlike bit_width()
  return w < kSizeClasses ? w : kSizeClasses - 1;
}

struct Tally {
  Count messages;
  Count bytes;
  void add(uint64_t n) {
    ++messages;
    bytes += n;
  }
};

struct Counters {
  Tally sent[kPaths][kSizeClasses];
  Tally received[kPaths][kSizeClasses];
  Count bytes_by_sender;    ///< single copies made by the sending end
  Count bytes_by_receiver;  ///< single copies made by the receiving end
  Count copies_by_sender;   ///< single-copy messages whose every byte one end moved, or both
  Count copies_by_receiver;
  Count copies_by_both;
  Count mapped_by_one;   ///< this rank's sends over mapped memory that one end copied ...
  Count mapped_by_both;  ///< ... or both
  Count edge_bytes;      ///< of mapped buffers, sent through cells because their pages are not mapped as a whole
  Count first_uses;      ///< buffers of the shared heap that are mapped from their next use on
  Count revoked;         ///< mapped buffers of peers that could not be used to the end because the peer forked
  Count peer_turns;      ///< times this rank turned a peer's queues
  Count peer_envelopes;
  Count helpers_called;  ///< times this rank called the helper of a receiver that is in the host
  Count entries_lent;    ///< queue entries given to receivers that are away
  Tally buffered;        ///< small sends copied because the receiver does not take them: it is in the host, or waits
  Count skew_detours;    ///< messages sent through cells because the receiver lagged
  Count skew_on;         ///< times this rank found a receiver lagging
  Count skew_off;
  Count parked;    ///< sends that began behind many others, and are looked at when they are matched ...
  Count unparked;  ///< ... and those of which the receiver told so
  Count ring_full;
  Count rings_grown;
  Count pull_failed;  ///< single copies that ended early and went on through cells
  Count push_failed;
  Count slept;
  Count busy;               ///< times that other programs were found to want this rank's CPU
  Count company;            ///< times that a peer was found on the same CPU
  Count distance_changes;   ///< times that a peer was found near instead of far, or far instead of near
  Count woken;              ///< sleeps that a peer has ended
  Tally of_collectives;     ///< messages sent that collectives are made of
  Tally collective_mapped;  ///< accesses of collectives to other ranks' memory, mapped ...
  Tally collective_cma;     ///< ... or through the kernel ...
  Tally collective_module;  ///< ... by its module

  void count_sent(Path path, uint64_t bytes) { add(sent[static_cast<uint32_t>(path)], bytes); }
  void count_received(Path path, uint64_t bytes) { add(received[static_cast<uint32_t>(path)], bytes); }

 private:
  static void add(Tally (&row)[kSizeClasses], uint64_t bytes) { row[size_class(bytes)].add(bytes); }
};

/// How often something was, and how long, in the owner's ticks.
struct TimedCount {
  Count times;
  Count ticks;
  void add(uint64_t n) {
    ++times;
    ticks += n;
  }
};

/// Calls and bytes by a key of the caller's, which is neither 0 nor kOther.
struct CallCounts {
  static constexpr uint64_t kOther = ~uint64_t{0};  ///< key of what has no row of its own
  static constexpr uint32_t kRows = 256;            ///< a power of two
  struct Row {
    Count key;  ///< 0: free
    Count calls;
    Count bytes;
  };
  Row rows[kRows + 1];  ///< the last one is kOther's

  /// For the owner, or when it is quiet (part_invariant.cpp).
  [[nodiscard]] const char* broken_invariant() const;

  void add(uint64_t key, uint64_t bytes) {
    Row& row = row_of(key);
    ++row.calls;
    row.bytes += bytes;
  }

 private:
  Row& row_of(uint64_t key) {
    auto i = static_cast<uint32_t>((key * 0x9e3779b97f4a7c15U) >> 32) % kRows;
    for (uint32_t looked = 0; looked < kRows; ++looked, i = (i + 1) % kRows) {
      if (rows[i].key == key) return rows[i];
      if (rows[i].key == 0) {
        rows[i].key.set(key);
        return rows[i];
      }
    }
    rows[kRows].key.set(kOther);
    return rows[kRows];
  }
};

/// Writers: the owner, one thread at a time; `end` also whoever has told of it. Readers: any rank, at any time.
/// Invariant: none across fields; a row of calls never changes its key, so a key has one row and one without a key
/// counts nothing. Wrap: none.
/// Crash: a dead rank's numbers stay as they were.
struct AccountShm {
  static constexpr uint32_t kFunctions = 448;
  static constexpr uint32_t kWaits = 6;
  Counters counters;
  CallCounts calls;
  TimedCount functions[kFunctions];  ///< if asked for: by number, of the layer above
  TimedCount waits[kWaits];          ///< likewise: by Activity::Waits, without the time in which anything moved
  Count run_delay_ns;                ///< in which its thread had no processor; known at its end
  Count end;                         ///< how its job ended, in the words of the layer above; 0: it has not
  Atomic<uint64_t> timeline;         ///< offset of its TimelineShm; kNoOffset: nobody has asked for it

  [[nodiscard]] Offset timeline_at() const { return timeline.load_acquire(); }  // TN5 <- TN4
  [[nodiscard]] const char* broken_invariant() const { return calls.broken_invariant(); }
};
static_assert(kShmSafe<AccountShm>);

}  // namespace zh::p2p
