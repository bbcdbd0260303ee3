#include "p2p/queues.h"

#include <cstring>
#include <utility>

namespace zh::p2p {

void MessageShm::copy_to(MessageShm* out) const {
  const size_t head = offsetof(MessageShm, payload);
  std::memcpy(static_cast<void*>(out), this, head + (kind == Kind::kInline ? inline_bytes : sizeof(far)));
}

uint32_t Queues::bin_of(uint32_t klass, uint64_t context, int32_t source, int32_t tag) {
  uint64_t key = context;
  if ((klass & 2) == 0) key ^= (static_cast<uint64_t>(static_cast<uint32_t>(source)) + 1) * 0x9e3779b97f4a7c15U;
  if ((klass & 1) == 0) key ^= (static_cast<uint64_t>(static_cast<uint32_t>(tag)) + 1) * 0xc2b2ae3d27d4eb4fU;
  key *= 0xff51afd7ed558ccdU;
  return kBinFirst[klass] + static_cast<uint32_t>(key >> (64 - kBinBits[klass]));
}

// --- Receives

void Queues::add_to_bin(Ref ref) {
  PostedShm* p = posted(ref);
  const uint32_t klass = class_of(p->source, p->tag);
  const uint32_t index = bin_of(klass, p->context, p->source, p->tag);
  p->bin = klass << 16 | index;
  p->order = shm_->next_order++;
  append(&shm_->posted[index], ref, p);
  ++shm_->posted_count[klass];
}

void Queues::post_sorted(Ref ref) {
  if ((ref & kPrivateRef) != 0) ++shm_->private_entries;
  if (takes_at_once()) return append(ref, posted(ref));
  if (shm_->posted_sorted == 0) sort_posted();
  add_to_bin(ref);
  shm_->posted_total.store_relaxed(shm_->posted_total.load_relaxed() + 1);
  ZH_CHECK_INVARIANT(broken_at_hand_over());
}

void Queues::sort_posted() {
  shm_->posted_sorted = 1;
  const BinShm list = std::exchange(shm_->posted_list, BinShm{});
  for (Ref ref = list.head; ref != kNoRef;) {
    const Ref next = posted(ref)->link.next;
    add_to_bin(ref);
    ref = next;
  }
}

void Queues::unpost(Ref ref) {
  const PostedShm* p = posted(ref);
  const bool sorted = shm_->posted_sorted != 0;
  BinShm& bin = sorted ? shm_->posted[p->bin & 0xffff] : shm_->posted_list;
  (bin.head == ref ? bin.head : posted(p->link.prev)->link.next) = p->link.next;
  (p->link.next != kNoRef ? posted(p->link.next)->link.prev : bin.tail) = p->link.prev;
  const uint32_t left = shm_->posted_total.load_relaxed() - 1;
  shm_->posted_total.store_relaxed(left);
  if (sorted) {
    --shm_->posted_count[p->bin >> 16];
    if (left == 0) shm_->posted_sorted = 0;
  }
  if ((ref & kPrivateRef) != 0) --shm_->private_entries;
  ZH_CHECK_INVARIANT(broken_at_hand_over());
}

Ref Queues::match_posted(uint64_t context, int32_t source, int32_t tag) {
  if (shm_->posted_sorted != 0) return match_in_bins(context, source, tag);
  uint32_t looks = 0;
  for (Ref ref = shm_->posted_list.head; ref != kNoRef;) {
    const PostedShm* p = posted(ref);
    if (wants(*p, context, source, tag)) return ref;
    if (++looks == kListLooks) {
      sort_posted();
      return match_in_bins(context, source, tag);
    }
    ref = p->link.next;
  }
  return kNoRef;
}

bool Queues::wants_any(const PostedShm& p, uint64_t pair) {
  return accepts(p.source, p.tag, source_of(pair), tag_of(pair));
}

PostedShm* Queues::take_further(uint64_t context, uint64_t pair) {
  const Ref ref = match_posted(context, source_of(pair), tag_of(pair));
  if (ref == kNoRef) return nullptr;
  unpost(ref);
  return posted(ref);
}

Ref Queues::match_in_bins(uint64_t context, int32_t source, int32_t tag) const {
  Ref best = kNoRef;
  uint64_t best_order = ~uint64_t{0};
  for (uint32_t klass = 0; klass < kClasses; ++klass) {
    if (shm_->posted_count[klass] == 0) continue;
    for (Ref ref = shm_->posted[bin_of(klass, context, source, tag)].head; ref != kNoRef;) {
      const PostedShm* p = posted(ref);
      if (p->order >= best_order) break;
      if (p->context == context && accepts(p->source, p->tag, source, tag)) {
        best = ref;
        best_order = p->order;
        break;
      }
      ref = p->link.next;
    }
  }
  return best;
}

// --- Messages

// The list is linked as the bins of the last class are.
void Queues::append(BinShm* bin, uint32_t klass, Ref ref) const {
  message(ref)->link[klass] = {kNoRef, bin->tail};
  (bin->tail != kNoRef ? message(bin->tail)->link[klass].next : bin->head) = ref;
  bin->tail = ref;
}

void Queues::take_out(BinShm* bin, uint32_t klass, const MessageShm& m) const {
  const LinkShm link = m.link[klass];
  (link.prev != kNoRef ? message(link.prev)->link[klass].next : bin->head) = link.next;
  (link.next != kNoRef ? message(link.next)->link[klass].prev : bin->tail) = link.prev;
}

void Queues::add_to_bins(Ref ref) {
  const MessageShm& m = *message(ref);
  for (uint32_t klass = 0; klass < kClasses; ++klass) {
    append(&shm_->unexpected[bin_of(klass, m.context, m.source, m.tag)], klass, ref);
  }
}

void Queues::sort_unexpected() {
  shm_->unexpected_sorted = 1;
  const BinShm list = std::exchange(shm_->unexpected_list, BinShm{});
  for (Ref ref = list.head; ref != kNoRef;) {
    const Ref next = message(ref)->link[kListed].next;
    add_to_bins(ref);
    ref = next;
  }
}

void Queues::add_unexpected(Ref ref) {
  const uint32_t count = shm_->unexpected_count.load_relaxed() + 1;
  if (count > kListMost && shm_->unexpected_sorted == 0) sort_unexpected();
  if (shm_->unexpected_sorted != 0) {
    add_to_bins(ref);
  } else {
    append(&shm_->unexpected_list, kListed, ref);
  }
  // In this order, for Matcher::arrivals_gone().
  shm_->unexpected_count.store_relaxed(count);
  shm_->arrivals.store_relaxed(shm_->arrivals.load_relaxed() + 1);
  if ((ref & kPrivateRef) != 0) ++shm_->private_entries;
  if (count > shm_->unexpected_high.load_relaxed()) shm_->unexpected_high.store_relaxed(count);
  ZH_CHECK_INVARIANT(broken_at_hand_over());
}

void Queues::remove_unexpected(Ref ref) {
  const MessageShm& m = *message(ref);
  const uint32_t left = shm_->unexpected_count.load_relaxed() - 1;
  if (shm_->unexpected_sorted == 0) {
    take_out(&shm_->unexpected_list, kListed, m);
  } else {
    for (uint32_t klass = 0; klass < kClasses; ++klass) {
      take_out(&shm_->unexpected[bin_of(klass, m.context, m.source, m.tag)], klass, m);
    }
    if (left == 0) shm_->unexpected_sorted = 0;
  }
  shm_->unexpected_count.store_relaxed(left);
  if ((ref & kPrivateRef) != 0) --shm_->private_entries;
  ZH_CHECK_INVARIANT(broken_at_hand_over());
}

Ref Queues::look_for_message(uint64_t context, int32_t source, int32_t tag) {
  if (shm_->unexpected_sorted == 0) {
    uint32_t looks = 0;
    for (Ref ref = shm_->unexpected_list.head;; ++looks) {
      if (ref == kNoRef) return kNoRef;
      if (looks == kListLooks) break;
      const MessageShm* m = message(ref);
      if (m->context == context && accepts(source, tag, m->source, m->tag)) return ref;
      ref = m->link[kListed].next;
    }
    sort_unexpected();
  }
  const uint32_t klass = class_of(source, tag);
  for (Ref ref = shm_->unexpected[bin_of(klass, context, source, tag)].head; ref != kNoRef;) {
    const MessageShm* m = message(ref);
    if (m->context == context && accepts(source, tag, m->source, m->tag)) return ref;
    ref = m->link[klass].next;
  }
  return kNoRef;
}

Ref Queues::find_transfer(uint64_t context, int32_t source, int32_t tag, Offset transfer) const {
  const bool sorted = shm_->unexpected_sorted != 0;
  const uint32_t klass = sorted ? 0 : kListed;
  // It is likely to be one of the latest.
  Ref ref = sorted ? shm_->unexpected[bin_of(klass, context, source, tag)].tail : shm_->unexpected_list.tail;
  for (; ref != kNoRef; ref = message(ref)->link[klass].prev) {
    const MessageShm* m = message(ref);
    if (m->kind == Kind::kTransfer && m->far.where == transfer) return ref;
  }
  return kNoRef;
}

Ref Queues::take_free_message() {
  const Ref ref = shm_->free_messages;
  if (ref == kNoRef) return ref;
  shm_->free_messages = message(ref)->link[0].next;
  shm_->free_message_count.store_relaxed(shm_->free_message_count.load_relaxed() - 1);
  return ref;
}

void Queues::give_free_message(Ref ref) {
  message(ref)->link[0].next = shm_->free_messages;
  shm_->free_messages = ref;
  shm_->free_message_count.store_relaxed(shm_->free_message_count.load_relaxed() + 1);
}

void Queues::push_matched(Ref ref) {
  posted(ref)->link.next = shm_->matched.load_relaxed();
  shm_->matched.store_relaxed(ref);
  ZH_CHECK_INVARIANT(broken_at_hand_over());
}

Ref Queues::take_matched() {
  Ref reversed = kNoRef;
  for (Ref ref = shm_->matched.load_relaxed(); ref != kNoRef;) {
    PostedShm* p = posted(ref);
    const Ref next = p->link.next;
    p->link.next = reversed;
    reversed = ref;
    ref = next;
  }
  shm_->matched.store_relaxed(kNoRef);
  return reversed;
}

}  // namespace zh::p2p
