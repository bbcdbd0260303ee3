// Collectives of neighbourhoods by a team of real ranks: short blocks, long ones and both, several edges between two
// members, edges to oneself, lengths that disagree and members that refuse.
// label more-ranks: NeighborTeams[.].*/processes_[58]_
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "coll/team/control_block.h"
#include "team_support.h"

namespace zh::test {
namespace {

struct NeighborEdges {
  std::vector<uint32_t> members;
  std::vector<uint16_t> nth;

  void add(uint32_t member) {
    nth.push_back(static_cast<uint16_t>(std::count(members.begin(), members.end(), member)));
    members.push_back(member);
  }
  [[nodiscard]] coll::Blocks of(const Pieces& pieces) const { return {members, nth, pieces}; }
};

/// Everybody sends to those `distances` on, and receives from those as far before.
struct Around {
  NeighborEdges to, from;
  Around(uint32_t self, uint32_t size, const std::vector<uint32_t>& distances) {
    for (const uint32_t d : distances) {
      to.add((self + d) % size);
      from.add((self + size - d % size) % size);
    }
  }
};

using Distances = std::vector<uint32_t>;

class NeighborTeams : public Teams {};

TEST_P(NeighborTeams, BlocksOfNeighbors) {
  run([](Member& m) {
    for (const Distances& distances : {Distances{1}, Distances{1, 1, 2, 0}, Distances{1, 0, 1, 0, 3, 2, 1}}) {
      const Around near(m.self, m.size, distances);
      ASSERT_TRUE(m.team.agree_on_edges(static_cast<uint32_t>(distances.size())));
      for (const uint64_t n : counts()) {
        ++m.call;
        const uint64_t edges = distances.size();
        const uint64_t* out = m.input(n * edges);
        uint64_t* in = m.memory(n * edges);
        ASSERT_EQ(m.team.neighbors(near.to.of(even(out, n)), near.from.of(even(in, n))), Code::kOk);
        for (uint32_t k = 0; k < edges; ++k) EXPECT_ALL(n, value(m.call, near.from.members[k], k * n + i), in + k * n);

        ++m.call;
        const uint64_t* same = m.input(n);
        ASSERT_EQ(m.team.neighbors(near.to.of({bytes(same, n), 0, nullptr}), near.from.of(even(in, n))), Code::kOk);
        for (uint32_t k = 0; k < edges; ++k) EXPECT_ALL(n, value(m.call, near.from.members[k], i), in + k * n);
        m.give_back();
      }
    }
  });
}

/// Of a length of its own for each edge, short and long ones by turns.
TEST_P(NeighborTeams, BlocksOfNeighborsInLists) {
  run([](Member& m) {
    const Around near(m.self, m.size, {1, 2, 1, 0, 1});
    const uint32_t edges = 5;
    ASSERT_TRUE(m.team.agree_on_edges(edges));
    const auto length = [](uint32_t from, uint32_t k, uint32_t turn) {
      return uint64_t{(from + k * 5 + turn) % 4 == 0 ? 3000U : (k + turn) % 3 * 40U};
    };
    for (uint32_t turn = 0; turn < 60; ++turn) {
      ++m.call;
      const uint64_t* out = m.input(edges * 3000);
      uint64_t* in = m.memory(edges * 3000);
      std::vector<copy::Buffer> give;
      std::vector<copy::Buffer> take;
      for (uint32_t k = 0; k < edges; ++k) {
        give.push_back(bytes(out + uint64_t{k} * 3000, length(m.self, k, turn)));
        take.push_back(bytes(in + uint64_t{k} * 3000, length(near.from.members[k], k, turn)));
      }
      ASSERT_EQ(m.team.neighbors(near.to.of({{}, 0, give.data()}), near.from.of({{}, 0, take.data()})), Code::kOk);
      for (uint32_t k = 0; k < edges; ++k) {
        const uint32_t from = near.from.members[k];
        EXPECT_ALL(length(from, k, turn), value(m.call, from, k * 3000 + i), in + uint64_t{k} * 3000);
      }
      m.give_back();
    }
  });
}

/// Chains: who only sends is ahead of who only receives, and members without neighbours of both.
TEST_P(NeighborTeams, NeighborsRunAhead) {
  run([](Member& m) {
    NeighborEdges to;
    NeighborEdges from;
    if (m.self + 1 < m.size) to.add(m.self + 1);
    if (m.self > 0) from.add(m.self - 1);
    ASSERT_TRUE(m.team.agree_on_edges(1));
    uint64_t state = m.self + 1;
    for (uint32_t k = 0; k < 1500; ++k) {
      ++m.call;
      const uint64_t n = k % 5 == 0 ? 600 : 2;
      uint64_t out[600];
      uint64_t in[600] = {};
      for (uint64_t i = 0; i < n; ++i) out[i] = value(m.call, m.self, i);
      ASSERT_EQ(m.team.neighbors(to.of(even(out, n)), from.of(even(in, n))), Code::kOk);
      for (uint64_t i = 0; m.self > 0 && i < n; ++i) ASSERT_EQ(in[i], value(m.call, m.self - 1, i));
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      if (state >> 58 == 0) compute(20'000);
    }
  });
}

/// Member 0 sends more, or less, than the others expect, short where they expect long and the other way round.
TEST_P(NeighborTeams, LengthsOfBlocksThatDisagree) {
  run([](Member& m) {
    const Around near(m.self, m.size, {1});
    ASSERT_TRUE(m.team.agree_on_edges(1));
    constexpr uint64_t kMost = 20'000;
    for (const auto& [given, expected] : {std::pair<uint64_t, uint64_t>{10, 5},
                                          {5, 10},
                                          {kMost, 5},
                                          {5, kMost},
                                          {kMost, kMost / 2},
                                          {kMost / 2, kMost},
                                          {0, kMost},
                                          {kMost, 0}}) {
      ++m.call;
      const uint64_t* out = m.input(kMost);
      uint64_t* in = m.memory(kMost);
      const uint64_t sent = m.self == 0 ? given : expected;
      const Code code = m.team.neighbors(near.to.of(even(out, sent)), near.from.of(even(in, expected)));
      const bool wrong = near.from.members[0] == 0 && given > expected;
      EXPECT_EQ(code, wrong ? Code::kTruncated : Code::kOk) << given << " for " << expected;
      if (code == Code::kOk) {
        const uint64_t came = near.from.members[0] == 0 ? given : expected;
        EXPECT_ALL(came, value(m.call, near.from.members[0], i), in);
      }
      ASSERT_EQ(m.team.barrier(), Code::kOk);
      m.give_back();
    }
  });
}

/// Too much for oneself is an error of that member alone.
TEST_P(NeighborTeams, TooMuchForOneself) {
  run([](Member& m) {
    const Around near(m.self, m.size, {0, 1});
    ASSERT_TRUE(m.team.agree_on_edges(2));
    for (const uint64_t n : {8, 5000}) {
      ++m.call;
      const uint64_t* out = m.input(2 * n);
      uint64_t* in = m.memory(2 * n);
      std::fill_n(in, 2 * n, 7);
      const uint64_t room = m.self == 0 ? n / 2 : n;
      const copy::Buffer take[] = {bytes(in, room), bytes(in + n, n)};
      const Code code = m.team.neighbors(near.to.of(even(out, n)), near.from.of({{}, 0, take}));
      EXPECT_EQ(code, m.self == 0 ? Code::kTruncated : Code::kOk);
      EXPECT_ALL(room, value(m.call, m.self, i), in);
      EXPECT_ALL(n - room, 7U, in + room);
      EXPECT_ALL(n, value(m.call, near.from.members[1], n + i), in + n);
      m.give_back();
    }
  });
}

TEST_P(NeighborTeams, ANeighborThatRefuses) {
  run([](Member& m) {
    const Around near(m.self, m.size, {1, 2});
    ASSERT_TRUE(m.team.agree_on_edges(2));
    for (const uint64_t n : {4, 5000}) {
      for (int again = 0; again < 20; ++again) {
        ++m.call;
        const uint64_t* out = m.input(2 * n);
        uint64_t* in = m.memory(2 * n);
        if (m.self == 0 && again % 2 == 0) {
          m.team.refuse(false);
        } else {
          const Code code = m.team.neighbors(near.to.of(even(out, n)), near.from.of(even(in, n)));
          const auto& from = near.from.members;
          const bool lacks = again % 2 == 0 && std::count(from.begin(), from.end(), 0U) != 0;
          EXPECT_EQ(code, lacks ? Code::kInvalid : Code::kOk);
          for (uint32_t k = 0; k < 2; ++k) {
            if (from[k] == 0 && again % 2 == 0) continue;
            EXPECT_ALL(n, value(m.call, from[k], k * n + i), in + k * n);
          }
        }
        m.give_back();
      }
    }
  });
}

TEST_P(NeighborTeams, TooManyEdgesAreNotServed) {
  run([](Member& m) {
    EXPECT_FALSE(m.team.agree_on_edges(m.self == m.size - 1 ? coll::kMostEdges + 1 : 1));
    EXPECT_TRUE(m.team.agree_on_edges(coll::kMostEdges));
  });
}

std::vector<TeamCase> neighbor_cases() {
  std::vector<TeamCase> all;
  for (const Memory memory : {Memory::kMapped, Memory::kKernel, Memory::kMessages}) {
    for (const int ranks : {2, 5}) all.push_back({World::kProcesses, ranks, memory});
    all.push_back({World::kThreads, 3, memory});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Some, NeighborTeams, ::testing::ValuesIn(neighbor_cases()), team_case_name);

}  // namespace
}  // namespace zh::test
