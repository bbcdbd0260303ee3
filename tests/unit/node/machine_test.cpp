// Levels on described machines, and the correction by measured line times.
// label not-emulated: IsLookedAtFromWhere
#include "node/machine.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "node/line_time.h"
#include "support/refused_call.h"

namespace zh::node {
namespace {

os::CpuSet machine_cpus(std::initializer_list<uint32_t> list) {
  os::CpuSet set;
  for (const uint32_t c : list) set.add(c);
  return set;
}

TEST(Machine, IsLookedAtFromWhereTheThreadIs) {
  if (!Machine::has_hwloc()) GTEST_SKIP() << "built without hwloc";
  if (access("/sys/devices/system/cpu/cpu0/cache/index0", F_OK) != 0) GTEST_SKIP() << "sysfs tells of no caches";
  const auto look = [] {
    test::refuse_call(SYS_sched_setaffinity, SECCOMP_RET_KILL_PROCESS);
    Machine machine;
    _exit(machine.load("").ok() ? 0 : 1);
  };
  EXPECT_EXIT(look(), ::testing::ExitedWithCode(0), "");
}

struct Expectation {
  const char* machine;
  std::initializer_list<uint32_t> a, b;
  Level level;
};

TEST(Machine, LevelsOfDescribedMachines) {
  if (!Machine::has_hwloc()) GTEST_SKIP() << "built without hwloc";
  const Expectation list[] = {
      // A desktop: 1 package, one L3, private L2, 2 threads a core.
      {"synthetic:pack:1 l3:1 l2:4 core:1 pu:2", {0}, {1}, Level::kSameCore},
      {"synthetic:pack:1 l3:1 l2:4 core:1 pu:2", {0}, {2}, Level::kSharedL3},
      {"synthetic:pack:1 l3:1 l2:4 core:1 pu:2", {0}, {0}, Level::kSameCore},
      {"synthetic:pack:1 l3:1 l2:4 core:1 pu:2", {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}, Level::kSharedL3},
      // The paper's Clovertown: two dies a package, each with an L2 of two cores, no L3.
      {"synthetic:pack:2 l2:2 core:2 pu:1", {0}, {1}, Level::kSharedL2},
      {"synthetic:pack:2 l2:2 core:2 pu:1", {0}, {2}, Level::kSameNuma},
      {"synthetic:pack:2 l2:2 core:2 pu:1", {0}, {4}, Level::kOtherSocket},
      // Chiplets: several L3 per memory node, several memory nodes per socket.
      {"synthetic:pack:2 numa:2 l3:2 l2:4 core:1 pu:1", {0}, {3}, Level::kSharedL3},
      {"synthetic:pack:2 numa:2 l3:2 l2:4 core:1 pu:1", {0}, {4}, Level::kSameNuma},
      {"synthetic:pack:2 numa:2 l3:2 l2:4 core:1 pu:1", {0}, {8}, Level::kSameSocket},
      {"synthetic:pack:2 numa:2 l3:2 l2:4 core:1 pu:1", {0}, {16}, Level::kOtherSocket},
      {"synthetic:pack:2 numa:2 l3:2 l2:4 core:1 pu:1", {0, 1, 2, 3, 4}, {2}, Level::kSameNuma},
      // A virtual machine that shows nothing but CPUs.
      {"synthetic:core:4 pu:1", {0}, {3}, Level::kSameNuma},
  };
  for (const Expectation& e : list) {
    Machine machine;
    ASSERT_TRUE(machine.load(e.machine).ok()) << e.machine;
    EXPECT_STREQ(to_string(machine.level(machine_cpus(e.a), machine_cpus(e.b))), to_string(e.level))
        << e.machine << ": CPUs " << machine_cpus(e.a).to_string() << " and " << machine_cpus(e.b).to_string();
    EXPECT_EQ(machine.level(machine_cpus(e.a), machine_cpus(e.b)), machine.level(machine_cpus(e.b), machine_cpus(e.a)));
  }
}

TEST(Machine, AnUnknownSetCountsAsTheWholeMachine) {
  if (!Machine::has_hwloc()) GTEST_SKIP() << "built without hwloc";
  Machine machine;
  ASSERT_TRUE(machine.load("synthetic:pack:2 l3:1 core:4 pu:1").ok());
  EXPECT_EQ(machine.level({}, machine_cpus({0})), Level::kOtherSocket);
  EXPECT_EQ(machine.cores({}), 8u);
  EXPECT_EQ(machine.cores(machine_cpus({1, 2})), 2u);
}

TEST(Machine, ThisMachineLoadsAndHasAnIdentity) {
  Machine machine;
  ASSERT_TRUE(machine.load("").ok());
  EXPECT_GE(machine.summary().cpus, 1u);
  EXPECT_NE(machine.identity().find("kernel"), std::string::npos);
  Machine again;
  ASSERT_TRUE(again.load("").ok());
  EXPECT_EQ(machine.identity(), again.identity());
}

TEST(Machine, RefusesNonsense) {
  if (!Machine::has_hwloc()) GTEST_SKIP() << "built without hwloc";
  Machine machine;
  EXPECT_FALSE(machine.load("synthetic:nonsense:3").ok());
  EXPECT_FALSE(machine.load("/no/such/file.xml").ok());
}

TEST(LineTime, CorrectsOnlyWhatItCanKnow) {
  EXPECT_EQ(corrected(Level::kSharedL3, 60, true, kVirtualLines), Level::kSameCore);
  EXPECT_EQ(corrected(Level::kSharedL3, 60, false, kVirtualLines), Level::kSharedL3)
      << "ranks that move are not corrected";
  EXPECT_EQ(corrected(Level::kSharedL3, 0, true, kVirtualLines), Level::kSharedL3) << "not measured";
  EXPECT_EQ(corrected(Level::kSameCore, 300, true, kVirtualLines), Level::kSharedL3);
  EXPECT_EQ(corrected(Level::kSameCore, 120, true, kVirtualLines), Level::kSameCore);
  EXPECT_EQ(corrected(Level::kOtherSocket, 300, true, kVirtualLines), Level::kOtherSocket);
  EXPECT_EQ(corrected(Level::kSharedL3, 30, true, {}), Level::kSharedL3) << "nothing hides the topology";
  EXPECT_EQ(corrected(Level::kSameCore, 300, true, {}), Level::kSameCore);
}

TEST(LineTime, TellsCoresOnlyWhereNoRankHasTwoThatNear) {
  // Two cores of two threads, and one end of a pair that gave up.
  std::vector<float> rows = {0, 60, 250, 240, 55, 0, 260, 250, 250, 0, 0, 70, 240, 250, 0, 0};
  const std::vector<uint32_t> all = {0, 1, 2, 3};
  EXPECT_EQ(line_bounds(rows.data(), 4, all, true).near_ns, kVirtualLines.near_ns);
  EXPECT_EQ(line_bounds(rows.data(), 4, all, false).near_ns, 0) << "no hypervisor";
  rows[2] = rows[8] = 80;
  EXPECT_EQ(line_bounds(rows.data(), 4, all, true).near_ns, 0) << "rank 0 has two";
  EXPECT_EQ(line_bounds(rows.data(), 4, {1, 2, 3}, true).near_ns, kVirtualLines.near_ns) << "it does not measure";
}

}  // namespace
}  // namespace zh::node
