// A receiver's matching queues in shared memory: posted receives and unexpected messages, binned so that long queues
// cost nothing, under one short lock. Either side works on them: the receiver, or a sender of a large message that
// finds the receiver away and matches on its behalf (LiMIC paper, sections 4.3-4.5). MPI order (standard 3.5) is kept
// whoever does it. It refuses to know payload: entries name it, the protocols move it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/invariant.h"
#include "base/shm_types.h"
#include "copy/kernels.h"
#include "copy/remote_buffer.h"
#include "p2p/types.h"
#include "shm/envelope_ring.h"
#include "shm/owner_lock.h"

namespace zh::p2p {

/// Position of an entry in 64-byte units from the segment's start, or, with kPrivateRef set, from the owner's private
/// spill memory. 0 means none.
using Ref = uint32_t;
constexpr Ref kNoRef = 0;
constexpr Ref kPrivateRef = 1U << 31;

/// Envelope kinds.
enum class Kind : uint8_t {
  kInline,    ///< payload beside the envelope
  kEager,     ///< far.block holds the whole payload
  kPiped,     ///< as kEager, behind a PipedShm: the sender may still be writing it
  kTransfer,  ///< far.where names a TransferShm
};

/// Which fields of a receive are wildcards; also the class of bins. Bit 0: any tag, bit 1: any source.
constexpr uint32_t kClasses = 4;
constexpr uint32_t class_of(int32_t source, int32_t tag) {
  return (source == kAnySource ? 2U : 0U) | (tag == kAnyTag ? 1U : 0U);
}

struct LinkShm {
  Ref next;
  Ref prev;
};

/// A posted receive.
/// Writers: the owner (while unqueued); under the lock: who matches (message, transfer). Readers: under the lock.
/// Invariant: queued in exactly one bin, that of its wildcards and triple, or on the matched list, or owned by its
/// Request.
/// Wrap: `order` is 64 bits wide. Crash: the owner's death breaks the whole queue; a sender's death leaves it intact.
struct PostedShm {
  LinkShm link;
  uint32_t bin;      ///< class << 16 | bin index
  uint32_t request;  ///< index of the owner's Request
  uint64_t order;    ///< posting order over all classes
  uint64_t context;
  int32_t source;
  int32_t tag;
  copy::RemoteBufferShm buffer;
  Ref message;  ///< after a match by another side: the message (inline, eager or transfer)
  uint32_t reserved[7];

  /// Of a queued one (queues_invariant.cpp).
  [[nodiscard]] const char* broken_invariant() const;
};
static_assert(kShmSafe<PostedShm> && sizeof(PostedShm) == 128);

/// An unexpected message, or one that another side matched.
/// Writers: who drains, under the lock; the owner after unlinking. Readers: under the lock.
/// Invariant: an unexpected message is linked in one bin of each class, in arrival order; it names its source and tag.
/// Wrap: none. Crash: as PostedShm.
struct MessageShm {
  LinkShm link[kClasses];
  uint64_t context;
  int32_t source;
  int32_t tag;
  Kind kind;
  uint8_t reserved0;
  uint16_t inline_bytes;
  uint32_t sender;  ///< node-local index
  uint32_t number;  ///< of its envelope: its position in the ring + 1
  uint32_t reserved1;
  union {
    std::byte payload[shm::kInlineBytes];
    shm::FarShm far;
  };
  [[nodiscard]] uint64_t bytes() const { return kind == Kind::kInline ? inline_bytes : far.bytes; }
  /// Copies what an entry holds; much less than its size for a short message.
  void copy_to(MessageShm* out) const;
  /// Of an unexpected one (queues_invariant.cpp).
  [[nodiscard]] const char* broken_invariant() const;
};
static_assert(kShmSafe<MessageShm> && sizeof(MessageShm) <= 320);
constexpr uint64_t kMessageBytes = 320;

/// How a receive of that message with room for so many bytes ends.
[[nodiscard]] inline Result result_of(const MessageShm& m, uint64_t room) {
  const uint64_t bytes = m.bytes();
  return {m.source, m.tag, bytes < room ? bytes : room, bytes > room ? Code::kTruncated : Code::kOk, false};
}

struct BinShm {
  Ref head;
  Ref tail;
};

constexpr uint32_t kBinBits[kClasses] = {12, 9, 9, 6};
constexpr uint32_t kBinFirst[kClasses] = {0, 1 << 12, (1 << 12) + (1 << 9), (1 << 12) + (2 << 9)};
constexpr uint32_t kBins = (1 << 12) + (2 << 9) + (1 << 6);

/// One receiver's queues.
/// Writers / Readers: the holder of `lock`, but for the hints named below.
/// Invariant: posted_count[c] receives are queued in class c, in the order of posting in each bin, posted_total in all;
/// unexpected_count messages in each class's bins. private_entries of these are the owner's private ones, and
/// free_message_count entries are on the free list.
/// Wrap: counters are 64 bits wide or bounded by memory.
/// Crash: `broken` is set by whoever finds the lock's holder dead; from then on nobody enters.
struct QueuesShm {
  alignas(kPairBytes) shm::OwnerLockShm lock;
  Atomic<uint32_t> broken;
  Atomic<uint32_t> unexpected_count;  ///< changed under the lock; read by anyone as a hint
  Atomic<uint32_t> matched;           ///< head of the list of receives matched by another side; hint without the lock
  uint32_t private_entries;           ///< > 0: entries in the owner's private memory, so only the owner may work here
  Atomic<uint32_t> posted_total;      ///< hint without the lock
  uint32_t posted_count[kClasses];
  uint64_t next_order;
  Atomic<uint64_t> arrivals;         ///< messages that ever became unexpected; hint without the lock
  Atomic<uint32_t> unexpected_high;  ///< high-water mark; changed under the lock
  Ref free_messages;
  Atomic<uint32_t> free_message_count;  ///< hint without the lock
  uint32_t long_streak;                 ///< skew detection: consecutive arrivals at a long queue, see skew.h
  uint32_t short_streak;
  alignas(kPairBytes) BinShm posted[kBins];
  BinShm unexpected[kBins];

  /// Of the counts alone, under the lock. Of the lists: Queues.
  [[nodiscard]] const char* broken_invariant() const;
};
static_assert(kShmSafe<QueuesShm>);

/// Works on one receiver's queues under its lock. `private_base` is the owner's spill memory, null for others.
class Queues {
 public:
  Queues(std::byte* base, QueuesShm* shm, std::byte* private_base)
      : base_(base), private_base_(private_base), shm_(shm) {}

  [[nodiscard]] QueuesShm& shm() const { return *shm_; }
  [[nodiscard]] PostedShm* posted(Ref ref) const { return reinterpret_cast<PostedShm*>(resolve(ref)); }
  [[nodiscard]] MessageShm* message(Ref ref) const { return reinterpret_cast<MessageShm*>(resolve(ref)); }

  /// Queues a receive behind all earlier ones.
  void post(Ref ref);
  void unpost(Ref ref);
  /// The earliest posted receive that a message matches; null-ref if none. Not removed.
  [[nodiscard]] Ref match_posted(uint64_t context, int32_t source, int32_t tag) const;

  /// Queues a message as unexpected.
  void add_unexpected(Ref ref);
  void remove_unexpected(Ref ref);
  /// The earliest unexpected message that a receive matches; null-ref if none. Not removed.
  [[nodiscard]] Ref match_unexpected(uint64_t context, int32_t source, int32_t tag) const;

  /// The unexpected message that offers this transfer, searched among those of its matching triple.
  [[nodiscard]] Ref find_transfer(uint64_t context, int32_t source, int32_t tag, Offset transfer) const;

  [[nodiscard]] Ref take_free_message();
  void give_free_message(Ref ref);

  /// Puts a receive, already unposted and joined to its message, on the list that the owner takes up.
  void push_matched(Ref ref);
  /// Takes the whole list, in the order of matching.
  [[nodiscard]] Ref take_matched();

  void set_private_base(std::byte* base) { private_base_ = base; }

  /// Fills a message entry from an envelope (header and inline payload).
  static void fill(MessageShm* message, const shm::EnvelopeShm& envelope, uint32_t sender);

  // queues_invariant.cpp: what QueuesShm, PostedShm and MessageShm promise. Needs the lock, and the owner's private
  // memory while entries of that are queued, else only the counts are looked at.

  /// Walks all lists.
  [[nodiscard]] const char* broken_invariant() const;
  /// The same now and then, and only while the queues are short; else the counts. For every change of the queues.
  [[nodiscard]] const char* broken_at_hand_over() const;

 private:
  [[nodiscard]] const char* broken_posted(uint32_t klass, uint32_t* private_entries) const;
  [[nodiscard]] const char* broken_unexpected(uint32_t klass, uint32_t* private_entries) const;
  [[nodiscard]] const char* broken_order(Ref head) const;
  [[nodiscard]] const char* broken_lists_of_entries() const;
  [[nodiscard]] std::byte* resolve(Ref ref) const {
    return (ref & kPrivateRef) != 0 ? private_base_ + uint64_t{ref & ~kPrivateRef} * kLineBytes
                                    : base_ + uint64_t{ref} * kLineBytes;
  }
  static uint32_t bin_of(uint32_t klass, uint64_t context, int32_t source, int32_t tag);
  static bool accepts(int32_t want_source, int32_t want_tag, int32_t source, int32_t tag) {
    return (want_source == kAnySource || want_source == source) && (want_tag == kAnyTag || want_tag == tag);
  }

  std::byte* base_;
  std::byte* private_base_;
  QueuesShm* shm_;
};

inline void Queues::fill(MessageShm* message, const shm::EnvelopeShm& envelope, uint32_t sender) {
  message->context = envelope.context;
  message->source = envelope.source;
  message->tag = envelope.tag;
  message->kind = static_cast<Kind>(envelope.kind);
  message->inline_bytes = envelope.inline_bytes;
  message->sender = sender;
  message->number = envelope.seq.load_relaxed();
  if (message->kind == Kind::kInline) {
    copy::copy_small(message->payload, envelope.payload, envelope.inline_bytes);
  } else {
    message->far = envelope.far;
  }
}

}  // namespace zh::p2p
