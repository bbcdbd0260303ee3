// Schedules over the engine: collectives of real ranks, blocking and several at once, and runs started again.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "coll/schedule/run.h"
#include "engine/run_transport.h"
#include "engine_support.h"
#include "node/machine.h"

namespace zh::test {
namespace {

using coll::Collective;
using coll::Problem;

/// Ranks of the communicator are those of the node.
class AllRanks final : public engine::RunTransport {
 public:
  AllRanks(Rank& rank, uint64_t context)
      : RunTransport(rank, context, all_ranks(rank.node().size()), rank.node().self()) {}
};

std::unique_ptr<coll::Run> make_run(const Problem& problem, std::string_view name, coll::Transport& transport) {
  coll::Schedule schedule;
  std::unique_ptr<coll::Run> run;
  EXPECT_TRUE(coll::build(problem, name, &schedule).ok());
  EXPECT_TRUE(coll::Run::create(std::make_shared<coll::Plan>(std::move(schedule)), transport, &run).ok());
  return run;
}

Problem problem_of(Collective collective, uint32_t ranks, uint32_t self, uint64_t count) {
  Problem problem{.collective = collective, .self = self, .count = count, .element_bytes = 8, .chunk_bytes = 16 << 10};
  // Two nodes, for the algorithms' sake; the engine carries all messages.
  std::vector<uint32_t> nodes(ranks);
  for (uint32_t r = 0; r < ranks; ++r) nodes[r] = r < ranks / 2 ? 0 : 1;
  problem.layout = std::make_shared<const coll::Layout>(nodes);
  return problem;
}

class ScheduleRun : public ::testing::TestWithParam<World> {};

TEST_P(ScheduleRun, AllreduceAgainAndAgain) {
  constexpr uint32_t kRanks = 5;
  run_engine(kRanks, config_in(GetParam()), [&](TestBootstrap&, EngineRank& r, uint32_t self) {
    AllRanks transport(*r.rank, 77);
    for (const coll::Algorithm& algorithm : coll::algorithms(Collective::kAllreduce)) {
      if (algorithm.name == coll::kHostLeaders) continue;
      for (const uint64_t count : {1u, 100u, 20'000u}) {
        const auto run = make_run(problem_of(Collective::kAllreduce, kRanks, self, count), algorithm.name, transport);
        std::vector<uint64_t> input(count);
        std::vector<uint64_t> output(count);
        for (uint64_t time = 0; time < 10; ++time) {
          for (uint64_t i = 0; i < count; ++i) input[i] = i * (self + 1) + time;
          run->start({input.data(), output.data(), kSums, 0});
          r.rank->wait_until([&] { return run->advance(); });
          ASSERT_EQ(run->code(), Code::kOk);
          for (uint64_t i = 0; i < count; ++i) {
            ASSERT_EQ(output[i], i * kRanks * (kRanks + 1) / 2 + kRanks * time) << algorithm.name;
          }
        }
      }
    }
    r.rank->quiesce();
  });
}

TEST_P(ScheduleRun, SeveralAtOnce) {
  constexpr uint32_t kRanks = 4;
  constexpr uint64_t kCount = 3000;
  run_engine(kRanks, config_in(GetParam()), [&](TestBootstrap&, EngineRank& r, uint32_t self) {
    AllRanks transport(*r.rank, 77);
    std::vector<std::unique_ptr<coll::Run>> runs;
    std::vector<std::vector<uint64_t>> inputs;
    std::vector<std::vector<uint64_t>> outputs;
    for (uint32_t root = 0; root < kRanks; ++root) {
      Problem problem = problem_of(Collective::kBcast, kRanks, self, kCount);
      problem.root = root;
      runs.push_back(make_run(problem, "leader-ring", transport));
      inputs.emplace_back(kCount, self == root ? root + 100 : 0);
      outputs.emplace_back(kCount, 0);
    }
    runs.push_back(make_run(problem_of(Collective::kAlltoall, kRanks, self, kCount), "pairwise", transport));
    inputs.emplace_back(kRanks * kCount, self);
    outputs.emplace_back(kRanks * kCount, 99);
    for (size_t i = 0; i < runs.size(); ++i) {
      runs[i]->start({inputs[i].data(), outputs[i].data(), {}, static_cast<int32_t>(i * coll::kTags)});
    }
    r.rank->wait_until([&] {
      bool all = true;
      for (const auto& run : runs) all = run->advance() && all;
      return all;
    });
    for (uint32_t root = 0; root < kRanks; ++root) {
      if (root == self) continue;
      EXPECT_EQ(outputs[root], std::vector<uint64_t>(kCount, root + 100));
    }
    for (uint64_t i = 0; i < kRanks * kCount; ++i) ASSERT_EQ(outputs.back()[i], i / kCount);
    r.rank->quiesce();
  });
}

TEST_P(ScheduleRun, OthersSayWhichCallTheyAreIn) {
  constexpr uint32_t kRanks = 3;
  run_engine(kRanks, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    AllRanks first(*r.rank, 77);
    AllRanks second(*r.rank, 78);
    first.announce(5, self == 1 ? coll::kRefused : 9);
    ASSERT_TRUE(world.barrier().ok());
    EXPECT_EQ(first.contradicted(5, 9), true) << "one has refused";
    EXPECT_EQ(first.contradicted(6, 9), false);
    EXPECT_EQ(second.contradicted(5, 9), false);
    ASSERT_TRUE(world.barrier().ok());
    // Entries come and go while the others look at them.
    const auto digest = [](uint64_t context, uint64_t number) {
      return static_cast<uint32_t>((context * 31 + number * 7919) & 0xffffff) | 1;
    };
    for (uint64_t number = 1000; number < 31'000; ++number) {
      AllRanks& transport = (number * (self + 1)) % 3 == 0 ? second : first;
      transport.announce(number, digest(&transport == &first ? 77 : 78, number));
      ASSERT_FALSE(first.contradicted(number, digest(77, number))) << number;
      ASSERT_FALSE(second.contradicted(number + 1, digest(78, number + 1))) << number;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, ScheduleRun, ::testing::Values(World::kThreads, World::kProcesses), world_name);

}  // namespace
}  // namespace zh::test
