// Arms and layouts as --arm and --layout say them, and the rows of made-up launches of several arms.
#include "tools/bench/arms.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/tools/bench/made_up_launches.h"

namespace zh::tools {
namespace {

using Json = nlohmann::json;

TEST(Arms, VariablesAndSettingsGoWhereTheyBelong) {
  const Arm arm = arm_of("kernel alone:heap=0,ZEROHOP_ALGORITHM=bcast:hierarchical,single_copy=1");
  EXPECT_EQ(arm.name, "kernel alone");
  EXPECT_EQ(arm.variables,
            (std::map<std::string, std::string>{{"ZEROHOP_ALGORITHM", "bcast:hierarchical"}, {"ZEROHOP_HEAP", "0"}}));
  EXPECT_EQ(arm.settings, (std::map<std::string, std::string>{{"single_copy", "1"}}));
  EXPECT_TRUE(arm_of("hybrid").variables.empty());
}

TEST(Arms, WrongOnesAreRefused) {
  EXPECT_EQ(wrong_arm("hybrid"), "");
  EXPECT_EQ(wrong_arm("kernel alone:heap=0"), "");
  EXPECT_NE(wrong_arm(""), "");
  EXPECT_NE(wrong_arm(":heap=0"), "");
  EXPECT_NE(wrong_arm("a:no_such_setting=1"), "");
  EXPECT_NE(wrong_arm("a:heap=perhaps"), "");
  EXPECT_NE(wrong_arm("a:heap"), "");
}

TEST(Arms, LayoutsHaveTwoToManyRanks) {
  const JobLayout in_turn = job_layout_of("4x8:turn");
  EXPECT_EQ(in_turn.nodes, 4);
  EXPECT_EQ(in_turn.ranks(), 32);
  EXPECT_TRUE(in_turn.in_turn);
  EXPECT_FALSE(job_layout_of("1x2").in_turn);
  for (const char* wrong : {"2x", "1x1", "64x65", "x2", "2x2:turns", "2x2x2", ""}) EXPECT_NE(wrong_layout(wrong), "");
}

LaunchRecord launch_of(int round, const std::string& arm, const MadeUpArms& us) {
  LaunchRecord out = made_up_launch(round, "openmpi", us.size() > 1, {made_up_case("latency", 64, "time_us", us)});
  out.setting = arm;
  return out;
}

TEST(Arms, EachArmHasARowWithEveryLaunch) {
  std::vector<LaunchRecord> launches;
  for (int round = 0; round < 2; ++round) {
    launches.push_back(launch_of(round, "", {{8, 8}}));
    launches.push_back(launch_of(round, "cells", {{8, 8}, {4, 4}, {8, 8}}));
    launches.push_back(launch_of(round, "kernel", {{8, 8}, {2, 2}, {8, 8}}));
  }
  const Json rows = arms_rows(launches);
  ASSERT_EQ(rows.size(), 3u);
  std::map<std::string, Json> by_series;
  for (const Json& row : rows) by_series[row["series"]] = row;
  EXPECT_EQ(by_series["kernel"]["value"]["median"], 2);
  EXPECT_EQ(by_series["kernel"]["to_host"]["median"], 0.25);
  EXPECT_EQ(by_series["cells"]["launches"],
            Json({{{"round", 0}, {"value", 4.0}, {"to_host", 0.5}}, {{"round", 1}, {"value", 4.0}, {"to_host", 0.5}}}));
  EXPECT_EQ(by_series["openmpi"]["launches"].size(), 2u) << "bare ones alone, where there are some";
  EXPECT_FALSE(by_series["openmpi"]["zerohop"].get<bool>());
  EXPECT_TRUE(by_series["openmpi"]["to_host"].is_null());
  EXPECT_NE(arms_text(launches).find("2.000 (0.250)"), std::string::npos);
  std::erase_if(launches, [](const LaunchRecord& r) { return !r.zerohop; });
  const Json without = arms_rows(launches);
  ASSERT_EQ(without.size(), 3u) << "the host by its arms beside zerohop's";
  EXPECT_EQ(without[2]["series"], "openmpi");
  EXPECT_EQ(without[2]["value"]["median"], 8);
}

}  // namespace
}  // namespace zh::tools
