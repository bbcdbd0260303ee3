// One directed pair's ring of envelopes: single producer (the sending rank), single consumer at a time (whoever holds
// the receiver's lock). An envelope carries the matching triple and, when small, the payload beside it, so that a small
// message costs one cache-line transfer, or half a one where messages follow each other. It refuses to know matching;
// kinds are opaque to it, but for the marker that moves the ring to a larger one and the one that fills a half line.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/atomic.h"
#include "base/invariant.h"
#include "base/shm_types.h"
#include "shm/payload_ring.h"

namespace zh::shm {

constexpr uint32_t kInlineBytes = 232;
/// Payload of an envelope that takes half a line.
constexpr uint32_t kHalfLinePayload = 8;

/// What an envelope without payload names.
struct FarShm {
  uint64_t bytes;  ///< length of the message
  Offset where;    ///< transfer, or (marker) the new ring, or (piped) how much of the payload came with the envelope
  BlockShm block;  ///< eager: the payload
};

/// One slot of the ring, four lines; the first holds the header and 40 bytes of payload. Or two envelopes of at most
/// kHalfLinePayload bytes share the first line, so that a burst of short messages moves half the lines. A slot has an
/// even position; the odd one behind it is its second half, which is used only if the first envelope says `followed`.
/// Writers: the producer, until published. Readers: the consumer, after.
/// Invariant: seq == position + 1 (mod 2^32) exactly while the slot, or the half, holds the envelope of that position;
/// a second half is looked at only behind a `followed` envelope, whose producer had given it another seq before.
/// Wrap: twice the capacity divides 2^32, so that an old lap's seq never equals a later one's expected value.
/// Crash: an unpublished slot is invisible; there is nothing to mend.
struct EnvelopeShm {
  Atomic<uint32_t> seq;
  uint8_t kind;
  uint8_t stamped;  ///< 1: the word at kStampAt tells the producer's clock at publication
  uint8_t inline_bytes;
  uint8_t followed;  ///< 1: the next envelope is in the second half of this line
  int32_t source;
  int32_t tag;
  uint64_t context;
  union {
    std::byte payload[kInlineBytes];
    FarShm far;
  };

  static constexpr uint32_t kStampAt =
      36;  ///< in the payload: the last word of the first line, which `far` leaves free
  [[nodiscard]] bool has_room_for_stamp(bool is_inline) const { return !is_inline || inline_bytes <= kStampAt; }
  void set_stamp(uint32_t clock) { std::memcpy(payload + kStampAt, &clock, sizeof clock); }
  [[nodiscard]] uint32_t stamp() const {
    uint32_t clock = 0;
    std::memcpy(&clock, payload + kStampAt, sizeof clock);
    return clock;
  }
  /// Before it is published.
  [[nodiscard]] const char* broken_invariant() const {
    return followed != 0 && inline_bytes > kHalfLinePayload ? "an envelope that says `followed` fits into half a line"
                                                            : nullptr;
  }
};
static_assert(offsetof(FarShm, block) + offsetof(BlockShm, reserved) == EnvelopeShm::kStampAt);
static_assert(sizeof(EnvelopeShm) == 256 && offsetof(EnvelopeShm, payload) == 24);
static_assert(24 + sizeof(FarShm) <= kLineBytes, "one line");
static_assert(2 * (24 + kHalfLinePayload) == kLineBytes && kInlineBytes <= UINT8_MAX);

/// Kind of the marker envelope behind which the ring goes on elsewhere (far.where).
constexpr uint8_t kRingMoved = 0xff;
/// Kind of the envelope that fills a second half when the next message does not fit there. No consumer sees it.
constexpr uint8_t kHalfSkipped = 0xfe;
/// From here on kinds are the ring's own.
constexpr uint8_t kFirstOwnKind = kHalfSkipped;

/// Writers: producer (header, before the ring is named; slots), consumer (consumed, under the receiver's lock).
/// Readers: both. Invariant: consumed <= produced <= consumed + 2 * capacity, in free-running positions, two for each
/// slot; a slot is written only when its position + 2 - consumed <= 2 * capacity. From `consumed` on the published
/// envelopes come first: none lies behind a place that is not published. `consumed` stands at a second half only behind
/// an envelope that says `followed`. Wrap: positions run freely modulo 2^32; capacity is a power of two. Crash: the
/// producer dying between claim and publish leaves an unpublished slot that nobody waits for by itself.
struct EnvelopeRingShm {
  uint32_t capacity;    ///< slots
  uint32_t rings_bell;  ///< 1: the producer rings its consumer's bell (shm/bell.h) behind each envelope
  uint32_t reserved[30];
  alignas(kPairBytes) Atomic<uint32_t> consumed;
  Atomic<uint32_t> line;  ///< the time of a line, as the consumer has seen it (p2p/line_watch.h); a hint
  uint32_t reserved2[30];
  // EnvelopeShm slots[capacity] follows.

  [[nodiscard]] EnvelopeShm* slots() { return reinterpret_cast<EnvelopeShm*>(this + 1); }
  [[nodiscard]] EnvelopeShm* slot_at(uint32_t position) {
    EnvelopeShm* slot = slots() + (position / 2 & (capacity - 1));
    return position % 2 == 0 ? slot : second_half(slot);
  }
  [[nodiscard]] static EnvelopeShm* second_half(EnvelopeShm* slot) {
    return reinterpret_cast<EnvelopeShm*>(reinterpret_cast<std::byte*>(slot) + kLineBytes / 2);
  }
  /// The position behind a published envelope.
  [[nodiscard]] static uint32_t behind(uint32_t position, const EnvelopeShm& envelope) {
    return position + 2 - ((position | envelope.followed) & 1);
  }
  [[nodiscard]] static constexpr uint64_t size_bytes(uint32_t capacity) {
    return sizeof(EnvelopeRingShm) + uint64_t{capacity} * sizeof(EnvelopeShm);
  }
  /// For the producer, and for whoever holds the receiver's lock. Looks at every slot.
  [[nodiscard]] const char* broken_invariant();
};
static_assert(kShmSafe<EnvelopeRingShm> && sizeof(EnvelopeRingShm) == 2 * kPairBytes);

inline const char* EnvelopeRingShm::broken_invariant() {
  if (!std::has_single_bit(capacity)) return "a ring's capacity is a power of two";
  const uint32_t first = consumed.load_relaxed();
  if (first % 2 != 0) {
    const EnvelopeShm& half_read = *slot_at(first - 1);
    if (half_read.seq.load_acquire() != first) return "a second half is read behind its first one";  // E0 -> E1
    if (half_read.followed == 0) return "a second half is read only behind an envelope that says `followed`";
  }
  // From the last slot to the first, since the producer may publish meanwhile: in order.
  bool later = false;
  for (uint32_t left = capacity; left-- != 0;) {
    const uint32_t position = (first & ~1U) + 2 * left;
    EnvelopeShm* const slot = slot_at(position);
    const bool published = slot->seq.load_acquire() == position + 1;  // E0 -> E1: `followed`
    if (later && !published) return "no envelope is published behind one that is not";
    // E0 -> E1
    if (later && slot->followed != 0 && second_half(slot)->seq.load_acquire() != position + 2) {
      return "no envelope is published behind a second half that is not";
    }
    later = published;
  }
  return nullptr;
}

/// The producer's private view of a ring.
class EnvelopeProducer {
 public:
  /// `ring` is empty; its position (0 in fresh memory) is where this producer begins, at a slot.
  void attach(EnvelopeRingShm* ring) {
    ring_ = ring;
    slots_ = ring->slots();
    positions_ = 2 * ring->capacity;
    write_pos_ = consumed_seen_ = ring->consumed.load_relaxed();
  }
  [[nodiscard]] bool attached() const { return ring_ != nullptr; }
  [[nodiscard]] uint32_t capacity() const { return positions_ / 2; }
  [[nodiscard]] EnvelopeRingShm* ring() const { return ring_; }

  /// Where the next envelope goes, with room for kInlineBytes, or null when the ring is full. The caller fills it and
  /// calls publish(); nothing in between may fail. `spare` slots are kept free (for the marker that moves the ring).
  [[nodiscard]] EnvelopeShm* claim(uint32_t spare = 1) {
    if (write_pos_ % 2 != 0) [[unlikely]]
      skip_half();
    if (!has_room(spare) && !sees_room(spare)) [[unlikely]]
      return nullptr;
    return slot_at(write_pos_);
  }
  /// The same for a `half`, of at most kHalfLinePayload bytes, or a whole; null too where it takes a closer look.
  [[nodiscard, gnu::always_inline]] EnvelopeShm* claim_at_once(bool half) const {
    EnvelopeShm* slot = slot_at(write_pos_);
    if (write_pos_ % 2 != 0) return half ? EnvelopeRingShm::second_half(slot) : nullptr;
    return has_room(1) ? slot : nullptr;
  }
  /// The same for at most kHalfLinePayload bytes.
  [[nodiscard]] EnvelopeShm* claim_short(uint32_t spare = 1) {
    return write_pos_ % 2 != 0 ? EnvelopeRingShm::second_half(slot_at(write_pos_)) : claim(spare);
  }
  /// `followed`: what comes next had better share the line. Only for at most kHalfLinePayload bytes.
  [[gnu::always_inline]] void publish(EnvelopeShm* slot, bool followed = false) {
    const uint32_t pos = write_pos_;
    const uint32_t seq = pos + 1;
    followed = followed && pos % 2 == 0;
    slot->followed = followed ? 1 : 0;
    // Whatever a longer message left there.
    if (followed) EnvelopeRingShm::second_half(slot)->seq.store_relaxed(seq);
    const uint32_t behind = followed ? seq : (pos | 1) + 1;
    write_pos_ = behind;
    ZH_CHECK_INVARIANT(slot->broken_invariant());
    // E1 -> E0: header and payload are visible before seq.
    slot->seq.store_release(seq);
    ZH_CHECK_INVARIANT(broken_invariant());
    if (followed) return;
    // The consumer has read that line a lap ago. Stores wait for their lines one behind the other, and the few that fit
    // into the store buffer are not enough messages to hide that.
    constexpr uint32_t kAhead = 3;
    prefetch_for_write(slot_at(behind + 2 * kAhead));
  }
  /// True when every published envelope has been consumed.
  [[nodiscard]] bool empty() {
    consumed_seen_ = ring_->consumed.load_acquire();  // E2 -> E3: only compared; the label pairs with consume().
    return consumed_seen_ == write_pos_;
  }
  [[nodiscard]] uint32_t write_pos() const { return write_pos_; }
  /// `line` when the ring was last looked at for room.
  [[nodiscard]] uint32_t line_seen() const { return line_seen_; }
  /// What the ring promises of its positions; of its slots as well once a lap.
  [[nodiscard]] const char* broken_invariant() const {
    const uint32_t in_use = write_pos_ - ring_->consumed.load_relaxed();
    if (in_use > positions_) return "consumed <= produced <= consumed + 2 x capacity";
    if (in_use > write_pos_ - consumed_seen_) return "`consumed` never goes back";
    if (ring_->slot_at(write_pos_)->seq.load_relaxed() == write_pos_ + 1)
      return "nothing is published ahead of its turn";
    return write_pos_ / 2 % capacity() == 0 ? ring_->broken_invariant() : nullptr;
  }

 private:
  /// The whole slot of a position.
  [[nodiscard]] EnvelopeShm* slot_at(uint32_t position) const { return slots_ + (position & (positions_ - 1)) / 2; }
  [[nodiscard]] bool has_room(uint32_t spare) const {
    return write_pos_ - consumed_seen_ + 2 * (spare + 1) <= positions_;
  }
  [[nodiscard, gnu::noinline]] bool sees_room(uint32_t spare) {
    if (ring_ == nullptr) return false;
    // E2 -> E3: the consumer is done reading the slots that are claimed now.
    consumed_seen_ = ring_->consumed.load_acquire();
    line_seen_ = ring_->line.load_relaxed();
    return has_room(spare);
  }
  [[gnu::noinline]] void skip_half() {
    EnvelopeShm* half = EnvelopeRingShm::second_half(slot_at(write_pos_));
    half->kind = kHalfSkipped;
    publish(half);
  }

  EnvelopeRingShm* ring_ = nullptr;
  EnvelopeShm* slots_ = nullptr;
  uint32_t positions_ = 0;
  uint32_t write_pos_ = 0;
  uint32_t consumed_seen_ = 0;
  uint32_t line_seen_ = 0;
};

/// Consumer side, for as long as the receiver's lock is held: the read position lives in the ring, since either side
/// may make progress. Only ready() needs no lock.
class EnvelopeConsumer {
 public:
  [[gnu::always_inline]] explicit EnvelopeConsumer(EnvelopeRingShm* ring)
      : ring_(ring), slots_(ring->slots()), mask_(ring->capacity - 1), pos_(ring->consumed.load_relaxed()) {}

  /// The oldest envelope, or null if there is none.
  [[nodiscard]] EnvelopeShm* front() {
    for (;;) {
      EnvelopeShm* slot = published();
      if (slot == nullptr || slot->kind != kHalfSkipped) return slot;
      consume(slot);
    }
  }
  /// Before the lock was taken nobody else has consumed what this one saw.
  [[nodiscard]] bool still_first() const { return ring_->consumed.load_relaxed() == pos_; }
  /// The same, or a half that was skipped before it; without the lock a hint.
  [[nodiscard, gnu::always_inline]] EnvelopeShm* published() const {
    EnvelopeShm* slot = slot_at(pos_);
    return slot->seq.load_acquire() == pos_ + 1 ? slot : nullptr;  // E0 -> E1: reads the envelope after its seq
  }
  /// Gives the place of the oldest envelope, which is `slot`, back to the producer.
  [[gnu::always_inline]] void consume(const EnvelopeShm* slot) {
    ZH_CHECK_INVARIANT(ready(ring_) ? nullptr : "only a published envelope is consumed");
    pos_ = EnvelopeRingShm::behind(pos_, *slot);
    // E3 -> E2: the slot has been read.
    ring_->consumed.store_release(pos_);
  }
  /// Asks for a line that will be read soon. Taking the lock for each message keeps the processor from reading ahead by
  /// itself; nearer lines than this one may still be written, which fetching them now would disturb.
  [[gnu::always_inline]] void read_ahead() const {
    constexpr uint32_t kAhead = 8;
    __builtin_prefetch(slots_ + ((pos_ / 2 + kAhead) & mask_));
  }
  /// Without the lock: is there an envelope at the read position? A hint for the owner's poll.
  [[nodiscard]] static bool ready(EnvelopeRingShm* ring) {
    const uint32_t pos = ring->consumed.load_relaxed();
    return ring->slot_at(pos)->seq.load_relaxed() == pos + 1;
  }

 private:
  [[nodiscard]] EnvelopeShm* slot_at(uint32_t position) const {
    EnvelopeShm* slot = slots_ + (position / 2 & mask_);
    return position % 2 == 0 ? slot : EnvelopeRingShm::second_half(slot);
  }
  EnvelopeRingShm* ring_;
  EnvelopeShm* slots_;
  uint32_t mask_;
  uint32_t pos_;
};

}  // namespace zh::shm
