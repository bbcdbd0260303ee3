// Messages between nodes over a carrier that delays them, and collectives of ranks on several nodes.
#include "engine/internode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "coll/schedule/run.h"
#include "coll/team/team.h"
#include "engine/leader_messages.h"
#include "engine/team_steps.h"
#include "storm_support.h"

namespace zh::test {
namespace {

using coll::Collective;
using coll::Problem;
using engine::Carrier;
using engine::Internode;

/// Messages between the threads of a test. A send of more than kBuffered bytes completes when it has been received, as
/// hosts do it; nothing is there before it has been looked for a few times.
class Network {
 public:
  static constexpr uint64_t kBuffered = 8192;
  struct Message {
    int32_t from, to, tag;
    std::vector<std::byte> bytes;
    bool received = false;
  };
  std::mutex mutex;
  std::list<std::shared_ptr<Message>> messages;
};

class NetworkCarrier final : public Carrier {
 public:
  NetworkCarrier(Network& network, int32_t self)
      : network_(network), self_(self), random_(static_cast<uint32_t>(self)) {}
  ~NetworkCarrier() override { EXPECT_TRUE(operations_.empty()) << "requests are left"; }
  [[nodiscard]] int32_t self() const override { return self_; }
  [[nodiscard]] int32_t tag_ub() const override { return 20; }  // tags are used again soon

  Request send(int32_t rank, int32_t tag, const void* data, uint64_t bytes) override {
    const auto* from = static_cast<const std::byte*>(data);
    auto message = std::make_shared<Network::Message>(Network::Message{self_, rank, tag, {from, from + bytes}});
    const std::lock_guard lock(network_.mutex);
    network_.messages.push_back(message);
    return add({message, nullptr, 0, 0, 0});
  }
  Request receive(int32_t rank, int32_t tag, void* data, uint64_t bytes) override {
    return add({nullptr, static_cast<std::byte*>(data), bytes, rank, tag});
  }
  bool test(Request* request) override {
    if (random_() % 3 != 0) return false;
    const std::lock_guard lock(network_.mutex);
    for (Operation& operation : operations_) advance(operation);
    const auto found = find(*request);
    if (!found->done) return false;
    operations_.erase(found);
    return true;
  }
  void cancel(Request* request) override { operations_.erase(find(*request)); }

 private:
  struct Operation {
    std::shared_ptr<Network::Message> message;
    std::byte* data;  ///< null: a send
    uint64_t bytes;
    int32_t from, tag;
    Request number = 0;
    bool done = false;
  };
  using Place = std::list<Operation>::iterator;

  Request add(Operation operation) {
    operation.number = ++last_;
    operations_.push_back(std::move(operation));
    return last_;
  }
  Place find(Request request) {
    return std::find_if(operations_.begin(), operations_.end(),
                        [&](const Operation& o) { return o.number == request; });
  }
  /// In the order of their starts: a message goes to the first receive that it fits.
  void advance(Operation& o) {
    if (o.done) return;
    if (o.data == nullptr) {
      o.done = o.message->bytes.size() <= Network::kBuffered || o.message->received;
      return;
    }
    const auto fits = [&](const std::shared_ptr<Network::Message>& m) {
      return m->to == self_ && o.tag == m->tag && (o.from == kAnyRank || o.from == m->from);
    };
    const auto m = std::find_if(network_.messages.begin(), network_.messages.end(), fits);
    if (m == network_.messages.end()) return;
    EXPECT_LE((*m)->bytes.size(), o.bytes);
    std::memcpy(o.data, (*m)->bytes.data(), (*m)->bytes.size());
    (*m)->received = true;
    network_.messages.erase(m);
    o.done = true;
  }

  Network& network_;
  int32_t self_;
  std::minstd_rand random_;
  std::list<Operation> operations_;
  Request last_ = 0;
};

/// Two ends in one thread.
struct Pair {
  Network network;
  Internode a{std::make_unique<NetworkCarrier>(network, 0), false};
  Internode b{std::make_unique<NetworkCarrier>(network, 1), false};

  Code finish(Internode& end, void* handle) {
    Code code = Code::kOk;
    while (handle != nullptr && !end.test(handle, &code)) turn();
    return code;
  }
  void turn() {
    a.progress();
    b.progress();
  }
};

TEST(Internode, FindsItsReceiverByContextAndTagWhateverTheOrder) {
  constexpr uint64_t kInline = Internode::kInlineBytes;
  constexpr uint64_t kSizes[] = {0, 1, kInline - 64, kInline, kInline + 1, 100'000};
  for (const bool receives_first : {true, false}) {
    Pair pair;
    std::vector<std::vector<uint8_t>> out;
    std::vector<std::vector<uint8_t>> in;
    std::vector<void*> sends;
    std::vector<std::pair<size_t, void*>> receives;
    // Less has come than was asked for, or nothing.
    const auto outcome = [&](size_t i) { return out[i].empty() ? Code::kIo : Code::kInvalid; };
    const auto send_all = [&] {
      for (size_t i = 0; i < 60; ++i) {
        out.emplace_back(kSizes[i % 6], static_cast<uint8_t>(i));
        void* handle = nullptr;
        ASSERT_EQ(pair.a.send(1, i % 2, static_cast<int32_t>(i % 5), out[i].data(), out[i].size(), &handle), Code::kOk);
        sends.push_back(handle);
      }
    };
    const auto receive_all = [&] {
      for (size_t i = 0; i < 60; ++i) in.emplace_back(kSizes[i % 6] + 3, 0xee);
      // Keys in another order than the sends, messages of one key in theirs.
      for (size_t key = 10; key-- > 0;) {
        for (size_t i = 0; i < 60; ++i) {
          if (i % 10 != key) continue;
          void* handle = nullptr;
          const Code code = pair.b.receive(0, i % 2, static_cast<int32_t>(i % 5), in[i].data(), in[i].size(), &handle);
          ASSERT_EQ(code, handle != nullptr ? Code::kOk : outcome(i));
          if (handle != nullptr) receives.emplace_back(i, handle);
        }
      }
    };
    if (receives_first) receive_all();
    send_all();
    if (!receives_first) {
      for (int i = 0; i < 1000; ++i) pair.turn();
      receive_all();
    }
    for (void* handle : sends) EXPECT_EQ(pair.finish(pair.a, handle), Code::kOk);
    for (const auto& [i, handle] : receives) EXPECT_EQ(pair.finish(pair.b, handle), outcome(i)) << i;
    for (size_t i = 0; i < 60; ++i) {
      EXPECT_TRUE(std::equal(out[i].begin(), out[i].end(), in[i].begin())) << i;
      EXPECT_EQ(in[i][out[i].size()], 0xee) << i;
    }
    EXPECT_EQ(pair.a.stats().messages, 60u);
    EXPECT_EQ(pair.a.stats().bytes, 10u * (1 + 3 * kInline - 63 + 100'000));
    EXPECT_EQ(pair.b.stats().messages, 0u);
  }
}

TEST(Internode, WhatIsTooLongIsTruncatedAndHoldsNobodyUp) {
  for (const size_t bytes : {size_t{100}, size_t{100'000}}) {
    Pair pair;
    const std::vector<uint8_t> out(bytes, 7);
    std::vector<uint8_t> in(50, 0xee);
    void* send = nullptr;
    void* receive = nullptr;
    ASSERT_EQ(pair.b.receive(0, 1, 1, in.data(), 49, &receive), Code::kOk);
    ASSERT_EQ(pair.a.send(1, 1, 1, out.data(), bytes, &send), Code::kOk);
    EXPECT_EQ(pair.finish(pair.b, receive), Code::kTruncated);
    EXPECT_EQ(pair.finish(pair.a, send), Code::kOk);
    EXPECT_EQ(in[49], 0xee);
  }
}

TEST(Internode, WhatIsGivenUpIsNotTouched) {
  Pair pair;
  const std::vector<uint8_t> out(100'000, 7);
  std::vector<uint8_t> in(100'000, 0xee);
  void* send = nullptr;
  void* receive = nullptr;
  ASSERT_EQ(pair.b.receive(0, 1, 1, in.data(), in.size(), &receive), Code::kOk);
  pair.b.abandon(receive);
  ASSERT_EQ(pair.a.send(1, 1, 1, out.data(), out.size(), &send), Code::kOk);
  for (int i = 0; i < 100; ++i) pair.turn();
  pair.a.abandon(send);
  EXPECT_EQ(in, std::vector<uint8_t>(100'000, 0xee));
}

// One end waits for nothing of a call any more. What the other one sends for it, before and after, holds that one up no
// longer; and a later call with the same tags gets its own.
TEST(Internode, MessagesOfACallThatWasGivenUpAreLetGo) {
  constexpr int32_t kFirst = 3 * static_cast<int32_t>(coll::kTags);
  constexpr int32_t kOther = kFirst + static_cast<int32_t>(coll::kTags);
  Pair pair;
  const std::vector<uint8_t> out(100'000, 7);
  std::vector<uint8_t> in(100'000, 0xee);
  void* before = nullptr;
  void* after = nullptr;
  void* other = nullptr;
  ASSERT_EQ(pair.a.send(1, 1, kFirst + 5, out.data(), out.size(), &before), Code::kOk);
  ASSERT_EQ(pair.a.send(1, 1, kOther, out.data(), out.size(), &other), Code::kOk);
  for (int i = 0; i < 100; ++i) pair.turn();
  EXPECT_FALSE(pair.b.lets_go());
  pair.b.let_go_of(1, kFirst);
  pair.b.tell_given_up(0, 1, 77);
  EXPECT_TRUE(pair.b.lets_go());
  EXPECT_EQ(pair.finish(pair.a, before), Code::kOk);
  ASSERT_EQ(pair.a.send(1, 1, kFirst + 6, out.data(), out.size(), &after), Code::kOk);
  EXPECT_EQ(pair.finish(pair.a, after), Code::kOk);
  for (int i = 0; i < 100; ++i) pair.turn();
  EXPECT_TRUE(pair.a.was_given_up(1, 77));
  EXPECT_FALSE(pair.a.was_given_up(1, 78));
  EXPECT_FALSE(pair.a.was_given_up(2, 77));
  // Other tags, and these when they come again.
  for (const int32_t tag : {kOther, kFirst + 5}) {
    void* receive = nullptr;
    void* send = nullptr;
    ASSERT_EQ(pair.b.receive(0, 1, tag, in.data(), in.size(), &receive), Code::kOk);
    if (tag != kOther) {
      ASSERT_EQ(pair.a.send(1, 1, tag, out.data(), out.size(), &send), Code::kOk);
    }
    EXPECT_EQ(pair.finish(pair.b, receive), Code::kOk);
    EXPECT_EQ(pair.finish(pair.a, tag == kOther ? other : send), Code::kOk);
    EXPECT_EQ(in, out);
    in.assign(in.size(), 0xee);
  }
}

void add(const void* a, const void* b, void* out, size_t n) {
  const auto* x = static_cast<const uint64_t*>(a);
  const auto* y = static_cast<const uint64_t*>(b);
  for (size_t i = 0; i < n; ++i) static_cast<uint64_t*>(out)[i] = x[i] + y[i];
}

/// Ranks of several nodes, as threads.
class Spanning {
 public:
  Spanning(TestBootstrap& world, Network& network, uint32_t node_ranks) {
    StormConfig config;
    config.node_ranks = node_ranks;
    rank_ = make_rank(world, config);
    const node::Node& node = *rank_.node;
    const auto n = static_cast<size_t>(node.world_size());
    self_ = static_cast<uint32_t>(world.rank());
    layout_ = std::make_shared<const coll::Layout>(std::span(node.nodes_of(), n));
    EXPECT_TRUE(rank_.rank->open_internode(std::make_unique<NetworkCarrier>(network, world.rank())).ok());
    transport_ = std::make_unique<engine::SpanTransport>(*rank_.rank, *rank_.rank->internode(), 9,
                                                         engine::RankList{{node.local_indices(), n}, nullptr},
                                                         engine::RankList{{node.world_ranks(), n}, nullptr}, self_);
  }

  /// From now on collectives block, and this rank's node shares by a team.
  void use_team() {
    std::vector<uint32_t> members;
    for (const uint32_t rank : layout_->members(layout_->node_of(self_))) {
      members.push_back(static_cast<uint32_t>(rank_.node->local_index(static_cast<int>(rank))));
    }
    const auto place = std::find(members.begin(), members.end(), rank_.node->self()) - members.begin();
    if (members.size() == 1) return;
    team_ = rank_.rank->make_team(10, members, static_cast<uint32_t>(place));
    ASSERT_TRUE(team_->ready());
  }

  /// Messages to other nodes that this rank sent for it.
  uint64_t run(Problem problem, std::string_view algorithm, const std::vector<uint64_t>& in,
               std::vector<uint64_t>& out) {
    coll::Schedule schedule = schedule_of(&problem, algorithm);
    uint64_t expected = 0;
    bool leads = false;
    for (const coll::Step& step : schedule.steps) {
      const bool leaves = step.kind == coll::StepKind::kSend && layout_->node_of(step.peer) != layout_->node_of(self_);
      if (leaves) ++expected;
      leads = leads || step.of_leaders;
    }
    const uint64_t before = rank_.rank->internode()->stats().messages;
    EXPECT_EQ(carry_out(problem, std::move(schedule), in, out, false), Code::kOk);
    const uint64_t sent = rank_.rank->internode()->stats().messages - before;
    if (!leads) {
      EXPECT_EQ(sent, expected);
    }
    return sent;
  }

  /// How a call ends on this rank, which has no memory for its buffers if it is `empty_handed`.
  Code attempt(Problem problem, std::string_view algorithm, const std::vector<uint64_t>& in, std::vector<uint64_t>& out,
               bool empty_handed) {
    coll::Schedule schedule = schedule_of(&problem, algorithm);
    return carry_out(problem, std::move(schedule), in, out, empty_handed);
  }

 private:
  coll::Schedule schedule_of(Problem* problem, std::string_view algorithm) {
    problem->element_bytes = 8;
    problem->chunk_bytes = Internode::kInlineBytes + 4096;
    problem->self = self_;
    problem->layout = layout_;
    problem->team = team_ != nullptr;
    coll::Schedule schedule;
    EXPECT_TRUE(coll::build(*problem, algorithm, &schedule).ok());
    return schedule;
  }

  Code carry_out(const Problem& problem, coll::Schedule schedule, const std::vector<uint64_t>& in,
                 std::vector<uint64_t>& out, bool empty_handed) {
    const bool leads = std::ranges::any_of(schedule.steps, [](const coll::Step& step) { return step.of_leaders; });
    std::unique_ptr<coll::Run> run;
    EXPECT_TRUE(coll::Run::create(std::make_shared<coll::Plan>(std::move(schedule)), *transport_, &run).ok());
    coll::Reduction how;
    how.element_bytes = 8;
    how.kernel = add;
    coll::Call call{in.data(), out.data(), how, 0};
    call.empty_handed = empty_handed;
    if (empty_handed) call.input = call.output = nullptr;
    std::unique_ptr<engine::TeamSteps> node;
    if (team_ != nullptr) node = std::make_unique<engine::TeamSteps>(*team_);
    call.node = node.get();
    call.leaders = leads ? &leaders_of_nodes() : nullptr;
    call.exact = coll::reduces(problem.collective);
    run->start(call);
    for (bool ended = false; !ended;) {
      rank_.rank->wait_until([&] {
        rank_.rank->internode()->progress();
        ended = run->advance();
        return ended || run->shared_is_next();
      });
      if (!ended) run->share();
    }
    return run->code();
  }

 public:
  /// For a rank that leads its node.
  coll::LeaderSteps& leaders_of_nodes() {
    if (leaders_ == nullptr) {
      std::vector<int32_t> world;
      for (uint32_t node = 0; node < layout_->nodes(); ++node) {
        world.push_back(static_cast<int32_t>(layout_->members(node)[0]));
      }
      leaders_ = std::make_unique<engine::LeaderMessages>(*rank_.rank, 11, std::move(world), layout_->node_of(self_));
    }
    return *leaders_;
  }

  [[nodiscard]] const coll::Layout& layout() const { return *layout_; }
  [[nodiscard]] uint32_t self() const { return self_; }
  /// Messages that end this rank's last sends are taken until all are here.
  void end(TestBootstrap& world) {
    ASSERT_TRUE(world.barrier().ok());
    // A rank that refuses takes no message whose sender has waited long enough to leave a copy.
    rank_.rank->take_back_sends();
    rank_.rank->quiesce();
    ASSERT_TRUE(world.barrier().ok());
  }

 private:
  EngineRank rank_;
  std::shared_ptr<const coll::Layout> layout_;
  std::unique_ptr<engine::SpanTransport> transport_;
  std::unique_ptr<coll::Team> team_;
  std::unique_ptr<engine::LeaderMessages> leaders_;
  uint32_t self_ = 0;
};

struct Shape {
  int ranks;
  uint32_t node_ranks;
  bool teams;
};
class AcrossNodes : public ::testing::TestWithParam<Shape> {};

TEST_P(AcrossNodes, CollectivesAreRightAndLeadersAloneSpeakToOtherNodes) {
  const int ranks = GetParam().ranks;
  const uint32_t node_ranks = GetParam().node_ranks;
  Network network;
  const auto n = static_cast<uint64_t>(ranks);
  run_ranks(World::kThreads, ranks, [&](TestBootstrap& world) {
    Spanning span(world, network, node_ranks);
    if (GetParam().teams) span.use_team();
    const uint64_t self = span.self();
    const std::span<const uint32_t> node = span.layout().members(span.layout().node_of(span.self()));
    for (const uint64_t count : {uint64_t{1}, uint64_t{100}, uint64_t{9000}}) {
      std::vector<uint64_t> in(n * count);
      std::vector<uint64_t> out(n * count);
      for (const coll::Algorithm& algorithm : coll::algorithms(Collective::kAllreduce)) {
        if (algorithm.by_domains) continue;
        for (uint64_t i = 0; i < count; ++i) in[i] = i * (self + 1);
        Problem problem;
        problem.collective = Collective::kAllreduce;
        problem.count = count;
        span.run(problem, algorithm.name, in, out);
        for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(out[i], i * n * (n + 1) / 2) << algorithm.name;
      }
      for (const coll::Algorithm& algorithm : coll::algorithms(Collective::kReduce)) {
        if (algorithm.by_domains) continue;
        std::fill(out.begin(), out.end(), 99);
        Problem problem;
        problem.collective = Collective::kReduce;
        problem.count = count;
        problem.root = 1;
        span.run(problem, algorithm.name, in, out);
        for (uint64_t i = 0; i < count && self == 1; ++i) ASSERT_EQ(out[i], i * n * (n + 1) / 2) << algorithm.name;
        problem.collective = Collective::kBarrier;
        span.run(problem, "hierarchical", in, out);
        span.run(problem, coll::kHostLeaders, in, out);
      }
      for (const coll::Algorithm& algorithm : coll::algorithms(Collective::kBcast)) {
        if (algorithm.by_domains) continue;
        Problem problem;
        problem.collective = Collective::kBcast;
        problem.count = count;
        problem.root = static_cast<uint32_t>(ranks) - 1;
        for (uint64_t i = 0; i < count; ++i) in[i] = i * 3;
        std::fill(out.begin(), out.end(), 99);
        const uint64_t sent = span.run(problem, algorithm.name, in, out);
        if (self != problem.root) {
          ASSERT_TRUE(std::equal(in.begin(), in.begin() + static_cast<ptrdiff_t>(count), out.begin()));
        }
        const bool leads = self == node[0] || self == problem.root;
        const bool by_leaders =
            algorithm.name == "leader-ring" || algorithm.name == "hierarchical" || algorithm.name == coll::kHostLeaders;
        if (by_leaders && !leads) {
          EXPECT_EQ(sent, 0u) << algorithm.name;
        }
      }
      for (const coll::Algorithm& algorithm : coll::algorithms(Collective::kAllgather)) {
        if (algorithm.by_domains) continue;
        Problem problem;
        problem.collective = Collective::kAllgather;
        problem.count = count;
        for (uint64_t i = 0; i < count; ++i) in[i] = self * 1000 + i;
        std::fill(out.begin(), out.end(), 99);
        span.run(problem, algorithm.name, in, out);
        for (uint64_t i = 0; i < n * count; ++i) {
          ASSERT_EQ(out[i], (i / count) * 1000 + i % count) << algorithm.name;
        }
      }
      for (const coll::Algorithm& algorithm : coll::algorithms(Collective::kAlltoall)) {
        Problem problem;
        problem.collective = Collective::kAlltoall;
        problem.count = count;
        for (uint64_t i = 0; i < n * count; ++i) in[i] = self * n + i / count;
        span.run(problem, algorithm.name, in, out);
        for (uint64_t i = 0; i < n * count; ++i) ASSERT_EQ(out[i], (i / count) * n + self) << algorithm.name;
      }
    }
    span.end(world);
  });
}

/// Number `i` of what rank `self` of `n` must have of a call to which rank r brings (r + 1) * (i + 1); nothing where it
/// gets none.
std::optional<uint64_t> expected(const Problem& problem, uint64_t n, uint64_t self, uint64_t i) {
  const uint64_t count = problem.count;
  switch (problem.collective) {
    case Collective::kBcast:
      return self == problem.root ? std::nullopt : std::optional((problem.root + 1) * (i + 1));
    case Collective::kReduce:
      return self != problem.root ? std::nullopt : std::optional(n * (n + 1) / 2 * (i + 1));
    case Collective::kAllreduce:
      return n * (n + 1) / 2 * (i + 1);
    case Collective::kAllgather:
      return (i / count + 1) * (i % count + 1);
    default:
      return std::nullopt;
  }
}

// One rank has no memory for its buffers. All end, whoever has no error has the right result, and no message stays that
// a later call would take for its own. Steps of leaders cannot tell other nodes.
TEST_P(AcrossNodes, ARankWithoutMemoryIsToldOfToAll) {
  const int ranks = GetParam().ranks;
  Network network;
  const auto n = static_cast<uint64_t>(ranks);
  run_ranks(World::kThreads, ranks, [&](TestBootstrap& world) {
    Spanning span(world, network, GetParam().node_ranks);
    if (GetParam().teams) span.use_team();
    const uint64_t self = span.self();
    for (const Collective collective : {Collective::kBcast, Collective::kReduce, Collective::kAllreduce,
                                        Collective::kAllgather, Collective::kBarrier}) {
      for (const coll::Algorithm& algorithm : coll::algorithms(collective)) {
        const bool by_host = algorithm.name == coll::kHostLeaders;
        if (algorithm.by_domains) continue;
        for (const uint64_t victim : {uint64_t{1}, uint64_t{0}, n - 1}) {
          if (by_host && (victim != 1 || collective == Collective::kBarrier)) continue;
          for (const uint64_t count : {uint64_t{100}, uint64_t{9000}}) {
            Problem problem;
            problem.collective = collective;
            problem.count = collective == Collective::kBarrier ? 0 : count;
            problem.root = static_cast<uint32_t>(n - 1);
            const bool gathers = collective == Collective::kAllgather;
            std::vector<uint64_t> in(count);
            for (uint64_t i = 0; i < count; ++i) in[i] = (self + 1) * (i + 1);
            for (const bool short_of_memory : {true, false}) {
              std::vector<uint64_t> out(gathers ? n * count : count, 99);
              const bool empty_handed = short_of_memory && self == victim;
              const Code code = span.attempt(problem, algorithm.name, in, out, empty_handed);
              if (empty_handed) {
                ASSERT_EQ(code, Code::kNoMemory) << algorithm.name;
              } else if (!short_of_memory) {
                ASSERT_EQ(code, Code::kOk) << algorithm.name;
              }
              for (uint64_t i = 0; i < out.size() && code == Code::kOk; ++i) {
                if (by_host && short_of_memory) break;
                const std::optional<uint64_t> right = expected(problem, n, self, i);
                ASSERT_EQ(out[i], right.value_or(99)) << algorithm.name << ", " << i << " without " << victim;
              }
            }
          }
        }
      }
    }
    span.end(world);
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, AcrossNodes,
                         ::testing::Values(Shape{5, 2, false}, Shape{8, 4, false}, Shape{7, 3, false},
                                           Shape{5, 2, true}, Shape{8, 4, true}, Shape{7, 3, true}),
                         [](const auto& shape) {
                           return std::to_string(shape.param.ranks) + "by" + std::to_string(shape.param.node_ranks) +
                                  (shape.param.teams ? "teams" : "");
                         });

}  // namespace
}  // namespace zh::test
