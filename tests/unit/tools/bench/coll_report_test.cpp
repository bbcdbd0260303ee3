// The collectives' table and summary on made-up launches.
#include "tools/bench/coll_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace zh::tools {
namespace {

using Json = nlohmann::json;
using CollArms = std::vector<std::vector<double>>;

Json one_coll_case(const std::string& bench, uint64_t size, const CollArms& mean, int iters) {
  return {{"bench", bench},
          {"size", size},
          {"buffers", "malloc"},
          {"iters", std::vector<int>(mean.size(), iters)},
          {"metrics", {{"time_us", mean}, {"t_min_us", mean}, {"t_max_us", mean}}}};
}

LaunchRecord coll_launch(int round, const std::string& host, bool zerohop, const Json& cases) {
  const std::vector<std::string> arms =
      zerohop ? std::vector<std::string>{"host", "zerohop", "host"} : std::vector<std::string>{"host"};
  return {round,
          "g",
          host,
          zerohop,
          "",
          1,
          {{"placement", "far"},
           {"line_us", {{"before", 0.2}, {"after", 0.2}}},
           {"ranks", 8},
           {"arms", arms},
           {"cases", cases}}};
}

std::vector<LaunchRecord> made_up() {
  std::vector<LaunchRecord> all;
  for (int round = 0; round < 6; ++round) {
    // The best peer differs by size: openmpi at 8 bytes, impi at 1024.
    all.push_back(coll_launch(
        round, "openmpi", false,
        Json::array({one_coll_case("allreduce", 8, {{10}}, 5), one_coll_case("allreduce", 1024, {{40}}, 5)})));
    all.push_back(coll_launch(
        round, "impi", false,
        Json::array({one_coll_case("allreduce", 8, {{20}}, 5), one_coll_case("allreduce", 1024, {{32}}, 5)})));
    all.push_back(coll_launch(round, "openmpi", true,
                              Json::array({one_coll_case("allreduce", 8, {{10}, {5}, {10}}, 90 + round),
                                           one_coll_case("allreduce", 1024, {{40}, {64}, {40}}, 7),
                                           one_coll_case("flat", 8, {{3}, {3}, {3}}, 7)})));
  }
  return all;
}

TEST(CollReport, TellsWhatWasSentBetweenMachines) {
  std::vector<LaunchRecord> all;
  for (int round = 0; round < 6; ++round) {
    for (const bool zerohop : {false, true}) {
      Json c = one_coll_case("bcast", 1024, zerohop ? CollArms{{9}, {3}, {9}} : CollArms{{9}}, 7);
      c["metrics"]["sent_bytes"] = zerohop ? CollArms{{2000}, {1000}, {2000}} : CollArms{{2000}};
      c["metrics"]["sent_packets"] = zerohop ? CollArms{{4}, {2}, {4}} : CollArms{{4}};
      LaunchRecord r = coll_launch(round, "mpich", zerohop, Json::array({c}));
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
      Json plain = one_coll_case("allreduce", 1024, zerohop ? CollArms{{40}, {20}, {40}} : CollArms{{40}}, 7);
      Json c = one_coll_case("allreduce", 1024, zerohop ? CollArms{{80}, {60}, {80}} : CollArms{{80}}, 7);
      c["variant"] = "nonblocking";
      c["metrics"]["left_us"] = zerohop ? CollArms{{32}, {8}, {32}} : CollArms{{32}};
      c["metrics"]["computed_us"] = zerohop ? CollArms{{41}, {21}, {41}} : CollArms{{41}};
      all.push_back(coll_launch(round, "mpich", zerohop, Json::array({plain, c})));
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
  const auto peers = [](const Json& cases) {
    std::vector<LaunchRecord> records;
    records.push_back(coll_launch(0, "impi", false, cases));
    records.push_back(coll_launch(0, "openmpi", true,
                                  Json::array({one_coll_case("allreduce", 8, {{10}, {5}, {10}}, 9),
                                               one_coll_case("allreduce", 1024, {{40}, {20}, {40}}, 9)})));
    return judge(records, {});
  };
  const std::string one = coll_table_of(peers(Json::array({one_coll_case("allreduce", 8, {{20}}, 5)})));
  EXPECT_NE(one.find("0.250 (1 sizes)       0.500\n"), std::string::npos) << one;
  const std::string none = coll_table_of(peers(Json::array({one_coll_case("bcast", 8, {{20}}, 5)})));
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
