// A wait that has fallen asleep is ended by what it waits for, not only by its time limit: a message, a transfer's end,
// a flag of each collective, whichever thread of the rank sleeps.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <span>
#include <thread>
#include <vector>

#include "os/affinity.h"
#include "os/clock.h"
#include "team_support.h"

namespace zh::test {
namespace {

constexpr int kMostSleeps = 4000;  // a wake-up may find the sleeper between two sleeps, above all beside other work
constexpr uint64_t kLate = 4'000'000;

using Task = void (*)(Team& team, std::vector<uint64_t>& a, std::vector<uint64_t>& b);

struct SleepCase {
  const char* name;
  World world;
  Task task;
};
std::string sleep_case_name(const ::testing::TestParamInfo<SleepCase>& info) {
  return std::string(to_string(info.param.world)) + "_" + info.param.name;
}

void barrier(Team& team, std::vector<uint64_t>&, std::vector<uint64_t>&) { ASSERT_EQ(team.barrier(), Code::kOk); }
void bcast(Team& team, std::vector<uint64_t>& a, std::vector<uint64_t>&) {
  ASSERT_EQ(team.bcast(bytes(a.data(), 1), 0), Code::kOk);
}
void large_bcast(Team& team, std::vector<uint64_t>& a, std::vector<uint64_t>&) {
  ASSERT_EQ(team.bcast(bytes(a.data(), a.size()), 0), Code::kOk);
}
void gather(Team& team, std::vector<uint64_t>& a, std::vector<uint64_t>& b) {
  ASSERT_EQ(team.gather(bytes(a.data(), 1), even(b.data(), 1), 1, true), Code::kOk);
}
void allreduce(Team& team, std::vector<uint64_t>& a, std::vector<uint64_t>& b) {
  ASSERT_EQ(team.allreduce(a.data(), b.data(), 1, kSums), Code::kOk);
}
void large_allreduce(Team& team, std::vector<uint64_t>& a, std::vector<uint64_t>& b) {
  ASSERT_EQ(team.allreduce(a.data(), b.data(), b.size(), kSums), Code::kOk);
}

class Sleep : public ::testing::TestWithParam<SleepCase> {};

// Rank 0 comes late, when rank 1 sleeps.
TEST_P(Sleep, IsEndedByTheTeam) {
  const SleepCase c = GetParam();
  const StormConfig config{.world = c.world, .wait = engine::WaitPolicy::kPassive};
  run_engine(2, config, [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    // On one CPU the sleeper, when its time is over, waits for the other's computation to end, and never sleeps then.
    if (os::allowed_cpus().count() > 1) stay_on(self);
    const std::unique_ptr<Team> team = r.rank->make_team(11, {0, 1}, self);
    ASSERT_TRUE(team->ready());
    std::vector<uint64_t> a(40'000, 1);
    std::vector<uint64_t> b(40'000);
    uint64_t woken[2] = {0, 0};
    for (int round = 0; round < kMostSleeps && woken[1] == 0; ++round) {
      const uint64_t before = stat(*r.rank, "woken");
      if (world.rank() == 0) compute(kLate);
      c.task(*team, a, b);
      const uint64_t mine = stat(*r.rank, "woken") - before;
      ASSERT_TRUE(world.allgather(&mine, sizeof mine, woken).ok());
    }
    EXPECT_GT(woken[1], 0U);
  });
}

std::vector<SleepCase> sleep_cases() {
  std::vector<SleepCase> cases;
  for (const World world : {World::kThreads, World::kProcesses}) {
    cases.insert(cases.end(), {{"barrier", world, barrier},
                               {"bcast", world, bcast},
                               {"large_bcast", world, large_bcast},
                               {"gather", world, gather},
                               {"allreduce", world, allreduce},
                               {"large_allreduce", world, large_allreduce}});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, Sleep, ::testing::ValuesIn(sleep_cases()), sleep_case_name);

// Two threads of rank 1 sleep, each for a message of its own: the message of either wakes its receiver.
TEST(SleepOfThreads, IsEndedByEithersMessage) {
  const StormConfig config{.world = World::kProcesses, .wait = engine::WaitPolicy::kPassive, .threads = true};
  run_engine(2, config, [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    if (os::allowed_cpus().count() > 1) stay_on(self);
    uint64_t woken[2] = {0, 0};
    for (int round = 0; round < kMostSleeps && woken[1] < 2; ++round) {
      const uint64_t before = stat(*r.rank, "woken");
      if (world.rank() == 0) {
        for (const int tag : {round % 2, 1 - round % 2}) {
          compute(kLate);
          finish(*r.rank, r.rank->isend(to_other(1, tag, nullptr, 0)));
        }
      } else {
        const auto receive = [&](int tag) { finish(*r.rank, r.rank->irecv(message_from(0, tag, nullptr, 0))); };
        std::thread other(receive, 0);
        receive(1);
        other.join();
      }
      const uint64_t mine = stat(*r.rank, "woken") - before;
      ASSERT_TRUE(world.allgather(&mine, sizeof mine, woken).ok());
    }
    EXPECT_GE(woken[1], 2U);
  });
}

// A wait of half a second ends its sleeps by itself at less than every other millisecond.
TEST(LongSleep, LooksTheMoreRarelyTheLongerItLasts) {
  const StormConfig config{.world = World::kProcesses, .wait = engine::WaitPolicy::kPassive};
  run_engine(2, config, [&](TestBootstrap& world, EngineRank& r, uint32_t) {
    if (world.rank() == 1) {
      const uint64_t begin = os::now_ns();
      r.rank->wait_until([&] { return os::now_ns() - begin > 512'000'000; });
      EXPECT_GT(stat(*r.rank, "slept"), 0U);
      EXPECT_LT(stat(*r.rank, "slept"), (os::now_ns() - begin) / 2'000'000);
    }
  });
}

// After a quarter of a second the host has something to move in many turns, for which no sleep of 4 ms waits. There are
// three turns at most from one sleep to the next. Other work may delay most of them, not all of twenty seconds.
TEST(LongSleep, IsShortWhileTheHostMoves) {
  run_engine(2, config_in(World::kProcesses), [&](TestBootstrap& world, EngineRank& r, uint32_t) {
    if (world.rank() == 0) return;
    std::vector<uint64_t> turns;
    uint64_t quickest = ~uint64_t{0};
    const uint64_t begin = os::now_ns();
    const auto over = [&] { return quickest <= 2'000'000 || os::now_ns() - begin > 20'000'000'000; };
    r.rank->set_host_progress([&] {
      if (os::now_ns() - begin < 256'000'000 || over()) return;
      turns.push_back(os::now_ns());
      if (turns.size() > 4) quickest = std::min(quickest, turns.back() - turns[turns.size() - 5]);
      compute(100'000);
    });
    r.rank->wait_until(over);
    EXPECT_LE(quickest, 2'000'000U);
  });
}

// Its owner has left a send behind, and then waits: the helper need not look every half millisecond.
TEST(HelperThread, RestsWhileItsOwnerWaits) {
  StormConfig config = config_in(World::kProcesses, false);
  config.wait = engine::WaitPolicy::kSpin;  // the owner itself gives its CPU to nobody
  run_engine(2, config, [&](TestBootstrap& world, EngineRank& r, uint32_t) {
    std::vector<std::byte> data(3 << 20);
    if (world.rank() == 0) {
      engine::Request* request = r.rank->isend(to_other(1, 0, data.data(), data.size()));
      EXPECT_EQ(stat(*r.rank, "helper_started"), 1U);
      rusage before{};
      getrusage(RUSAGE_SELF, &before);
      const uint64_t begin = os::now_ns();
      r.rank->wait_until([&] { return os::now_ns() - begin > 200'000'000; });
      rusage after{};
      getrusage(RUSAGE_SELF, &after);
      EXPECT_LT(static_cast<uint64_t>(after.ru_nvcsw - before.ru_nvcsw), (os::now_ns() - begin) / 2'000'000);
      ASSERT_TRUE(world.barrier().ok());
      finish(*r.rank, request);
    } else {
      ASSERT_TRUE(world.barrier().ok());
      finish(*r.rank, r.rank->irecv(message_from(0, 0, data.data(), data.size())));
    }
  });
}

}  // namespace
}  // namespace zh::test
