// A rank is killed at a random moment, from outside, amid messages or collectives, again and again. The same must hold
// as in crash_test.cpp, which kills at named points. ZH_KILLS says how often (default 20), ZH_SEED begins another
// series; the closing line is for tests/reliability/run.py.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "coll/team/team.h"
#include "survivor.h"

namespace zh::test {
namespace {

enum class Traffic { kMessages, kCollectives };

struct Plan {
  Traffic traffic;
  Case messages;
  uint64_t delay_ns;  ///< from the end of the start to the kill
};

Plan draw(std::mt19937_64& random) {
  const auto one_of = [&](uint64_t n) { return random() % n; };
  constexpr engine::WaitPolicy kWaits[] = {engine::WaitPolicy::kAuto, engine::WaitPolicy::kPassive};
  const auto traffic = one_of(3) == 0 ? Traffic::kCollectives : Traffic::kMessages;
  const bool cma = one_of(2) == 0;
  const bool away = one_of(3) == 0;
  const uint32_t burst = one_of(4) == 0 ? 500 : 0;
  const engine::WaitPolicy wait = kWaits[one_of(2)];
  // Evenly over the orders of magnitude: much of the protocol is to be met in the first milliseconds only.
  const double exponent = std::uniform_real_distribution<>(3.0, 7.7)(random);
  return {traffic, {"a random moment", cma, away, burst, 0, wait}, static_cast<uint64_t>(std::pow(10.0, exponent))};
}

constexpr uint64_t kLongNs = 2'000'000'000;  // shown, not judged

std::string text_of(const Plan& plan, uint64_t seed, uint64_t index) {
  const Case& c = plan.messages;
  return "seed " + std::to_string(seed) + ", kill " + std::to_string(index) + " after " +
         std::to_string(plan.delay_ns) + " ns, " + (plan.traffic == Traffic::kMessages ? "messages" : "collectives") +
         (c.cma ? "" : ", no CMA") + (c.away ? ", away" : "") + (c.burst != 0 ? ", bursts" : "") +
         (c.wait == engine::WaitPolicy::kPassive ? ", passive" : "");
}

/// The kernel kills this process when the time is up, wherever it is.
void die_in(uint64_t ns) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  const itimerspec when{{0, 0}, {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)}};
  ASSERT_EQ(timer_settime(timer, 0, &when, nullptr), 0);
}

void collectives(Rank& rank) {
  const auto team = rank.make_team(5, {0, 1, 2}, rank.node().self());
  if (!team->ready()) return;  // it died while the team was made: such a communicator stays with the host
  const coll::Reduction sum{8, simd::kernel(simd::Op::kSum, simd::Type::kInt64), nullptr, nullptr, true};
  constexpr size_t kElements = 20'000;
  std::vector<int64_t> in(kElements, 1), out(kElements);
  Code code = Code::kOk;
  while (code == Code::kOk) {
    for (const size_t n : {size_t{1}, kElements}) {
      if (code == Code::kOk) code = team->allreduce(in.data(), out.data(), n, sum);
      EXPECT_TRUE(code != Code::kOk || out[n - 1] == kRanks);
    }
    if (code == Code::kOk) code = team->barrier();
  }
  EXPECT_EQ(code, Code::kPeerDead);
  EXPECT_EQ(team->barrier(), Code::kPeerDead);
  expect_whole(rank.node());
}

void live_until_told(TestBootstrap& world, const Plan& plan, uint64_t* death_ns) {
  const Case& c = plan.messages;
  engine::Config config;
  config.cma = c.cma;
  config.single_copy_min = 64 << 10;
  config.copiers = 1;
  config.wait = c.wait;
  std::unique_ptr<node::Node> node;
  std::unique_ptr<Rank> rank;
  ASSERT_TRUE(join(world, config, &node, &rank));
  if (world.rank() == kVictim) {
    *death_ns = os::now_ns() + plan.delay_ns;
    die_in(plan.delay_ns);
  }
  if (plan.traffic == Traffic::kCollectives) {
    collectives(*rank);
    return;
  }
  Survivor me(*rank, c);
  EXPECT_FALSE(me.rounds()) << "the victim lived";
  me.farewell();
}

uint64_t number_of(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

TEST(CrashRandom, PeersEndAndNothingIsLeft) {
  const uint64_t kills = number_of("ZH_KILLS", 20), seed = number_of("ZH_SEED", 1);
  std::mt19937_64 random(seed);
  const auto before = shared_files();
  void* memory = mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* death_ns = static_cast<uint64_t*>(memory);
  uint64_t done = 0, longest_ns = 0;
  for (; done < kills && !HasFailure(); ++done) {
    const Plan plan = draw(random);
    const std::string what = text_of(plan, seed, done);
    SCOPED_TRACE(what);
    run_ranks(World::kProcesses, kRanks, [&](TestBootstrap& world) { live_until_told(world, plan, death_ns); },
              {.timeout_s = 60, .may_die = kVictim});
    const uint64_t took_ns = os::now_ns() - std::min(os::now_ns(), *death_ns);
    if (took_ns > kLongNs) std::printf("long: %.3f s, %s\n", static_cast<double>(took_ns) / 1e9, what.c_str());
    longest_ns = std::max(longest_ns, took_ns);
  }
  EXPECT_EQ(shared_files(), before);
  munmap(memory, sizeof(uint64_t));
  std::printf("%llu kills, the others ended within %.3f s\n", static_cast<unsigned long long>(done),
              static_cast<double>(longest_ns) / 1e9);
}

}  // namespace
}  // namespace zh::test
