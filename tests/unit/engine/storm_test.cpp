// A random storm of messages between the ranks of a world, through engine::Rank, checked against the rules of MPI:
// every message arrives once, whole, in order (standard 3.5), whatever mix of receives, probes and cancels meets it. In
// threads and processes, with and without single copy, tiny memory budgets, receivers that compute, more ranks than
// CPUs.
// label more-ranks: StormTest[.].*/threads
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "os/clock.h"
#include "storm_plan_support.h"

namespace zh::test {
namespace {

using p2p::kAnySource;
using p2p::kAnyTag;

/// One receive as it went, in the order in which receives were posted.
struct Received {
  uint32_t lane;
  int32_t want_source;
  int32_t want_tag;
  uint64_t capacity;
  Result result;
  bool done = false;
  std::unique_ptr<Packed> data;  ///< kept until checked
};

class Storm {
 public:
  Storm(Rank& rank, const StormConfig& config, uint64_t seed, int size, FakeHeap* heap)
      : rank_(rank),
        config_(config),
        heap_(heap),
        self_(rank.node().self()),
        size_(static_cast<uint32_t>(size)),
        plan_(make_plan(seed, size, config)),
        rng_(seed * 31 + self_) {
    for (const Planned& m : plan_) {
      if (m.source == self_) sends_.push_back(m);
      if (m.dest != self_ || m.lane >= kCancelled) continue;
      // The filter of one receive that this message satisfies.
      Filter f{m.lane, static_cast<int32_t>(m.source), m.tag, m.id % config.messages};
      if (m.lane == kAnySrc || m.lane == kAnyBoth) f.source = kAnySource;
      if (m.lane == kAnyTg || m.lane == kAnyBoth) f.tag = kAnyTag;
      if (m.lane == kMixed && rng_() % 2 == 0) f.source = kAnySource;
      if (m.lane == kMixed && rng_() % 2 == 0) f.tag = kAnyTag;
      filters_.push_back(f);
      if (m.lane == kMixed) ++mixed_left_;
    }
    // About in the order of sending, so that the bounded windows of sends and receives meet; the last is posted first.
    std::stable_sort(filters_.begin(), filters_.end(),
                     [](const Filter& a, const Filter& b) { return a.about > b.about; });
    for (size_t i = 0; i < filters_.size(); ++i) {
      std::swap(filters_[i], filters_[std::min(filters_.size() - 1, i + rng_() % 16)]);
    }
  }

  void run() {
    while (next_send_ < sends_.size() || !active_recvs_.empty() || !filters_.empty() || mixed_left_ != 0) {
      step();
      report_stall();
      if (::testing::Test::HasFatalFailure()) return;
    }
    finish_cancelled();
    if (::testing::Test::HasFatalFailure()) return;
    while (!active_sends_.empty()) {
      rank_.wait(active_sends_.front().request);
      poll();
      if (::testing::Test::HasFatalFailure()) return;
    }
    verify();
  }

 private:
  struct Filter {
    uint32_t lane;
    int32_t source;
    int32_t tag;
    uint32_t about;  ///< when its message is sent
  };
  struct ActiveSend {
    Request* request;
    uint32_t id;
    uint32_t lane;
    uint32_t dest;
    std::unique_ptr<Packed> data;
  };
  struct ActiveRecv {
    Request* request;
    size_t log;
  };
  static constexpr size_t kActive = 24;

  static RecvArgs recv_args(uint32_t lane, int32_t source, int32_t tag, const copy::Buffer& buffer = {}) {
    RecvArgs args = message_from(source, tag, nullptr, 0);
    args.context = context_of(lane);
    args.buffer = buffer;
    return args;
  }

  // Mostly enough for every message that the filter accepts, sometimes too little.
  uint64_t random_capacity(uint32_t lane, int32_t source, int32_t tag) {
    if (rng_() % 12 == 0) return random_bytes(rng_, config_.largest_bytes);
    uint64_t most = 0;
    for (const Planned& m : plan_) {
      if (m.dest != self_ || m.lane != lane || (source != kAnySource && static_cast<int32_t>(m.source) != source) ||
          (tag != kAnyTag && m.tag != tag)) {
        continue;
      }
      most = std::max(most, m.bytes);
    }
    return most + rng_() % 64;
  }

  size_t log_receive(uint32_t lane, int32_t source, int32_t tag) {
    const uint64_t capacity = random_capacity(lane, source, tag);
    const bool strided = rng_() % 5 == 0;
    Received r{
        lane, source, tag, capacity, {}, false, std::make_unique<Packed>(capacity, strided, heap_for_next(), shift())};
    log_.push_back(std::move(r));
    return log_.size() - 1;
  }

  void start_send() {
    const Planned& m = sends_[next_send_++];
    auto data = std::make_unique<Packed>(m.bytes, m.strided, heap_for_next(), shift());
    data->fill(m.id);
    SendArgs args;
    args.dest = m.dest;
    args.source = static_cast<int32_t>(self_);
    args.tag = m.tag;
    args.context = context_of(m.lane);
    args.data = data->buffer();
    args.mode = m.synchronous ? p2p::SendMode::kSynchronous : p2p::SendMode::kStandard;
    // A standard send may wait for its receive; only with memory to spare is a small one sure not to.
    if (m.bytes <= 192 && !m.synchronous && config_.rank_bytes >= 32 << 20 && rng_() % 3 == 0) {
      const Result r = rank_.send(args);
      ASSERT_EQ(r.code, Code::kOk);
      if (m.lane == kCancelled) came_[m.dest].push_back(m.id);
      return;
    }
    Request* request = rank_.isend(args);
    ASSERT_NE(request, nullptr);
    if (m.lane == kCancelled && rng_() % 2 == 0) {
      if (rng_() % 2 == 0) rank_.progress();
      if (rank_.cancel(request)) {
        ASSERT_TRUE(rank_.done(request));
        ASSERT_TRUE(rank_.result(request).cancelled);
        ASSERT_NE(rank_.result(request).code, Code::kPeerDead);
        rank_.release(request);
        return;
      }
    }
    if (m.lane == kCancelled) came_[m.dest].push_back(m.id);
    active_sends_.push_back({request, m.id, m.lane, m.dest, std::move(data)});
  }

  void start_receive() {
    const Filter f = filters_.back();
    filters_.pop_back();
    const size_t log = log_receive(f.lane, f.source, f.tag);
    Request* request = rank_.irecv(recv_args(f.lane, f.source, f.tag, log_[log].data->buffer()));
    ASSERT_NE(request, nullptr);
    active_recvs_.push_back({request, log});
  }

  void finish_receive(size_t log, const Result& result) {
    Received& r = log_[log];
    r.result = result;
    r.done = true;
    if (r.lane == kMixed) --mixed_left_;
    // Content is checked at once, against the message that it names, and dropped.
    check_content(r);
  }

  void check_content(Received& r) {
    const uint64_t n = r.result.bytes;
    ASSERT_TRUE(r.result.code == Code::kOk || r.result.code == Code::kTruncated) << static_cast<int>(r.result.code);
    ASSERT_LE(n, r.capacity);
    if (n >= 4) {
      uint32_t id = 0;
      for (uint64_t k = 0; k < 4; ++k) id |= static_cast<uint32_t>(r.data->at(k)) << (8 * k);
      ASSERT_LT(id, plan_.size()) << "lane " << r.lane << ", " << n << " bytes from " << r.result.source;
      const Planned& m = plan_[id];
      ASSERT_EQ(static_cast<int32_t>(m.source), r.result.source);
      ASSERT_EQ(m.dest, self_);
      ASSERT_EQ(m.lane, r.lane);
      ASSERT_EQ(m.tag, r.result.tag);
      ASSERT_EQ(n, std::min(m.bytes, r.capacity));
      ASSERT_TRUE(r.data->holds(id, n)) << "message " << id << " of " << m.bytes << " bytes in " << r.capacity;
      named_[&r - log_.data()] = id;
      r.data.reset();
    }
  }

  // A storm that does not end is explained before the watchdog kills it.
  void report_stall() {
    if (++steps_ % 1024 != 0 || os::now_ns() < next_report_ns_) return;
    if (next_report_ns_ != 0) {
      std::fprintf(
          stderr,
          "rank %u: %zu of %zu sent, %zu sends and %zu receives active, %zu to post, %u of the mixed lane left\n",
          self_, next_send_, sends_.size(), active_sends_.size(), active_recvs_.size(), filters_.size(), mixed_left_);
      for (const ActiveSend& a : active_sends_) {
        const Planned& m = plan_[a.id];
        std::fprintf(stderr, "  rank %u: to %u lane %u tag %d, %lu bytes%s, %s\n", self_, m.dest, m.lane, m.tag,
                     static_cast<unsigned long>(m.bytes), m.strided ? " strided" : "", m.synchronous ? "sync" : "");
      }
      for (const ActiveRecv& a : active_recvs_) {
        const Received& r = log_[a.log];
        std::fprintf(stderr, "  rank %u: from %d lane %u tag %d\n", self_, r.want_source, r.lane, r.want_tag);
      }
    }
    next_report_ns_ = os::now_ns() + 20'000'000'000U;
  }

  [[nodiscard]] FakeHeap* heap_for_next() { return heap_ != nullptr && rng_() % 4 != 0 ? heap_ : nullptr; }

  /// Where a buffer begins in its page: as malloc places large ones, at a page, or anywhere.
  [[nodiscard]] uint64_t shift() {
    const uint64_t dice = rng_() % 4;
    return dice == 0 ? 0 : dice == 1 ? rng_() % 4096 : 16;
  }

  void fork() {
    // A helper thread may be copying for this rank, as any thread of a program may use its memory.
    if (rank_.stats_json().find("\"helper_started\":0") == std::string::npos) {
      heap_->pretend_fork([] {});
    } else {
      heap_->pretend_fork_and_scribble();
    }
  }

  void step() {
    if (config_.forks && rng_() % 64 == 0) fork();
    const uint64_t dice = rng_() % 100;
    if (dice < config_.away_percent) {
      compute(20'000 + rng_() % 1'000'000);
    } else if (dice < 40 && next_send_ < sends_.size() && active_sends_.size() < kActive + came_count()) {
      start_send();
    } else if (dice < 70 && !filters_.empty() && active_recvs_.size() < 2 * kActive) {
      start_receive();
    } else if (dice < 74) {
      probe_mixed();
    } else if (dice < 77) {
      cancel_receive();
    } else if (dice < 80) {
      uint32_t polls = 0;
      rank_.wait_until([&] { return ++polls > 50 || any_done(); });
      poll();
    } else {
      poll();
    }
  }

  [[nodiscard]] bool any_done() const {
    return std::any_of(active_recvs_.begin(), active_recvs_.end(),
                       [&](const auto& a) { return rank_.done(a.request); }) ||
           std::any_of(active_sends_.begin(), active_sends_.end(),
                       [&](const auto& a) { return rank_.done(a.request); });
  }

  void poll() {
    rank_.progress();
    for (size_t i = 0; i < active_recvs_.size();) {
      if (!rank_.done(active_recvs_[i].request)) {
        ++i;
        continue;
      }
      const ActiveRecv a = active_recvs_[i];
      active_recvs_.erase(active_recvs_.begin() + static_cast<ptrdiff_t>(i));
      const Result result = finish(rank_, a.request);
      ASSERT_FALSE(result.cancelled);
      finish_receive(a.log, result);
      if (::testing::Test::HasFatalFailure()) return;
    }
    for (size_t i = 0; i < active_sends_.size();) {
      if (!rank_.done(active_sends_[i].request)) {
        ++i;
        continue;
      }
      ASSERT_EQ(finish(rank_, active_sends_[i].request).code, Code::kOk);
      active_sends_.erase(active_sends_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  // A message of the mixed lane that no posted receive wants is taken by a probe; then one receive is too many.
  void probe_mixed() {
    Result seen;
    if (!rank_.iprobe(recv_args(kMixed, kAnySource, kAnyTag), &seen)) return;
    const uint64_t way = rng_() % 3;
    if (way == 0) {
      const size_t log = log_receive(kMixed, seen.source, seen.tag);
      const Result result = rank_.recv(recv_args(kMixed, seen.source, seen.tag, log_[log].data->buffer()));
      if (!::testing::Test::HasFatalFailure()) finish_receive(log, result);
    } else {
      const int32_t source = way == 1 ? seen.source : kAnySource;
      Result matched;
      engine::Message* message = rank_.improbe(recv_args(kMixed, source, kAnyTag), &matched);
      ASSERT_NE(message, nullptr) << "a probed message has gone";
      if (rng_() % 4 == 0) compute(10'000);
      const size_t log = log_receive(kMixed, source, kAnyTag);
      Request* request = rank_.imrecv(message, log_[log].data->buffer());
      ASSERT_NE(request, nullptr);
      const Result result = finish(rank_, request);
      EXPECT_EQ(result.source, matched.source);
      EXPECT_EQ(result.tag, matched.tag);
      EXPECT_EQ(result.bytes, std::min(matched.bytes, log_[log].capacity));
      finish_receive(log, result);
    }
    drop_a_mixed_receive();
  }

  void drop_a_mixed_receive() {
    // One that is not posted yet, if any; else one that can still be cancelled; else it will have matched by itself.
    for (size_t i = 0; i < filters_.size(); ++i) {
      if (filters_[i].lane != kMixed) continue;
      filters_.erase(filters_.begin() + static_cast<ptrdiff_t>(i));
      return;
    }
    for (size_t i = 0; i < active_recvs_.size(); ++i) {
      if (log_[active_recvs_[i].log].lane == kMixed && cancel(i)) return;
    }
  }

  bool cancel(size_t i) {
    const ActiveRecv a = active_recvs_[i];
    if (!rank_.cancel(a.request)) return false;
    EXPECT_TRUE(rank_.done(a.request) && rank_.result(a.request).cancelled);
    EXPECT_TRUE(log_[a.log].data->holds(0, 0)) << "a cancelled receive's buffer was written";
    rank_.release(a.request);
    active_recvs_.erase(active_recvs_.begin() + static_cast<ptrdiff_t>(i));
    return true;
  }

  // Cancels a receive of any lane and posts its like again later.
  void cancel_receive() {
    if (active_recvs_.empty()) return;
    const size_t i = rng_() % active_recvs_.size();
    const Received& r = log_[active_recvs_[i].log];
    const Filter f{r.lane, r.want_source, r.want_tag, 0};
    if (cancel(i)) filters_.insert(filters_.end() - std::min<ptrdiff_t>(16, std::ssize(filters_)), f);
  }

  [[nodiscard]] size_t came_count() const {
    size_t n = 0;
    for (const auto& [dest, ids] : came_) n += ids.size();
    return n;
  }

  // Messages of the lane with cancelled sends: each peer says which really came, then they are taken one by one.
  void finish_cancelled() {
    std::vector<std::vector<uint32_t>> ids(size_);
    std::vector<Request*> requests;
    const size_t most = plan_.size();
    for (uint32_t p = 0; p < size_; ++p) {
      ids[p].resize(most);
      const copy::Buffer room{reinterpret_cast<std::byte*>(ids[p].data()), most * sizeof(uint32_t), nullptr};
      requests.push_back(rank_.irecv(recv_args(kControl, static_cast<int32_t>(p), 0, room)));
    }
    for (uint32_t p = 0; p < size_; ++p) {
      SendArgs send = message_to(p, self_, 0, came_[p].data(), came_[p].size() * sizeof(uint32_t));
      send.context = context_of(kControl);
      requests.push_back(rank_.isend(send));
    }
    uint32_t left = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      const Result result = finish(rank_, requests[i]);
      ASSERT_EQ(result.code, Code::kOk);
      if (i >= size_) continue;
      ids[i].resize(result.bytes / sizeof(uint32_t));
      left += static_cast<uint32_t>(ids[i].size());
    }
    std::vector<size_t> next(size_);
    for (; left != 0; --left) {
      const size_t log = log_receive(kCancelled, kAnySource, kAnyTag);
      const RecvArgs args = recv_args(kCancelled, kAnySource, kAnyTag, log_[log].data->buffer());
      const Result result = rng_() % 2 == 0 ? rank_.recv(args) : finish(rank_, rank_.irecv(args));
      const auto source = static_cast<size_t>(result.source);
      ASSERT_LT(source, size_);
      ASSERT_LT(next[source], ids[source].size()) << "a cancelled message came";
      const uint32_t id = ids[source][next[source]++];
      ASSERT_EQ(result.tag, plan_[id].tag);
      ASSERT_EQ(result.bytes, std::min(plan_[id].bytes, log_[log].capacity));
      ASSERT_TRUE(log_[log].data->holds(id, result.bytes)) << "message " << id << " of the lane with cancelled sends";
      log_[log].data.reset();
    }
    Result nothing;
    ASSERT_FALSE(rank_.iprobe(recv_args(kCancelled, kAnySource, kAnyTag), &nothing)) << "a message too many";
  }

  void verify() {
    // Receives in the order in which they were posted; each must have the earliest message of its source in its context
    // that it accepts and that no earlier receive took.
    std::map<std::pair<uint32_t, uint32_t>, std::deque<uint32_t>>
        messages;  // (lane, source) -> ids in order of sending
    for (const Planned& m : plan_) {
      if (m.dest == self_ && m.lane < kCancelled) messages[{m.lane, m.source}].push_back(m.id);
    }
    for (size_t i = 0; i < log_.size(); ++i) {
      const Received& r = log_[i];
      if (!r.done) continue;
      auto& queue = messages[{r.lane, static_cast<uint32_t>(r.result.source)}];
      const auto it = std::find_if(queue.begin(), queue.end(),
                                   [&](uint32_t id) { return r.want_tag == kAnyTag || plan_[id].tag == r.want_tag; });
      ASSERT_NE(it, queue.end()) << "a message that was never sent, lane " << r.lane;
      const Planned& m = plan_[*it];
      if (const auto named = named_.find(static_cast<ptrdiff_t>(i)); named != named_.end()) {
        ASSERT_EQ(named->second, m.id) << "overtaken, lane " << r.lane << ", receive " << i;
      } else {
        ASSERT_EQ(r.result.bytes, std::min(m.bytes, r.capacity)) << "lane " << r.lane << ", receive " << i;
        ASSERT_TRUE(r.data->holds(m.id, r.result.bytes));
      }
      ASSERT_EQ(r.result.tag, m.tag);
      ASSERT_EQ(r.result.code, m.bytes > r.capacity ? Code::kTruncated : Code::kOk);
      queue.erase(it);
    }
    for (const auto& [key, queue] : messages) {
      ASSERT_TRUE(queue.empty()) << queue.size() << " messages of lane " << key.first << " from " << key.second
                                 << " lost";
    }
  }

  Rank& rank_;
  const StormConfig& config_;
  FakeHeap* heap_;
  uint32_t self_;
  uint32_t size_;
  std::vector<Planned> plan_;
  std::mt19937_64 rng_;
  std::vector<Planned> sends_;
  size_t next_send_ = 0;
  std::vector<Filter> filters_;
  std::vector<ActiveSend> active_sends_;
  std::vector<ActiveRecv> active_recvs_;
  std::vector<Received> log_;
  std::map<ptrdiff_t, uint32_t> named_;
  uint32_t mixed_left_ = 0;
  uint64_t steps_ = 0;
  uint64_t next_report_ns_ = 0;
  std::map<uint32_t, std::vector<uint32_t>> came_;  ///< by destination: messages of the kCancelled lane not cancelled
};

/// One rank of the storm. All ranks are given the same seed.
void run_storm(TestBootstrap& world, const StormConfig& config, uint64_t seed) {
  std::unique_ptr<FakeHeap> heap;
  StormConfig own = config;
  if (config.mapped) {
    heap = std::make_unique<FakeHeap>(uint64_t{96} << 20);
    own.heap = heap.get();
  }
  EngineRank r = make_rank(world, own);
  ASSERT_NE(r.rank, nullptr);
  Storm storm(*r.rank, config, seed, world.size(), heap.get());
  storm.run();
  if (::testing::Test::HasFatalFailure()) return;
  // Copies that stand in for the program's buffers end a little later than its sends.
  const uint64_t end = os::now_ns() + 10'000'000'000;
  while (r.rank->pending_sends() != 0 && os::now_ns() < end) r.rank->progress();
  ASSERT_EQ(r.rank->pending_sends(), 0u);
  ASSERT_TRUE(world.barrier().ok());
}

class StormTest : public ::testing::TestWithParam<StormConfig> {};

TEST_P(StormTest, EveryMessageArrivesOnceWholeAndInOrder) {
  StormConfig config = GetParam();
  FakeModules modules;
  if (config.module_use == node::ModuleUse::kFirst) config.modules = &modules;
  const uint64_t seed = storm_seed();
  run_ranks(config.world, config.ranks, [&](TestBootstrap& world) { run_storm(world, config, seed); });
}

std::vector<StormConfig> configs() {
  const uint32_t many = StormConfig().messages;
  constexpr uint64_t kMiB = 1 << 20;
  std::vector<StormConfig> all = {
      {.name = "plain"},
      {.name = "alone", .ranks = 1},
      {.name = "no_cma", .cma = false},
      {.name = "single_copy_2k", .single_copy_min = 2 << 10},
      {.name = "single_copy_2k_away", .ranks = 2, .messages = many / 2, .single_copy_min = 2 << 10, .away_percent = 25},
      {.name = "away_no_cma", .ranks = 2, .messages = many / 2, .cma = false, .away_percent = 25},
      {.name = "one_mib", .messages = many * 2, .rank_bytes = 2 * kMiB},
      {.name = "one_mib_no_cma", .cma = false, .rank_bytes = 2 * kMiB},
      {.name = "two_mib_2k", .ranks = 4, .single_copy_min = 2 << 10, .rank_bytes = 4 * kMiB},
      {.name = "no_skew", .skew = 0},
      {.name = "copier_receive", .single_copy_min = 2 << 10, .ablations = {p2p::Copier::kReceive}},
      {.name = "copier_wait", .single_copy_min = 2 << 10, .ablations = {p2p::Copier::kWait}, .mapped = true},
      {.name = "copier_later", .single_copy_min = 2 << 10, .ablations = {p2p::Copier::kLater}, .mapped = true},
      {.name = "copier_later_no_cma", .cma = false, .ablations = {p2p::Copier::kLater}, .mapped = true},
      {.name = "one_lock", .messages = many / 2, .ablations = {.coarse_lock = true}, .away_percent = 25},
      {.name = "passive", .wait = engine::WaitPolicy::kPassive},
      {.name = "eight", .ranks = 8, .messages = many / 2},
      {.name = "bells_eight", .ranks = 8, .messages = many / 2, .polled_senders = 2},
      {.name = "bells", .polled_senders = 0},
      {.name = "bells_away", .messages = many / 2, .polled_senders = 0, .away_percent = 25},
      {.name = "bells_one_mib", .ranks = 4, .rank_bytes = 2 * kMiB, .polled_senders = 0},
      {.name = "mapped", .mapped = true},
      {.name = "mapped_no_cma", .cma = false, .mapped = true},
      {.name = "mapped_forks", .away_percent = 10, .mapped = true, .forks = true},
      {.name = "mapped_forks_no_cma", .cma = false, .away_percent = 10, .mapped = true, .forks = true},
      {.name = "mutex", .threads = true},
  };
  const size_t n = all.size();
  for (size_t i = 0; i < n; ++i) {
    all.push_back(all[i]);
    all.back().world = World::kProcesses;
  }
  StormConfig module{.name = "module_2k", .single_copy_min = 2 << 10, .away_percent = 10};
  module.module_use = node::ModuleUse::kFirst;
  all.push_back(module);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, StormTest, ::testing::ValuesIn(configs()), [](const auto& instance) {
  return std::string(to_string(instance.param.world)) + "_" + instance.param.name;
});

}  // namespace
}  // namespace zh::test
