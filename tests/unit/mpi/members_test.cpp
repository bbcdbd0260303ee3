// Lists of members, of as many ranks as large machines have: who shares them, what they take, and how often the host is
// asked.
#include "mpi/handles/members.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "coll/schedule/problem.h"
#include "engine/contexts.h"

namespace zh::mpi {
namespace {

constexpr int32_t kNodes = 1000;
constexpr int32_t kPerNode = 192;
constexpr int32_t kRanks = kNodes * kPerNode;

/// A world in blocks, as the rank sees it that is `self` on node `own`.
class World {
 public:
  explicit World(int32_t nodes = kNodes, int32_t per_node = kPerNode, int32_t own = 3, uint32_t self = 5) {
    for (int32_t rank = 0; rank < nodes * per_node; ++rank) {
      ranks_.push_back(rank);
      node_of_.push_back(static_cast<uint32_t>(rank / per_node));
      local_of_.push_back(rank / per_node == own ? rank % per_node : -1);
    }
    tables_ = {ranks_, local_of_.data(), node_of_.data(), static_cast<uint32_t>(nodes), self};
    lists_.open(tables_);
  }
  [[nodiscard]] const WorldTables& tables() const { return tables_; }
  MemberLists& lists() { return lists_; }
  /// As the host would translate a communicator of these; counts.
  auto translate(const std::vector<int32_t>& world_ranks) {
    return [this, &world_ranks](std::span<int32_t> out) {
      ++asked_;
      std::ranges::copy(world_ranks, out.begin());
      return true;
    };
  }
  std::shared_ptr<const Members> made(const std::shared_ptr<const Members>& parent, Kin kin,
                                      const std::vector<int32_t>& world_ranks) {
    return lists_.made(parent, kin, static_cast<int32_t>(world_ranks.size()), translate(world_ranks));
  }
  [[nodiscard]] int asked() const { return asked_; }
  [[nodiscard]] const std::vector<int32_t>& ranks() const { return ranks_; }

 private:
  std::vector<int32_t> ranks_, local_of_;
  std::vector<uint32_t> node_of_;
  WorldTables tables_{};
  MemberLists lists_;
  int asked_ = 0;
};

TEST(Members, TheWorldHasNoListsOfItsOwn) {
  World world;
  const auto all = world.lists().world();
  EXPECT_EQ(all->list_bytes(), 0U);
  EXPECT_EQ(all->world().data(), world.tables().ranks.data());
  EXPECT_EQ(all->local().data(), world.tables().local_of);
  EXPECT_EQ(all->size(), kRanks);
  EXPECT_EQ(all->here(), kPerNode);
  EXPECT_EQ(all->self(), 3 * kPerNode + 5);
  EXPECT_TRUE(all->share_a_node());
  EXPECT_EQ(all->hash(), engine::hash_group(world.ranks().data(), world.ranks().size()));
}

TEST(Members, ADuplicateAsksNobodyAndSharesAll) {
  World world;
  auto parent = world.lists().world();
  for (int i = 0; i < 10; ++i) {
    const auto copy = world.made(parent, Kin::kSame, world.ranks());
    EXPECT_EQ(copy, parent);
    parent = copy;
  }
  EXPECT_EQ(world.asked(), 0);
}

TEST(Members, ATopologyTakesTheFirstRanks) {
  World world;
  const auto grid = world.made(world.lists().world(), Kin::kFirst, world.ranks());
  EXPECT_EQ(grid, world.lists().world());
  const std::vector<int32_t> some(world.ranks().begin(), world.ranks().begin() + 1000);
  const auto smaller = world.made(world.lists().world(), Kin::kFirst, some);
  EXPECT_TRUE(std::ranges::equal(smaller->world(), some));
  EXPECT_EQ(world.made(smaller, Kin::kFirst, some), smaller);
  EXPECT_EQ(world.asked(), 0);
}

TEST(Members, AnyOtherGroupAsksTheHostOnce) {
  World world;
  const std::vector<int32_t> odd = {3 * kPerNode + 7, 3 * kPerNode + 5, 9, 10};
  const auto members = world.made(world.lists().world(), Kin::kOther, odd);
  EXPECT_EQ(world.asked(), 1);
  EXPECT_EQ(members->list_bytes(), 8 * odd.size());
  EXPECT_TRUE(std::ranges::equal(members->local(), std::vector<int32_t>{7, 5, -1, -1}));
  EXPECT_EQ(members->self(), 1);
  EXPECT_EQ(members->here(), 2);
  // A second one of the same members: the host is asked, since only it knows, but the lists are the same.
  EXPECT_EQ(world.made(members, Kin::kOther, odd), members);
  EXPECT_EQ(world.asked(), 2);
  EXPECT_EQ(world.made(world.lists().world(), Kin::kOther, world.ranks()), world.lists().world());
}

TEST(Members, TheOrderCounts) {
  World world;
  const auto one = world.made(world.lists().world(), Kin::kOther, {0, 1, 2});
  const auto other = world.made(world.lists().world(), Kin::kOther, {2, 1, 0});
  EXPECT_NE(one, other);
  EXPECT_NE(one->hash(), other->hash());
}

TEST(Members, WhoIsElsewhereHasNoList) {
  World world(4, 2);
  EXPECT_EQ(world.lists().made(world.lists().world(), Kin::kOther, 2, [](auto) { return false; }), nullptr);
}

TEST(Members, SharedNodesAreSeen) {
  World world(4, 3);
  EXPECT_FALSE(world.made(world.lists().world(), Kin::kOther, {0, 3, 6, 9})->share_a_node());
  EXPECT_TRUE(world.made(world.lists().world(), Kin::kOther, {0, 3, 6, 7})->share_a_node()) << "on another's node";
  EXPECT_TRUE(world.made(world.lists().world(), Kin::kOther, {0, 3, 4, 6})->share_a_node()) << "not the last ones";
}

TEST(Members, ListsGoWithTheirLastCommunicator) {
  World world(4, 3);
  std::weak_ptr<const Members> gone;
  for (int32_t i = 0; i < 1000; ++i) gone = world.made(world.lists().world(), Kin::kOther, {i % 12, (i + 1) % 12});
  EXPECT_TRUE(gone.expired());
  const auto kept = world.made(world.lists().world(), Kin::kOther, {3, 4});
  for (int32_t i = 0; i < 1000; ++i) (void)world.made(world.lists().world(), Kin::kOther, {0, 1, 2, i % 12});
  EXPECT_EQ(world.made(world.lists().world(), Kin::kOther, {3, 4}), kept) << "sweeping leaves what is in use";
}

TEST(Members, TheLayoutIsMadeOnceForAll) {
  World world(4, 3);
  const auto all = world.lists().world();
  EXPECT_EQ(all->layout()->nodes(), 4U);
  EXPECT_EQ(all->layout()->ranks(), 12U);
  EXPECT_EQ(all->layout(), world.made(all, Kin::kSame, world.ranks())->layout());
  const auto some = world.made(all, Kin::kOther, {11, 0, 10});
  EXPECT_EQ(some->layout()->nodes(), 2U);
  EXPECT_EQ(some->layout()->node_of(2), some->layout()->node_of(0));
}

}  // namespace
}  // namespace zh::mpi
