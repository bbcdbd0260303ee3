// What `zerohop tune --json` makes of launches: which of them count, how times are split, what is noisy, and that the
// result is a profile.
#include "tools/tune/message_costs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/profiles.h"
#include "tools/model/profile.h"

namespace zh::tools {
namespace {

using nlohmann::json;

json message(uint64_t size, uint64_t stride, double us) {
  // One block that was disturbed.
  return {{"bench", "strided"},
          {"size", size},
          {"stride", stride},
          {"metrics", {{"time_us", {{us, 50 * us, us, us, us}}}}}};
}

/// How long the sender of a message is busy, and how soon the next one follows.
json trips(uint64_t size, double overhead, double gap) {
  return {{"bench", "prtt"},
          {"size", size},
          {"metrics", {{"overhead_us", {{overhead, overhead, 90 * overhead}}}, {"gap_us", {{gap, gap, gap}}}}}};
}

LaunchRecord cost_launch(const std::string& placement, const json& cases) {
  LaunchRecord record;
  record.document = {{"placement", placement}, {"line_us", {{"before", 0.05}, {"after", 0.07}}}, {"cases", cases}};
  return record;
}

const MessageCost* find_cost(const MessageCosts& costs, uint64_t bytes, uint64_t stride) {
  for (const MessageCost& cost : costs.costs)
    if (cost.bytes == bytes && cost.stride == stride) return &cost;
  return nullptr;
}

TEST(MessageCosts, ATimeIsTwoEndsAndAStrideIsWhatItAddsInTheSameLaunch) {
  std::vector<LaunchRecord> launches;
  for (int i = 0; i < 8; ++i) {
    const double drift = 10.0 * i;  // the machine gets slower: only a launch's own difference stays the same
    launches.push_back(cost_launch("near", {message(4096, 0, 2 + drift), message(4096, 8, 5 + drift)}));
  }
  const MessageCosts costs = message_costs_of(launches);
  EXPECT_EQ(costs.placement, "near");
  EXPECT_EQ(costs.launches, 8);
  EXPECT_DOUBLE_EQ(costs.line_us, 0.06);
  ASSERT_EQ(costs.costs.size(), 2U);
  EXPECT_DOUBLE_EQ(find_cost(costs, 4096, 0)->us.mid, (2 + 35) / 2.0);
  EXPECT_DOUBLE_EQ(find_cost(costs, 4096, 8)->us.mid, 1.5);
  EXPECT_TRUE(find_cost(costs, 4096, 0)->noisy());
  EXPECT_FALSE(find_cost(costs, 4096, 8)->noisy());
}

TEST(MessageCosts, OnlyThePlacementThatMostLaunchesHadCounts) {
  const json cases = json::array({message(1024, 0, 4)});
  const std::vector<LaunchRecord> launches = {
      cost_launch("far", json::array({message(1024, 0, 9)})), cost_launch("near", cases),
      cost_launch("none", json::array({message(1024, 0, 1)})), cost_launch("near", cases)};
  const MessageCosts costs = message_costs_of(launches);
  EXPECT_EQ(costs.placement, "near");
  EXPECT_EQ(costs.launches, 2);
  EXPECT_EQ(costs.left_out, 2);
  EXPECT_DOUBLE_EQ(find_cost(costs, 1024, 0)->us.mid, 2);
  EXPECT_TRUE(find_cost(costs, 1024, 0)->noisy()) << "two launches show no spread";
}

TEST(MessageCosts, LaunchesOnSeveralMachinesHaveNoLine) {
  const std::vector<LaunchRecord> launches(6, cost_launch("several", json::array({message(1024, 0, 40)})));
  const MessageCosts costs = message_costs_of(launches);
  EXPECT_EQ(costs.placement, "several");
  EXPECT_EQ(costs.launches, 6);
  EXPECT_EQ(costs.line_us, 0);
  EXPECT_DOUBLE_EQ(find_cost(costs, 1024, 0)->us.mid, 20);
}

TEST(MessageCosts, NothingOfNothing) {
  EXPECT_EQ(message_costs_of({}).launches, 0);
  const std::vector<LaunchRecord> launches = {cost_launch("none", json::array({message(1024, 0, 4)}))};
  const MessageCosts costs = message_costs_of(launches);
  EXPECT_EQ(costs.placement, "");
  EXPECT_EQ(costs.left_out, 1);
  EXPECT_TRUE(costs.costs.empty());
  EXPECT_TRUE(level_costs(costs).overhead.empty());
}

TEST(MessageCosts, AStrideWithoutItsContiguousMessageSaysNothing) {
  const std::vector<LaunchRecord> launches = {cost_launch("far", {message(1024, 0, 4), message(4096, 8, 9)})};
  EXPECT_EQ(find_cost(message_costs_of(launches), 4096, 8), nullptr);
}

TEST(MessageCosts, MakeALevelOfAProfile) {
  const json cases = {message(4096, 64, 7), message(1024, 0, 2), message(4096, 0, 4), message(1024, 64, 1),
                      message(1024, 8, 3)};
  const std::vector<LaunchRecord> launches(6, cost_launch("near", cases));
  model::Parameters p = *model::built_in_profile("gigabit-like");
  p.has_inter_chip = false;
  p.levels[static_cast<size_t>(model::CommLevel::kIntraChip)] = level_costs(message_costs_of(launches));
  ASSERT_EQ(p.fault(), "");
  const model::LevelCosts& chip = p.at(model::CommLevel::kIntraChip);
  EXPECT_DOUBLE_EQ(chip.overhead.us_at(1024), 1);
  EXPECT_DOUBLE_EQ(chip.overhead.us_at(2560), 1.5);
  EXPECT_DOUBLE_EQ(chip.latency.us_at(1024, 8), 0.5);
  EXPECT_DOUBLE_EQ(chip.latency.us_at(1024, 64), 0) << "no dearer than contiguous";
  EXPECT_DOUBLE_EQ(chip.latency.us_at(4096, 64), 1.5);
  std::string problem;
  const auto read = profile_from(profile_json(p), &problem);
  ASSERT_TRUE(read.has_value()) << problem;
  EXPECT_EQ(read->at(model::CommLevel::kIntraChip), chip);
}

// A node's o is 1 here: that between nodes is what its own sender was busy.
TEST(MessageCosts, BetweenNodesTheSenderTellsTheOverheadAndTheRestIsTheNetwork) {
  const json cases = {message(1024, 0, 12), message(1024, 8, 15), message(8192, 0, 40), message(65536, 0, 60),
                      trips(1024, 2, 3),    trips(8192, 4, 9),    trips(65536, 45, 50)};
  const std::vector<LaunchRecord> apart(6, cost_launch("several", cases));
  const model::LevelCosts level = between_costs(message_costs_of(apart), {});
  ASSERT_EQ(level.overhead.points.size(), 3U);
  EXPECT_DOUBLE_EQ(level.overhead.us_at(1024), 2);
  EXPECT_DOUBLE_EQ(level.network.us_at(1024), 12 - 2 * 2);
  EXPECT_DOUBLE_EQ(level.network.us_at(8192), 40 - 2 * 4);
  EXPECT_DOUBLE_EQ(level.overhead.us_at(65536), 30) << "a sender that waits for the receiver is not busy so long";
  EXPECT_DOUBLE_EQ(level.network.us_at(65536), 0);
  EXPECT_DOUBLE_EQ(level.latency.us_at(1024, 8), 1.5);
  EXPECT_DOUBLE_EQ(level.gap.us_at(8192), 9);
  EXPECT_TRUE(level.link.empty()) << "one pair cannot tell";
}

TEST(MessageCosts, TheLinkIsWhatASecondPairAdds) {
  const json one = {message(1024, 0, 12), message(8192, 0, 40), message(65536, 0, 500),
                    trips(1024, 2, 3),    trips(8192, 4, 9),    trips(65536, 9, 400)};
  const json two = {trips(1024, 2, 2.5), trips(8192, 4, 16), trips(65536, 9, 999)};
  const std::vector<LaunchRecord> pair(6, cost_launch("several", one)), pairs(6, cost_launch("several", two));
  const model::LevelCosts level = between_costs(message_costs_of(pair), message_costs_of(pairs));
  EXPECT_DOUBLE_EQ(level.link.us_at(1024), 0) << "nobody waited";
  EXPECT_DOUBLE_EQ(level.link.us_at(8192), 16 - 9);
  EXPECT_DOUBLE_EQ(level.link.us_at(65536), 500 - 2 * 9) << "no longer than the message is on its way";
}

}  // namespace
}  // namespace zh::tools
