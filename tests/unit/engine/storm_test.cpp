// Message storms through engine::Rank: threads and processes, with and without single copy, tiny memory budgets,
// receivers that compute, more ranks than CPUs.
// label more-ranks: StormTest[.].*/threads
#include <gtest/gtest.h>

#include "storm_support.h"

namespace zh::test {
namespace {

class StormTest : public ::testing::TestWithParam<StormConfig> {};

TEST_P(StormTest, EveryMessageArrivesOnceWholeAndInOrder) {
  const StormConfig config = GetParam();
  const uint64_t seed = storm_seed();
  run_ranks(config.world, config.ranks, [&](TestBootstrap& world) { run_storm(world, config, seed); });
}

StormConfig base(const char* name, World world, int ranks) {
  StormConfig c;
  c.name = name;
  c.world = world;
  c.ranks = ranks;
#ifdef ZH_SANITIZE
  c.messages = 80;
#endif
  return c;
}

std::vector<StormConfig> configs() {
  std::vector<StormConfig> all;
  for (const World world : {World::kThreads, World::kProcesses}) {
    all.push_back(base("plain", world, 3));
    all.push_back(base("alone", world, 1));
    StormConfig c = base("no_cma", world, 3);
    c.cma = false;
    all.push_back(c);
    c = base("single_copy_2k", world, 3);
    c.single_copy_min = 2 << 10;
    all.push_back(c);
    c = base("single_copy_2k_away", world, 2);
    c.single_copy_min = 2 << 10;
    c.away_percent = 25;
    c.messages /= 2;
    all.push_back(c);
    c = base("away_no_cma", world, 2);
    c.cma = false;
    c.away_percent = 25;
    c.messages /= 2;
    all.push_back(c);
    c = base("one_mib", world, 3);
    c.rank_bytes = 2 << 20;
    c.messages *= 2;
    all.push_back(c);
    c = base("one_mib_no_cma", world, 3);
    c.rank_bytes = 2 << 20;
    c.cma = false;
    all.push_back(c);
    c = base("two_mib_2k", world, 4);
    c.rank_bytes = 4 << 20;
    c.single_copy_min = 2 << 10;
    all.push_back(c);
    c = base("no_skew", world, 3);
    c.skew = 0;
    all.push_back(c);
    c = base("passive", world, 3);
    c.wait = engine::WaitPolicy::kPassive;
    all.push_back(c);
    c = base("eight", world, 8);
    c.messages /= 2;
    all.push_back(c);
    c.name = "bells_eight";
    c.polled_senders = 2;
    all.push_back(c);
    c = base("bells", world, 3);
    c.polled_senders = 0;
    all.push_back(c);
    c = base("bells_away", world, 3);
    c.polled_senders = 0;
    c.away_percent = 25;
    c.messages /= 2;
    all.push_back(c);
    c = base("bells_one_mib", world, 4);
    c.polled_senders = 0;
    c.rank_bytes = 2 << 20;
    all.push_back(c);
    c = base("mapped", world, 3);
    c.mapped = true;
    all.push_back(c);
    c.name = "mapped_no_cma";
    c.cma = false;
    all.push_back(c);
    c = base("mapped_forks", world, 3);
    c.mapped = c.forks = true;
    c.away_percent = 10;
    all.push_back(c);
    c.name = "mapped_forks_no_cma";
    c.cma = false;
    all.push_back(c);
    c = base("mutex", world, 3);
    c.threads = true;
    all.push_back(c);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, StormTest, ::testing::ValuesIn(configs()), [](const auto& instance) {
  return std::string(to_string(instance.param.world)) + "_" + instance.param.name;
});

}  // namespace
}  // namespace zh::test
