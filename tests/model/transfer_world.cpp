// Doubles of everything below and beside the shipped transfer loops. See transfer_world.h.
//
// The parts of Endpoint that are not under check - Channels::open(), Requests, Matcher, Receiver, this rank's own side
// of PeerMemory - are defined here, as short as the scenario allows: collect() is reduced to the head of one ring, and
// every receive takes the next message. The places named by ZH_CRASH_POINT, which lie between an access to the
// transfer's plain fields and the store that publishes it, announce that access.
#include "transfer_world.h"

#include <climits>
#include <cstring>
#include <new>
#include <string_view>

#include "base/crash_point.h"
#include "copy/cma.h"
#include "copy/layout.h"
#include "copy/region_cache.h"
#include "os/futex.h"

namespace zh::mc {
namespace {

using p2p::CellShm;
using p2p::Endpoint;
using p2p::Request;
using p2p::TransferShm;

struct Ring {
  alignas(kPairBytes) shm::EnvelopeRingShm ring;
  shm::EnvelopeShm slots[4];
};
static_assert(offsetof(Ring, slots) == sizeof(shm::EnvelopeRingShm));

/// What both ranks share. Static: too large for an object of each execution; only what is used is reset.
struct Segment {
  std::byte header[kPairBytes];
  Ring ring;
  alignas(kPairBytes) TransferShm transfer;
  alignas(kPairBytes) p2p::PartShm parts[2];
  alignas(kPairBytes) std::byte payload[shm::ReleasedShm::kLeastBytes + kUnitsMax * kUnitBytes];
  alignas(kPairBytes) std::byte matched[shm::ReleasedShm::kLeastBytes + kUnitsMax * kUnitBytes];
};
alignas(4096) Segment g_segment;

struct World {
  TransferSetup setup;
  std::unique_ptr<node::Node> nodes[2];
  std::unique_ptr<Endpoint> endpoints[2];
  Request requests[2][kMessagesMax];
  uint32_t requests_used[2] = {};
  std::byte source[kMessagesMax][kUnitsMax] = {};
  std::byte target[kMessagesMax][kUnitsMax] = {};
  uint32_t arrived[kMessagesMax][kUnitsMax] = {};  ///< how often each unit was written to its receiver
  char memory[2] = {};  ///< each rank's memory as a whole: read by peers that copy, written when its process forks
  int maps = 0;
  int pulls = 0;
  int pushes = 0;
};
World* g_world = nullptr;

template <typename F>
Offset offset_in_segment(const F& field) {
  return static_cast<Offset>(reinterpret_cast<const std::byte*>(&field) - reinterpret_cast<std::byte*>(&g_segment));
}
uint64_t units(uint64_t bytes) { return (bytes + kUnitBytes - 1) / kUnitBytes; }
template <typename T>
T peek(const Atomic<T>& a) {  // bookkeeping of the scenario: no step of the execution
  T v;
  std::memcpy(&v, static_cast<const void*>(&a), sizeof v);
  return v;
}

// A range that is given back is written before kAsked is stored, and read before kTaken is.
void before_store(const void* where, uint64_t value) {
  if (where != &g_segment.transfer.returned) return;
  if (value == static_cast<uint64_t>(p2p::Returned::kAsked)) data_write(&g_segment.transfer.returned_from);
  if (value == static_cast<uint64_t>(p2p::Returned::kTaken)) data_read(&g_segment.transfer.returned_from);
}

/// Where a message's bytes lie in this model's arrays, or memory of the ring.
bool in_buffer(const std::byte* p) {
  const std::byte* const source = &g_world->source[0][0];
  const std::byte* const target = &g_world->target[0][0];
  return (p >= source && p < source + sizeof g_world->source) || (p >= target && p < target + sizeof g_world->target);
}
uint64_t step_of(const std::byte* p) { return in_buffer(p) ? 1 : kUnitBytes; }

/// A peer's memory is accessed directly.
void visit(const void* p) {
  const auto* at = static_cast<const std::byte*>(p);
  if (!in_buffer(at)) return;
  const bool senders = at < &g_world->target[0][0] && at >= &g_world->source[0][0];
  data_read(&g_world->memory[senders ? 0 : 1]);
}

void note_arrival(const std::byte* unit) {
  const auto index = static_cast<size_t>(unit - &g_world->target[0][0]);
  if (index >= kMessagesMax * kUnitsMax) return;  // a block of the ring
  const uint32_t times = ++g_world->arrived[index / kUnitsMax][index % kUnitsMax];
  check(times == 1, "every byte is moved once");
}

/// Moves units; each side is one byte per unit (`step` 1) or memory of the ring (`step` kUnitBytes).
void move(std::byte* to, uint64_t to_step, const std::byte* from, uint64_t from_step, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    data_read(from + i * from_step);
    data_write(to + i * to_step);
    to[i * to_step] = from[i * from_step];
    note_arrival(to + i * to_step);
  }
}

}  // namespace
}  // namespace zh::mc

namespace zh {

void crash_point(const char* name) {
  const std::string_view at = name;
  mc::TransferShm& t = mc::g_segment.transfer;
  if (at == "transfer: slot filled") {
    mc::data_write(&t.source);
    mc::data_write(&mc::g_segment.ring.slots);
  } else if (at == "transfer: target described") {
    mc::data_write(&t.target);
  } else if (at == "cell: filled") {
    mc::data_write(&t.cells[mc::peek(t.published) % t.window]);
  } else if (at == "cell: copied, not released") {
    mc::data_read(&t.cells[mc::peek(t.consumed) % t.window]);
  } else if (at == "pull: claimed") {
    mc::data_read(&t.source);
  } else if (at == "push: claimed") {
    mc::data_read(&t.target);
  } else if (at == "transfer: not yet left") {
    mc::data_read(&t.source);
    mc::data_read(&t.target);
  }
}

namespace node {
struct NodeTestAccess {
  static std::unique_ptr<Node> make(uint32_t self, bool cma) {
    std::unique_ptr<Node> node(new Node());
    node->base_ = reinterpret_cast<std::byte*>(&mc::g_segment);
    node->self_ = self;
    node->size_ = 2;
    node->pids_ = {1, 2};
    node->known_pids_ = {1, 1};
    node->cma_ = {cma, cma};
    node->module_members_ = {0, 0};
    node->lets_in_ = {0, 0};
    return node;
  }
};
Node::~Node() = default;
bool Node::alive(uint32_t /*index*/) { return true; }
bool Node::ended(uint32_t /*index*/) const { return false; }
bool Node::open_annex(Offset /*offset*/) { return true; }
}  // namespace node

namespace shm {
Offset Arena::allocate_below(uint64_t /*limit*/, uint64_t /*bytes*/) { return kNoOffset; }
void Arena::free(Offset /*offset*/, uint64_t /*bytes*/) {}
}  // namespace shm

namespace os {
// Both of them: a build without optimisation links the line measurement of src/node, which sleeps.
int futex_wake(Atomic<uint32_t>& /*word*/, int /*count*/) { return 0; }
Wake futex_wait(const Atomic<uint32_t>& /*word*/, uint32_t /*expected*/, uint64_t /*timeout_ns*/) {
  mc::fail("nobody sleeps here");
  return Wake::kWoken;
}
}  // namespace os

namespace copy {

struct RegionCache::State {};
RegionCache::RegionCache(size_t /*budget_bytes*/) {}
RegionCache::~RegionCache() = default;
std::byte* RegionCache::resolve(uint32_t peer, int, int, const RegionRef& ref, uint64_t n, Direction, uint64_t* run) {
  const mc::TransferSetup& setup = mc::g_world->setup;
  if (mc::g_world->maps++ == setup.failing_map) return nullptr;
  *run = n;
  const uint64_t from = ref.offset % (mc::kUnitsMax * mc::kUnitBytes);
  const uint64_t bytes = peer == 0 ? setup.bytes : std::min(setup.capacity, setup.bytes);
  const uint64_t(&edges)[2] = peer == 0 ? setup.source_edges : setup.target_edges;
  mc::check(from >= edges[0] * mc::kUnitBytes && from + n + edges[1] * mc::kUnitBytes <= bytes, "edges are private");
  std::byte* const first = peer == 0 ? &mc::g_world->source[0][0] : &mc::g_world->target[0][0];
  return first + ref.offset / mc::kUnitBytes;
}

// This rank's own side of PeerMemory: see Rendezvous::publish_memory() below for the rest.
void PeerMemory::close() {
  shm::close_access(*words_[self_]);
  mc::await([&] { return !shm::still_accessed(*words_[1 - self_], self_); });
}
void PeerMemory::describe(const void*, uint64_t, uint64_t, Direction, bool, RemoteBufferShm*) {
  mc::fail("no collective here");
}

void pack(const Buffer& buffer, uint64_t from, uint64_t n, void* dst, Store /*store*/) {
  mc::visit(dst);
  auto* const to = static_cast<std::byte*>(dst);
  mc::move(to, mc::step_of(to), buffer.base + from / mc::kUnitBytes, 1, mc::units(n));
}
void unpack(const Buffer& buffer, uint64_t from, uint64_t n, const void* src, Store /*store*/) {
  mc::visit(src);
  const auto* const out_of = static_cast<const std::byte*>(src);
  mc::move(buffer.base + from / mc::kUnitBytes, 1, out_of, mc::step_of(out_of), mc::units(n));
}
void copy_range(const Buffer& dst, const Buffer& src, uint64_t from, uint64_t n, Store /*store*/) {
  mc::move(dst.base + from / mc::kUnitBytes, 1, src.base + from / mc::kUnitBytes, 1, mc::units(n));
}
Status transfer(KernelMove, const char*, const Buffer&, const Buffer&, uint64_t, uint64_t, uint64_t*) {
  mc::fail("no module here");
  return kOk;
}
Status cma_read(pid_t, const Buffer& local, const Buffer& remote, uint64_t from, uint64_t n, uint64_t* done) {
  const bool fails = mc::g_world->pulls++ == mc::g_world->setup.failing_pull;
  *done = fails ? mc::units(n) / 2 * mc::kUnitBytes : n;
  mc::visit(remote.base);
  copy_range(local, remote, from, *done, Store::kTemporal);
  return fails ? Status{Code::kIo, "ended early"} : kOk;
}
Status cma_write(pid_t, const Buffer& local, const Buffer& remote, uint64_t from, uint64_t n, uint64_t* done) {
  const bool fails = mc::g_world->pushes++ == mc::g_world->setup.failing_push;
  *done = fails ? mc::units(n) / 2 * mc::kUnitBytes : n;
  mc::visit(remote.base);
  copy_range(remote, local, from, *done, Store::kTemporal);
  return fails ? Status{Code::kIo, "ended early"} : kOk;
}

}  // namespace copy

namespace p2p {

using mc::g_segment;
using mc::g_world;

// --- Channels and Endpoint as far as one transfer needs them

Channels::Channels(node::Node& node, const EndpointConfig& config)
    : node_(node), config_(config), base_(node.base()), self_(node.self()), part_(&g_segment.parts[self_]) {}
void Channels::tell(Event) {}  // nobody watches

Status Channels::open() {
  const mc::TransferSetup& setup = g_world->setup;
  peers_.resize(2);
  ticks_away_ = INT64_MAX;  // with `inside` set: never away
  for (uint32_t i = 0; i < 2; ++i) peers_[i].part = &g_segment.parts[i];
  Channel& peer = peers_[1 - self_];
  peer.choice.inline_max = peer.choice.eager_max = 0;
  peer.choice.piped_max = 0;
  peer.choice.single_copy_min = 0;
  peer.choice.chunk_cells = static_cast<uint32_t>(setup.cell_bytes);
  peer.choice.chunk_both = peer.choice.chunk_alone = static_cast<uint32_t>(setup.single_bytes);
  peer.choice.both_ends_min = setup.both_ends ? 0 : ~uint64_t{0};
  peer.choice.sender_copies = setup.sender_copies;
  if (self_ != 0) return kOk;
  const uint64_t ring = shm::ReleasedShm::kLeastBytes + setup.ring_units * mc::kUnitBytes;
  peer.choice.ring_bytes_max = static_cast<uint32_t>(ring);
  mc::check(peer.payload.attach(base_, mc::offset_in_segment(g_segment.payload), ring), "attached");
  mc::check(matched_ring_.attach(base_, mc::offset_in_segment(g_segment.matched), ring), "attached");
  peer.out.attach(&g_segment.ring.ring);
  return kOk;
}

Status Endpoint::open(node::Node& node, const EndpointConfig& config, std::unique_ptr<Endpoint>* out) {
  out->reset(new Endpoint(node, config));
  Endpoint& e = **out;
  mc::check(e.channels_.open().ok(), "opened");
  e.memory_.attach({&g_segment.parts[0].access, &g_segment.parts[1].access});
  if (node.self() == 0) e.rendezvous_.give_transfer(mc::offset_in_segment(g_segment.transfer));
  return kOk;
}

void Endpoint::MemoryNotes::kernel_copy_ended(uint32_t, const Status&, uint64_t, uint64_t) {}
void Endpoint::MemoryNotes::cannot_map(uint32_t) {}
void Endpoint::MemoryNotes::accessed(copy::Reach, uint32_t, uint64_t) {}

// --- Requests: one for each message

Requests::Requests(shm::Arena& arena) : arena_(arena) {}
Requests::~Requests() = default;

bool Requests::add_slab() {
  const uint32_t self = mc::self();
  uint32_t& used = g_world->requests_used[self];
  mc::check(used < mc::kMessagesMax, "one request per message");
  free_ = &g_world->requests[self][used++];
  return true;
}

Request* Requests::make_send() {
  Request* r = take();
  r->begin(Stage::kQueued);
  r->is_send = true;
  r->plain = false;
  ++pending_sends_;
  return r;
}

void Requests::end_rest(Request* request) {
  mc::check(request->stage == Stage::kTransfer, "a request ends once");
  if (!request->is_send) return;
  --pending_sends_;
  if (request->unpullable) --unpullable_;
}

void Requests::drop_layout(Request* /*request*/) {}

// --- This rank's buffers

void Rendezvous::look_up(Request* r, uint64_t /*bytes*/, bool /*exact*/) { r->own.mapped.region.region = 1; }

bool Rendezvous::can_map(const copy::Buffer& /*buffer*/, int32_t /*peer*/) const {
  const uint32_t self = channels_.self();
  return self == 0 ? g_world->setup.source_mapped : g_world->setup.target_mapped;
}
void Rendezvous::publish_layout(Request*, int32_t, copy::RemoteBufferShm*) { mc::fail("no layouts here"); }
void Rendezvous::let_in(Request*, int32_t, uint64_t, bool, copy::RemoteBufferShm*) { mc::fail("no module here"); }
void Rendezvous::publish_memory(Request* r, uint64_t /*bytes*/, bool /*exact*/, copy::RemoteBufferShm* out) {
  const uint32_t self = channels_.self();
  const uint32_t epoch = channels_.part().access.epoch.load_acquire();
  if (shm::is_closed(epoch)) return;
  const std::byte* const first = self == 0 ? &g_world->source[0][0] : &g_world->target[0][0];
  const copy::RegionRef region{1, 1, static_cast<uint64_t>(r->buffer.base - first) * mc::kUnitBytes};
  const uint64_t(&edges)[2] = r->is_send ? g_world->setup.source_edges : g_world->setup.target_edges;
  out->set_mapped(region, -1, epoch, edges[0] * mc::kUnitBytes, out->bytes - edges[1] * mc::kUnitBytes);
}

// --- Matching. Nobody is in a call of the host here.

Matcher::Matcher(Channels& channels, Requests& requests)
    : channels_(channels), requests_(requests), queues_(nullptr, nullptr, nullptr), sources_(channels) {}
uint32_t Matcher::progress_peer(uint32_t /*dest*/) { return 0; }
bool Sender::may_buffer(const Request* /*request*/) const { return false; }
void Sender::buffer_offered(Request* /*request*/) { mc::fail("no offer changes here"); }
Request* Sender::stand_in(Request* /*request*/) {
  mc::fail("nothing is copied here");
  return nullptr;
}
bool Matcher::withdraw(const Request* /*send*/) {
  mc::fail("nothing is withdrawn here");
  return false;
}

Request* Receiver::irecv(const RecvArgs& args) {
  Request* r = requests_.make_receive(args);
  r->peer = 0;
  r->stage = Stage::kPosted;
  return r;
}

// The next message belongs to the latest receive.
bool Receiver::collect() {
  if (channels_.self() == 0) return false;
  Request* r = &g_world->requests[1][g_world->requests_used[1] - 1];
  if (r->stage != Stage::kPosted) return false;
  shm::EnvelopeRingShm* ring = &g_segment.ring.ring;
  shm::EnvelopeConsumer consumer(ring);
  const shm::EnvelopeShm* slot = consumer.front();
  if (slot == nullptr) return false;
  mc::data_read(&g_segment.ring.slots);
  mc::data_read(&g_segment.transfer.source);
  MessageShm message{};
  Queues::fill(&message, *slot, 0);
  consumer.consume(slot);
  r->message_bytes = message.bytes();
  r->peer = 0;
  r->result = result_of(message, r->buffer.bytes);
  if (g_world->setup.found) r->stage = Stage::kUnposted;
  rendezvous_.join(r, message);
  return true;
}

}  // namespace p2p

namespace mc {

TransferScenario::TransferScenario(const TransferSetup& setup) {
  g_world = new World;
  g_world->setup = setup;
  set_store_hook(before_store);
  std::memset(static_cast<void*>(&g_segment.ring), 0, sizeof g_segment.ring);
  std::memset(static_cast<void*>(&g_segment.transfer), 0, sizeof g_segment.transfer);
  g_segment.transfer.window = setup.window;
  g_segment.ring.ring.capacity = 4;
  for (uint32_t i = 0; i < 2; ++i) {
    g_segment.parts[i].state.inside.store_relaxed(1);
    std::memset(static_cast<void*>(&g_segment.parts[i].access), 0, sizeof g_segment.parts[i].access);
    if (setup.forking == static_cast<int>(i)) shm::open_access(g_segment.parts[i].access);
    g_world->nodes[i] = node::NodeTestAccess::make(i, i == 0 ? setup.sender_cma : setup.receiver_cma);
    p2p::EndpointConfig config;
    config.skew = setup.lagging ? 1 : 0;
    config.ablations.copier = setup.copier;
    check(Endpoint::open(*g_world->nodes[i], config, &g_world->endpoints[i]).ok(), "opened");
  }
}

TransferScenario::~TransferScenario() {
  set_store_hook(nullptr);
  delete g_world;
  g_world = nullptr;
}

namespace {

/// Turns the rank until the request has ended. A turn that has stored something was not in vain, and leaves the
/// transfer whole, of which this rank is an end as long.
void wait(Endpoint& e, const Request* r) {
  while (r->stage != p2p::Stage::kDone) {
    await([&] {
      const uint64_t before = writes();
      return e.turn() || writes() != before;
    });
    if (r->stage == p2p::Stage::kTransfer) ZH_CHECK_INVARIANT(g_segment.transfer.broken_invariant());
  }
}

std::byte value_of(uint32_t message, uint64_t unit) { return static_cast<std::byte>(1 + message * 16 + unit); }

}  // namespace

uint32_t TransferScenario::threads() const { return g_world->setup.forking < 0 ? 2 : 3; }

void TransferScenario::run(uint32_t thread) {
  if (thread == 0) return send();
  if (thread == 1) return receive();
  fork();
}

void TransferScenario::fork() {
  const int rank = g_world->setup.forking;
  Endpoint& e = *g_world->endpoints[rank];
  e.memory().close();
  data_write(&g_world->memory[rank]);
  e.memory().open();
}

void TransferScenario::send() {
  const TransferSetup& setup = g_world->setup;
  Endpoint& e = *g_world->endpoints[0];
  for (uint32_t m = 0; m < setup.messages; ++m) {
    std::byte* buffer = g_world->source[m];
    for (uint64_t u = 0; u < units(setup.bytes); ++u) {
      data_write(buffer + u);
      buffer[u] = value_of(m, u);
    }
    p2p::SendArgs args;
    args.dest = 1;
    args.data = {buffer, setup.bytes, nullptr};
    const Request* r = e.sends().isend(args);
    if (setup.lagging) g_segment.parts[1].state.skewed.store_relaxed(1);
    wait(e, r);
    // Complete: the buffer is the program's again.
    for (uint64_t u = 0; u < units(setup.bytes); ++u) {
      data_write(buffer + u);
      buffer[u] = std::byte{0xff};
    }
  }
}

void TransferScenario::receive() {
  const TransferSetup& setup = g_world->setup;
  Endpoint& e = *g_world->endpoints[1];
  const uint64_t capacity = std::min(setup.capacity, setup.bytes);
  for (uint32_t m = 0; m < setup.messages; ++m) {
    std::byte* buffer = g_world->target[m];
    // Fresh for the receive: whoever fills it must have seen this.
    for (uint64_t u = 0; u < units(setup.bytes); ++u) data_write(buffer + u);
    p2p::RecvArgs args;
    args.peer = args.source = 0;
    args.buffer = {buffer, capacity, nullptr};
    const Request* r = e.receives().irecv(args);
    wait(e, r);
    check(r->result.bytes == capacity, "its length");
    check((r->result.code == Code::kTruncated) == (capacity < setup.bytes), "its code");
    for (uint64_t u = 0; u < units(setup.bytes); ++u) {
      data_read(buffer + u);
      check(buffer[u] == (u < units(capacity) ? value_of(m, u) : std::byte{0}), "the message as it was sent");
    }
  }
}

void TransferScenario::finish() {
  const TransferSetup& setup = g_world->setup;
  for (uint32_t m = 0; m < setup.messages; ++m) {
    for (uint64_t u = 0; u < kUnitsMax; ++u) {
      check(g_world->arrived[m][u] == (u < units(std::min(setup.capacity, setup.bytes)) ? 1U : 0U),
            "every byte arrived once");
    }
  }
  check(g_world->endpoints[0]->pending_sends() == 0, "nothing is left");
  ZH_CHECK_INVARIANT(g_segment.transfer.broken_invariant());
  ZH_CHECK_INVARIANT(g_segment.ring.ring.broken_invariant());
  for (const p2p::PartShm& part : g_segment.parts) ZH_CHECK_INVARIANT(part.access.broken_invariant(0));
}

}  // namespace mc
}  // namespace zh
