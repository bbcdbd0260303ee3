// A receiver's matching queues in shared memory: posted receives and unexpected messages, under one short lock. Each is
// one list in order while what is looked for is found near its head, and sorted into bins by what it names once it is
// not, so that long queues cost nothing. Either side works on them: the receiver, or a sender of a large message that
// finds the receiver away and matches on its behalf (LiMIC paper, sections 4.3-4.5). MPI order (standard 3.5) is kept
// whoever does it. It refuses to know payload: entries name it, the protocols move it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

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
/// Of an entry in the segment.
constexpr bool is_shared(Ref ref) { return static_cast<int32_t>(ref) > 0; }

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

/// `prev` of a receive's queue counts behind its first entry only.
struct LinkShm {
  Ref next;
  Ref prev;
};

/// A source and a tag, compared at once.
constexpr uint64_t pair_of(int32_t source, int32_t tag) {
  return uint64_t{static_cast<uint32_t>(tag)} << 32 | static_cast<uint32_t>(source);
}
constexpr int32_t source_of(uint64_t pair) { return static_cast<int32_t>(pair); }
constexpr int32_t tag_of(uint64_t pair) { return static_cast<int32_t>(pair >> 32); }

/// A posted receive.
/// Writers: the owner (while unqueued); under the lock: who matches (message, transfer). Readers: under the lock.
/// Invariant: queued in the list, or in exactly one bin, that of its wildcards and triple, or on the matched list, or
/// owned by its Request.
/// Wrap: `order` is 64 bits wide. Crash: the owner's death breaks the whole queue; a sender's death leaves it intact.
struct PostedShm {
  LinkShm link;
  uint64_t context;
  int32_t source;
  int32_t tag;
  uint32_t request;  ///< index of the owner's Request, for good
  Ref message;       ///< after a match by another side: the message (inline, eager or transfer)
  uint64_t order;    ///< of posting, where it is in a bin
  uint32_t bin;      ///< likewise: class << 16 | bin index
  alignas(kLineBytes) copy::RemoteBufferShm buffer;

  /// Of a queued one (queues_invariant.cpp).
  [[nodiscard]] const char* broken_invariant(bool sorted) const;
};
static_assert(kShmSafe<PostedShm> && sizeof(PostedShm) == 128);

/// An unexpected message, or one that another side matched.
/// Writers: who drains, under the lock; the owner after unlinking. Readers: under the lock.
/// Invariant: an unexpected message is linked in the list, by the last of its links, or in one bin of each class, in
/// arrival order; it names its source and tag.
/// Wrap: none. Crash: as PostedShm.
struct MessageShm {
  LinkShm link[kClasses];
  uint32_t sender;  ///< node-local index
  uint32_t reserved;
  // As in its envelope, byte for byte.
  uint32_t number;  ///< its position in the ring + 1
  Kind kind;
  uint8_t reserved0;
  uint8_t inline_bytes;
  uint8_t reserved1;
  int32_t source;
  int32_t tag;
  uint64_t context;
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
static_assert(offsetof(MessageShm, payload) - offsetof(MessageShm, number) == offsetof(shm::EnvelopeShm, payload));
static_assert(offsetof(MessageShm, context) - offsetof(MessageShm, number) == offsetof(shm::EnvelopeShm, context));
static_assert(offsetof(MessageShm, kind) - offsetof(MessageShm, number) == offsetof(shm::EnvelopeShm, kind));
constexpr uint64_t kMessageBytes = 320;

/// How a receive of that message with room for so many bytes ends.
[[nodiscard]] inline Result result_of(const MessageShm& m, uint64_t room) {
  const uint64_t bytes = m.bytes();
  return {m.source, m.tag, bytes < room ? bytes : room, bytes > room ? Code::kTruncated : Code::kOk, false};
}

/// Without a head a queue of receives has no tail either, whatever that says: so its first entry is taken out by one
/// store.
struct BinShm {
  Ref head;
  Ref tail;
};

constexpr uint32_t kBinBits[kClasses] = {12, 9, 9, 6};
constexpr uint32_t kBinFirst[kClasses] = {0, 1 << 12, (1 << 12) + (1 << 9), (1 << 12) + (2 << 9)};
constexpr uint32_t kBins = (1 << 12) + (2 << 9) + (1 << 6);

/// One receiver's queues.
/// Writers / Readers: the holder of `lock`, but for the hints named below.
/// Invariant: posted_total receives are queued, in the list, or if posted_sorted in bins: posted_count[c] of class c,
/// in the order of posting in each; unexpected_count messages are in the list, or if unexpected_sorted in each class's
/// bins. private_entries of these are the owner's private ones, and free_message_count entries are on the free list.
/// Wrap: counters are 64 bits wide or bounded by memory.
/// Crash: `broken` is set by whoever finds the lock's holder dead; from then on nobody enters.
struct QueuesShm {
  alignas(kPairBytes) shm::OwnerLockShm lock;
  Atomic<uint32_t> broken;
  Atomic<uint32_t> unexpected_count;  ///< changed under the lock; read by anyone as a hint
  Atomic<uint32_t> matched;           ///< head of the list of receives matched by another side; hint without the lock
  uint32_t private_entries;           ///< > 0: entries in the owner's private memory, so only the owner may work here
  Atomic<uint32_t> posted_total;      ///< hint without the lock
  uint32_t posted_sorted;             ///< 0 or 1, as is the next
  uint32_t unexpected_sorted;
  BinShm posted_list;
  BinShm unexpected_list;
  uint64_t next_order;
  uint32_t posted_count[kClasses];
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
  void post(Ref ref) {
    if ((ref & kPrivateRef) != 0 || !takes_at_once()) [[unlikely]]
      return post_sorted(ref);
    append(ref, posted(ref));
  }
  /// Whether a receive that peers see may be given to append().
  [[nodiscard]] bool takes_at_once() const {
    return shm_->posted_sorted == 0 && shm_->posted_total.load_relaxed() < kListMost;
  }
  /// The same; `p` is where `ref` lies.
  [[gnu::always_inline]] void append(Ref ref, PostedShm* p) {
    QueuesShm& q = *shm_;
    append(&q.posted_list, ref, p);
    q.posted_total.store_relaxed(q.posted_total.load_relaxed() + 1);
    ++q.next_order;
    ZH_CHECK_INVARIANT(broken_at_hand_over());
  }
  void unpost(Ref ref);
  /// The same of the earliest one that a message matches; null if none.
  [[nodiscard, gnu::always_inline]] PostedShm* take_posted(uint64_t context, uint64_t pair) {
    const Ref ref = shm_->posted_list.head;
    if (!is_shared(ref)) [[unlikely]]
      return take_further(context, pair);
    auto* p = at<PostedShm>(base_, uint64_t{ref} * kLineBytes);
    if (p->context != context || (pair_of(p->source, p->tag) != pair && !wants_any(*p, pair))) [[unlikely]]
      return take_further(context, pair);
    shm_->posted_list.head = p->link.next;
    shm_->posted_total.store_relaxed(shm_->posted_total.load_relaxed() - 1);
    ZH_CHECK_INVARIANT(broken_at_hand_over());
    return p;
  }
  /// The earliest posted receive that a message matches; null-ref if none. Not removed.
  [[nodiscard]] Ref match_posted(uint64_t context, int32_t source, int32_t tag);

  /// Queues a message as unexpected.
  void add_unexpected(Ref ref);
  void remove_unexpected(Ref ref);
  /// The earliest unexpected message that a receive matches; null-ref if none. Not removed.
  [[nodiscard]] Ref match_unexpected(uint64_t context, int32_t source, int32_t tag) {
    return shm_->unexpected_count.load_relaxed() == 0 ? kNoRef : look_for_message(context, source, tag);
  }

  /// The unexpected message that offers this transfer.
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
  static constexpr uint32_t kListLooks = 8;    ///< entries of a list that a search looks at before it is sorted
  static constexpr uint32_t kListMost = 1024;  ///< sorting takes time under the lock

  static constexpr uint32_t kListed = kClasses - 1;  ///< of a message's links, that of the list

  [[gnu::noinline]] void post_sorted(Ref ref);
  [[nodiscard]] PostedShm* take_further(uint64_t context, uint64_t pair);
  [[nodiscard]] static bool wants_any(const PostedShm& p, uint64_t pair);
  [[gnu::always_inline]] void append(BinShm* queue, Ref ref, PostedShm* p) {
    p->link.next = kNoRef;
    if (queue->head == kNoRef) {
      queue->head = ref;
    } else {
      p->link.prev = queue->tail;
      posted(queue->tail)->link.next = ref;
    }
    queue->tail = ref;
  }
  void add_to_bin(Ref ref);
  void append(BinShm* bin, uint32_t klass, Ref ref) const;
  void take_out(BinShm* bin, uint32_t klass, const MessageShm& m) const;
  void add_to_bins(Ref ref);
  [[gnu::noinline]] void sort_posted();
  [[gnu::noinline]] void sort_unexpected();
  [[nodiscard]] Ref match_in_bins(uint64_t context, int32_t source, int32_t tag) const;
  [[nodiscard]] Ref look_for_message(uint64_t context, int32_t source, int32_t tag);
  [[nodiscard]] const char* broken_receives(const BinShm& bin, uint32_t index, uint32_t* left,
                                            uint32_t* private_entries) const;
  [[nodiscard]] const char* broken_messages(const BinShm& bin, uint32_t klass, uint32_t index, uint32_t* left,
                                            uint32_t* private_entries) const;
  [[nodiscard]] const char* broken_posted(uint32_t* private_entries) const;
  [[nodiscard]] const char* broken_unexpected(uint32_t klass, uint32_t* private_entries) const;
  [[nodiscard]] const char* broken_order(Ref head) const;
  [[nodiscard]] const char* broken_lists_of_entries() const;
  [[nodiscard]] std::byte* resolve(Ref ref) const {
    if ((ref & kPrivateRef) != 0) [[unlikely]]
      return private_base_ + uint64_t{ref & ~kPrivateRef} * kLineBytes;
    return base_ + uint64_t{ref} * kLineBytes;
  }
  static uint32_t bin_of(uint32_t klass, uint64_t context, int32_t source, int32_t tag);
  static bool accepts(int32_t want_source, int32_t want_tag, int32_t source, int32_t tag) {
    return (want_source == kAnySource || want_source == source) && (want_tag == kAnyTag || want_tag == tag);
  }

  static bool wants(const PostedShm& p, uint64_t context, int32_t source, int32_t tag) {
    return p.context == context && accepts(p.source, p.tag, source, tag);
  }

  std::byte* base_;
  std::byte* private_base_;
  QueuesShm* shm_;
};

inline void Queues::fill(MessageShm* message, const shm::EnvelopeShm& envelope, uint32_t sender) {
  constexpr size_t kHead = offsetof(shm::EnvelopeShm, payload);
  const auto* from = reinterpret_cast<const std::byte*>(&envelope);
  auto* to = reinterpret_cast<std::byte*>(&message->number);
  const uint64_t n =
      envelope.kind == static_cast<uint8_t>(Kind::kInline) ? envelope.inline_bytes : sizeof(message->far);
  message->sender = sender;
  // A half line is the least there is of any envelope.
  std::memcpy(to, from, kHead + shm::kHalfLinePayload);
  if (n > shm::kHalfLinePayload) copy::copy_small(to + kHead, from + kHead, n);
}

}  // namespace zh::p2p
