// Collectives of a team of real ranks: every operation, small and large, against results computed here.
// label more-ranks: All/Teams[.].*/(threads|processes_[58]_)
// label more-ranks: TeamOfMany[.]
// label most-ranks: TeamOfMany[.].*/threads_193
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "team_support.h"

namespace zh::test {
namespace {

TEST_P(Teams, DataMovement) {
  run([](Member& m) {
    for (const uint64_t n : counts()) {
      for (int again = 0; again < 2; ++again) {  // memory is mapped from its second use on
        for (uint32_t root = 0; root<m.size; root += m.size> 3 ? 3 : 1) {
          ++m.call;
          uint64_t* data = m.self == root ? m.input(n) : m.memory(n);
          ASSERT_EQ(m.team.bcast(bytes(data, n), root), Code::kOk);
          EXPECT_ALL(n, value(m.call, root, i), data);

          ++m.call;
          const uint64_t* mine = m.input(n);
          uint64_t* all = m.memory(n * m.size);
          ASSERT_EQ(m.team.gather(bytes(mine, n), even(all, n), root, true), Code::kOk);
          for (uint32_t r = 0; m.self == root && r < m.size; ++r) EXPECT_ALL(n, value(m.call, r, i), all + r * n);

          ++m.call;
          const uint64_t* pieces = m.input(n * m.size);
          uint64_t* piece = m.memory(n);
          ASSERT_EQ(m.team.scatter(even(pieces, n), bytes(piece, n), root, true), Code::kOk);
          EXPECT_ALL(n, value(m.call, root, m.self * n + i), piece);
          m.give_back();
        }
        ASSERT_EQ(m.team.barrier(), Code::kOk);
        ++m.call;
        const uint64_t* mine = m.input(n);
        uint64_t* all = m.memory(n * m.size);
        ASSERT_EQ(m.team.allgather(bytes(mine, n), even(all, n)), Code::kOk);
        for (uint32_t r = 0; r < m.size; ++r) EXPECT_ALL(n, value(m.call, r, i), all + r * n);

        ++m.call;
        const uint64_t* out = m.input(n * m.size);
        uint64_t* in = m.memory(n * m.size);
        ASSERT_EQ(m.team.alltoall(even(out, n), even(in, n), true), Code::kOk);
        for (uint32_t r = 0; r < m.size; ++r) EXPECT_ALL(n, value(m.call, r, m.self * n + i), in + r * n);
        m.give_back();
      }
    }
  });
}

TEST_P(Teams, Lists) {
  run([](Member& m) {
    // Rank r's piece for rank q has (r * 3 + q) * scale elements: some are empty, some small, some large.
    for (const uint64_t scale : {0, 1, 40, 700, 3000}) {
      for (int again = 0; again < 2; ++again) {
        const auto size_of = [&](uint32_t r, uint32_t q) { return (r * 3 + q) * scale; };
        const auto layout = [&](uint64_t* p, auto&& elements) {
          std::vector<copy::Buffer> list;
          for (uint32_t q = 0; q < m.size; ++q) {
            list.push_back(bytes(p, elements(q)));
            p += elements(q) + 3;
          }
          return list;
        };
        const uint64_t most = (m.size * 4) * scale * m.size + 3 * m.size;
        ++m.call;
        uint64_t* out = m.memory(most);
        uint64_t* in = m.memory(most);
        const auto send = layout(out, [&](uint32_t q) { return size_of(m.self, q); });
        const auto recv = layout(in, [&](uint32_t q) { return size_of(q, m.self); });
        for (uint32_t q = 0; q < m.size; ++q) {
          auto* p = reinterpret_cast<uint64_t*>(send[q].base);
          for (uint64_t i = 0; i < size_of(m.self, q); ++i) p[i] = value(m.call, m.self, q * 1000 + i);
        }
        ASSERT_EQ(m.team.alltoall({{}, 0, send.data()}, {{}, 0, recv.data()}, false), Code::kOk);
        for (uint32_t r = 0; r < m.size; ++r) {
          EXPECT_ALL(size_of(r, m.self), value(m.call, r, m.self * 1000 + i),
                     reinterpret_cast<uint64_t*>(recv[r].base));
        }
        const auto of_rank = [&](uint32_t q) { return size_of(q, 1); };
        const auto places = layout(in, of_rank);
        ++m.call;
        const uint64_t* mine = m.input(of_rank(m.self));
        ASSERT_EQ(m.team.allgather(bytes(mine, of_rank(m.self)), {{}, 0, places.data()}), Code::kOk);
        for (uint32_t r = 0; r < m.size; ++r) {
          EXPECT_ALL(of_rank(r), value(m.call, r, i), reinterpret_cast<uint64_t*>(places[r].base));
        }
        const uint32_t root = m.size - 1;
        ++m.call;
        mine = m.input(of_rank(m.self));
        ASSERT_EQ(m.team.gather(bytes(mine, of_rank(m.self)), {{}, 0, places.data()}, root, false), Code::kOk);
        for (uint32_t r = 0; m.self == root && r < m.size; ++r) {
          EXPECT_ALL(of_rank(r), value(m.call, r, i), reinterpret_cast<uint64_t*>(places[r].base));
        }
        ++m.call;
        for (uint32_t q = 0; m.self == root && q < m.size; ++q) {
          auto* p = reinterpret_cast<uint64_t*>(places[q].base);
          for (uint64_t i = 0; i < of_rank(q); ++i) p[i] = value(m.call, q, i);
        }
        uint64_t* piece = m.memory(of_rank(m.self));
        ASSERT_EQ(m.team.scatter({{}, 0, places.data()}, bytes(piece, of_rank(m.self)), root, false), Code::kOk);
        EXPECT_ALL(of_rank(m.self), value(m.call, m.self, i), piece);
        m.give_back();
      }
    }
  });
}

TEST_P(Teams, Reductions) {
  run([](Member& m) {
    for (const uint64_t n : counts()) {
      for (int again = 0; again < 4; ++again) {
        const bool user = again % 2 != 0;
        const bool in_place = again >= 2;
        const Reduction how = user ? m.compositions() : kSums;
        const auto expected = [&](uint32_t first, uint32_t last, uint64_t i) {
          return user ? m.composed(first, last, i) : m.sum(first, last, i);
        };
        const auto output = [&](uint64_t* in, uint64_t elements) { return in_place ? in : m.memory(elements); };
        ++m.call;
        uint64_t* in = m.input(n);
        uint64_t* out = output(in, n);
        ASSERT_EQ(m.team.allreduce(in, out, n, how), Code::kOk);
        EXPECT_ALL(n, expected(0, m.size - 1, i), out);

        const uint32_t root = m.call % m.size;
        ++m.call;
        in = m.input(n);
        out = m.self == root ? output(in, n) : nullptr;
        ASSERT_EQ(m.team.reduce(in, out, n, how, root), Code::kOk);
        if (m.self == root) {
          EXPECT_ALL(n, expected(0, m.size - 1, i), out);
        }

        std::vector<uint64_t> per_rank(m.size);
        std::vector<uint64_t> first(m.size);
        uint64_t total = 0;
        for (uint32_t r = 0; r < m.size; ++r) {
          first[r] = total;
          per_rank[r] = r % 2 == 0 ? n : n / 2;
          total += per_rank[r];
        }
        ++m.call;
        in = m.input(total);
        out = output(in, n);
        ASSERT_EQ(m.team.reduce_scatter(in, out, per_rank.data(), how), Code::kOk);
        EXPECT_ALL(per_rank[m.self], expected(0, m.size - 1, first[m.self] + i), out);

        ++m.call;
        in = m.input(n);
        out = output(in, n);
        ASSERT_EQ(m.team.scan(in, out, n, how, false), Code::kOk);
        EXPECT_ALL(n, expected(0, m.self, i), out);

        ++m.call;
        in = m.input(n);
        out = output(in, n);
        ASSERT_EQ(m.team.scan(in, out, n, how, true), Code::kOk);
        if (m.self != 0) {
          EXPECT_ALL(n, expected(0, m.self - 1, i), out);
        }
        m.give_back();
      }
    }
    // What is used for the first time is not mapped yet.
    EXPECT_GT(stat(*m.rank, "staged_reductions"), 0U);
    const bool maps = stat(*m.rank, "mapped_accesses") > 0;
    EXPECT_TRUE(maps == (m.heap != nullptr) || (m.streams && m.size == 2 && !maps));
  });
}

// Rooted operations let ranks run ahead of each other; what they left on their control blocks must last as long as
// needed.
TEST_P(Teams, RunningAhead) {
  run([](Member& m) {
    uint64_t state = m.self + 1;
    for (uint32_t k = 0; k < 2000; ++k) {
      const uint32_t root = k / 7 % m.size;
      ++m.call;
      uint64_t x[2] = {value(m.call, m.self, 0), value(m.call, m.self, 1)};
      uint64_t y[2] = {0, 0};
      if (k % 3 == 0) {
        ASSERT_EQ(m.team.bcast(bytes(x, 2), root), Code::kOk);
        ASSERT_EQ(x[1], value(m.call, root, 1));
      } else if (k % 3 == 1) {
        ASSERT_EQ(m.team.reduce(x, y, 2, kSums, root), Code::kOk);
        ASSERT_EQ(y[1], m.self == root ? m.sum(0, m.size - 1, 1) : 0);
      } else {
        ASSERT_EQ(m.team.scan(x, y, 2, kSums, false), Code::kOk);
        ASSERT_EQ(y[0], m.sum(0, m.self, 0));
      }
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      if (state >> 58 == 0) compute(20'000);
    }
  });
}

// Lengths on both sides of what control blocks take, before they grow, while they do and after.
TEST_P(Teams, Growing) {
  run([](Member& m) {
    EXPECT_FALSE(m.team.grown());
    for (uint32_t k = 0; k < 60; ++k) {
      ++m.call;
      const uint64_t n = std::array{1, 100, 256, 257, 700, 2048, 2049}[k % 7];
      const uint32_t root = k % m.size;
      uint64_t* const in = m.input(n);
      uint64_t* const out = m.memory(n * m.size);
      switch (k / 7 % 4) {
        case 0:
          ASSERT_EQ(m.team.allreduce(in, out, n, kSums), Code::kOk);
          EXPECT_ALL(n, m.sum(0, m.size - 1, i), out);
          break;
        case 1:
          ASSERT_EQ(m.team.allgather(bytes(in, n), even(out, n)), Code::kOk);
          for (uint32_t r = 0; r < m.size; ++r) EXPECT_ALL(n, value(m.call, r, i), out + r * n);
          break;
        case 2:
          ASSERT_EQ(m.team.bcast(bytes(in, n), root), Code::kOk);
          EXPECT_ALL(n, value(m.call, root, i), in);
          break;
        default:
          ASSERT_EQ(m.team.reduce(in, out, n, m.compositions(), root), Code::kOk);
          if (m.self == root) EXPECT_ALL(n, m.composed(0, m.size - 1, i), out);
      }
      m.give_back();
    }
    EXPECT_TRUE(m.team.grown());
  });
}

// Elements for which a staging area has no room are combined where they lie.
TEST_P(Teams, HugeElements) {
  run([](Member& m) {
    constexpr uint64_t kWords = 20'000;
    const Reduction how{
        kWords * 8, nullptr,
        [](void* context, void* in, void* inout, uint64_t n) { compose_user(context, in, inout, n * kWords); },
        &m.user_calls, false};
    for (const uint64_t n : {uint64_t{1}, uint64_t{3}}) {
      ++m.call;
      const uint64_t* const in = m.input(n * kWords);
      uint64_t* const out = m.memory(n * kWords);
      ASSERT_EQ(m.team.allreduce(in, out, n, how), Code::kOk);
      EXPECT_ALL(n * kWords, m.composed(0, m.size - 1, i), out);
      m.give_back();
    }
  });
}

std::vector<TeamCase> cases() {
  std::vector<TeamCase> all;
  for (const World world : {World::kThreads, World::kProcesses}) {
    for (const int ranks : {2, 3, 5, 8}) {
      for (const Memory memory :
           {Memory::kMapped, Memory::kKernel, Memory::kMessages, Memory::kEdges, Memory::kEdgesKernel}) {
        if (ranks > (kSanitized ? 3 : world == World::kThreads ? 5 : 8)) continue;
        all.push_back({world, ranks, memory});
      }
    }
  }
  for (const int ranks : {2, 3}) all.push_back({World::kThreads, ranks, Memory::kModule});
  return all;
}

// A member that dies ends the others' collective, whatever they wait for there.
TEST(TeamDeath, OthersAreTold) {
  constexpr int kRanks = 3;
  for (const uint64_t n : {uint64_t{1}, uint64_t{100'000}}) {
    run_ranks(World::kProcesses, kRanks,
              [n](TestBootstrap& world) {
                EngineRank r = make_rank(world, config_in(World::kProcesses));
                ASSERT_NE(r.rank, nullptr);
                const uint32_t self = r.node->self();
                const std::unique_ptr<Team> team = r.rank->make_team(11, {0, 1, 2}, self);
                ASSERT_TRUE(team->ready());
                std::vector<uint64_t> in(n, 1);
                std::vector<uint64_t> out(n);
                for (int k = 0; k < 5; ++k) ASSERT_EQ(team->allreduce(in.data(), out.data(), n, kSums), Code::kOk);
                if (self == 1) {
                  raise(SIGKILL);
                }
                Code code = Code::kOk;
                for (int k = 0; k < 10 && code == Code::kOk; ++k) {
                  code = team->allreduce(in.data(), out.data(), n, kSums);
                }
                EXPECT_EQ(code, Code::kPeerDead);
                EXPECT_EQ(team->barrier(), Code::kPeerDead);
              },
              {.may_die = 1});
  }
}

/// Neither associative nor commutative, in every bit.
double bend(double left, double right) { return left * 1.0625 + 1.0 / (3.0 + right * right); }
void bend_kernel(const void* left, const void* right, void* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const double x = bend(static_cast<const double*>(left)[i], static_cast<const double*>(right)[i]);
    std::memcpy(static_cast<double*>(out) + i, &x, sizeof x);
  }
}

/// Operands of blocks of ranks, then of all blocks, from the right.
double bracketed(uint32_t ranks, uint32_t block, const std::function<double(uint32_t)>& operand) {
  double all = 0;
  for (uint32_t begin = (ranks - 1) / block * block, end = ranks;; end = begin, begin -= block) {
    double part = operand(end - 1);
    for (uint32_t i = end - 1; i-- > begin;) part = bend(operand(i), part);
    all = end == ranks ? part : bend(part, all);
    if (begin == 0) return all;
  }
}

class TeamOfMany : public ::testing::TestWithParam<uint32_t> {};

// As many ranks as large nodes have, before and after control blocks grow: one bracket of operands on all of them, of
// short ones (teams.md, Many members) and of others.
TEST_P(TeamOfMany, OperandsHaveOneBracket) {
  const uint32_t ranks = GetParam();
  run_ranks(World::kThreads, static_cast<int>(ranks),
            [&](TestBootstrap& world) {
              // So many that are always ready to run would keep each other from it.
              const auto wait = engine::WaitPolicy::kPassive;
              EngineRank r = make_rank(world, {.rank_bytes = 32 << 20, .wait = wait});
              ASSERT_NE(r.rank, nullptr);
              const uint32_t self = r.node->self();
              std::vector<uint32_t> members(ranks);
              std::iota(members.begin(), members.end(), 0U);
              const std::unique_ptr<Team> team = r.rank->make_team(11, members, self);
              ASSERT_TRUE(team->ready());
              const Reduction how{8, bend_kernel, nullptr, nullptr, false};
              for (uint32_t call = 0; call < 30; ++call) {
                const auto operand = [call](uint32_t rank) { return std::sin(call * 37.0 + rank); };
                const uint64_t n = std::array{1, 71, 250}[call % 3];
                double expected = bracketed(ranks, n * 8 <= 256 ? 8 : ranks, operand);
                std::vector<double> in(n, operand(self));
                std::vector<double> out(n, -1.0);
                const uint32_t root = call * 5 % ranks;
                if (call % 2 == 0) {
                  ASSERT_EQ(team->allreduce(in.data(), out.data(), n, how), Code::kOk);
                } else {
                  ASSERT_EQ(team->reduce(in.data(), out.data(), n, how, root), Code::kOk);
                  if (self != root) expected = -1.0;
                }
                EXPECT_ALL(n, expected, out);
                if (call % 7 == 0) {
                  ASSERT_EQ(team->barrier(), Code::kOk);
                }
              }
              EXPECT_TRUE(team->grown());
              r.rank->quiesce();
              ASSERT_TRUE(world.barrier().ok());
            },
            {.timeout_s = 240});
}
INSTANTIATE_TEST_SUITE_P(Many, TeamOfMany, ::testing::Values(16U, 193U),
                         [](const auto& ranks) { return "threads_" + std::to_string(ranks.param); });

// Control blocks are used again, so that programs may make and free communicators without end.
TEST(TeamMemory, IsUsedAgain) {
  run_engine(3, {.rank_bytes = 16 << 20}, [](TestBootstrap&, EngineRank& r, uint32_t self) {
    for (uint64_t k = 0; k < 2000; ++k) {
      const std::unique_ptr<Team> team = r.rank->make_team(100 + k, {0, 1, 2}, self);
      ASSERT_TRUE(team->ready());
      uint64_t x = k;
      ASSERT_EQ(team->bcast(bytes(&x, 1), static_cast<uint32_t>(k % 3)), Code::kOk);
    }
  });
}

// While a member waits for the others to be through with its memory, these may be, and have a new team.
TEST(TeamMemory, IsUsedAgainBeforeAllKnowThatItMay) {
  run_engine(3, {}, [](TestBootstrap&, EngineRank& r, uint32_t self) {
    std::vector<std::byte> data(64 << 10);
    for (uint64_t k = 0; k < 300; ++k) {
      const std::unique_ptr<Team> team = r.rank->make_team(100 + k, {0, 1, 2}, self);
      ASSERT_TRUE(team->ready());
      ASSERT_EQ(team->bcast({data.data(), data.size(), nullptr}, static_cast<uint32_t>(k % 3)), Code::kOk);
    }
  });
}

// Without memory for one member, all of them say so.
TEST(TeamMemory, ThatOneLacksNobodyHas) {
  run_engine(3, {.rank_bytes = 16 << 20}, [](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::vector<std::unique_ptr<Team>> teams;
    bool ready = true;
    for (uint64_t k = 0; ready && k < 2000; ++k) {
      teams.push_back(r.rank->make_team(100 + k, {0, 1, 2}, self));
      ready = teams.back()->ready();
    }
    EXPECT_FALSE(ready);
    EXPECT_GT(teams.size(), 20U);
    const auto agreed = static_cast<uint32_t>(teams.size());
    uint32_t all[3] = {};
    ASSERT_TRUE(world.allgather(&agreed, sizeof agreed, all).ok());
    EXPECT_EQ(all[0], all[1]);
    EXPECT_EQ(all[0], all[2]);
    // Nor is there any for a staging area.
    constexpr uint64_t kElements = 50'000;
    const std::vector<uint64_t> in(kElements, self);
    std::vector<uint64_t> out(kElements);
    for (int k = 0; k < 3; ++k) {
      ASSERT_EQ(teams[0]->allreduce(in.data(), out.data(), kElements, kSums), Code::kOk);
      EXPECT_ALL(kElements, 3U, out);
      std::fill(out.begin(), out.end(), 0);
    }
    EXPECT_EQ(stat(*r.rank, "staged_reductions"), 0U);
    teams.clear();
  });
}

// Rings may take the half of the budget that teams share with them; an eighth is the teams' all the same.
TEST(TeamMemory, IsThereAfterRingsHaveGrown) {
  constexpr uint64_t kBytes = 8000;
  constexpr int kMessages = 800;
  run_engine(3, {.cma = false, .rank_bytes = 32 << 20}, [](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::vector<std::byte> data(kBytes);
    std::vector<engine::Request*> sends;
    const auto other = [self](int i) { return (self + 1 + static_cast<uint32_t>(i % 2)) % 3; };
    for (int i = 0; i < 2 * kMessages; ++i) {
      sends.push_back(r.rank->isend(message_to(other(i), self, 0, data.data(), kBytes)));
    }
    ASSERT_TRUE(world.barrier().ok());
    for (int i = 0; i < 2 * kMessages; ++i) {
      ASSERT_EQ(r.rank->recv(message_from(static_cast<int32_t>(other(i)), 0, data.data(), kBytes)).code, Code::kOk);
    }
    finish(*r.rank, sends);
    std::vector<std::unique_ptr<Team>> teams;
    // Teams that grow leave room for others.
    int grown = 0;
    for (uint64_t k = 0; k < 40; ++k) {
      teams.push_back(r.rank->make_team(100 + k, {0, 1, 2}, self));
      ASSERT_TRUE(teams.back()->ready()) << k;
      for (int i = 0; i < 30; ++i) ASSERT_EQ(teams.back()->barrier(), Code::kOk);
      grown += teams.back()->grown() ? 1 : 0;
    }
    EXPECT_GT(grown, 0);
    EXPECT_LT(grown, 40);
    teams.clear();
  });
}

// Ranks that were told to wait in different ways choose the same algorithms.
TEST(TeamWaiting, MayDiffer) {
  run_ranks(World::kThreads, 2, [](TestBootstrap& world) {
    const StormConfig config{.wait = world.rank() == 0 ? engine::WaitPolicy::kAuto : engine::WaitPolicy::kPassive};
    EngineRank r = make_rank(world, config);
    ASSERT_NE(r.rank, nullptr);
    const uint32_t self = r.node->self();
    const std::unique_ptr<Team> team = r.rank->make_team(11, {0, 1}, self);
    ASSERT_TRUE(team->ready());
    std::vector<uint64_t> all(2 * 3000);
    std::iota(all.begin(), all.end(), 0U);
    std::vector<uint64_t> mine(3000);
    for (int k = 0; k < 100; ++k) {
      ASSERT_EQ(team->barrier(), Code::kOk);
      ASSERT_EQ(team->scatter(even(all.data(), 2000), bytes(mine.data(), 2000), 0, true), Code::kOk);
      EXPECT_EQ(mine[0], self * 2000U);
      EXPECT_EQ(mine[1999], self * 2000U + 1999);
    }
    ASSERT_TRUE(world.barrier().ok());
  });
}

// Where ranks take turns on CPUs, whoever gives does not wait for those that take, up to 32 KiB.
TEST(TeamWaiting, IsNotForThoseThatHaveNoCpu) {
  run_engine(3, {.wait = engine::WaitPolicy::kPassive}, [](TestBootstrap& world, EngineRank& r, uint32_t self) {
    const std::unique_ptr<Team> team = r.rank->make_team(11, {0, 1, 2}, self);
    ASSERT_TRUE(team->ready());
    while (!team->grown()) ASSERT_EQ(team->barrier(), Code::kOk);
    constexpr uint64_t kCount = 4096;
    const bool root = team->self() == 0;
    std::vector<uint64_t> mine(kCount, team->self() + 1);
    std::vector<uint64_t> all(3 * kCount);
    const auto bcast = [&] { ASSERT_EQ(team->bcast(bytes(mine.data(), kCount), 0), Code::kOk); };
    const auto gather = [&] {
      ASSERT_EQ(team->gather(bytes(mine.data(), kCount), even(all.data(), kCount), 0, true), Code::kOk);
    };
    if (!root) gather();
    ASSERT_TRUE(world.barrier().ok());
    if (root) {
      gather();
      for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(all[(i + 1) * kCount - 1], i + 1);
      bcast();
    }
    ASSERT_TRUE(world.barrier().ok());
    if (!root) bcast();
    EXPECT_ALL(kCount, 1U, mine);
  });
}

INSTANTIATE_TEST_SUITE_P(All, Teams, ::testing::ValuesIn(cases()), team_case_name);

}  // namespace
}  // namespace zh::test
