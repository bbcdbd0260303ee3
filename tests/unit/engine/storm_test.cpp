// Message storms through engine::Rank: threads and processes, with and without single copy, tiny memory budgets,
// receivers that compute, more ranks than CPUs.
// label more-ranks: StormTest[.].*/threads
#include <gtest/gtest.h>

#include "storm_support.h"

namespace zh::test {
namespace {

class StormTest : public ::testing::TestWithParam<StormConfig> {};

TEST_P(StormTest, EveryMessageArrivesOnceWholeAndInOrder) {
  StormConfig config = GetParam();
  FakeModules modules;
  if (config.module_use == node::ModuleUse::kFirst) config.modules = &modules;
  const uint64_t seed = storm_seed();
  run_ranks(config.world, config.ranks, [&](TestBootstrap& world) { run_storm(world, config, seed); });
}

std::vector<StormConfig> configs() {
  const uint32_t many = StormConfig().messages;
  constexpr uint64_t kMiB = 1 << 20;
  std::vector<StormConfig> all = {
      {.name = "plain"},
      {.name = "alone", .ranks = 1},
      {.name = "no_cma", .cma = false},
      {.name = "single_copy_2k", .single_copy_min = 2 << 10},
      {.name = "single_copy_2k_away", .ranks = 2, .messages = many / 2, .single_copy_min = 2 << 10, .away_percent = 25},
      {.name = "away_no_cma", .ranks = 2, .messages = many / 2, .cma = false, .away_percent = 25},
      {.name = "one_mib", .messages = many * 2, .rank_bytes = 2 * kMiB},
      {.name = "one_mib_no_cma", .cma = false, .rank_bytes = 2 * kMiB},
      {.name = "two_mib_2k", .ranks = 4, .single_copy_min = 2 << 10, .rank_bytes = 4 * kMiB},
      {.name = "no_skew", .skew = 0},
      {.name = "copier_receive", .single_copy_min = 2 << 10, .ablations = {p2p::Copier::kReceive}},
      {.name = "copier_wait", .single_copy_min = 2 << 10, .ablations = {p2p::Copier::kWait}, .mapped = true},
      {.name = "copier_later", .single_copy_min = 2 << 10, .ablations = {p2p::Copier::kLater}, .mapped = true},
      {.name = "copier_later_no_cma", .cma = false, .ablations = {p2p::Copier::kLater}, .mapped = true},
      {.name = "one_lock", .messages = many / 2, .ablations = {.coarse_lock = true}, .away_percent = 25},
      {.name = "passive", .wait = engine::WaitPolicy::kPassive},
      {.name = "eight", .ranks = 8, .messages = many / 2},
      {.name = "bells_eight", .ranks = 8, .messages = many / 2, .polled_senders = 2},
      {.name = "bells", .polled_senders = 0},
      {.name = "bells_away", .messages = many / 2, .polled_senders = 0, .away_percent = 25},
      {.name = "bells_one_mib", .ranks = 4, .rank_bytes = 2 * kMiB, .polled_senders = 0},
      {.name = "mapped", .mapped = true},
      {.name = "mapped_no_cma", .cma = false, .mapped = true},
      {.name = "mapped_forks", .away_percent = 10, .mapped = true, .forks = true},
      {.name = "mapped_forks_no_cma", .cma = false, .away_percent = 10, .mapped = true, .forks = true},
      {.name = "mutex", .threads = true},
  };
  const size_t n = all.size();
  for (size_t i = 0; i < n; ++i) {
    all.push_back(all[i]);
    all.back().world = World::kProcesses;
  }
  StormConfig module{.name = "module_2k", .single_copy_min = 2 << 10, .away_percent = 10};
  module.module_use = node::ModuleUse::kFirst;
  all.push_back(module);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, StormTest, ::testing::ValuesIn(configs()), [](const auto& instance) {
  return std::string(to_string(instance.param.world)) + "_" + instance.param.name;
});

}  // namespace
}  // namespace zh::test
