// A started operation and a message taken out of matching (MPI 3.7, 3.8.2); private to the rank that made it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/atomic.h"
#include "copy/peer_memory.h"
#include "p2p/counters.h"
#include "p2p/queues.h"
#include "p2p/transfer.h"
#include "p2p/types.h"

namespace zh::p2p {

enum class Stage : uint8_t {
  kFree,
  kQueued,    ///< a send that has not entered the ring yet
  kPosted,    ///< a receive in the shared queue
  kUnposted,  ///< a blocking receive that looks for itself
  kTransfer,  ///< joined to a TransferShm
  kDone,
};

struct Request {
  Atomic<uint32_t> done;  ///< looked at without the rank's mutex
  bool is_send = false;
  bool detached = false;
  Stage stage = Stage::kFree;
  SendMode mode = SendMode::kStandard;
  uint32_t index = 0;  ///< in the rank's table of requests
  int32_t peer = kAnyPeer;
  int32_t source = 0;
  int32_t tag = 0;
  uint64_t context = 0;
  copy::Buffer buffer;
  Result result;

  Ref posted = kNoRef;
  Offset transfer = kNoOffset;
  Offset layout = kNoOffset;  ///< published description of buffer.layout, freed at the end
  uint64_t layout_bytes = 0;
  copy::OwnBuffer own;         ///< where peers can map the buffer
  uint64_t message_bytes = 0;  ///< of the matched message (receives), or of this one
  uint64_t finished = 0;       ///< bytes this end has moved (cells, push, pull)
  uint64_t moved_direct = 0;   ///< of these, by single copy
  SpanShm carry[2] = {};       ///< sender: bytes of its own that must go through cells
  uint64_t arrivals_seen = 0;  ///< unposted receive: unexpected messages already searched
  uint32_t cells_seen = 0;
  uint32_t number = 0;       ///< of the envelope
  uint64_t began_ticks = 0;  ///< see Channels::begun_ticks()
  bool direct_broken = false;
  bool hidden = false;      ///< a receive that no peer can fill
  bool unpullable = false;  ///< a transfer whose bytes no peer can fetch by itself
  bool parked = false;      ///< a transfer that is looked at when its receiver tells of the match
  bool starved = false;     ///< queued: in WaitingSends::memory
  Path path = Path::kCells;
  std::byte* own_copy = nullptr;  ///< malloc: the bytes of a send that stands in for the program's (buffering.cpp)

  [[nodiscard]] uint64_t carry_bytes() const { return carry[0].bytes + carry[1].bytes; }

  Request* next = nullptr;  ///< in one of the endpoint's lists
  Request* prev = nullptr;
};

/// A message that MPI_Mprobe took: only its own MPI_Mrecv can receive it.
struct Message {
  MessageShm entry;
};

/// Intrusive list of requests, in order.
struct RequestList {
  Request* head = nullptr;
  Request* tail = nullptr;
  size_t size = 0;

  [[nodiscard]] bool empty() const { return head == nullptr; }
  void push_back(Request* r) {
    r->next = nullptr;
    r->prev = tail;
    (tail != nullptr ? tail->next : head) = r;
    tail = r;
    ++size;
  }
  void push_front(Request* r) {
    r->prev = nullptr;
    r->next = head;
    (head != nullptr ? head->prev : tail) = r;
    head = r;
    ++size;
  }
  /// visit(request) for each, which may take it out of the list.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (Request* r = head; r != nullptr;) {
      Request* const next = r->next;
      visit(r);
      r = next;
    }
  }
  /// Puts `other` where `r` is.
  void replace(Request* r, Request* other) {
    other->prev = r->prev;
    other->next = r->next;
    (r->prev != nullptr ? r->prev->next : head) = other;
    (r->next != nullptr ? r->next->prev : tail) = other;
    r->next = r->prev = nullptr;
  }
  void remove(Request* r) {
    (r->prev != nullptr ? r->prev->next : head) = r->next;
    (r->next != nullptr ? r->next->prev : tail) = r->prev;
    r->next = r->prev = nullptr;
    --size;
  }
};

/// Sends to one peer that have not entered its ring. Messages of one context keep their order, others do not wait for
/// them (MPI standard 3.5): where memory lacks for the many of one communicator, another one goes on.
struct WaitingSends {
  RequestList ring;                ///< for room in the ring, in order
  RequestList memory;              ///< for a description, and what their contexts have behind them, in order
  std::vector<uint64_t> contexts;  ///< of `memory`; few

  [[nodiscard]] bool empty() const { return ring.empty() && memory.empty(); }
  [[nodiscard]] bool starves(uint64_t context) const {
    return !memory.empty() && std::find(contexts.begin(), contexts.end(), context) != contexts.end();
  }
  /// Whether a message of `context` would overtake none.
  [[nodiscard]] bool lets(uint64_t context) const { return ring.empty() && !starves(context); }
  [[nodiscard]] RequestList& list_of(const Request* r) { return r->starved ? memory : ring; }
  /// Another send of the context waits for memory already, or this one does from now on.
  void starve(Request* r) {
    if (!starves(r->context)) contexts.push_back(r->context);
    r->starved = true;
    memory.push_back(r);
  }
  /// Nothing waits for memory any more.
  void fed() { contexts.clear(); }
};

}  // namespace zh::p2p
