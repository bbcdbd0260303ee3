// Which processors `zerohop tune --json` measures between, on described machines.
#include "tools/bench/level_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace zh::tools {
namespace {

using node::Level;
using node::Machine;

os::CpuSet all(const Machine& machine) {
  os::CpuSet set;
  for (uint32_t cpu = 0; cpu < machine.summary().cpus; ++cpu) set.add(cpu);
  return set;
}

struct Expectation {
  const char* machine;
  std::vector<LevelPair> pairs;
  std::optional<Level> intra, inter;
  uint32_t chips;
};

const std::vector<Expectation>& machines() {
  static const std::vector<Expectation> list = {
      // Two virtual processors, and nothing else to be seen.
      {"synthetic:core:2 pu:1", {{Level::kSameNuma, 0, 1}}, Level::kSameNuma, {}, 1},
      {"synthetic:pack:1 l3:1 l2:2 core:1 pu:1", {{Level::kSharedL3, 0, 1}}, Level::kSharedL3, {}, 1},
      {"synthetic:core:1 pu:2", {{Level::kSameCore, 0, 1}}, Level::kSameCore, {}, 1},
      {"synthetic:core:1 pu:1", {}, {}, {}, 1},
      // A desktop with two threads a core.
      {"synthetic:pack:1 l3:1 l2:4 core:1 pu:2",
       {{Level::kSameCore, 0, 1}, {Level::kSharedL3, 0, 2}},
       Level::kSharedL3,
       {},
       1},
      // Cores that share the second level in twos, and all the third.
      {"synthetic:pack:1 l3:1 l2:2 core:2 pu:1",
       {{Level::kSharedL2, 0, 1}, {Level::kSharedL3, 0, 2}},
       Level::kSharedL3,
       {},
       1},
      // The paper's Clovertowns: two dies a package, no third level.
      {"synthetic:pack:2 l2:2 core:2 pu:1",
       {{Level::kSharedL2, 0, 1}, {Level::kSameNuma, 0, 2}, {Level::kOtherSocket, 0, 4}},
       Level::kSharedL2,
       Level::kOtherSocket,
       2},
      // One socket of four chiplets.
      {"synthetic:pack:1 l3:4 l2:2 core:1 pu:1",
       {{Level::kSharedL3, 0, 1}, {Level::kSameNuma, 0, 2}},
       Level::kSharedL3,
       Level::kSameNuma,
       4},
      // One socket whose halves have memory of their own.
      {"synthetic:pack:1 numa:2 l3:1 l2:4 core:1 pu:1",
       {{Level::kSharedL3, 0, 1}, {Level::kSameSocket, 0, 4}},
       Level::kSharedL3,
       Level::kSameSocket,
       2},
      // Two sockets of four memory nodes of sixteen cores of two threads, eight cores to a cache.
      {"synthetic:pack:2 numa:4 l3:2 l2:8 core:1 pu:2",
       {{Level::kSameCore, 0, 1},
        {Level::kSharedL3, 0, 2},
        {Level::kSameNuma, 0, 16},
        {Level::kSameSocket, 0, 32},
        {Level::kOtherSocket, 0, 128}},
       Level::kSharedL3,
       Level::kOtherSocket,
       2},
      // Sockets of one core each: nothing is on one chip.
      {"synthetic:pack:2 core:1 pu:1", {{Level::kOtherSocket, 0, 1}}, Level::kOtherSocket, {}, 1},
      {"synthetic:pack:2 core:1 pu:2",
       {{Level::kSameCore, 0, 1}, {Level::kOtherSocket, 0, 2}},
       Level::kSameCore,
       Level::kOtherSocket,
       2},
  };
  return list;
}

TEST(LevelPairs, EveryDistanceOfAMachineHasOne) {
  if (!Machine::has_hwloc()) GTEST_SKIP() << "built without hwloc";
  for (const Expectation& e : machines()) {
    Machine machine;
    ASSERT_TRUE(machine.load(e.machine).ok()) << e.machine;
    const std::vector<LevelPair> pairs = plan_pairs(machine, all(machine));
    EXPECT_EQ(pairs, e.pairs) << e.machine;
    const ModelLevels levels = model_levels(machine.summary(), pairs);
    EXPECT_EQ(levels.intra_chip, e.intra) << e.machine;
    EXPECT_EQ(levels.inter_chip, e.inter) << e.machine;
    EXPECT_EQ(levels.chips_per_node, e.chips) << e.machine;
  }
}

TEST(LevelPairs, NeighboursHaveEveryDistanceThatAnyTwoHave) {
  if (!Machine::has_hwloc()) GTEST_SKIP() << "built without hwloc";
  for (const char* described : {"synthetic:pack:2 numa:4 l3:2 l2:2 core:2 pu:2", "synthetic:pack:3 l2:2 core:3 pu:1"}) {
    Machine machine;
    ASSERT_TRUE(machine.load(described).ok()) << described;
    const std::vector<LevelPair> pairs = plan_pairs(machine, all(machine));
    std::vector<Level> seen;
    for (uint32_t a = 0; a < machine.summary().cpus; ++a) {
      for (uint32_t b = a + 1; b < machine.summary().cpus; ++b) {
        const Level level = machine.level(only(a), only(b));
        if (std::find(seen.begin(), seen.end(), level) == seen.end()) seen.push_back(level);
      }
    }
    ASSERT_EQ(pairs.size(), seen.size()) << described;
    for (const LevelPair& pair : pairs) {
      EXPECT_EQ(machine.level(only(pair.first), only(pair.second)), pair.level) << described;
    }
  }
}

TEST(LevelPairs, OnlyProcessorsThatTheJobMayUse) {
  if (!Machine::has_hwloc()) GTEST_SKIP() << "built without hwloc";
  Machine machine;
  ASSERT_TRUE(machine.load("synthetic:pack:2 l3:1 l2:4 core:1 pu:2").ok());
  os::CpuSet allowed;
  for (const uint32_t cpu : {3U, 10U, 11U}) allowed.add(cpu);
  const std::vector<LevelPair> wanted = {{Level::kSameCore, 10, 11}, {Level::kOtherSocket, 3, 10}};
  EXPECT_EQ(plan_pairs(machine, allowed), wanted);
  EXPECT_TRUE(plan_pairs(machine, only(5)).empty());
}

}  // namespace
}  // namespace zh::tools
