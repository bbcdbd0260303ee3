// The collectives' table and summary on made-up launches.
#include "tools/bench/coll_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/tools/bench/made_up_launches.h"

namespace zh::tools {
namespace {

using Json = nlohmann::json;

Json coll_case(const std::string& bench, uint64_t size, const MadeUpArms& mean) {
  Json out = made_up_case(bench, size, "time_us", mean);
  out["metrics"]["t_min_us"] = out["metrics"]["t_max_us"] = mean;
  return out;
}

LaunchRecord coll_launch(int round, const std::string& host, bool zerohop, const std::vector<Json>& cases) {
  return made_up_launch(round, host, zerohop, cases, "far", 8);
}

std::vector<LaunchRecord> made_up() {
  std::vector<LaunchRecord> all;
  for (int round = 0; round < 6; ++round) {
    // The best peer differs by size: openmpi at 8 bytes, impi at 1024.
    all.push_back(coll_launch(round, "openmpi", false,
                              {coll_case("allreduce", 8, {{10}}), coll_case("allreduce", 1024, {{40}})}));
    all.push_back(
        coll_launch(round, "impi", false, {coll_case("allreduce", 8, {{20}}), coll_case("allreduce", 1024, {{32}})}));
    all.push_back(
        coll_launch(round, "openmpi", true,
                    {coll_case("allreduce", 8, {{10}, {5}, {10}}), coll_case("allreduce", 1024, {{40}, {64}, {40}}),
                     coll_case("flat", 8, {{3}, {3}, {3}})}));
  }
  return all;
}

TEST(CollReport, TellsWhatWasSentBetweenMachines) {
  std::vector<LaunchRecord> all;
  for (int round = 0; round < 6; ++round) {
    for (const bool zerohop : {false, true}) {
      Json c = coll_case("bcast", 1024, made_up_arms(zerohop, 9, 3));
      c["metrics"]["sent_bytes"] = made_up_arms(zerohop, 2000, 1000);
      c["metrics"]["sent_packets"] = made_up_arms(zerohop, 4, 2);
      LaunchRecord r = coll_launch(round, "mpich", zerohop, {c});
      r.document["placement"] = "several";
      r.document["machine_of"] = std::vector<int>{0, 1, 0, 1};
      all.push_back(r);
    }
  }
  const Judged judged = judge(all, {});
  const std::string table = coll_table_of(judged);
  EXPECT_NE(table.find("on 2 machines in turn · several"), std::string::npos) << table;
  EXPECT_NE(table.find("1K sent_bytes"), std::string::npos) << table;
  EXPECT_EQ(summaries_of(judged).size(), 1U);
}

std::vector<LaunchRecord> started() {
  std::vector<LaunchRecord> all;
  for (int round = 0; round < 6; ++round) {
    for (const bool zerohop : {false, true}) {
      const Json plain = coll_case("allreduce", 1024, made_up_arms(zerohop, 40, 20));
      Json c = coll_case("allreduce", 1024, made_up_arms(zerohop, 80, 60));
      c["variant"] = "nonblocking";
      c["metrics"]["left_us"] = made_up_arms(zerohop, 32, 8);
      c["metrics"]["computed_us"] = made_up_arms(zerohop, 41, 21);
      all.push_back(coll_launch(round, "mpich", zerohop, {plain, c}));
    }
  }
  return all;
}

TEST(CollReport, TellsWhatAStartedCallLeavesToARankThatComputes) {
  const std::vector<LaunchRecord> all = started();
  const std::string table = coll_table_of(judge(all, {}));
  const size_t heading = table.find("allreduce nonblocking · ");
  ASSERT_NE(heading, std::string::npos) << table;
  const size_t left = table.find("\n1K left_us", heading);
  ASSERT_NE(left, std::string::npos) << table;
  EXPECT_NE(table.substr(left + 1, table.find('\n', left + 1) - left).find("32.00*    8.000"), std::string::npos)
      << table;
  EXPECT_GT(table.find("\n1K left_us"), heading) << "blocking calls leave nothing";
}

TEST(CollReport, StartedCallsAreSummedUpApart) {
  const auto summaries = summaries_of(judge(started(), {}));
  ASSERT_EQ(summaries.size(), 2U);
  EXPECT_EQ(summaries[0].key.variant, "");
  EXPECT_EQ(summaries[1].key.variant, "nonblocking");
  EXPECT_NEAR(summaries[1].to_best_peer.mean, 0.75, 1e-9);
}

TEST(CollReport, NamesHowRanksAreSpread) {
  const auto text_of = [](const std::vector<int>& machine_of) {
    Json document = Json::object();
    document["machine_of"] = machine_of;
    return machines_text(document);
  };
  EXPECT_EQ(text_of({0, 0, 1, 1, 2}), "3 machines");
  EXPECT_EQ(text_of({0, 1, 0}), "2 machines in turn");
  EXPECT_EQ(text_of({0, 0}), "");
  EXPECT_EQ(machines_text(Json::object()), "");
}

TEST(CollReport, SummaryIsTheGeometricMeanAgainstTheBestPeerOfEachSize) {
  const auto summaries = summaries_of(judge(made_up(), {}));
  ASSERT_EQ(summaries.size(), 1U) << "the raw line is no collective";
  EXPECT_EQ(summaries[0].sizes, 2);
  EXPECT_NEAR(summaries[0].to_best_peer.mean, 1.0, 1e-9);         // sqrt(5/10 * 64/32)
  EXPECT_NEAR(summaries[0].to_own_host.mean, 0.894427191, 1e-6);  // sqrt(5/10 * 64/40)
}

TEST(CollReport, WhatNoPeerRanIsNotCompared) {
  const auto peers = [](const Json& peers_case) {
    const Json small = coll_case("allreduce", 8, {{10}, {5}, {10}});
    const Json large = coll_case("allreduce", 1024, {{40}, {20}, {40}});
    return judge({coll_launch(0, "impi", false, {peers_case}), coll_launch(0, "openmpi", true, {small, large})}, {});
  };
  const std::string one = coll_table_of(peers(coll_case("allreduce", 8, {{20}})));
  EXPECT_NE(one.find("0.250 (1 sizes)       0.500\n"), std::string::npos) << one;
  const std::string none = coll_table_of(peers(coll_case("bcast", 8, {{20}})));
  EXPECT_NE(none.find("-       0.500\n"), std::string::npos) << none;
}

TEST(CollReport, TheTableShowsIntervalsAndTheSummarySlowSizes) {
  const std::string table = coll_table_of(judge(made_up(), {}));
  EXPECT_NE(table.find("0.500 [0.500, 0.500]"), std::string::npos) << table;
  EXPECT_NE(table.find("2.000 [2.000, 2.000]"), std::string::npos) << table;
  EXPECT_NE(table.find("\nflat · "), std::string::npos) << table;
  EXPECT_NE(table.find("its own host by more than 5 %:\n  allreduce 1024 B, 8 ranks, far: 1.600"), std::string::npos)
      << table;
  EXPECT_EQ(table.find("  allreduce 8 B"), std::string::npos) << table;
}

}  // namespace
}  // namespace zh::tools
