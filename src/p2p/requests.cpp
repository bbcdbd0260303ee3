#include "p2p/requests.h"

#include <cstdlib>
#include <new>

namespace zh::p2p {

namespace {
constexpr uint64_t kPlaceBytes = sizeof(void*);  // of a slab, in the table
}  // namespace

Requests::Requests(shm::Arena& arena) : arena_(arena) {
  if (!room_.reserve(kSlabs * kPlaceBytes)) return;
  slabs_ = reinterpret_cast<Request**>(room_.base());
  if (Request* sent = make_empty(); sent != nullptr) {
    sent->is_send = true;
    sent->plain = false;
  }
}

Requests::~Requests() {
  for_each([](const Request* r) { std::free(r->own_copy); });
  for (uint32_t i = 0; i < size() / kSlab; ++i) delete[] slabs_[i];
}

bool Requests::add_slab() {
  const uint32_t made = size();
  const uint32_t slabs = made / kSlab;
  if (slabs_ == nullptr || slabs == kSlabs || !room_.open((slabs + 1) * kPlaceBytes)) return false;
  auto* slab = new (std::nothrow) Request[kSlab];
  if (slab == nullptr) return false;
  for (uint32_t i = kSlab; i-- != 0;) {
    slab[i].index = made + i;
    slab[i].next = free_;
    free_ = &slab[i];
  }
  slabs_[slabs] = slab;
  size_.store_relaxed(made + kSlab);
  return true;
}

Request* Requests::make_send() {
  Request* r = take();
  if (r == nullptr) return nullptr;
  r->begin(Stage::kQueued);
  r->is_send = true;
  r->plain = false;
  ++pending_sends_;
  return r;
}

Request* Requests::make_empty() {
  Request* r = take();
  if (r == nullptr) return nullptr;
  r->begin(Stage::kDone);
  r->done.store_relaxed(1);
  return r;
}

void Requests::detach(Request* request) {
  if (request->stage == Stage::kDone) {
    release(request);
  } else {
    request->detached = true;
    request->plain = false;
    count_ended();
  }
}

void Requests::drop_layout(Request* request) {
  if (request->layout == kNoOffset) return;
  arena_.free(request->layout, request->layout_bytes);
  request->layout = kNoOffset;
}

void Requests::end_rest(Request* request) {
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
}

}  // namespace zh::p2p
