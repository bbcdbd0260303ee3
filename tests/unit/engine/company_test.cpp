// Ranks that have one CPU though there are enough notice it, and offer it to each other at once.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "os/affinity.h"
#include "team_support.h"

namespace zh::test {
namespace {

constexpr int kRounds = 200;

engine::Result exchange_in_company(engine::Rank& rank, uint32_t self, bool any) {
  std::byte out{1};
  std::byte in{};
  const engine::SendArgs send = to_other(1 - self, 0, &out, 1);
  const engine::RecvArgs recv = message_from(any ? p2p::kAnySource : static_cast<int32_t>(1 - self), 0, &in, 1);
  if (self == 0) rank.send(send);
  const engine::Result result = rank.recv(recv);
  if (self == 1) rank.send(send);
  return result;
}

struct CompanyCase {
  World world;
  bool any;  ///< receives from any rank
};

/// One of the two at least has found the other on its CPU.
void expect_noticed(TestBootstrap& world, const engine::Rank& rank) {
  uint64_t found[2];
  const uint64_t mine = stat(rank, "shared_cpu");
  ASSERT_TRUE(world.allgather(&mine, sizeof mine, found).ok());
  EXPECT_GT(found[0] + found[1], 0U);
}

class Company : public ::testing::TestWithParam<CompanyCase> {};

// What was found while the ranks share a CPU, and then while each has its own.
TEST_P(Company, IsNoticedAndForgotten) {
  if (os::allowed_cpus().count() < 2) GTEST_SKIP() << "needs two CPUs";
  run_engine(2, config_in(GetParam().world), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    const os::CpuSet before = os::allowed_cpus();
    stay_on(0);
    for (int i = 0; i < kRounds; ++i) ASSERT_EQ(exchange_in_company(*r.rank, self, GetParam().any).code, Code::kOk);
    expect_noticed(world, *r.rank);
    ASSERT_EQ(os::bind_to(before), 0);
    stay_on(self);
    // Long waits, so that both say where they are now.
    for (int i = 0; i < kRounds; ++i) {
      if (i % 2 == static_cast<int>(self)) compute(100'000);
      ASSERT_EQ(exchange_in_company(*r.rank, self, GetParam().any).code, Code::kOk);
    }
    const uint64_t settled = stat(*r.rank, "shared_cpu");
    for (int i = 0; i < kRounds; ++i) {
      if (i % 2 == static_cast<int>(self)) compute(100'000);
      ASSERT_EQ(exchange_in_company(*r.rank, self, GetParam().any).code, Code::kOk);
    }
    EXPECT_EQ(stat(*r.rank, "shared_cpu"), settled);
  });
}

// The flags of a team's collectives are waited for in the same way.
TEST_P(Company, IsNoticedInCollectives) {
  if (os::allowed_cpus().count() < 2) GTEST_SKIP() << "needs two CPUs";
  run_engine(2, config_in(GetParam().world), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    const std::unique_ptr<Team> team = r.rank->make_team(11, {0, 1}, self);
    ASSERT_TRUE(team->ready());
    stay_on(0);
    for (int i = 0; i < kRounds; ++i) ASSERT_EQ(team->barrier(), Code::kOk);
    expect_noticed(world, *r.rank);
  });
}

INSTANTIATE_TEST_SUITE_P(All, Company,
                         ::testing::Values(CompanyCase{World::kProcesses, false}, CompanyCase{World::kProcesses, true},
                                           CompanyCase{World::kThreads, false}, CompanyCase{World::kThreads, true}));

}  // namespace
}  // namespace zh::test
