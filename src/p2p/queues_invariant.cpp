// What the matching queues promise, as a walk over all lists. Called under the lock: by every change of the queues in
// builds with assertions, by the stress and the fuzz of the queues, and by those who survive in crash tests. It refuses
// to mend anything, and asks for no memory.
#include "p2p/queues.h"

namespace zh::p2p {

namespace {
constexpr uint32_t kShort = 64;  // entries in the queues that a hand-over walks
constexpr uint32_t kNow = 32;    // one hand-over of so many does
constexpr uint32_t kBinMask = 0xffff;
}  // namespace

const char* PostedShm::broken_invariant(bool sorted) const {
  if (message != kNoRef) return "a queued receive has no message yet";
  if (!sorted) return nullptr;
  const uint32_t klass = class_of(source, tag);
  if (bin >> 16 != klass) return "a receive is queued in the class of its wildcards";
  const uint32_t index = bin & kBinMask;
  if (index < kBinFirst[klass] || index - kBinFirst[klass] >= 1U << kBinBits[klass]) {
    return "a receive is queued in a bin of its class";
  }
  return nullptr;
}

const char* MessageShm::broken_invariant() const {
  if (source == kAnySource || tag == kAnyTag) return "a message names its source and tag";
  if (kind > Kind::kTransfer) return "a message has a kind of payload";
  return kind == Kind::kInline && inline_bytes > shm::kInlineBytes ? "inline payload fits beside its header" : nullptr;
}

const char* QueuesShm::broken_invariant() const {
  uint32_t classes = 0;
  for (const uint32_t n : posted_count) classes += n;
  const uint32_t posted_now = posted_total.load_relaxed();
  const uint32_t unexpected_now = unexpected_count.load_relaxed();
  if (posted_sorted > 1 || unexpected_sorted > 1) return "a queue is sorted or not";
  if (classes != (posted_sorted != 0 ? posted_now : 0)) return "posted_total counts the receives of all classes";
  if (posted_sorted != 0 && posted_list.head != kNoRef) return "receives are in the list or in bins";
  if (unexpected_sorted != 0 && unexpected_list.head != kNoRef) return "messages are in the list or in bins";
  if (posted_now > next_order) return "each queued receive was posted";
  if (unexpected_now > unexpected_high.load_relaxed()) return "unexpected_high is the most there ever were";
  if (unexpected_now > arrivals.load_relaxed()) return "each unexpected message has arrived";
  if (private_entries > uint64_t{posted_now} + unexpected_now) return "private entries are queued ones";
  return nullptr;
}

// `index`: of the bin; kBins: the list. `left`: receives that there may be.
const char* Queues::broken_receives(const BinShm& bin, uint32_t index, uint32_t* left,
                                    uint32_t* private_entries) const {
  const bool sorted = index != kBins;
  Ref last = kNoRef;
  uint64_t order = 0;  // next that may come
  for (Ref ref = bin.head; ref != kNoRef; last = ref, ref = posted(ref)->link.next) {
    const PostedShm& p = *posted(ref);
    if ((*left)-- == 0) return "posted_count receives are queued in each class";
    if (ref != bin.head && p.link.prev != last) return "a queued receive is linked both ways";
    if (const char* broken = p.broken_invariant(sorted); broken != nullptr) return broken;
    if (sorted && (p.bin & kBinMask) != index) return "a queued receive knows its bin";
    if (sorted && bin_of(p.bin >> 16, p.context, p.source, p.tag) != index) {
      return "a receive is queued in the bin of its triple";
    }
    if (sorted && (p.order < order || p.order >= shm_->next_order)) {
      return "a bin has its receives in the order of posting";
    }
    order = p.order + 1;
    *private_entries += (ref & kPrivateRef) != 0 ? 1 : 0;
  }
  return bin.head != kNoRef && bin.tail != last ? "a queue of receives ends at its tail" : nullptr;
}

const char* Queues::broken_posted(uint32_t* private_entries) const {
  uint32_t left = shm_->posted_sorted != 0 ? 0 : shm_->posted_total.load_relaxed();
  if (const char* broken = broken_receives(shm_->posted_list, kBins, &left, private_entries); broken != nullptr) {
    return broken;
  }
  if (left != 0) return "posted_total receives are queued";
  for (uint32_t klass = 0; klass != kClasses; ++klass) {
    left = shm_->posted_count[klass];
    const uint32_t end = kBinFirst[klass] + (1U << kBinBits[klass]);
    for (uint32_t index = kBinFirst[klass]; index != end; ++index) {
      const char* broken = broken_receives(shm_->posted[index], index, &left, private_entries);
      if (broken != nullptr) return broken;
    }
    if (left != 0) return "posted_count receives are queued in each class";
  }
  return nullptr;
}

// `index` as above, `klass` the link that the queue goes by.
const char* Queues::broken_messages(const BinShm& bin, uint32_t klass, uint32_t index, uint32_t* left,
                                    uint32_t* private_entries) const {
  Ref last = kNoRef;
  for (Ref ref = bin.head; ref != kNoRef; last = ref, ref = message(ref)->link[klass].next) {
    const MessageShm& m = *message(ref);
    if ((*left)-- == 0) return "an unexpected message is in the list, or in one bin of each class";
    if (m.link[klass].prev != last) return "an unexpected message is linked both ways";
    if (const char* broken = m.broken_invariant(); broken != nullptr) return broken;
    if (index != kBins && bin_of(klass, m.context, m.source, m.tag) != index) {
      return "a message is queued in the bins of its triple";
    }
    *private_entries += (ref & kPrivateRef) != 0 ? 1 : 0;
  }
  return bin.tail != last ? "a queue of messages ends at its tail" : nullptr;
}

const char* Queues::broken_unexpected(uint32_t klass, uint32_t* private_entries) const {
  const bool sorted = shm_->unexpected_sorted != 0;
  uint32_t left = shm_->unexpected_count.load_relaxed();
  if (!sorted) {  // each class's bins are empty
    const char* broken = broken_messages(shm_->unexpected_list, kListed, kBins, &left, private_entries);
    if (broken != nullptr) return broken;
  }
  const uint32_t end = kBinFirst[klass] + (1U << kBinBits[klass]);
  for (uint32_t index = kBinFirst[klass]; index != end; ++index) {
    const char* broken = broken_messages(shm_->unexpected[index], klass, index, &left, private_entries);
    if (broken != nullptr) return broken;
  }
  return left != 0 ? "an unexpected message is in the list, or in one bin of each class" : nullptr;
}

// The bins of the last class, which holds all messages of a context in one, tell the order of arrival to the others:
// who comes next in a bin of these comes later in that one, if it is there at all.
const char* Queues::broken_order(Ref head) const {
  constexpr uint32_t kAll = kClasses - 1;
  for (Ref ref = head; ref != kNoRef; ref = message(ref)->link[kAll].next) {
    for (uint32_t klass = 0; klass != kAll; ++klass) {
      const Ref next = message(ref)->link[klass].next;
      if (next == kNoRef) continue;
      for (Ref earlier = head; earlier != ref; earlier = message(earlier)->link[kAll].next) {
        if (earlier == next) return "a bin has its messages in the order of arrival";
      }
    }
  }
  return nullptr;
}

// Entries that are in no bin: free ones, and receives that another side has matched.
const char* Queues::broken_lists_of_entries() const {
  uint32_t left = shm_->free_message_count.load_relaxed();
  for (Ref ref = shm_->free_messages; ref != kNoRef; ref = message(ref)->link[0].next) {
    if (left-- == 0) return "free_message_count entries are free";
    if ((ref & kPrivateRef) != 0) return "private entries are on no shared list";
  }
  if (left != 0) return "free_message_count entries are free";
  // It has no count: one that leads into a circle is found by a second look that goes half as fast.
  Ref slow = shm_->matched.load_relaxed();
  bool slow_moves = false;
  for (Ref ref = slow; ref != kNoRef; slow_moves = !slow_moves) {
    if ((ref & kPrivateRef) != 0) return "private entries are on no shared list";
    ref = posted(ref)->link.next;
    if (slow_moves) slow = posted(slow)->link.next;
    if (ref == slow && ref != kNoRef) return "the list of matched receives has an end";
  }
  return nullptr;
}

const char* Queues::broken_invariant() const {
  if (const char* broken = shm_->broken_invariant(); broken != nullptr) return broken;
  if (shm_->private_entries != 0 && private_base_ == nullptr) return nullptr;
  uint32_t private_receives = 0;
  uint32_t private_messages[kClasses] = {};
  if (const char* broken = broken_posted(&private_receives); broken != nullptr) return broken;
  for (uint32_t klass = 0; klass != kClasses; ++klass) {
    if (const char* broken = broken_unexpected(klass, &private_messages[klass]); broken != nullptr) return broken;
  }
  if (private_receives + private_messages[0] != shm_->private_entries) return "private_entries entries are private";
  if (shm_->unexpected_count.load_relaxed() <= kShort) {  // it takes the square of their number
    for (uint32_t index = kBinFirst[kClasses - 1]; index != kBins; ++index) {
      if (const char* broken = broken_order(shm_->unexpected[index].head); broken != nullptr) return broken;
    }
  }
  return broken_lists_of_entries();
}

// Which ones walk follows the counts, which nearly every change changes: so nothing is kept for it.
const char* Queues::broken_at_hand_over() const {
  const uint64_t entries = uint64_t{shm_->posted_total.load_relaxed()} + shm_->unexpected_count.load_relaxed();
  const uint64_t changes = shm_->next_order + shm_->arrivals.load_relaxed() + entries;
  return entries <= kShort && changes % kNow == 0 ? broken_invariant() : shm_->broken_invariant();
}

}  // namespace zh::p2p
