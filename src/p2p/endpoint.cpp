// Making an endpoint, and the memory of its requests, queue entries and transfers.
#include "p2p/endpoint.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "os/clock.h"
#include "p2p/skew.h"

namespace zh::p2p {

namespace {
constexpr uint32_t kPostedSlab = 64;
constexpr size_t kRegionWindowBudget = size_t{8} << 30;  // address space, not memory
constexpr uint64_t kAwayUs = 50;
constexpr uint64_t kPrivateBytes = uint64_t{512} << 20;
}  // namespace

Endpoint::Endpoint(node::Node& node, const EndpointConfig& config)
    : node_(node),
      config_(config),
      base_(node.base()),
      self_(node.self()),
      queues_(node.base(), nullptr, nullptr),
      deaths_(node.self(), node.size()),
      memory_(config.regions, config.heap),
      region_cache_(kRegionWindowBudget) {}

Endpoint::~Endpoint() = default;

Status Endpoint::open(node::Node& node, const EndpointConfig& config, std::unique_ptr<Endpoint>* out) {
  std::unique_ptr<Endpoint> endpoint(new (std::nothrow) Endpoint(node, config));
  if (!endpoint) return {Code::kNoMemory, "out of memory"};
  if (Status s = endpoint->init(); !s.ok()) return s;
  *out = std::move(endpoint);
  return kOk;
}

Status Endpoint::init() {
  const uint32_t n = node_.size();
  if (Status s = arena_.open(node_, PartShm::size_bytes(n)); !s.ok()) return s;
  annex_.open_annex(node_);
  // A fresh segment is zero-filled, and zero is every member's initial state.
  part_ = at<PartShm>(base_, node_.part(self_));
  queues_ = Queues(base_, &part_->queues, nullptr);
  if (config_.heap != nullptr) open_memory();
  peers_.resize(n);
  unconnected_ = n;
  for (uint32_t i = 0; i < n; ++i) {
    peers_[i].part = at<PartShm>(base_, node_.part(i));
    peers_[i].cma = config_.cma && node_.cma(i);
    peers_[i].maps = node_.knows_pid(i);
  }
  taken_.resize(kDrainBudget * 2);
  sent_.is_send = true;
  sent_.stage = Stage::kDone;
  sent_.done.store_relaxed(1);
  ticks_away_ = static_cast<uint64_t>(os::ticks_per_us()) * kAwayUs;
  for (const Peer& peer : peers_) all_cma_ = all_cma_ && peer.cma;
  if (config_.log.wants(LogLevel::kDebug)) {
    std::vector<int> world_ranks;
    for (uint32_t i = 0; i < n; ++i) world_ranks.push_back(node_.world_rank(i));
    trace_ = std::make_unique<Trace>(config_.log, std::move(world_ranks));
  }
  all_cma_ = all_cma_ || n == 1;
  const Offset matched = arena_.allocate(kMatchedRingBytes);
  if (matched == kNoOffset) return {Code::kNoMemory, "no shared memory for cells"};
  matched_ring_.attach(base_, matched, kMatchedRingBytes);
  refill_messages();
  return part_->queues.free_message_count.load_relaxed() != 0
             ? kOk
             : Status{Code::kNoMemory, "no shared memory for the matching queues"};
}

Request* Endpoint::new_request() {
  if (free_requests_ == nullptr) {
    std::unique_ptr<Request[]> slab(new (std::nothrow) Request[kRequestSlab]);
    if (!slab) return nullptr;
    for (uint32_t i = kRequestSlab; i-- != 0;) {
      slab[i].index = request_count_ + i;
      slab[i].next = free_requests_;
      free_requests_ = &slab[i];
    }
    request_count_ += kRequestSlab;
    request_slabs_.push_back(std::move(slab));
  }
  Request* r = free_requests_;
  free_requests_ = r->next;
  r->done.store_relaxed(0);
  r->detached = false;
  r->direct_broken = false;
  r->unpullable = false;
  r->parked = false;
  r->starved = false;
  r->transfer = kNoOffset;
  r->layout = kNoOffset;
  r->posted = kNoRef;
  r->looked_up = false;
  r->mapped = copy::MappedBuffer{};
  r->message_bytes = r->finished = r->moved_direct = 0;
  r->carry[0] = r->carry[1] = {};
  r->cells_seen = 0;
  r->turns_offered = 0;
  r->arrivals_seen = ~uint64_t{0};
  r->path = Path::kCells;
  r->hidden = false;
  r->next = r->prev = nullptr;
  r->result = Result{};
  return r;
}

void Endpoint::release(Request* request) {
  if (request == &sent_) return;
  request->stage = Stage::kFree;
  request->next = free_requests_;
  free_requests_ = request;
}

void Endpoint::complete(Request* request) {
  if (request->layout != kNoOffset) {
    arena_.free(request->layout, request->layout_bytes);
    request->layout = kNoOffset;
  }
  if (request->is_send) {
    --pending_sends_;
    if (request->unpullable) --unpullable_;
    if (request->own_copy != nullptr) {
      buffered_bytes_ -= buffered_cost(request->buffer.bytes);
      std::free(request->own_copy);
      request->own_copy = nullptr;
    }
  }
  if (request->hidden) {
    request->hidden = false;
    --hidden_;
  }
  request->stage = Stage::kDone;
  // D0 -> D1: result and buffer are complete before done.
  request->done.store_release(1);
  if (request->detached) release(request);
}

// Ends a request that cannot succeed; it is in no list and no queue any more.
void Endpoint::fail(Request* request, Code code) {
  if (request->posted != kNoRef) {
    free_posted_.push_back(request->posted);
    request->posted = kNoRef;
  }
  request->result.code = code;
  complete(request);
}

void Endpoint::detach(Request* request) {
  if (request->stage == Stage::kDone) {
    release(request);
  } else {
    request->detached = true;
  }
}

Ref Endpoint::new_posted() {
  if (free_posted_.empty()) {
    const Offset slab = arena_.allocate(kPostedSlab * sizeof(PostedShm));
    if (slab == kNoOffset) {
      const Ref ref = new_private(sizeof(PostedShm));
      posted_made_ += ref != kNoRef ? 1 : 0;
      return ref;
    }
    posted_made_ += kPostedSlab;
    for (uint32_t i = kPostedSlab; i-- != 0;) {
      free_posted_.push_back(static_cast<Ref>((slab + i * sizeof(PostedShm)) / kLineBytes));
    }
  }
  const Ref ref = free_posted_.back();
  free_posted_.pop_back();
  return ref;
}

// An entry outside the segment: while one is queued, only this rank may turn its queues.
Ref Endpoint::new_private(uint64_t bytes) {
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
void Endpoint::refill_messages() {
  const Offset slab = arena_.allocate(kMessageSlab * kMessageBytes);
  if (slab == kNoOffset) {
    while (free_private_messages_.size() < 2 * kDrainBudget) {
      const Ref ref = new_private(kMessageBytes);
      if (ref == kNoRef) return;
      free_private_messages_.push_back(ref);
    }
    return;
  }
  if (!lock()) return;
  for (uint32_t i = kMessageSlab; i-- != 0;) {
    queues_.give_free_message(static_cast<Ref>((slab + i * kMessageBytes) / kLineBytes));
  }
  part_->queues.lock.unlock();
}

// Needs the lock.
Ref Endpoint::take_entry() {
  const Ref ref = queues_.take_free_message();
  if (ref != kNoRef || free_private_messages_.empty()) return ref;
  const Ref spare = free_private_messages_.back();
  free_private_messages_.pop_back();
  return spare;
}

// Needs the lock.
void Endpoint::free_message(Ref ref) {
  if ((ref & kPrivateRef) != 0) {
    free_private_messages_.push_back(ref);
  } else {
    queues_.give_free_message(ref);
  }
}

bool Endpoint::reap() {
  bool any = false;
  for (uint32_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    if (i == self_ || peer.dead) continue;
    // A peer whose queues were broken by another's death lives, but nothing can be sent to it any more.
    QueuesShm& queues = peer.part->queues;
    const bool ended = !node_.alive(i);
    if (!ended && queues.broken.load_relaxed() == 0) continue;
    peer.dead = any = true;
    ZH_CHECK_INVARIANT(peer.part->broken_invariant(node_.size()));
    deaths_.add(i);
    if (ended) region_cache_.forget(i);
    if (ended && queues.lock.holder() != 0) queues.broken.store_relaxed(1);
  }
  // Queues whose lock a dead rank holds are broken for good.
  for (Peer& peer : peers_) (void)broken_for_good(peer.part->queues);
  if (part_->queues.broken.load_relaxed() != 0 && !broken_) broken_ = any = true;
  if (!any) return false;
  for (RequestList* list : {&sends_, &parked_}) {
    for (Request* r = list->head; r != nullptr;) {
      Request* next = r->next;
      if (peers_[static_cast<uint32_t>(r->peer)].dead) {
        list->remove(r);
        fail(r, Code::kPeerDead);
      }
      r = next;
    }
  }
  for (Request* r = recvs_.head; r != nullptr;) {
    Request* next = r->next;
    // What the peer left in cells before it ended is received.
    if (peers_[static_cast<uint32_t>(r->peer)].dead) {
      advance_recv(r);
      if (r->stage == Stage::kTransfer) {
        recvs_.remove(r);
        fail(r, Code::kPeerDead);
      }
    }
    r = next;
  }
  for (Peer& peer : peers_) {
    if (!peer.dead) continue;
    for (RequestList* list : {&peer.waiting.ring, &peer.waiting.memory}) {
      while (!list->empty()) {
        Request* r = list->head;
        list->remove(r);
        fail(r, Code::kPeerDead);
      }
    }
  }
  // Posted receives that name the dead peer, or any: whatever it sent before is in its ring, so drain first.
  while (collect()) {
  }
  const bool broken = broken_ = part_->queues.broken.load_relaxed() != 0;
  std::vector<uint64_t> told;
  for (auto& slab : request_slabs_) {
    for (uint32_t i = 0; i < kRequestSlab; ++i) {
      Request* r = &slab[i];
      if (r->stage != Stage::kPosted && r->stage != Stage::kUnposted) continue;
      if (!broken && !lost(r->peer, r->context)) continue;
      if (r->stage == Stage::kPosted && !broken) {
        if (!lock()) continue;
        queues_.unpost(r->posted);
        part_->queues.lock.unlock();
      }
      fail(r, Code::kPeerDead);
      if (r->peer == kAnyPeer) told.push_back(r->context);
    }
  }
  for (const uint64_t context : told) deaths_.told(context);
  return true;
}

}  // namespace zh::p2p
