// Who shares a node, of as many ranks as large machines have, from 8 bytes of each.
#include "node/roster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace zh::node {
namespace {

constexpr int kNodes = 1000;
constexpr int kPerNode = 192;
constexpr int kRanks = kNodes * kPerNode;

/// A hash that is as wild as those of names.
uint64_t wild(uint64_t n) {
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9U;
  return (n ^ (n >> 27)) * 0x94d049bb133111ebU;
}

template <typename NodeOf>
std::vector<uint64_t> keys_of(int ranks, NodeOf&& node_of) {
  std::vector<uint64_t> keys;
  for (int r = 0; r < ranks; ++r) {
    const auto node = static_cast<uint64_t>(node_of(r)) + 1;
    keys.push_back(place_key(wild(node), wild(node + 1'000'000)));
  }
  return keys;
}

TEST(Roster, RanksInBlocks) {
  const auto keys = keys_of(kRanks, [](int r) { return r / kPerNode; });
  const int self = 100'000;
  const Roster roster = make_roster(keys, 0, self);
  EXPECT_EQ(roster.nodes, static_cast<uint32_t>(kNodes));
  EXPECT_FALSE(roster.one_machine);
  ASSERT_EQ(roster.node_of.size(), static_cast<size_t>(kRanks));
  for (int r = 0; r < kRanks; ++r)
    ASSERT_EQ(roster.node_of[static_cast<size_t>(r)], static_cast<uint32_t>(r / kPerNode));
  std::vector<int> mine(kPerNode);
  std::iota(mine.begin(), mine.end(), self / kPerNode * kPerNode);
  EXPECT_EQ(roster.members, mine);
  EXPECT_EQ(roster.machine, mine);
}

TEST(Roster, RanksDealtOutInTurn) {
  const auto keys = keys_of(kRanks, [](int r) { return r % kNodes; });
  const Roster roster = make_roster(keys, 0, 1234);
  EXPECT_EQ(roster.nodes, static_cast<uint32_t>(kNodes));
  for (int r = 0; r < kRanks; ++r) ASSERT_EQ(roster.node_of[static_cast<size_t>(r)], static_cast<uint32_t>(r % kNodes));
  ASSERT_EQ(roster.members.size(), static_cast<size_t>(kPerNode));
  for (int i = 0; i < kPerNode; ++i) EXPECT_EQ(roster.members[static_cast<size_t>(i)], 234 + i * kNodes);
}

TEST(Roster, AllRanksDecideWhetherThereIsOneMachine) {
  for (const int self : {0, 1, 2}) {
    EXPECT_FALSE(make_roster(keys_of(3, [](int r) { return r % 2; }), 0, self).one_machine) << self;
    EXPECT_TRUE(make_roster(keys_of(3, [](int) { return 7; }), 0, self).one_machine) << self;
  }
}

TEST(Roster, AllRanksNumberNodesAlike) {
  const auto keys = keys_of(60, [](int r) { return r * 7 % 5; });
  const Roster first = make_roster(keys, 0, 0);
  EXPECT_EQ(first.nodes, 5U);
  for (int self = 1; self < 60; ++self) {
    const Roster other = make_roster(keys, 0, self);
    EXPECT_EQ(other.node_of, first.node_of);
    EXPECT_TRUE(std::ranges::binary_search(other.members, self));
  }
}

TEST(Roster, ContainersShareAMachineAndNoMemory) {
  std::vector<uint64_t> keys;
  for (uint64_t r = 0; r < 8; ++r) keys.push_back(place_key(wild(1), wild(r / 2)));
  const Roster roster = make_roster(keys, 0, 5);
  EXPECT_EQ(roster.nodes, 4U);
  EXPECT_TRUE(roster.one_machine);
  EXPECT_EQ(roster.machine.size(), 8U);
  EXPECT_EQ(roster.members, (std::vector<int>{4, 5}));
}

TEST(Roster, PretendedNodesTakeTheRanksOfAMachineInOrder) {
  const auto keys = keys_of(10, [](int r) { return r % 2; });
  const Roster roster = make_roster(keys, 2, 8);
  // Ranks 0 2 | 4 6 | 8 on one machine, 1 3 | 5 7 | 9 on the other.
  EXPECT_EQ(roster.node_of, (std::vector<uint32_t>{0, 1, 0, 1, 2, 3, 2, 3, 4, 5}));
  EXPECT_EQ(roster.nodes, 6U);
  EXPECT_EQ(roster.members, std::vector<int>{8});
  EXPECT_EQ(roster.machine, (std::vector<int>{0, 2, 4, 6, 8}));
}

TEST(Roster, KeysTellMachinesByMoreBitsThanNodes) {
  EXPECT_EQ(machine_of(place_key(0xffffffffffU, 0)), 0xffffffffffU);
  EXPECT_EQ(machine_of(place_key(7, ~uint64_t{0})), 7U) << "the node's name does not spill over";
  std::set<uint64_t> names;
  for (uint64_t m = 0; m < 10'000; ++m) names.insert(machine_of(place_key(wild(m), 0)));
  EXPECT_EQ(names.size(), 10'000U);
}

}  // namespace
}  // namespace zh::node
