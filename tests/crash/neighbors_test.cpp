// A rank is killed in a collective of its neighbourhood, with short blocks and with long ones. Its neighbours, and
// theirs, are told so.
#include <gtest/gtest.h>

#include <vector>

#include "coll/team/team.h"
#include "engine/rank.h"
#include "fatal_point.h"
#include "node/node.h"
#include "survivor.h"

namespace zh::test {
namespace {

class CrashNeighbors : public ::testing::TestWithParam<const char*> {};

TEST_P(CrashNeighbors, OthersAreTold) {
  const char* const point = GetParam();
  at_hits(point, {1, 4}, [&](int hit) {
    with_ranks(kRanks, {}, [&](TestBootstrap& world, Rank& rank) {
      const auto team = rank.make_team(5, {0, 1, 2}, rank.node().self());
      ASSERT_TRUE(team->ready() && team->agree_on_edges(2));
      const uint32_t self = team->self();
      const std::vector<uint32_t> to{(self + 1) % kRanks, (self + 1) % kRanks};
      const std::vector<uint32_t> from{(self + kRanks - 1) % kRanks, (self + kRanks - 1) % kRanks};
      const std::vector<uint16_t> nth{0, 1};
      constexpr size_t kMost = 20'000;
      std::vector<int64_t> out(2 * kMost, self);
      std::vector<int64_t> in(2 * kMost);
      const auto blocks = [](std::vector<int64_t>& all, size_t n) {
        const copy::Buffer first{reinterpret_cast<std::byte*>(all.data()), n * sizeof(int64_t), nullptr};
        return coll::Pieces{first, static_cast<int64_t>(first.bytes), nullptr};
      };
      const bool victim = world.rank() == kVictim;
      if (victim) die_at(point, hit);
      Code code = Code::kOk;
      for (int round = 0; round < kRounds && code == Code::kOk; ++round) {
        for (const size_t n : {size_t{1}, kMost}) {
          if (code == Code::kOk) code = team->neighbors({to, nth, blocks(out, n)}, {from, nth, blocks(in, n)});
          EXPECT_TRUE(code != Code::kOk || in[2 * n - 1] == from[0]);
        }
      }
      EXPECT_FALSE(victim) << "the point was never reached";
      EXPECT_EQ(code, Code::kPeerDead);
      EXPECT_EQ(team->barrier(), Code::kPeerDead);
      expect_whole(rank.node());
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Points, CrashNeighbors,
                         ::testing::Values("team: contributed", "team: published", "team: not yet done",
                                           "transfer: slot filled", "transfer: offered", "pull: claimed"));

}  // namespace
}  // namespace zh::test
