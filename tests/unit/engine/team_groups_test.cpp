// Small reductions in groups: as many ranks as large nodes have, one bracket of operands on all of them and every time,
// members that refuse, and ranks that die. What every other team must do, teams in groups do in team_test.cpp and
// team_lengths_test.cpp.
// label more-ranks: TeamGroups[.].*/threads
// label most-ranks: TeamGroups[.].*/threads_(64|193)_
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "team_support.h"

namespace zh::test {
namespace {

struct GroupsCase {
  World world;
  uint32_t ranks;
  uint32_t group;
};

std::string groups_case_name(const ::testing::TestParamInfo<GroupsCase>& info) {
  return std::string(to_string(info.param.world)) + "_" + std::to_string(info.param.ranks) + "_in_groups_of_" +
         std::to_string(info.param.group);
}

/// Neither associative nor commutative, in every bit.
double bend(double left, double right) { return left * 1.0625 + 1.0 / (3.0 + right * right); }
void bend_kernel(const void* left, const void* right, void* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const double x = bend(static_cast<const double*>(left)[i], static_cast<const double*>(right)[i]);
    std::memcpy(static_cast<double*>(out) + i, &x, sizeof x);
  }
}
void bend_user(void*, void* in, void* inout, uint64_t n) {
  auto* const b = static_cast<double*>(inout);
  for (uint64_t i = 0; i < n; ++i) b[i] = bend(static_cast<const double*>(in)[i], b[i]);
}
const Reduction kBend{8, bend_kernel, nullptr, nullptr, false};
const Reduction kUserBend{8, nullptr, bend_user, nullptr, false};
const Reduction kSum{8, sum_kernel, nullptr, nullptr, true};

double operand(uint32_t call, uint32_t r) { return std::sin(call * 37.0 + r); }

/// From the right, in rank order: in each group, and then of groups.
double bent(uint32_t call, const GroupsCase& c) {
  std::vector<double> partial;
  for (uint32_t first = 0; first < c.ranks; first += c.group) {
    uint32_t r = std::min(first + c.group, c.ranks) - 1;
    double x = operand(call, r);
    while (r-- > first) x = bend(operand(call, r), x);
    partial.push_back(x);
  }
  double x = partial.back();
  for (size_t i = partial.size() - 1; i-- > 0;) x = bend(partial[i], x);
  return x;
}

class TeamGroups : public ::testing::TestWithParam<GroupsCase> {
 protected:
  struct Member {
    Team& team;
    uint32_t self;
    uint32_t size;
  };
  static void run(const std::function<void(Member&)>& body) {
    const GroupsCase c = GetParam();
    run_ranks(c.world, static_cast<int>(c.ranks),
              [&](TestBootstrap& world) {
                StormConfig config;
                config.world = c.world;
                config.ranks = static_cast<int>(c.ranks);
                config.rank_bytes = 32 << 20;
                config.group_members = c.group;
                // So many that are always ready to run would keep each other from it.
                if (c.ranks > 16) config.wait = engine::WaitPolicy::kPassive;
                if (c.ranks == 4) config.wait = engine::WaitPolicy::kSpin;
                EngineRank r = make_rank(world, config);
                ASSERT_NE(r.rank, nullptr);
                {
                  std::vector<uint32_t> members(c.ranks);
                  std::iota(members.begin(), members.end(), 0U);
                  const std::unique_ptr<Team> team = r.rank->make_team(11, members, r.node->self());
                  ASSERT_TRUE(team->ready());
                  Member m{*team, r.node->self(), c.ranks};
                  body(m);
                  ASSERT_TRUE(world.barrier().ok());
                }
                r.rank->quiesce();
                ASSERT_TRUE(world.barrier().ok());
              },
              {.timeout_s = 240});
  }
};

// Reductions to roots at all places of a group, one after the other, before and after control blocks grow.
TEST_P(TeamGroups, OperandsHaveOneBracket) {
  run([](Member& m) {
    const GroupsCase c = GetParam();
    uint64_t noise = m.self + 1;
    for (uint32_t call = 0; call < 40; ++call) {
      const Reduction& how = call % 2 == 0 ? kBend : kUserBend;
      const uint64_t n = std::array{1, 3, 71, 250}[call / 2 % 4];
      std::vector<double> in(n, operand(call, m.self));
      std::vector<double> out(n, -1.0);
      const double expected = bent(call, c);
      const uint32_t root = call * 5 % m.size;
      switch (call % 5) {
        case 0:
          ASSERT_EQ(m.team.reduce(in.data(), out.data(), n, how, root), Code::kOk);
          EXPECT_ALL(n, m.self == root ? expected : -1.0, out);
          break;
        case 1:  // in place
          ASSERT_EQ(m.team.reduce(in.data(), in.data(), n, how, root), Code::kOk);
          EXPECT_ALL(n, m.self == root ? expected : operand(call, m.self), in);
          break;
        case 2:
          ASSERT_EQ(m.team.allreduce(in.data(), in.data(), n, how), Code::kOk);
          EXPECT_ALL(n, expected, in);
          break;
        case 3:
          ASSERT_EQ(m.team.barrier(), Code::kOk);
          break;
        default:
          ASSERT_EQ(m.team.allreduce(in.data(), out.data(), n, how), Code::kOk);
          EXPECT_ALL(n, expected, out);
      }
      noise = noise * 6364136223846793005ULL + 1442695040888963407ULL;
      if (noise >> 60 == 0) compute(20'000);
    }
    EXPECT_TRUE(m.team.grown());
  });
}

// Nobody leaves a barrier before all are in it.
TEST_P(TeamGroups, ABarrierHoldsEverybody) {
  static Atomic<uint32_t>* inside = nullptr;
  Atomic<uint32_t> of_threads{0};
  if (GetParam().world != World::kThreads) GTEST_SKIP() << "counts in this process";
  inside = &of_threads;
  run([](Member& m) {
    for (uint32_t k = 1; k <= 10; ++k) {
      if (m.self == k % m.size) compute(200'000);
      inside->fetch_add_acq_rel(1);  // T0 -> T0: nothing but the number
      ASSERT_EQ(m.team.barrier(), Code::kOk);
      ASSERT_GE(inside->load_acquire(), k * m.size);  // T0 <- T0
    }
  });
}

// Each place of a group, once, and everybody at once; then twice in turn, so that who leaves first may be ahead.
TEST_P(TeamGroups, AMemberThatRefuses) {
  run([](Member& m) {
    const uint32_t group = GetParam().group;
    const auto call = [&](uint64_t n, bool refuses, bool somebody) {
      std::vector<uint64_t> in(n, m.self + 1);
      std::vector<uint64_t> out(n, 0);
      if (refuses) return m.team.refuse(true);
      const Code code = m.team.allreduce(in.data(), out.data(), n, kSum);
      ASSERT_EQ(code, somebody ? Code::kInvalid : Code::kOk);
      if (!somebody) EXPECT_ALL(n, uint64_t{m.size} * (m.size + 1) / 2, out);
    };
    for (const uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{250}, uint64_t{5'000}}) {
      for (const uint32_t victim : {0U, 1U, group, m.size - 1}) {
        if (m.self == (victim + 1) % m.size) compute(100'000);
        for (int again = 0; again < 2; ++again) call(n, m.self == victim, true);
        call(n, m.self != victim, true);
        call(n, false, false);
      }
      call(n, true, true);
      call(n, true, true);
      call(n, false, false);
      ASSERT_EQ(m.team.barrier(), Code::kOk);
    }
  });
}

// One member's vector is large, and reduced in another way: all learn it.
TEST_P(TeamGroups, LengthsThatDisagree) {
  run([](Member& m) {
    const uint32_t group = GetParam().group;
    for (const uint64_t odd : {uint64_t{2}, uint64_t{20'000}}) {
      for (const uint32_t victim : {0U, 1U, group, m.size - 1}) {
        for (const bool longer : {true, false}) {
          const uint64_t n = (m.self == victim) == longer ? odd : 1;
          const std::vector<uint64_t> in(n, 1);
          std::vector<uint64_t> out(n + 1, 7);
          const Code wrong = n == 1 ? Code::kTruncated : Code::kInvalid;
          EXPECT_EQ(m.team.allreduce(in.data(), out.data(), n, kSum), wrong);
          EXPECT_EQ(out[n], 7U);
          const Code reduced = m.team.reduce(in.data(), out.data(), n, kSum, m.size / 2);
          EXPECT_EQ(reduced, m.self == m.size / 2 ? wrong : reduced);
          uint64_t sum = 0;
          const uint64_t one = 1;
          ASSERT_EQ(m.team.allreduce(&one, &sum, 1, kSum), Code::kOk);
          ASSERT_EQ(sum, m.size);
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Many, TeamGroups,
                         ::testing::Values(GroupsCase{World::kThreads, 4, 2}, GroupsCase{World::kThreads, 7, 3},
                                           GroupsCase{World::kProcesses, 9, 4}, GroupsCase{World::kThreads, 16, 4},
                                           GroupsCase{World::kThreads, 64, 8}, GroupsCase{World::kThreads, 193, 16}),
                         groups_case_name);

}  // namespace
}  // namespace zh::test
