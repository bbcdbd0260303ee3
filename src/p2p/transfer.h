// One large message in flight, as both ends see it. Both ends copy: each claims the next bytes of the
// message through one shared counter and moves them its own way - the sender through cells or straight into the
// receiver's buffer, the receiver straight out of the sender's - so that either can finish alone.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/crash_point.h"
#include "base/invariant.h"
#include "base/shm_types.h"
#include "copy/remote_buffer.h"
#include "shm/payload_ring.h"

namespace zh::p2p {

enum class TransferState : uint32_t {
  kOffered,
  kMatched,  ///< by a receive that had been posted before the message came, as far as its queues tell ...
  kFound     ///< ... or by one that came later
};

/// Who copies a transfer's bytes once. An end that is away is stood in for by the other one, whatever it says, but for
/// the last three: they are those of Copier, and whether buffers are mapped does not change them.
enum class Direct : uint32_t { kCells, kBoth, kSender, kReceiver, kReceiverAlone, kWaiter, kLater };

/// What becomes of a range that the receiver has claimed and could not pull. The receiver asks, once; the sender takes
/// it.
enum class Returned : uint32_t { kNothing, kAsked, kTaken };

/// Bytes [from, from + bytes) of a message.
struct SpanShm {
  uint64_t from;
  uint64_t bytes;
};
/// They wait in a block, one span behind the other. Two, so that the edges of a buffer need one cell.
struct CellShm {
  SpanShm spans[2];
  shm::BlockShm block;
};
constexpr uint16_t kCellWindow = 64;
constexpr uint16_t kShortWindow = 8;  ///< of transfers that are made when memory is scarce

/// Hands out disjoint ranges of [first, end) to both ends of a transfer.
/// Writers / Readers: both ends. Invariant: every byte from first to min(next, end) belongs to exactly one claimer; so
/// next never lies before first, and both ends together never say that they moved more than it hands out.
/// Wrap: claims beyond the end add at most one chunk per attempt and end, far below 2^64.
/// Crash: a chunk claimed by a dead process stays claimed; the survivor sees the death and fails the message.
class ClaimShm {
 public:
  void reset(uint64_t first) { next_.store_relaxed(first); }
  /// Claims up to `chunk` bytes; returns how many (0: all are claimed) and where they start.
  [[nodiscard]] uint64_t claim(uint64_t chunk, uint64_t end, uint64_t* from) {
    if (next_.load_relaxed() >= end) return 0;
    // Ranges are handed out one after the other; the payload itself is published by the counters below.
    *from = next_.fetch_add_relaxed(chunk);
    return *from >= end ? 0 : (end - *from < chunk ? end - *from : chunk);
  }
  /// Bytes before `end` that nobody has claimed.
  [[nodiscard]] uint64_t left(uint64_t end) const {
    const uint64_t next = next_.load_relaxed();
    return next < end ? end - next : 0;
  }
  /// Bytes of [first, end) that belong to a claimer.
  [[nodiscard]] uint64_t claimed(uint64_t first, uint64_t end) const;
  [[nodiscard]] const char* broken_invariant(uint64_t first) const;

 private:
  Atomic<uint64_t> next_;
};

/// Writers: sender (`source`, parked, request, cells, published, pushed), matcher under the receiver's lock (`target`,
/// state), receiver (pulled, consumed, released), both (returned: the receiver kAsked, then the sender kTaken).
/// Readers: both. Invariant: bytes moved through cells + pushed + pulled == source.bytes exactly when the message is
/// complete, so pushed + pulled are at most what was claimed; consumed <= published <= consumed + window, and the spans
/// of full cells lie in the message. What is claimed is [source.from(), source.end()): the sender puts the edges into
/// cells, whatever becomes of the rest. Once released, all of it is claimed and every cell is empty. Wrap: published
/// and consumed run freely modulo 2^32, which both windows divide. Crash: see ClaimShm.
struct TransferShm {
  // The sender's line.
  copy::RemoteBufferShm source;
  uint16_t sender;
  uint16_t receiver;
  uint8_t direct;   ///< Direct: the sender's choice as far as it knows the buffers; kCells: no single copy
  uint8_t parked;   ///< 1: the sender looks only when it is told of the match
  uint16_t window;  ///< cells that there is memory for, at most kCellWindow; of the memory, not of the message
  // The receiver's line: the sender that waits for `state` has the target with it.
  copy::RemoteBufferShm target;  ///< valid once state is kMatched
  Atomic<uint32_t> state;
  Atomic<uint32_t> released;  ///< 1: the receiver will not touch this any more
  alignas(kPairBytes) ClaimShm claim;
  alignas(kPairBytes) Atomic<uint64_t> pushed;  ///< bytes that the sender wrote into the receiver's buffer
  Atomic<uint32_t> published;                   ///< cells ever published
  alignas(kPairBytes) Atomic<uint64_t> pulled;  ///< bytes that the receiver read from the sender's buffer
  Atomic<uint32_t> consumed;                    ///< cells ever emptied
  Atomic<uint32_t> returned;                    ///< Returned: whether the sender owns the range below again
  uint64_t returned_from;
  uint64_t returned_bytes;
  uint32_t request;  ///< of the sender, if parked
  alignas(kPairBytes) CellShm cells[kCellWindow];

  [[nodiscard]] static constexpr uint64_t size_bytes(uint32_t window) {
    return sizeof(TransferShm) - (kCellWindow - window) * sizeof(CellShm);
  }
  [[nodiscard]] Direct offered() const { return static_cast<Direct>(direct); }
  /// Once matched: mapped buffers decide, since a copy through the kernel beside one through memory only slows it.
  [[nodiscard]] Direct copiers() const {
    if (offered() == Direct::kLater) return found() ? Direct::kReceiver : Direct::kSender;
    if (whole()) return offered();
    if (source.mapped()) return target.mapped() ? Direct::kBoth : Direct::kReceiver;
    return target.mapped() ? Direct::kSender : offered();
  }
  [[nodiscard]] TransferState load_state() const {
    // T0 -> T1: the target's description after the state.
    return static_cast<TransferState>(state.load_acquire());
  }
  [[nodiscard]] bool found() const { return state.load_relaxed() == static_cast<uint32_t>(TransferState::kFound); }
  /// One end copies all of it.
  [[nodiscard]] bool whole() const { return offered() > Direct::kReceiver; }
  [[nodiscard]] bool has_returned() const {
    return returned.load_relaxed() != static_cast<uint32_t>(Returned::kNothing);
  }
  /// Gives bytes [from, from + n) back to the sender; none of them: asks it for cells.
  void give_back(uint64_t from, uint64_t n) {
    returned_from = from;
    returned_bytes = n;
    ZH_CRASH_POINT("pull: handing back");
    // R0 -> R1: the range before the word.
    returned.store_release(static_cast<uint32_t>(Returned::kAsked));
  }
  /// The sender's side: takes a range that was given back, once.
  void take_back(SpanShm* range) {
    // R1 -> R0: the range after the word.
    if (returned.load_acquire() != static_cast<uint32_t>(Returned::kAsked)) return;
    *range = {returned_from, returned_bytes};
    returned.store_relaxed(static_cast<uint32_t>(Returned::kTaken));
  }
  /// For either end (transfer_invariant.cpp).
  [[nodiscard]] const char* broken_invariant() const;
  /// For who matches: what the sender will go by.
  [[nodiscard]] const char* broken_match() const;
  void store_matched(TransferState how = TransferState::kMatched) {
    ZH_CHECK_INVARIANT(broken_match());
    // T1 -> T0: the target's description is complete.
    state.store_release(static_cast<uint32_t>(how));
  }
};
static_assert(kShmSafe<TransferShm>);
static_assert(sizeof(TransferShm) <= 4096 && TransferShm::size_bytes(kShortWindow) <= 1024);
static_assert(std::has_single_bit(kCellWindow) && std::has_single_bit(kShortWindow));
static_assert(offsetof(TransferShm, target) == kLineBytes && offsetof(TransferShm, claim) == kPairBytes);

}  // namespace zh::p2p
