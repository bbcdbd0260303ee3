// See match_run.h. One Agent plays one rank; what it does and sees goes into a history for the oracle, with readings of
// a clock that only counts. Either each agent has a thread of its own, or one thread turns them all: then a rank whose
// turn it is not is a rank that computes.
#include "match_run.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/atomic.h"
#include "match_oracle.h"
#include "os/clock.h"
#include "os/yield.h"
#include "unit/engine/engine_support.h"
#include "unit/engine/storm_plan_support.h"

namespace zh::test {
namespace {

/// What the agents know of each other.
struct Shared {
  explicit Shared(const Program& p, uint64_t seconds)
      : program(p), end_ns(os::now_ns() + seconds * 1'000'000'000), expected(p.ranks) {}
  const Program& program;
  const uint64_t end_ns;
  Atomic<uint64_t> clock{1};
  Atomic<uint32_t> arrived{0};   ///< agents that have done their acts
  Atomic<uint32_t> finished{0};  ///< ... that have all their messages
  Atomic<uint32_t> failed{0};
  std::vector<Atomic<uint64_t>> expected;  ///< messages, by destination
  std::mutex mutex;
  std::string wrong;  ///< the first thing that was

  void fail(const std::string& what) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (wrong.empty()) wrong = what;
    failed.store_relaxed(1);
  }
};

class Agent {
 public:
  Agent(Rank& rank, Shared& shared) : rank_(rank), shared_(shared), self_(rank.node().self()) {}

  void act(const Op& op, uint32_t id) {
    come_back();
    switch (op.act) {
      case Act::kSend:
      case Act::kSynchronous:
      case Act::kBuffered:
      case Act::kSendNow:
        return send(op, id);
      case Act::kRecv:
      case Act::kRecvNow:
        return receive(op);
      case Act::kProbe:
        return probe(op);
      case Act::kMprobe:
        return take(op);
      case Act::kMrecv:
        if (!taken_.empty()) receive_taken(op.bytes, op.strided);
        return;
      case Act::kCancelSend:
        if (!sends_.empty()) cancel_send(static_cast<size_t>(op.tag) % sends_.size());
        return;
      case Act::kCancelRecv:
        if (!receives_.empty()) cancel_receive(static_cast<size_t>(op.tag) % receives_.size());
        return;
      case Act::kHost:
        rank_.enter_host();
        in_host_ = true;
        return;
      default:
        return poll();
    }
  }

  /// A step of the end, after the last act; true when there is none left.
  bool finish() {
    const uint32_t ranks = shared_.program.ranks;
    switch (stage_) {
      case 0:
        come_back();
        while (!taken_.empty()) receive_taken(taken_.front().bytes, false);
        shared_.arrived.fetch_add_acq_rel(1);  // M1 -> M1: what this rank has sent
        break;
      case 1:
        poll();
        if (shared_.arrived.load_acquire() != ranks) return false;  // M1 -> M1: what the others have sent
        break;
      case 2:
        poll();
        if (received_ != shared_.expected[self_].load_relaxed()) take_any();
        if (received_ != shared_.expected[self_].load_relaxed() || !sends_.empty()) return false;
        shared_.finished.fetch_add_acq_rel(1);  // M2 -> M2: this rank needs nobody any more
        break;
      case 3:
        poll();
        if (shared_.finished.load_acquire() != ranks || rank_.pending_sends() != 0) return false;  // M2 -> M2
        break;
      default:
        check_quiet();
        return true;
    }
    ++stage_;
    return false;
  }

  [[nodiscard]] std::string state() const {
    return "rank " + std::to_string(self_) + " at stage " + std::to_string(stage_) + " has received " +
           std::to_string(received_) + " of " + std::to_string(shared_.expected[self_].load_relaxed()) + " messages, " +
           std::to_string(sends_.size()) + " sends and " + std::to_string(receives_.size()) + " receives are active, " +
           std::to_string(rank_.pending_sends()) + " sends are pending";
  }

  void add_to(History* history, std::vector<uint32_t>* ids, std::vector<const Packed*>* buffers) const {
    history->sends.insert(history->sends.end(), sent_.begin(), sent_.end());
    history->receives.insert(history->receives.end(), posted_.begin(), posted_.end());
    ids->insert(ids->end(), ids_.begin(), ids_.end());
    for (const auto& b : buffers_) buffers->push_back(b.get());
  }

 private:
  struct Active {
    Request* request;
    size_t number;  ///< in sent_ or posted_
    std::unique_ptr<Packed> data;
  };
  struct Taken {
    engine::Message* message;
    size_t number;
    uint64_t bytes;
  };
  static uint64_t context(uint32_t c) { return context_of(c); }

  uint64_t now() { return shared_.clock.fetch_add_relaxed(1); }

  void come_back() {
    if (in_host_) rank_.leave_host();
    in_host_ = false;
  }

  void send(const Op& op, uint32_t id) {
    SentMessage m;
    m.source = self_;
    m.dest = static_cast<uint32_t>(op.peer);
    m.context = op.context;
    m.tag = op.tag;
    m.bytes = op.bytes;
    m.matched.from = now();
    auto data = std::make_unique<Packed>(op.bytes, op.strided);
    data->fill(id);
    SendArgs args;
    args.dest = m.dest;
    args.source = static_cast<int32_t>(self_);
    args.tag = op.tag;
    args.context = context(op.context);
    args.data = data->buffer();
    args.mode = op.act == Act::kSynchronous ? p2p::SendMode::kSynchronous : p2p::SendMode::kStandard;
    shared_.expected[m.dest].fetch_add_relaxed(1);
    sent_.push_back(m);
    ids_.push_back(id);
    if (op.act == Act::kSendNow && rank_.send_short(args)) return data->fill(~id);
    Request* request = rank_.isend(args);
    if (request == nullptr) return shared_.fail("isend gave no request");
    if (op.act != Act::kBuffered) return sends_.push_back({request, sent_.size() - 1, std::move(data)});
    rank_.detach(request);
    detached_.push_back(std::move(data));
  }

  RecvArgs filter(uint32_t in_context, int32_t source, int32_t tag) const {
    RecvArgs args;
    args.peer = source < 0 ? p2p::kAnyPeer : source;
    args.source = source;
    args.tag = tag;
    args.context = context(in_context);
    return args;
  }

  size_t post(uint32_t in_context, int32_t source, int32_t tag, uint64_t capacity) {
    PostedReceive r;
    r.rank = self_;
    r.context = in_context;
    r.want_source = source;
    r.want_tag = tag;
    r.capacity = capacity;
    r.matched.from = now();
    posted_.push_back(r);
    buffers_.emplace_back();
    return posted_.size() - 1;
  }

  void receive(const Op& op) {
    const size_t number = post(op.context, op.peer, op.tag, op.bytes);
    start(number, op.act == Act::kRecvNow, op.strided);
  }

  void start(size_t number, bool in_short, bool strided) {
    const PostedReceive& r = posted_[number];
    RecvArgs args = filter(r.context, r.want_source, r.want_tag);
    auto data = std::make_unique<Packed>(r.capacity, strided);
    args.buffer = data->buffer();
    Result result;
    if (in_short && rank_.recv_short(args, &result)) return received(number, result, std::move(data));
    Request* request = in_short ? rank_.irecv_short(args) : nullptr;
    if (request == nullptr) request = rank_.irecv(args);
    if (request == nullptr) return shared_.fail("irecv gave no request");
    receives_.push_back({request, number, std::move(data)});
  }

  void received(size_t number, const Result& result, std::unique_ptr<Packed> data) {
    PostedReceive& r = posted_[number];
    r.matched.to = std::min(r.matched.to, now());
    r.source = result.source;
    r.tag = result.tag;
    r.bytes = result.bytes;
    r.truncated = result.code == Code::kTruncated;
    if (result.cancelled) shared_.fail("a receive says that it was cancelled");
    if (!r.truncated && result.code != Code::kOk) shared_.fail("a receive failed");
    buffers_[number] = std::move(data);
    ++received_;
  }

  void probe(const Op& op) {
    Result seen;
    if (!rank_.iprobe(filter(op.context, op.peer, op.tag), &seen)) return;
    const size_t number = post(op.context, seen.source, seen.tag, op.bytes);
    posted_[number].probed = true;
    posted_[number].probed_bytes = seen.bytes;
    start(number, false, op.strided);
  }

  void take(const Op& op) {
    Result seen;
    const uint64_t from = now();
    engine::Message* message = rank_.improbe(filter(op.context, op.peer, op.tag), &seen);
    if (message == nullptr) return;
    const size_t number = post(op.context, op.peer, op.tag, 0);
    PostedReceive& r = posted_[number];
    r.matched = {from, now()};
    r.source = seen.source;
    r.tag = seen.tag;
    taken_.push_back({message, number, seen.bytes});
  }

  void receive_taken(uint64_t bytes, bool strided) {
    const Taken t = taken_.front();
    taken_.pop_front();
    PostedReceive& r = posted_[t.number];
    r.capacity = bytes;
    r.probed = true;
    r.probed_bytes = t.bytes;
    auto data = std::make_unique<Packed>(bytes, strided && bytes % kElement == 0);
    Request* request = rank_.imrecv(t.message, data->buffer());
    if (request == nullptr) return shared_.fail("imrecv gave no request");
    receives_of_taken_.push_back({request, t.number, std::move(data)});
  }

  void take_any() {
    for (uint32_t c = 0; c < kContexts; ++c) {
      Op any;
      any.context = c;
      any.peer = any.tag = -1;
      take(any);
      while (!taken_.empty()) receive_taken(taken_.front().bytes, false);
    }
  }

  void cancel_send(size_t i) {
    Active& a = sends_[i];
    const uint64_t from = now();
    if (!rank_.cancel(a.request)) return;
    SentMessage& m = sent_[a.number];
    m.matched = {from, now()};
    m.cancelled = true;
    if (!rank_.done(a.request) || !rank_.result(a.request).cancelled) shared_.fail("a cancelled send does not say so");
    shared_.expected[m.dest].fetch_add_relaxed(~uint64_t{0});
    rank_.release(a.request);
    sends_.erase(sends_.begin() + static_cast<ptrdiff_t>(i));
  }

  bool cancel_receive(size_t i) {
    Active& a = receives_[i];
    const uint64_t from = now();
    if (!rank_.cancel(a.request)) return false;
    PostedReceive& r = posted_[a.number];
    r.matched = {from, now()};
    r.cancelled = true;
    if (!rank_.done(a.request) || !rank_.result(a.request).cancelled) {
      shared_.fail("a cancelled receive does not say so");
    }
    if (!a.data->holds(0, 0)) shared_.fail("a cancelled receive's buffer was written");
    rank_.release(a.request);
    receives_.erase(receives_.begin() + static_cast<ptrdiff_t>(i));
    return true;
  }

  void poll() {
    rank_.progress();
    collect(receives_, true);
    collect(receives_of_taken_, true);
    collect(sends_, false);
  }

  void collect(std::vector<Active>& active, bool receives) {
    for (size_t i = 0; i < active.size();) {
      if (!rank_.done(active[i].request)) {
        ++i;
        continue;
      }
      Active a = std::move(active[i]);
      active.erase(active.begin() + static_cast<ptrdiff_t>(i));
      const Result result = rank_.result(a.request);
      rank_.release(a.request);
      if (receives) {
        const PostedReceive& r = posted_[a.number];
        if (&active == &receives_of_taken_ && (r.source != result.source || r.tag != result.tag)) {
          shared_.fail("a message taken by a probe is another one when it is received");
        }
        received(a.number, result, std::move(a.data));
      } else {
        SentMessage& m = sent_[a.number];
        const bool synchronous = shared_.program.ops[ids_[a.number] - 1].act == Act::kSynchronous;
        if (synchronous) m.matched.to = now();
        if (result.code != Code::kOk || result.cancelled) shared_.fail("a send failed");
        a.data->fill(~ids_[a.number]);  // the buffer is the program's again
      }
    }
  }

  void check_quiet() {
    while (!receives_.empty() && shared_.failed.load_relaxed() == 0) {
      if (!cancel_receive(receives_.size() - 1)) shared_.fail("a receive without a message cannot be cancelled");
    }
    Result seen;
    for (uint32_t c = 0; c < kContexts; ++c) {
      if (rank_.iprobe(filter(c, -1, -1), &seen)) shared_.fail("a message too many: tag " + std::to_string(seen.tag));
    }
    if (!nlohmann::json::accept(rank_.stats_json())) shared_.fail("statistics that are not JSON");
  }

  Rank& rank_;
  Shared& shared_;
  uint32_t self_;
  int stage_ = 0;
  bool in_host_ = false;
  uint64_t received_ = 0;
  std::vector<SentMessage> sent_;
  std::vector<uint32_t> ids_;  ///< of what was sent: place of the act, from 1
  std::vector<PostedReceive> posted_;
  std::vector<std::unique_ptr<Packed>> buffers_;  ///< of what was received, by place in posted_
  std::vector<Active> sends_;
  std::vector<Active> receives_;
  std::vector<Active> receives_of_taken_;
  std::deque<Taken> taken_;
  std::vector<std::unique_ptr<Packed>> detached_;
};

class Run {
 public:
  Run(const Program& program, uint64_t seconds)
      : program_(program), shared_(program, seconds), ranks_(program.ranks), agents_(program.ranks) {}

  std::string run() {
    const auto n = static_cast<int>(program_.ranks);
    run_ranks(World::kThreads, n, [this](TestBootstrap& world) {
      const auto self = static_cast<size_t>(world.rank());
      ranks_[self] = make_rank(world, config());
      if (ranks_[self].rank == nullptr) return shared_.fail("no rank");
      agents_[self] = std::make_unique<Agent>(*ranks_[self].rank, shared_);
      if (!world.barrier().ok()) return shared_.fail("not all ranks are there");
      if (program_.threads) play(self);
    });
    if (!program_.threads) play_in_turn();
    std::string wrong = shared_.wrong;
    if (wrong.empty()) wrong = judge_all();
    ranks_.clear();
    return wrong;
  }

 private:
  [[nodiscard]] StormConfig config() const {
    StormConfig c;
    c.ranks = static_cast<int>(program_.ranks);
    c.cma = program_.cma;
    c.skew = program_.skew;
    c.single_copy_min = program_.single_copy_min;
    c.rank_bytes = program_.rank_bytes;
    return c;
  }

  bool go_on() {
    if (shared_.failed.load_relaxed() != 0) return false;
    if (os::now_ns() < shared_.end_ns) return true;
    std::string all = "hangs";
    for (const auto& a : agents_) all += "; " + a->state();
    shared_.fail(all);
    return false;
  }

  void play(size_t self) {
    for (size_t i = 0; i < program_.ops.size() && go_on(); ++i) {
      if (program_.ops[i].rank == self) agents_[self]->act(program_.ops[i], static_cast<uint32_t>(i + 1));
    }
    while (go_on() && !agents_[self]->finish()) os::yield_cpu();
  }

  void play_in_turn() {
    for (size_t i = 0; i < program_.ops.size() && go_on(); ++i) {
      agents_[program_.ops[i].rank]->act(program_.ops[i], static_cast<uint32_t>(i + 1));
    }
    for (bool all = false; !all && go_on();) {
      all = true;
      for (const auto& a : agents_) all = a->finish() && all;
    }
  }

  std::string judge_all() {
    History history;
    std::vector<uint32_t> ids;
    std::vector<const Packed*> buffers;
    for (const auto& a : agents_) a->add_to(&history, &ids, &buffers);
    std::vector<int> message_of;
    std::string wrong = judge(history, &message_of);
    for (size_t i = 0; i < message_of.size() && wrong.empty(); ++i) {
      if (message_of[i] < 0) continue;
      if (!buffers[i]->holds(ids[static_cast<size_t>(message_of[i])], history.receives[i].bytes)) {
        wrong = "receive " + std::to_string(i) + " holds other bytes than send " + std::to_string(message_of[i]);
      }
    }
    return wrong;
  }

  const Program& program_;
  Shared shared_;
  std::vector<EngineRank> ranks_;
  std::vector<std::unique_ptr<Agent>> agents_;
};

}  // namespace

std::string run_program(const Program& program, uint64_t seconds) { return Run(program, seconds).run(); }

}  // namespace zh::test
