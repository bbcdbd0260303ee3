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

/// What whoever started a request keeps with it. The engine clears `more`, and does not look.
struct Kept {
  uint64_t site;
  void* type;
  void* more;
};

/// All that a short message needs is in the first two lines. While `plain` the rest is as it was made.
struct alignas(kLineBytes) Request {
  Atomic<uint32_t> done;  ///< looked at without the rank's mutex
  Stage stage = Stage::kFree;
  bool is_send = false;
  bool detached = false;
  bool plain = true;
  uint32_t index = 0;   ///< in the rank's table of requests
  Ref posted = kNoRef;  ///< its description for peers, the Matcher's; it is kept for good
  int32_t peer = kAnyPeer;
  int32_t source = 0;
  int32_t tag = 0;
  uint32_t number = 0;  ///< of the envelope
  uint64_t context = 0;
  copy::Buffer buffer;

  Result result;
  Kept kept{};
  Request* next = nullptr;  ///< in one of the endpoint's lists
  Request* prev = nullptr;

  // Of messages that both ends move, of sends that wait, and of receives that peers cannot reach.
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
  SendMode mode = SendMode::kStandard;
  Path path = Path::kCells;
  uint64_t began_ticks = 0;  ///< see Channels::begun_ticks()
  bool direct_broken = false;
  bool hidden = false;            ///< a receive that no peer can fill
  bool unpullable = false;        ///< a transfer whose bytes no peer can fetch by itself
  bool parked = false;            ///< a transfer that is looked at when its receiver tells of the match
  bool starved = false;           ///< queued: in WaitingSends::memory
  bool is_cold = false;           ///< a blocking send of a buffer that messages have not had lately
  std::byte* own_copy = nullptr;  ///< malloc: the bytes of a send that stands in for the program's (buffering.cpp)

  [[nodiscard]] uint64_t carry_bytes() const { return carry[0].bytes + carry[1].bytes; }
  [[nodiscard]] bool is_done() const {
    return done.load_acquire() != 0;  // D1 -> D0: result and buffer after done
  }
  /// Begins a new life, as a plain one.
  [[gnu::always_inline]] void begin(Stage how) {
    done.store_relaxed(0);
    stage = how;
    is_send = detached = false;
    plain = true;
    result.code = Code::kOk;
    result.cancelled = false;
    kept.more = nullptr;
  }
  [[gnu::always_inline]] void begin_receive(const RecvArgs& args) {
    begin(Stage::kUnposted);
    peer = args.peer;
    source = args.source;
    tag = args.tag;
    context = args.context;
    buffer = args.buffer;
  }
  /// Makes a plain one of it again.
  void clear() {
    transfer = layout = kNoOffset;
    own.forget();
    message_bytes = finished = moved_direct = 0;
    carry[0] = carry[1] = {};
    cells_seen = 0;
    mode = SendMode::kStandard;
    path = Path::kCells;
    direct_broken = hidden = unpullable = parked = starved = is_cold = false;
  }
};
#ifndef ZH_MODEL_CHECK
static_assert(offsetof(Request, transfer) == 2 * kLineBytes);
#endif

/// Where the requests of a rank lie, by index. Other threads may read while one adds.
class RequestTable {
 public:
  static constexpr uint32_t kMost = 1U << 24;
  /// How many there are, free ones included.
  [[nodiscard]] uint32_t size() const { return size_.load_relaxed(); }
  /// index < size()
  [[nodiscard]] Request* at(uint32_t index) const { return &slabs_[index / kSlab][index % kSlab]; }

 protected:
  static constexpr uint32_t kSlab = 128;
  Request** slabs_ = nullptr;
  Atomic<uint32_t> size_{0};
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
