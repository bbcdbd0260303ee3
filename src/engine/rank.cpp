// Rank: opens the endpoint, chooses the ways towards each peer, and waits.
#include "engine/rank.h"

#include <mutex>
#include <new>

#include "engine/activity.h"
#include "engine/state.h"
#include "os/clock.h"
#include "os/yield.h"
#include "p2p/blocking_receive.h"

namespace zh::engine {

Rank::Rank(node::Node& node, const Config& config) : node_(node), state_(std::make_unique<State>()) {
  state_->config = config;
  state_->active_collectives = std::make_shared<ActiveCollectives>(*this);
  looks_first_ = config.ablations.copier != p2p::Copier::kLater;
  state_->oversubscribed = node.oversubscribed();
  state_->patient = !state_->oversubscribed && config.wait != WaitPolicy::kPassive;
}

Rank::~Rank() {
  if (inert()) {
    // Everything belongs to the parent: its segment, its helper thread, its peers' windows.
    static_cast<void>(state_.release());
    return;
  }
  if (state_->watch) state_->config.heap->remove_client(state_->watch.get());
  stop_helper();
  state_->active_collectives->close();
}

bool Rank::inert() const { return state_->watch && state_->watch->is_child(); }

void Rank::watch_memory() {
  State& s = *state_;
  if (s.config.heap == nullptr) return;
  s.watch.reset(new (std::nothrow) MemoryWatch(*s.endpoint));
  if (s.watch && s.config.heap->add_client(s.watch.get())) return;
  s.watch.reset();
  s.config.heap = nullptr;
  s.endpoint->memory().leave_heap();
}

Status Rank::create(node::Node& node, node::Bootstrap& world, const Config& config, std::unique_ptr<Rank>* out) {
  std::unique_ptr<Rank> rank(new (std::nothrow) Rank(node, config));
  if (!rank) return node.agree(world, {Code::kNoMemory, "out of memory"});
  Status status = config.ready;
  if (status.ok()) {
    p2p::EndpointConfig endpoint = config;
    // Where ranks outnumber CPUs every receiver lags because it is not running, and a second copy only delays it more.
    if (config.skew < 0 && node.oversubscribed()) endpoint.skew = 0;
    status = p2p::Endpoint::open(node, endpoint, &rank->state_->endpoint);
    rank->endpoint_ = rank->state_->endpoint.get();
    if (status.ok()) {
      rank->receives_short_ = rank->looks_first_ && !rank->endpoint_->watched();
      rank->watch_memory();
    }
  }
  if (Status s = rank->choose(world, status); !s.ok()) return s;
  *out = std::move(rank);
  return kOk;
}

void Rank::enable_threads() {
  state_->threads = true;
  mutex_ = &state_->mutex;
  looks_first_ = receives_short_ = false;
  endpoint_->leave_short_receives();
  endpoint_->memory().lock_by(*mutex_);
}

Status Rank::open_internode(std::unique_ptr<Carrier> carrier) {
  if (carrier != nullptr) state_->internode.reset(new (std::nothrow) Internode(std::move(carrier), state_->threads));
  return state_->internode != nullptr ? kOk : Status{Code::kNoMemory, "memory for messages between nodes"};
}

Internode* Rank::internode() const { return state_->internode.get(); }
void Rank::set_host_progress(std::function<void()> turn) { state_->host_progress = std::move(turn); }

Result Rank::send(const SendArgs& args) {
  State& s = *state_;
  p2p::Request* r = nullptr;
  {
    Guard guard(s);
    if (s.endpoint->sends().send_now(args)) return {};
  }
  const auto tell = [&](p2p::Activity* out) { told(node_, args, out); };
  // Inside before the offer is out: the receiver leaves the copy to a sender that is there to make it.
  WaitScope scope(*this, tell);
  {
    Guard guard(s);
    r = s.endpoint->sends().start(args, true);
  }
  if (r == nullptr) return {.code = Code::kNoMemory};
  while (!done(r)) scope.pause();
  const Result result = r->result;
  Guard guard(s);
  s.endpoint->release(r);
  leave(guard);  // a copy may be what goes to a receiver that takes nothing now
  return result;
}

/// A blocking receive's waiting.
struct Rank::Waiter {
  State& s;
  WaitScope& scope;
  void pause() { scope.pause(); }
  void turn() { scope.turn_only(); }
  [[nodiscard]] bool looks_for_long() const { return s.looks_for_long(); }
  [[nodiscard]] bool has_company(int32_t peer) const { return s.notice_company(peer); }
};

Result Rank::recv(const RecvArgs& args) {
  State& s = *state_;
  if (looks_first_) {
    Result quick;
    if (endpoint_->recv_short<true>(args, &quick)) return quick;
    const auto tell = [&](p2p::Activity* out) { told(node_, args, out); };
    WaitScope scope(*this, tell);
    Waiter waiter{s, scope};
    return p2p::receive_blocking(*s.endpoint, args, waiter);
  }
  p2p::Request* r = irecv(args);
  if (r == nullptr) return {.code = Code::kNoMemory};
  wait(r);
  const Result result = r->result;
  release(r);
  return result;
}

Request* Rank::isend(const SendArgs& args) {
  Guard guard(*state_);
  Request* r = endpoint_->sends().isend(args);
  leave(guard);
  return r;
}

Request* Rank::irecv(const RecvArgs& args) {
  Guard guard(*state_);
  Request* r = endpoint_->receives().irecv(args);
  leave(guard);
  return r;
}

void Rank::release_locked(Request* request) {
  Guard guard(*state_);
  endpoint_->release(request);
}

Request* Rank::make_empty() {
  Guard guard(*state_);
  return endpoint_->make_empty();
}

uint64_t Rank::ended_requests() const { return state_->endpoint->ended_requests(); }

bool Rank::test(Request* request) {
  if (done(request)) return true;
  progress();
  return done(request);
}

void Rank::wait(Request* request) {
  if (done(request)) return;
  const auto told = [&](p2p::Activity* out) { tell(request, out); };
  WaitScope scope(*this, told, request);
  while (!done(request)) scope.pause();
}

void Rank::detach(Request* request) {
  Guard guard(*state_);
  state_->endpoint->detach(request);
}

bool Rank::cancel(Request* request) {
  Guard guard(*state_);
  return state_->endpoint->cancel(request);
}

void Rank::name_members(uint64_t context, std::span<const int32_t> members) {
  Guard guard(*state_);
  state_->endpoint->receives().name_members(context, members);
}

void Rank::forget_members(uint64_t context) {
  Guard guard(*state_);
  state_->endpoint->receives().forget_members(context);
}

bool Rank::iprobe(const RecvArgs& args, Result* out) {
  Guard guard(*state_);
  return state_->endpoint->receives().iprobe(args, out);
}

Message* Rank::improbe(const RecvArgs& args, Result* out) {
  Guard guard(*state_);
  return state_->endpoint->receives().improbe(args, out);
}

Request* Rank::imrecv(Message* message, const copy::Buffer& buffer) {
  Guard guard(*state_);
  return state_->endpoint->receives().imrecv(message, buffer);
}

bool Rank::progress() {
  State& s = *state_;
  bool others_wait = false;
  {
    Guard guard(s);
    if (s.endpoint->turn()) {
      s.idle_polls = 0;
      return true;
    }
    // A program that only polls (MPI_Test, MPI_Iprobe) must also get a reluctant peer going, and let it run.
    if (++s.idle_polls % kHostEvery != 0) return false;
    const uint64_t now = os::now_ns();
    if (s.idle_polls == kHostEvery) s.idle_polls_since_ns = now;
    const bool in_vain = now - s.idle_polls_since_ns > s.in_vain_ns();
    s.endpoint->part().activity.polled(s.idle_polls_since_ns, now);
    s.endpoint->help_peers(in_vain);
    leave(guard);
    s.reap_in_time();
    others_wait = s.oversubscribed || s.polled_by_another();
  }
  if (others_wait) os::yield_cpu();
  return false;
}

uint64_t Rank::pending_sends() const {
  Guard guard(*state_);
  return state_->endpoint->pending_sends();
}

void Rank::quiesce() {
  if (pending_sends() == 0) return;
  called(0);
  wait_until([this] { return pending_sends() == 0; });
}

void Rank::take_back_sends() {
  Guard guard(*state_);
  state_->endpoint->take_back_sends();
}

const std::string& Rank::choices_note() const { return state_->profile_note; }
const Log& Rank::log() const { return state_->config.log; }
const std::string& Rank::complaint() const { return state_->complaint; }

void Rank::announce_call(uint64_t context, uint64_t number, uint32_t digest) {
  state_->endpoint->part().calls.announce(context, number, digest);
}

bool Rank::call_contradicted(uint32_t peer, uint64_t context, uint64_t number, uint32_t digest) const {
  return state_->endpoint->part(peer).calls.contradicts(context, number, digest);
}

void Rank::count_schedule(coll::Collective collective, size_t algorithm) {
  Guard guard(*state_);
  std::vector<uint64_t>& calls = state_->schedules[static_cast<size_t>(collective)];
  if (calls.size() <= algorithm) calls.resize(algorithm + 1);
  ++calls[algorithm];
}

void Rank::count_fallback(const char* reason) {
  Guard guard(*state_);
  for (auto& [text, count] : state_->fallbacks) {
    if (text == reason) {
      ++count;
      return;
    }
  }
  state_->fallbacks.emplace_back(reason, 1);
  state_->config.log.print(LogLevel::kDebug, "left to the host: %s", reason);
}

}  // namespace zh::engine
