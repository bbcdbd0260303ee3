#include "p2p/requests.h"

#include <cstdlib>
#include <new>
#include <utility>

namespace zh::p2p {

Requests::Requests(shm::Arena& arena) : arena_(arena) {
  sent_.is_send = true;
  sent_.stage = Stage::kDone;
  sent_.done.store_relaxed(1);
}

Requests::~Requests() {
  for_each([](const Request* r) { std::free(r->own_copy); });
}

Request* Requests::make() {
  if (free_ == nullptr) {
    std::unique_ptr<Request[]> slab(new (std::nothrow) Request[kSlab]);
    if (!slab) return nullptr;
    for (uint32_t i = kSlab; i-- != 0;) {
      slab[i].index = made_ + i;
      slab[i].next = free_;
      free_ = &slab[i];
    }
    made_ += kSlab;
    slabs_.push_back(std::move(slab));
  }
  Request* r = free_;
  free_ = r->next;
  r->done.store_relaxed(0);
  r->detached = false;
  r->direct_broken = false;
  r->unpullable = false;
  r->parked = false;
  r->starved = false;
  r->transfer = kNoOffset;
  r->layout = kNoOffset;
  r->posted = kNoRef;
  r->own.forget();
  r->message_bytes = r->finished = r->moved_direct = 0;
  r->carry[0] = r->carry[1] = {};
  r->cells_seen = 0;
  r->arrivals_seen = ~uint64_t{0};
  r->path = Path::kCells;
  r->hidden = false;
  r->next = r->prev = nullptr;
  r->result = Result{};
  return r;
}

Request* Requests::make_send() {
  Request* r = make();
  if (r == nullptr) return nullptr;
  r->is_send = true;
  ++pending_sends_;
  return r;
}

void Requests::release(Request* request) {
  if (request == &sent_) return;
  request->stage = Stage::kFree;
  request->next = free_;
  free_ = request;
}

void Requests::detach(Request* request) {
  if (request->stage == Stage::kDone) {
    release(request);
  } else {
    request->detached = true;
    count_ended();
  }
}

void Requests::drop_layout(Request* request) {
  if (request->layout == kNoOffset) return;
  arena_.free(request->layout, request->layout_bytes);
  request->layout = kNoOffset;
}

void Requests::complete(Request* request) {
  drop_layout(request);
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
  count_ended();
  if (request->detached) release(request);
}

}  // namespace zh::p2p
