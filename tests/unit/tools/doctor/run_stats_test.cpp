// What a job's statistics file says about the ways of its bytes.
#include "tools/doctor/run_stats.h"

#include <gtest/gtest.h>

#include "tools/doctor/doctor.h"

namespace zh::tools {
namespace {

using nlohmann::json;

json rank(uint64_t mapped, uint64_t cells, const char* declined) {
  json r;
  r["sent"]["by_path"] = {{"inline", json::array()},
                          {"cells", {{{"below_bytes", 1048576}, {"messages", 2}, {"bytes", cells}}}},
                          {"mapped",
                           {{{"below_bytes", 1048576}, {"messages", 1}, {"bytes", mapped / 2}},
                            {{"below_bytes", 2097152}, {"messages", 1}, {"bytes", mapped - mapped / 2}}}}};
  if (declined != nullptr) r["heap"] = {{"declined_why", declined}, {"declined_bytes", 1 << 20}, {"forks", 2}};
  return r;
}

TEST(RunStats, TheShareIsThatOfAllRanksBytes) {
  RunStats run;
  ASSERT_TRUE(read_run({{"schema", 1}, {"ranks", {rank(900, 100, ""), rank(0, 1000, nullptr)}}}, &run));
  EXPECT_EQ(run.ranks, 2U);
  EXPECT_EQ(run.bytes, 2000U);
  EXPECT_DOUBLE_EQ(run.mapped_share(), 0.45);
  ASSERT_EQ(run.ways.size(), 2U) << "ways without bytes are left out";
  EXPECT_EQ(run.ways[0].name, "cells") << "most bytes first";
  EXPECT_TRUE(run.heap);
  EXPECT_EQ(run.forks, 2U);
  EXPECT_EQ(run.ranks_declined, 0U);
  EXPECT_EQ(check_run(run).state, State::kOk);
  EXPECT_EQ(check_run(run).finding.find("45.0 % of the 2.0 KiB sent"), 0U) << check_run(run).finding;
  EXPECT_NE(check_run(run).finding.find("cells 55.0 % in 4 messages"), std::string::npos) << check_run(run).finding;
}

TEST(RunStats, OtherProgramsOnTheJobsProcessorsAreTold) {
  json busy = rank(1, 1, "");
  busy["busy_cpu"] = 3;
  RunStats run;
  ASSERT_TRUE(read_run({{"schema", 1}, {"ranks", {rank(1, 1, ""), busy}}}, &run));
  EXPECT_EQ(check_company(run).state, State::kWarn);
  EXPECT_NE(check_company(run).finding.find("of 1 of 2 ranks"), std::string::npos) << check_company(run).finding;
  RunStats quiet;
  ASSERT_TRUE(read_run({{"schema", 1}, {"ranks", {rank(1, 1, "")}}}, &quiet));
  EXPECT_EQ(check_company(quiet).state, State::kOk);
}

TEST(RunStats, AHeapThatDeclinedIsNamed) {
  RunStats run;
  const char* why = "the program forks again and again";
  ASSERT_TRUE(read_run({{"schema", 1}, {"ranks", {rank(1, 1, ""), rank(1, 1, why)}}}, &run));
  EXPECT_EQ(run.ranks_declined, 1U);
  const Check c = check_run(run);
  EXPECT_EQ(c.state, State::kWarn);
  EXPECT_NE(c.finding.find(why), std::string::npos) << c.finding;
  EXPECT_FALSE(c.cost.empty() || c.cure.empty());
}

TEST(RunStats, ALowShareHasItsReasons) {
  const auto of = [](const json& heap, const json& mapped, uint64_t mapped_bytes = 1) {
    json r = rank(mapped_bytes, 1000, nullptr);
    if (!heap.is_null()) r["heap"] = heap;
    r["mapped"] = mapped;
    RunStats run;
    EXPECT_TRUE(read_run({{"schema", 1}, {"ranks", json::array({r})}}, &run));
    return check_run(run);
  };
  const json none = json::object();
  const auto expect = [](const Check& c, State state, const std::string& word) {
    EXPECT_EQ(c.state, state) << c.finding;
    EXPECT_NE(c.finding.find("Why not more: " + word), std::string::npos) << c.finding;
    EXPECT_EQ(c.cost.empty(), state == State::kOk);
    EXPECT_EQ(c.cure.empty(), state == State::kOk);
  };
  expect(of({{"declined_latest", "it has huge pages"}, {"declined_bytes", 1 << 20}}, none), State::kWarn,
         "buffers of 1.0 MiB had to stay private, the latest because it has huge pages");
  expect(of(none, {{"windows_refused", 3}}), State::kWarn, "peers' memory could not be mapped, 3 times");
  expect(of({{"first_uses", 7}}, none), State::kOk, "7 uses came before their buffer had been used often enough");
  expect(of(nullptr, none), State::kOk,
         "ranks whose buffers were not shared (ZEROHOP_HEAP=0, or zerohop stayed out): 1 of 1");
  expect(of(none, none), State::kOk, "no reason was counted");
  expect(of(none, {{"revoked", 2}}), State::kOk, "buffers were taken back");
  const Check well = of({{"declined_latest", "it has huge pages"}}, none, 1 << 20);
  EXPECT_EQ(well.state, State::kOk);
  EXPECT_EQ(well.finding.find("Why not more"), std::string::npos) << "nearly all was mapped: " << well.finding;
}

TEST(RunStats, RanksWithoutSharedBuffersAreCounted) {
  RunStats run;
  ASSERT_TRUE(read_run({{"schema", 1}, {"ranks", {rank(1, 1000, ""), rank(0, 1000, nullptr)}}}, &run));
  EXPECT_NE(check_run(run).finding.find("zerohop stayed out): 1 of 2"), std::string::npos);
}

TEST(RunStats, SmallMessagesAreNoFault) {
  json r = rank(0, 0, "");
  r["sent"]["by_path"]["inline"] = {{{"below_bytes", 128}, {"messages", 9}, {"bytes", 900}}};
  RunStats run;
  ASSERT_TRUE(read_run({{"schema", 1}, {"ranks", json::array({r})}}, &run));
  EXPECT_EQ(run.small_bytes, 900U);
  EXPECT_EQ(check_run(run).state, State::kOk);
  EXPECT_NE(check_run(run).finding.find("100.0 % were in messages too small"), std::string::npos);
}

TEST(RunStats, AJobWithoutMessagesHasNoShare) {
  RunStats run;
  ASSERT_TRUE(read_run({{"schema", 1}, {"ranks", json::array()}}, &run));
  EXPECT_EQ(run.mapped_share(), 0);
  EXPECT_FALSE(check_run(run).finding.empty());
}

TEST(RunStats, CollectivesOfAllRanksAreSummedByFunctionWayAndMembers) {
  RunStats run;
  json first = rank(0, 0, nullptr);
  json second = first;
  first["calls"] = {{{"call", "MPI_Bcast"}, {"ranks", 4}, {"by", "team"}, {"calls", 2}, {"bytes", 80}},
                    {{"call", "MPI_Bcast"}, {"ranks", 2}, {"by", "host"}, {"calls", 1}, {"bytes", 4}}};
  second["calls"] = {{{"call", "MPI_Bcast"}, {"ranks", 4}, {"by", "team"}, {"calls", 3}, {"bytes", 120}}};
  ASSERT_TRUE(read_run({{"schema", 1}, {"end", "MPI_Abort"}, {"world_size", 4}, {"ranks", {first, second}}}, &run));
  ASSERT_EQ(run.calls.size(), 2U);
  EXPECT_EQ(run.calls[0].calls, 5U) << "most calls first";
  EXPECT_EQ(run.calls[0].bytes, 200U);
  const std::vector<Check> checks = run_checks(run);
  ASSERT_EQ(checks.size(), 5U);
  EXPECT_EQ(checks[1].finding.find("2 ranks of 4"), 0U) << checks[1].finding;
  EXPECT_NE(checks[1].cost.find("MPI_Abort"), std::string::npos) << checks[1].cost;
  EXPECT_EQ(checks[3].finding.find("6 calls of 204 B: host 16.7 %, team 83.3 %"), 0U) << checks[3].finding;
}

TEST(RunStats, WhatWasServedIsToldFirst) {
  json first = rank(900, 100, "");
  first.update({{"rank", 0}, {"node", 0}});
  json second = first;
  second["rank"] = 1;
  first["peers"] = {{{"rank", 1}, {"messages", 5}, {"bytes", 50}}, {{"rank", 2}, {"messages", 7}, {"bytes", 70}}};
  json third = rank(0, 0, "");
  third.update({{"rank", 2}, {"node", 1}, {"fallbacks", {{"collectives: other", 3}, {"messages: other", 4}}}});
  first["calls"] = {{{"call", "MPI_Bcast"}, {"ranks", 2}, {"by", "team"}, {"calls", 3}, {"bytes", 80}},
                    {{"call", "MPI_Bcast"}, {"ranks", 2}, {"by", "nothing to do"}, {"calls", 9}, {"bytes", 0}},
                    {{"call", "MPI_Allreduce"}, {"ranks", 2}, {"by", "host"}, {"calls", 1}, {"bytes", 8}},
                    {{"call", "MPI_Barrier"}, {"ranks", 1}, {"by", "host"}, {"calls", 96}, {"bytes", 0}}};
  RunStats run;
  ASSERT_TRUE(read_run({{"schema", 1}, {"ranks", {first, second, third}}}, &run));
  const Check c = run_checks(run)[0];
  EXPECT_EQ(c.state, State::kOk);
  EXPECT_EQ(
      c.finding,
      "zerohop carried 75.0 % of 16 messages inside nodes and served 75.0 % of 4 calls of collectives; by the MPI "
      "library: 7 messages to other nodes; left to the MPI library: “collectives: other” 3 times, “messages: other” "
      "4 times");
}

TEST(RunStats, ARunOfWhichNothingWasServedIsAWarning) {
  json idle = rank(0, 0, "");
  idle["sent"]["by_path"] = json::object();
  idle["calls"] = {{{"call", "MPI_Bcast"}, {"ranks", 2}, {"by", "host"}, {"calls", 3}, {"bytes", 80}}};
  RunStats run;
  ASSERT_TRUE(read_run({{"schema", 1}, {"ranks", {idle, idle}}}, &run));
  const Check c = check_served(run);
  EXPECT_EQ(c.state, State::kWarn);
  EXPECT_EQ(c.finding.find("nothing: zerohop carried 0 messages inside nodes and served 0.0 % of 6 calls"), 0U)
      << c.finding;
  EXPECT_FALSE(c.cost.empty() || c.cure.empty());
}

TEST(RunStats, FilesOfOlderVersionsAreRead) {
  RunStats run;
  ASSERT_TRUE(read_run({{"schema", 1}, {"ranks", {rank(1, 1, "")}}}, &run));
  EXPECT_EQ(run_checks(run)[1].state, State::kOk);
  EXPECT_EQ(run_checks(run)[3].finding, "none were counted");
}

TEST(RunStats, OtherFilesAreRefused) {
  RunStats run;
  json negative = rank(2, 1, nullptr);
  negative["sent"]["by_path"]["cells"][0]["bytes"] = -1;
  json nameless = rank(0, 0, nullptr);
  nameless["calls"] = {{{"call", 1}, {"ranks", 4}, {"by", "team"}, {"calls", 2}, {"bytes", 80}}};
  for (const json& wrong : {json(), json::array(), json{{"schema", 2}, {"ranks", json::array()}}, json{{"schema", 1}},
                            json{{"schema", 1}, {"ranks", {{{"rank", 0}}}}},
                            json{{"schema", 1}, {"ranks", json::array({rank(~uint64_t{0}, 100, nullptr)})}},
                            json{{"schema", 1}, {"ranks", json::array({negative})}},
                            json{{"schema", 1}, {"ranks", json::array({nameless})}}}) {
    EXPECT_FALSE(read_run(wrong, &run)) << wrong.dump();
  }
}

}  // namespace
}  // namespace zh::tools
