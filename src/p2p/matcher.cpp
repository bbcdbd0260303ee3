// A rank's own queues: their memory, and matching under their lock.
#include "p2p/matcher.h"

#include <algorithm>
#include <utility>

#include "base/crash_point.h"
#include "copy/kernels.h"
#include "os/yield.h"
#include "p2p/skew.h"

namespace zh::p2p {

namespace {
constexpr uint32_t kLockSpins = 64;
constexpr uint32_t kLockLooksPerDeathCheck = 1024;
constexpr uint32_t kPostedSlab = 64;
constexpr uint64_t kPrivateBytes = uint64_t{512} << 20;
}  // namespace

Matcher::Matcher(Channels& channels, Requests& requests)
    : channels_(channels),
      requests_(requests),
      queues_(channels.base(), nullptr, nullptr),
      sources_(channels),
      taken_(2 * kDrainBudget) {}

Status Matcher::open() {
  queues_ = Queues(channels_.base(), &channels_.part().queues, nullptr);
  guard_ = channels_[channels_.self()].guard;
  refill_messages(1);
  return queues().free_message_count.load_relaxed() != 0 ? kOk : channels_.arena().refusal();
}

bool Matcher::wait_for_lock() {
  shm::OwnerLockShm& lock = guard_->lock;
  const uint32_t self = channels_.self();
  if (broken()) return false;
  for (os::Backoff backoff(kLockSpins, kLockLooksPerDeathCheck); !lock.try_lock(self);) {
    if (backoff.pause() && broken_for_good(*guard_)) return false;
  }
  return true;
}

bool Matcher::broken_for_good(QueuesShm& guard) {
  if (guard.broken.load_relaxed() != 0) return true;
  const uint32_t holder = guard.lock.holder();
  if (holder == 0 || holder == channels_.self() + 1 || channels_.node().alive(holder - 1)) return false;
  guard.broken.store_relaxed(1);
  return true;
}

// --- Memory of entries

PostedShm* Matcher::describe(Request* r) {
  if (r->posted == kNoRef && !make_descriptions(r)) return nullptr;
  PostedShm* p = queues_.posted(r->posted);
  p->context = r->context;
  p->source = r->source;
  p->tag = r->tag;
  return p;
}

// For the request and those that lie around it.
bool Matcher::make_descriptions(Request* r) {
  const auto give = [this](Request* to, Ref ref) {
    to->posted = ref;
    queues_.posted(ref)->request = to->index;
    queues_.posted(ref)->message = kNoRef;
  };
  const Offset slab = channels_.arena().allocate(kPostedSlab * sizeof(PostedShm));
  if (slab == kNoOffset) {
    const Ref ref = new_private(sizeof(PostedShm));
    if (ref != kNoRef) give(r, ref);
    return ref != kNoRef;
  }
  const uint32_t first = r->index / kPostedSlab * kPostedSlab;
  for (uint32_t i = 0; i < kPostedSlab; ++i) {
    Request* const each = requests_.at(first + i);
    if (each->posted == kNoRef) give(each, static_cast<Ref>((slab + i * sizeof(PostedShm)) / kLineBytes));
  }
  return true;
}

// An entry outside the segment: while one is queued, only this rank may turn its queues.
Ref Matcher::new_private(uint64_t bytes) {
  if (private_memory_.base() == nullptr) {
    if (!private_memory_.reserve(kPrivateBytes)) return kNoRef;
    queues_.set_private_base(private_memory_.base());
  }
  if (!private_memory_.open(private_used_ + bytes)) return kNoRef;
  const Ref ref = static_cast<Ref>(private_used_ / kLineBytes) | kPrivateRef;
  private_used_ += round_up(bytes, kLineBytes);
  return ref;
}

// Keeps enough free message entries for a whole drain, so that memory is never asked for under the lock.
void Matcher::refill_messages(uint32_t least) {
  if (queues().free_message_count.load_relaxed() >= least) return;
  const Offset slab = channels_.arena().allocate(kMessageSlab * kMessageBytes);
  if (slab == kNoOffset) {
    while (free_private_messages_.size() < taken_.size()) {
      const Ref ref = new_private(kMessageBytes);
      if (ref == kNoRef) return;
      free_private_messages_.push_back(ref);
    }
    return;
  }
  if (!lock()) return;
  give_slab(queues_, slab);
  unlock();
}

// Needs the lock, as do the next two.
void Matcher::give_slab(Queues& queues, Offset slab) {
  for (uint32_t i = kMessageSlab; i-- != 0;) {
    queues.give_free_message(static_cast<Ref>((slab + i * kMessageBytes) / kLineBytes));
  }
}

Ref Matcher::take_entry() {
  const Ref ref = queues_.take_free_message();
  if (ref != kNoRef || free_private_messages_.empty()) return ref;
  const Ref spare = free_private_messages_.back();
  free_private_messages_.pop_back();
  return spare;
}

void Matcher::free_entry(Ref ref) {
  if ((ref & kPrivateRef) != 0) {
    free_private_messages_.push_back(ref);
  } else {
    queues_.give_free_message(ref);
  }
}

// --- Envelopes

// Needs the lock, as does what follows up to drain().
inline void Matcher::take(Request* request, const shm::EnvelopeShm& slot, uint32_t sender) {
  Taken& taken = *taken_end_++;
  taken.request = request;
  Queues::fill(&taken.message, slot, sender);
}

void Matcher::note_caught_up() {
  if (note_match(channels_.part())) channels_.count_lag(channels_.self(), false);
}

void Matcher::take_unexpected(Request* request, Ref ref) {
  Taken& taken = *taken_end_++;
  taken.request = request;
  queues_.message(ref)->copy_to(&taken.message);
  queues_.remove_unexpected(ref);
  free_entry(ref);
  note_matched(channels_.part());
}

// `extra`: a receive outside the queue, posted last of all.
inline Matcher::Placed Matcher::place_own(PartShm& own, const shm::EnvelopeShm& slot, uint32_t sender, Request* extra) {
  if (const PostedShm* p = queues_.take_posted(slot.context, pair_of(slot.source, slot.tag)); p != nullptr) {
    --queued_;
    take(requests_.at(p->request), slot, sender);
    note_matched(own);
    return Placed::kDone;
  }
  if (extra != nullptr && wants(extra, slot)) {
    take(extra, slot, sender);
    note_matched(own);
    return Placed::kLast;
  }
  return place_unexpected(slot, sender);
}

Matcher::Placed Matcher::place_unexpected(const shm::EnvelopeShm& slot, uint32_t sender) {
  const Ref entry = take_entry();
  if (entry == kNoRef) return Placed::kNot;
  Queues::fill(queues_.message(entry), slot, sender);
  queues_.add_unexpected(entry);
  if (note_unexpected(channels_.part())) channels_.count_lag(channels_.self(), true);
  return Placed::kDone;
}

uint32_t Matcher::drain_own(uint32_t sender, Request* extra) {
  const uint32_t budget = std::min(kDrainBudget, static_cast<uint32_t>(taken_.size() - taken().size()));
  shm::EnvelopeRingShm* ring = channels_.ring_from(sender);
  const shm::EnvelopeShm* first = shm::EnvelopeConsumer(ring).published();
  if (first != nullptr && first->kind <= static_cast<uint8_t>(Kind::kTransfer)) {
    channels_.note_heard(sender, *first, ring);
  }
  PartShm& own = channels_.part();
  return drain_ring(own.in()[sender], budget, [&](const shm::EnvelopeShm& slot) {
    const Placed placed = place_own(own, slot, sender, extra);
    if (placed != Placed::kNot) ZH_CRASH_POINT("drain: matched, not consumed");
    return placed;
  });
}

bool Matcher::drain_arrived(uint32_t sender, bool* moved) {
  refill_messages(kDrainBudget);
  if (!lock()) return false;
  *moved = drain_own(sender, nullptr) != 0;
  unlock();
  return true;
}

// --- Receives

void Matcher::search(Request* r) {
  QueuesShm& q = queues();
  bool ready = q.arrivals.load_relaxed() != r->arrivals_seen;
  if (r->peer != kAnyPeer) {
    sources_.look_for_new();
    ready = ready || sources_.arrived(static_cast<uint32_t>(r->peer));
  } else {
    sources_.update();
    for (const uint32_t s : sources_.open()) ready = ready || sources_.arrived(s);
  }
  if (!ready) return;
  refill_messages(2 * kDrainBudget);
  if (!lock()) return;
  if (q.arrivals.load_relaxed() != r->arrivals_seen) {
    if (const Ref ref = queues_.match_unexpected(r->context, r->source, r->tag); ref != kNoRef) {
      take_unexpected(r, ref);
    }
  }
  if (taken().empty()) drain_for(r);
  // What was queued just now was compared with this receive first.
  r->arrivals_seen = q.arrivals.load_relaxed();
  unlock();
}

// Needs the lock.
void Matcher::drain_for(Request* r) {
  if (r->peer != kAnyPeer) {
    if (channels_[r->peer].listening) drain_own(static_cast<uint32_t>(r->peer), r);
    return;
  }
  // Start behind the source served last, so that none starves.
  const std::vector<uint32_t>& open = sources_.open();
  const auto n = static_cast<uint32_t>(open.size());
  if (next_source_ >= n) next_source_ = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t k = (next_source_ + i) % n;
    drain_own(open[k], r);
    if (!taken().empty() && taken().back().request == r) {
      next_source_ = (k + 1) % n;
      return;
    }
  }
}

Matcher::Posted Matcher::post(Request* r, bool wait) {
  if (!lock()) return Posted::kBroken;
  const Ref message = queues_.match_unexpected(r->context, r->source, r->tag);
  if (message == kNoRef && wait) {
    queues_.post(r->posted);
    r->stage = Stage::kPosted;
    ++queued_;
    unlock();
    return Posted::kQueued;
  }
  if (message != kNoRef) take_unexpected(r, message);
  unlock();
  return message != kNoRef ? Posted::kFound : Posted::kNothing;
}

bool Matcher::unpost(Request* r) {
  if (!lock()) return false;
  // A receive that another side has matched is on the matched list and names its message.
  const bool queued = queues_.posted(r->posted)->message == kNoRef;
  if (queued) {
    queues_.unpost(r->posted);
    --queued_;
  }
  unlock();
  return queued;
}

bool Matcher::probe(const RecvArgs& args, Result* out) {
  if (!lock()) return false;
  const Ref ref = queues_.match_unexpected(args.context, args.source, args.tag);
  if (ref != kNoRef) {
    const MessageShm* m = queues_.message(ref);
    *out = result_of(*m, m->bytes());
  }
  unlock();
  return ref != kNoRef;
}

bool Matcher::take_probed(const RecvArgs& args) {
  if (!lock()) return false;
  const Ref ref = queues_.match_unexpected(args.context, args.source, args.tag);
  if (ref != kNoRef) take_unexpected(nullptr, ref);
  unlock();
  return ref != kNoRef;
}

Ref Matcher::take_all_matched() {
  if (!lock()) return kNoRef;
  const Ref first = queues_.take_matched();
  unlock();
  return first;
}

// Both entries are out of every queue, so they are this rank's alone.
Ref Matcher::unpack_matched(Ref ref, Taken* out) {
  PostedShm* p = queues_.posted(ref);
  const Ref next = p->link.next;
  const Ref entry = std::exchange(p->message, kNoRef);
  out->request = requests_.at(p->request);
  queues_.message(entry)->copy_to(&out->message);
  --queued_;
  if (lock()) {
    queues_.give_free_message(entry);  // made by another side, so never private
    unlock();
  }
  return next;
}

}  // namespace zh::p2p
