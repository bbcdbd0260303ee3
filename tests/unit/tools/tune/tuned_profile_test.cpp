// What `zerohop tune --json` writes of a measured machine: which distance stands for which level, what is kept beside.
#include "tools/tune/tuned_profile.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/profiles.h"
#include "tools/model/profile.h"

namespace zh::tools {
namespace {

using model::CommLevel;
using node::Level;

/// Costs of one message of 1 KiB: `us` overhead, twice that as latency at a stride of 8.
MessageCosts costs(double us, int launches = 8, const std::string& placement = "far") {
  MessageCosts c;
  c.placement = launches > 0 ? placement : "";
  c.launches = launches;
  c.line_us = placement == "several" ? 0 : 0.2;
  if (launches == 0) return c;
  c.costs.push_back({1024, 0, {us, us, 1.1 * us, 0.96, launches, true}});
  c.costs.push_back({1024, 8, {2 * us, us, 3 * us, 0.96, launches, true}});
  c.busy.push_back({1024, 0, {us / 4, us / 4, us / 2, 0.96, launches, true}});
  c.gaps.push_back({1024, 0, {us / 3, us / 3, us / 3, 0.96, launches, true}});
  return c;
}

/// Two sockets of two chiplets.
MachineMeasured two_sockets() {
  MachineMeasured m;
  m.pairs = {{{Level::kSameCore, 0, 1}, costs(1)},
             {{Level::kSharedL3, 0, 2}, costs(2)},
             {{Level::kSameNuma, 0, 4}, costs(3)},
             {{Level::kOtherSocket, 0, 8}, costs(4)}};
  m.levels = {Level::kSharedL3, Level::kOtherSocket, 2};
  m.host = "mpich";
  m.date = "2026-01-31";
  return m;
}

model::Parameters profile_of(const MachineMeasured& m) {
  model::Parameters p = parameters_of(m, model::built_in_profiles().front());
  EXPECT_EQ(p.fault(), "");
  std::string problem;
  EXPECT_EQ(profile_from(profile_json(p), &problem), p) << problem;
  return p;
}

double overhead(const model::Parameters& p, CommLevel level) { return p.at(level).overhead.us_at(1024); }

TEST(TunedProfile, EachDistanceIsALevelOfTheModelsOrKeptBeside) {
  MachineMeasured m = two_sockets();
  m.processors = 16;
  const model::Parameters p = profile_of(m);
  EXPECT_EQ(p.processors_per_node, 16U);
  EXPECT_DOUBLE_EQ(overhead(p, CommLevel::kIntraChip), 2);
  EXPECT_DOUBLE_EQ(overhead(p, CommLevel::kInterChip), 4);
  EXPECT_EQ(p.at(CommLevel::kInterNode), model::built_in_profiles().front().at(CommLevel::kInterNode));
  EXPECT_EQ(p.chips_per_node, 2U);
  ASSERT_EQ(p.facts.levels.size(), 4U);
  EXPECT_EQ(p.facts.levels[0].level, "same-core");
  EXPECT_EQ(p.facts.levels[0].stands_for, "");
  EXPECT_DOUBLE_EQ(p.facts.levels[0].costs.overhead.us_at(1024), 1);
  EXPECT_EQ(p.facts.levels[1].stands_for, "intra-cmp");
  EXPECT_EQ(p.facts.levels[1].processors, (std::vector<uint32_t>{0, 2}));
  EXPECT_TRUE(p.facts.levels[1].costs.overhead.empty()) << "they are in levels.intra-cmp";
  EXPECT_DOUBLE_EQ(p.facts.levels[2].costs.latency.us_at(1024, 8), 6);
  EXPECT_EQ(p.facts.levels[3].stands_for, "inter-cmp");
  EXPECT_EQ(p.facts.levels[1].noisy, std::vector<std::string>{"1K8S"});
  EXPECT_NE(p.sources[1].find("inter-cmp: processors 0 and 8 (other-socket), measured 2026-01-31"), std::string::npos);
}

TEST(TunedProfile, ADistanceWithoutLaunchesIsSaidToBeUnknown) {
  MachineMeasured m = two_sockets();
  m.pairs[3].costs = costs(4, 0);
  m.pairs[0].costs = costs(1, 0);
  const model::Parameters p = profile_of(m);
  EXPECT_FALSE(p.has_inter_chip);
  EXPECT_EQ(p.chips_per_node, 1U) << "chips of which nothing is known are none";
  EXPECT_EQ(p.facts.levels.size(), 2U);
  EXPECT_EQ(p.sources[1], "inter-cmp: not measured, as on one chip");
  EXPECT_NE(p.sources[4].find("processors 0 and 1 (same-core): not measured"), std::string::npos);
}

TEST(TunedProfile, AMachineOfOneDistance) {
  MachineMeasured m = two_sockets();
  m.pairs = {{{Level::kSameNuma, 0, 1}, costs(2)}};
  m.levels = {Level::kSameNuma, {}, 1};
  const model::Parameters p = profile_of(m);
  EXPECT_FALSE(p.has_inter_chip);
  EXPECT_EQ(p.sources[1], "inter-cmp: not measured, the machine has no such distance; as on one chip");
  EXPECT_EQ(p.facts.levels.size(), 1U);
}

TEST(TunedProfile, BetweenNodesTheRestIsTheNetwork) {
  MachineMeasured m = two_sockets();
  m.between = NodesMeasured{"two machines", costs(12, 8, "several"), {}};
  model::Parameters p = profile_of(m);
  EXPECT_DOUBLE_EQ(overhead(p, CommLevel::kInterNode), 3) << "not the 2 of a node";
  EXPECT_DOUBLE_EQ(p.at(CommLevel::kInterNode).network.us_at(1024), 2 * 12 - 2 * 3);
  EXPECT_DOUBLE_EQ(p.at(CommLevel::kInterNode).gap.us_at(1024), 4);
  EXPECT_TRUE(p.at(CommLevel::kInterNode).link.empty());
  EXPECT_EQ(p.facts.levels.back().noisy, (std::vector<std::string>{"1K8S", "1K overhead"}));
  EXPECT_EQ(p.facts.levels.back().level, "other-node");
  EXPECT_EQ(p.facts.levels.back().stands_for, "inter-node");
  EXPECT_TRUE(p.facts.levels.back().processors.empty());
  EXPECT_NE(p.sources[2].find("inter-node: two machines; overhead and gap by parameterized round trips, link not "
                              "measured; measured 2026-01-31"),
            std::string::npos);
  EXPECT_EQ(p.sources[2].find("cache line"), std::string::npos) << "none goes between nodes";
  m.between->two_pairs = costs(15, 8, "several");
  p = profile_of(m);
  EXPECT_DOUBLE_EQ(p.at(CommLevel::kInterNode).link.us_at(1024), 1);
  EXPECT_NE(p.sources[2].find("link by two pairs at once"), std::string::npos);
}

TEST(TunedProfile, CachesThatNobodyKnowsAreLeftOut) {
  const std::array<tune::CacheFound, tune::kCaches> found = {{{32 << 10, false, false}, {}, {64 << 20, true, true}}};
  const std::vector<model::CacheSize> caches = cache_sizes(found, {32 << 10, 1 << 20, 0});
  ASSERT_EQ(caches.size(), 3U);
  EXPECT_EQ(caches[1], (model::CacheSize{"L2", 1 << 20, 0, false, false}));
  EXPECT_EQ(caches[2], (model::CacheSize{"last-level", 0, 64 << 20, true, true}));
  EXPECT_TRUE(cache_sizes({}, {}).empty());
}

TEST(TunedProfile, OnlyCurvesInForceGiveThresholds) {
  tune::Profile profile;
  profile.n_classes = 2;
  for (uint32_t i = 0; i < 2; ++i) {
    tune::DistanceClass& c = profile.classes[i];
    c.level = static_cast<int32_t>(i == 0 ? Level::kSharedL3 : Level::kSameCore);
    c.jobs = i == 0 ? tune::kConfirmed : 1;
    for (const uint64_t bytes : {1U << 10, 1U << 20}) {
      c.cells.add(bytes, 1, 0);
      c.cells_nt.add(bytes, 0.5F, 0);
      c.mapped_one.add(bytes, 1, 0);
      c.mapped_both.add(bytes, 2, 0);
    }
  }
  const std::vector<model::CopyThresholds> copies = copy_thresholds(profile);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0], (model::CopyThresholds{"shared-l3", 1 << 10, std::nullopt, model::kNeverWins}));
}

}  // namespace
}  // namespace zh::tools
