// A rank's start: how much all ranks of a job tell each other, and that one rank of a node reads what an earlier job
// has measured.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "os/clock.h"
#include "support/folder.h"
#include "team_support.h"
#include "tune/profile.h"

namespace zh::test {
namespace {

constexpr int kStartRanks = 3;

/// Curves of every level, with a ring that is not the built-in one.
tune::Profile everywhere() {
  tune::Profile profile;
  for (int32_t level = 1; level <= static_cast<int32_t>(node::Level::kOtherSocket); ++level) {
    tune::DistanceClass& c = profile.classes[profile.n_classes++];
    c.level = level;
    c.line_ns = 120;  // far enough for any level, and near enough
    c.ring_bytes = 32 << 10;
    c.jobs = tune::kConfirmed;
    c.attempts = 2;
    c.looked_at = c.measured_at = os::seconds_since_1970();
    for (const auto& [curve, factor] : {std::pair{&c.cells, 1.0F}, std::pair{&c.cells_nt, 3.0F}}) {
      curve->add(1 << 10, 0.5F * factor, 0.1F);
      curve->add(1 << 20, 100 * factor, 0.1F);
    }
  }
  return profile;
}

node::JoinConfig small() {
  node::JoinConfig config;
  config.rank_bytes = 8 << 20;
  config.measure_line = false;
  return config;
}

struct Started {
  std::unique_ptr<node::Node> node;
  std::unique_ptr<engine::Rank> rank;
  Status status;
};

/// This rank's, with a folder of calibration or without.
Started start(TestBootstrap& world, const std::string& folder, const std::function<void(engine::Config&)>& with = {},
              const node::JoinConfig& nodes = small()) {
  Started s;
  EXPECT_TRUE(node::Node::join(world, nodes, &s.node).ok());
  engine::Config config;
  config.calibrate = !folder.empty();
  config.calibration_folder = folder;
  if (with) with(config);
  s.status = engine::Rank::create(*s.node, world, config, &s.rank);
  return s;
}

// docs/design/scale.md: 8 bytes of each rank, and three reductions of a few words.
TEST(Start, TellsAllRanksOfTheJobLittle) {
  run_ranks(World::kProcesses, 6, [](TestBootstrap& world) {
    node::JoinConfig nodes = small();
    nodes.machine = "machine " + std::to_string(world.rank() / 2);
    const Started s = start(world, "", {}, nodes);
    EXPECT_NE(s.rank, nullptr);
    EXPECT_EQ(world.gathered_bytes(), sizeof(uint64_t));
    EXPECT_EQ(world.reductions(), 3);
    ASSERT_TRUE(world.barrier().ok());
  });
}

TEST(Start, FailsOnAllRanksWhereItDoesOnOne) {
  run_ranks(World::kProcesses, 3, [](TestBootstrap& world) {
    const Started s = start(world, "", [&](engine::Config& config) {
      if (world.rank() == 1) config.ready = {Code::kNoMemory, "no room", ENOSPC};
    });
    EXPECT_EQ(s.rank, nullptr);
    EXPECT_EQ(s.status.code(), Code::kNoMemory);
    EXPECT_EQ(s.status.text(), "rank 1: no room: No space left on device");
    ASSERT_TRUE(world.barrier().ok());
  });
}

TEST(Start, RanksWithoutAProcessorOfTheirOwnHaveSmallerRings) {
  run_ranks(World::kProcesses, 2, [](TestBootstrap& world) {
    stay_on(0);
    const Started s = start(world, "");
    ASSERT_NE(s.rank, nullptr);
    EXPECT_TRUE(s.node->oversubscribed());
    const std::string choice = s.rank->choice_text(1 - s.node->self());
    EXPECT_NE(choice.find("ring to 128K"), std::string::npos) << choice;
    ASSERT_TRUE(world.barrier().ok());
  });
}

class Kept : public ::testing::TestWithParam<World> {};

TEST_P(Kept, IsReadByTheFirstRankAlone) {
  const Folder folder;
  ASSERT_TRUE(tune::save_profile(folder.path(), tune::this_machine(), everywhere()).ok());
  run_ranks(GetParam(), kStartRanks, [&](TestBootstrap& world) {
    const Started s = start(world, world.rank() == 0 ? folder.path() : folder.path() + "/of no use");
    ASSERT_NE(s.rank, nullptr);
    EXPECT_EQ(s.rank->choices_note(), "kept calibration of this machine");
    const std::string choice = s.rank->choice_text(s.node->self() == 2 ? 1 : 2);
    EXPECT_NE(choice.find("ring to 32K"), std::string::npos) << choice;
    ASSERT_TRUE(world.barrier().ok());
  });
}

TEST_P(Kept, IsAskedForByRanksThatWantIt) {
  const Folder folder;
  ASSERT_TRUE(tune::save_profile(folder.path(), tune::this_machine(), everywhere()).ok());
  run_ranks(GetParam(), kStartRanks, [&](TestBootstrap& world) {
    const Started s = start(world, world.rank() == 1 ? "" : folder.path());
    ASSERT_NE(s.rank, nullptr);
    EXPECT_EQ(s.rank->choices_note() == "kept calibration of this machine", world.rank() != 1)
        << s.rank->choices_note();
    ASSERT_TRUE(world.barrier().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, Kept, ::testing::Values(World::kThreads, World::kProcesses), world_name);

}  // namespace
}  // namespace zh::test
