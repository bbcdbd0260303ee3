// Domains on described machines: ranks bound anywhere, ranks that are not bound.
#include "node/domains.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "node/machine.h"

namespace zh::node {
namespace {

/// From the first to the last processor.
struct Cpus {
  uint32_t first, last;
};

os::CpuSet set_of(Cpus cpus) {
  os::CpuSet set;
  for (uint32_t c = cpus.first; c <= cpus.last; ++c) set.add(c);
  return set;
}

std::vector<uint32_t> domains_on(const Machine& machine, const std::vector<os::CpuSet>& ranks) {
  std::vector<Level> levels, own;
  for (const os::CpuSet& a : ranks) {
    own.push_back(machine.level(a, a));
    for (const os::CpuSet& b : ranks) levels.push_back(&a == &b ? Level::kSelf : machine.level(a, b));
  }
  return domains_of(levels, own);
}

struct DomainExpectation {
  const char* machine;
  std::vector<Cpus> ranks;
  std::vector<uint32_t> domains;
};

/// 2 sockets of 4 memory nodes of 2 last-level caches of 8 cores: 256 hardware threads, 128 a socket, 32 a memory node.
constexpr const char* kChiplets = "synthetic:pack:2 numa:4 l3:2 l2:8 core:1 pu:2";
/// 2 sockets of 4 memory nodes of 16 cores.
constexpr const char* kTwoByFour = "synthetic:pack:2 numa:4 l3:1 core:16 pu:1";

TEST(Domains, AreTheFarthestThatRanksSpan) {
  if (!Machine::has_hwloc()) GTEST_SKIP() << "built without hwloc";
  const DomainExpectation list[] = {
      // Sockets, however ranks lie on them, in order and not.
      {kChiplets, {{0, 0}, {31, 31}, {128, 128}, {255, 255}}, {0, 0, 1, 1}},
      {kChiplets, {{200, 200}, {3, 3}, {129, 129}, {40, 40}}, {0, 1, 0, 1}},
      {kChiplets, {{0, 1}, {2, 3}, {254, 255}}, {0, 0, 1}},
      // Each bound to all of a socket.
      {kChiplets, {{0, 127}, {128, 255}, {0, 127}}, {0, 1, 0}},
      {kTwoByFour, {{0, 15}, {64, 64}, {48, 63}, {127, 127}}, {0, 1, 0, 1}},
      // One socket alone: memory nodes, then caches.
      {kChiplets, {{0, 0}, {16, 16}, {32, 32}, {127, 127}}, {0, 0, 1, 2}},
      {kChiplets, {{0, 31}, {32, 63}}, {0, 1}},
      {kChiplets, {{128, 128}, {144, 144}, {130, 130}}, {0, 1, 0}},
      {"synthetic:pack:1 numa:1 l3:2 core:4 pu:1", {{7, 7}, {0, 0}, {1, 1}, {4, 4}}, {0, 1, 1, 0}},
      // The paper's Clovertown: two dies a package, each with an L2 of two cores.
      {"synthetic:pack:2 l2:2 core:2 pu:1", {{0, 0}, {1, 1}, {2, 2}, {3, 3}}, {0, 0, 1, 1}},
      // All share a cache.
      {kChiplets, {{0, 0}, {1, 1}, {15, 15}}, {0, 0, 0}},
      {"synthetic:pack:1 l3:1 core:8 pu:2", {{0, 15}, {0, 15}}, {0, 0}},
      {kChiplets, {{77, 77}}, {0}},
  };
  for (const DomainExpectation& e : list) {
    Machine machine;
    ASSERT_TRUE(machine.load(e.machine).ok()) << e.machine;
    std::vector<os::CpuSet> ranks;
    for (const Cpus& cpus : e.ranks) ranks.push_back(set_of(cpus));
    EXPECT_EQ(domains_on(machine, ranks), e.domains) << e.machine << ", first rank on " << ranks[0].to_string();
  }
}

TEST(Domains, ARankThatIsNotBoundToOneLeavesTheNodeUndivided) {
  if (!Machine::has_hwloc()) GTEST_SKIP() << "built without hwloc";
  Machine machine;
  ASSERT_TRUE(machine.load(kChiplets).ok());
  const std::vector<os::CpuSet> bound = {set_of({0, 0}), set_of({1, 1}), set_of({128, 128}), set_of({129, 129})};
  EXPECT_EQ(domains_on(machine, bound), (std::vector<uint32_t>{0, 0, 1, 1}));
  for (size_t rank = 0; rank < bound.size(); ++rank) {
    for (const os::CpuSet& loose : {set_of({0, 255}), set_of({127, 128}), os::CpuSet{}}) {
      std::vector<os::CpuSet> ranks = bound;
      ranks[rank] = loose;
      EXPECT_EQ(domains_on(machine, ranks), std::vector<uint32_t>(4, 0)) << rank << " on " << loose.to_string();
    }
  }
  EXPECT_EQ(domains_on(machine, std::vector<os::CpuSet>(6)), std::vector<uint32_t>(6, 0)) << "nobody is bound";
  // Within one socket: one rank may be on two of its memory nodes.
  EXPECT_EQ(domains_on(machine, {set_of({0, 0}), set_of({1, 1}), set_of({32, 32}), set_of({33, 95})}),
            std::vector<uint32_t>(4, 0));
}

TEST(Domains, OfRanksAnywhereAreTheirSockets) {
  if (!Machine::has_hwloc()) GTEST_SKIP() << "built without hwloc";
  Machine machine;
  ASSERT_TRUE(machine.load(kTwoByFour).ok());
  std::mt19937 rng(7);
  for (int time = 0; time < 50; ++time) {
    std::vector<uint32_t> cpus = {static_cast<uint32_t>(rng() % 64), 64 + static_cast<uint32_t>(rng() % 64)};
    while (cpus.size() < 16) cpus.push_back(static_cast<uint32_t>(rng() % 128));
    std::shuffle(cpus.begin(), cpus.end(), rng);
    std::vector<os::CpuSet> ranks;
    for (const uint32_t cpu : cpus) ranks.push_back(set_of({cpu, cpu}));
    const std::vector<uint32_t> domains = domains_on(machine, ranks);
    for (size_t rank = 0; rank < cpus.size(); ++rank) {
      EXPECT_EQ(domains[rank], cpus[rank] / 64 == cpus[0] / 64 ? 0U : 1U) << "processor " << cpus[rank];
    }
  }
}

}  // namespace
}  // namespace zh::node
