// A rank of a job of several nodes is killed at every step of collectives that span them. Those of its node see it, and
// tell the other nodes; where the host's own collectives carry what passes between nodes, these wait for the host to
// end them. Nobody who has no error has a wrong result.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "coll/schedule/run.h"
#include "coll/team/team.h"
#include "engine/internode.h"
#include "engine/leader_messages.h"
#include "engine/team_steps.h"
#include "fatal_point.h"
#include "support/pipe_carrier.h"
#include "survivor.h"

namespace zh::test {
namespace {

using coll::Collective;
using coll::Problem;

constexpr int kWorld = 4;  // two nodes of two ranks; the first of each leads it
constexpr uint32_t kNodeRanks = 2;
constexpr uint32_t kRoot = 3;
constexpr uint64_t kNodesCount =
    2500;  // too long for a message that brings its bytes along; a node's pieces fit a pipe
constexpr uint64_t kChunk = 17 << 10;
constexpr double kLookEveryUs = 20'000;

struct NodesCase {
  Collective collective;
  std::string_view algorithm;
  int victim;
};

bool leads(int rank) { return rank % static_cast<int>(kNodeRanks) == 0; }
int node_of(int rank) { return rank / static_cast<int>(kNodeRanks); }

/// Writers: `lived` the victim, `over` its node's other rank. Readers: all. Crash: each is a hint that may not come.
struct FateShm {
  Atomic<uint32_t> lived;  ///< the victim came to the end of its calls
  Atomic<uint32_t> over;   ///< its node's other rank has ended all of its own
};

class Fate {
 public:
  Fate() : memory_(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) std::abort();
  }
  ~Fate() { munmap(memory_, 4096); }
  Fate(const Fate&) = delete;
  Fate& operator=(const Fate&) = delete;
  FateShm* operator->() const { return static_cast<FateShm*>(memory_); }

 private:
  void* memory_;
};

/// As a host's launcher, of a rank on another node than the victim's: ends it when that node is over.
class Launcher {
 public:
  explicit Launcher(const Fate& fate)
      : thread_([this, &fate] {
          while (done_.load_relaxed() == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            if (fate->over.load_relaxed() == 0) continue;
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            if (done_.load_relaxed() == 0) _exit(::testing::Test::HasFailure() ? 1 : 0);
          }
        }) {}
  ~Launcher() {
    done_.store_relaxed(1);
    thread_.join();
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

 private:
  Atomic<uint32_t> done_{0};
  std::thread thread_;
};

/// A rank of the job.
class Member {
 public:
  Member(TestBootstrap& world, const Pipes& pipes) : self_(static_cast<uint32_t>(world.rank())) {
    node::JoinConfig nodes;
    nodes.measure_line = false;
    nodes.rank_bytes = 8 << 20;
    nodes.node_ranks = kNodeRanks;
    EXPECT_TRUE(node::Node::join(world, nodes, &node_).ok());
    engine::Config config;
    config.calibrate = false;
    EXPECT_TRUE(Rank::create(*node_, world, config, &rank_).ok());
    EXPECT_TRUE(rank_->open_internode(std::make_unique<PipeCarrier>(pipes, world.rank())).ok());
    layout_ = std::make_shared<const coll::Layout>(std::span(node_->nodes_of(), kWorld));
    transport_ = std::make_unique<engine::SpanTransport>(
        *rank_, *rank_->internode(), 9, engine::RankList{{node_->local_indices(), kWorld}, nullptr},
        engine::RankList{{node_->world_ranks(), kWorld}, nullptr}, self_);
    team_ = rank_->make_team(10, {0, 1}, node_->self());
    EXPECT_TRUE(team_->ready());
    if (leads(world.rank())) {
      leaders_ = std::make_unique<engine::LeaderMessages>(*rank_, 11, std::vector<int32_t>{0, 2}, self_ / kNodeRanks);
    }
  }

  /// Number `i` of what rank r gives is (r + 1) * (i + 1). Says how the call ended; without an error its result is
  /// right.
  Code call(Collective collective, std::string_view algorithm) {
    Problem problem;
    problem.collective = collective;
    problem.self = self_;
    problem.root = kRoot;
    problem.count = collective == Collective::kBarrier ? 0 : kNodesCount;
    problem.element_bytes = 8;
    problem.chunk_bytes = kChunk;
    problem.layout = layout_;
    problem.blocks = problem.team = true;
    coll::Schedule schedule;
    EXPECT_TRUE(coll::build(problem, algorithm, &schedule).ok());
    std::unique_ptr<coll::Run> run;
    EXPECT_TRUE(coll::Run::create(std::make_shared<coll::Plan>(std::move(schedule)), *transport_, &run).ok());
    std::vector<uint64_t> in(kNodesCount * kWorld);
    std::vector<uint64_t> out(kNodesCount * kWorld);
    for (uint64_t i = 0; i < in.size(); ++i) in[i] = (self_ + 1) * (i + 1);
    coll::Call call{in.data(), out.data(), sum(), static_cast<int32_t>(coll::kTags * calls_++)};
    call.exact = coll::reduces(collective);
    engine::TeamSteps steps(*team_);
    call.node = &steps;
    call.leaders = leads(static_cast<int>(self_)) ? leaders_.get() : nullptr;
    const auto number = static_cast<uint64_t>(calls_);
    const uint32_t digest = coll::digest(problem);
    transport_->announce(number, digest);
    transport_->begin_blocking(call.first_tag);
    run->start(call);
    os::Interval looks;
    for (bool ended = false; !ended;) {
      rank_->wait_until([&] {
        rank_->internode()->progress();
        ended = run->advance();
        if (!ended && looks.over(kLookEveryUs)) {
          transport_->stands_still(call.first_tag);
          if (transport_->bereft()) run->fail(Code::kPeerDead);
          if (transport_->contradicted(number, digest)) run->fail(Code::kInvalid);
        }
        return ended || run->shared_is_next();
      });
      if (!ended) run->share();
    }
    if (run->gave_up()) transport_->give_up(number, call.first_tag);
    if (run->code() == Code::kOk) expect_result(collective, out);
    return run->code();
  }

  [[nodiscard]] coll::Team& team() const { return *team_; }

 private:
  static coll::Reduction sum() {
    return {8, simd::kernel(simd::Op::kSum, simd::Type::kUint64), nullptr, nullptr, true};
  }

  void expect_result(Collective collective, const std::vector<uint64_t>& out) const {
    const uint64_t before = self_ * (self_ + 1) / 2;  // what the ranks before sum up to
    for (uint64_t i = 0; i < out.size(); ++i) {
      if (collective == Collective::kAllgather || (collective == Collective::kGather && self_ == kRoot)) {
        ASSERT_EQ(out[i], (i / kNodesCount + 1) * (i % kNodesCount + 1)) << i;
      } else if (collective == Collective::kAlltoall) {
        ASSERT_EQ(out[i], (i / kNodesCount + 1) * (self_ * kNodesCount + i % kNodesCount + 1)) << i;
      } else if (i >= kNodesCount) {
        return;
      } else if (collective == Collective::kAllreduce || (collective == Collective::kReduce && self_ == kRoot)) {
        ASSERT_EQ(out[i], 10 * (i + 1)) << i;
      } else if (collective == Collective::kBcast && self_ != kRoot) {
        ASSERT_EQ(out[i], (kRoot + 1) * (i + 1)) << i;
      } else if (collective == Collective::kScatter) {
        ASSERT_EQ(out[i], (kRoot + 1) * (self_ * kNodesCount + i + 1)) << i;
      } else if (collective == Collective::kReduceScatter) {
        ASSERT_EQ(out[i], 10 * (self_ * kNodesCount + i + 1)) << i;
      } else if (collective == Collective::kScan) {
        ASSERT_EQ(out[i], (before + self_ + 1) * (i + 1)) << i;
      } else if (collective == Collective::kExscan && self_ > 0) {
        ASSERT_EQ(out[i], before * (i + 1)) << i;
      }
    }
  }

  uint32_t self_;
  std::unique_ptr<node::Node> node_;
  std::unique_ptr<Rank> rank_;
  std::shared_ptr<const coll::Layout> layout_;
  std::unique_ptr<engine::SpanTransport> transport_;
  std::unique_ptr<coll::Team> team_;
  std::unique_ptr<engine::LeaderMessages> leaders_;
  int calls_ = 0;
};

class CrashNodes : public ::testing::TestWithParam<NodesCase> {};

/// The victim dies at its `hit`-th step. False if it has none so late.
bool die_once(const NodesCase& c, int hit) {
  const Fate fate;
  const Pipes pipes(kWorld);
  const bool told = c.algorithm != coll::kHostLeaders;
  run_ranks(World::kProcesses, kWorld,
            [&](TestBootstrap& world) {
              Member me(world, pipes);
              if (::testing::Test::HasFailure()) return;
              const bool victim = world.rank() == c.victim;
              const bool beside = node_of(world.rank()) == node_of(c.victim);
              std::unique_ptr<Launcher> launcher;
              if (!beside && !told) launcher = std::make_unique<Launcher>(fate);
              if (victim) die_at("step", hit);
              me.call(c.collective, c.algorithm);
              if (victim) {
                fate->lived.store_relaxed(1);
                kill(getpid(), SIGKILL);
              }
              // The next call finds it dead in any case.
              const Code code = me.call(Collective::kBarrier, "hierarchical");
              if (beside) {
                EXPECT_EQ(code, Code::kPeerDead);
                EXPECT_EQ(me.team().barrier(), Code::kPeerDead);
                fate->over.store_relaxed(1);
              } else if (told) {
                EXPECT_NE(code, Code::kOk);
              }
            },
            {.timeout_s = 30, .may_die = c.victim});
  return fate->lived.load_relaxed() == 0;
}

TEST_P(CrashNodes, OthersAreToldOrEnded) {
  const auto before = shared_files();
  int hit = 1;
  for (; hit < 100 && die_once(GetParam(), hit) && !HasFailure(); ++hit) continue;
  ASSERT_FALSE(HasFailure()) << "at step " << hit;
  EXPECT_GT(hit, 2) << "there were no steps to die at";
  EXPECT_LT(hit, 100);
  EXPECT_EQ(shared_files(), before);
}

std::vector<NodesCase> nodes_cases() {
  std::vector<NodesCase> all;
  for (size_t i = 0; i < static_cast<size_t>(Collective::kCount); ++i) {
    const auto collective = static_cast<Collective>(i);
    for (const std::string_view name : {"hierarchical", "leader-ring", "host-leaders", "shmem-parallel"}) {
      if (coll::algorithm(collective, name) == nullptr) continue;
      for (const int victim : {0, 1, 3}) all.push_back({collective, name, victim});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Steps, CrashNodes, ::testing::ValuesIn(nodes_cases()), [](const auto& instance) {
  const NodesCase& c = instance.param;
  std::string name(c.algorithm);
  std::replace(name.begin(), name.end(), '-', '_');
  return std::string(coll::name_of(c.collective)) + "_" + name + "_" + std::to_string(c.victim);
});

}  // namespace
}  // namespace zh::test
