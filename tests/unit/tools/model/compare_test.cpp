// Predictions beside measured times: which rows of a result count, how errors are counted, and that a machine that is
// just as the profile says shows none.
#include "tools/model/compare.h"

#include <gtest/gtest.h>

#include <string>

#include "model/profiles.h"

namespace zh::tools {
namespace {

using nlohmann::json;

json row(const std::string& collective, const std::string& algorithm, int ranks, int node_ranks, int bytes, double us) {
  return {{"collective", collective},
          {"algorithm", algorithm},
          {"chunk_bytes", 65536},
          {"ranks", ranks},
          {"node_ranks", node_ranks},
          {"bytes", bytes},
          {"slowest_us", {{"median", us}, {"low", 0.9 * us}, {"high", 1.1 * us}, {"count", 8}, {"valid", true}}}};
}

json compared_document(const json& rows) { return {{"schema", "zerohop-bench-algorithms/1"}, {"rows", rows}}; }

TEST(ModelCompare, RowsOfAlgorithmsAreCases) {
  const json rows = {row("bcast", "binomial", 8, 0, 1024, 5), row("bcast", "auto", 8, 0, 1024, 4),
                     row("bcast", "hierarchical/4K", 8, 4, 65536, 9), row("bcast", "no-such", 8, 0, 8, 1),
                     row("allreduce", "ring", 6, 4, 8, 1)};
  std::string problem;
  const auto cases = measured_cases(compared_document(rows), &problem);
  ASSERT_TRUE(cases.has_value()) << problem;
  ASSERT_EQ(cases->size(), 3U) << "unknown ones and ranks that do not go into nodes are left out";
  EXPECT_EQ((*cases)[0].what.algorithm, "binomial");
  EXPECT_EQ((*cases)[0].what.cluster.nodes, 1U);
  EXPECT_EQ((*cases)[0].us.mid, 5);
  EXPECT_EQ((*cases)[1].what.algorithm, kOwnChoice);
  EXPECT_EQ((*cases)[2].what.algorithm, "hierarchical");
  EXPECT_EQ((*cases)[2].what.cluster.nodes, 2U);
}

TEST(ModelCompare, RowsSayTheStrideAndTheMachines) {
  json strided = row("bcast", "linear", 4, 0, 4096, 5);
  strided["stride"] = 64;
  strided["machines"] = 2;
  strided["in_turn"] = true;
  json plain = row("bcast", "linear", 4, 0, 4096, 3);
  json nowhere = plain;
  nowhere["machines"] = 0;
  std::string problem;
  const auto cases = measured_cases(compared_document(json::array({strided, plain, nowhere})), &problem);
  ASSERT_TRUE(cases.has_value()) << problem;
  ASSERT_EQ(cases->size(), 2U);
  EXPECT_EQ((*cases)[0].what.stride, 64U);
  EXPECT_EQ((*cases)[0].what.cluster.nodes, 2U);
  EXPECT_TRUE((*cases)[0].what.cluster.cyclic);
  EXPECT_EQ((*cases)[1].what.stride, 0U);
  EXPECT_EQ((*cases)[1].what.cluster.nodes, 1U);
  const model::Parameters& profile = *model::built_in_profile("gigabit-like");
  EXPECT_GT(*compare((*cases)[0], profile).walk[2], *compare((*cases)[1], profile).walk[2]);
  EXPECT_EQ(summaries({compare((*cases)[0], profile), compare((*cases)[1], profile)}).size(), 4U)
      << "forms and walks; what lies at a stride and on other machines is no point of the same algorithm";
}

TEST(ModelCompare, WhatIsNoResultIsRefused) {
  std::string problem;
  EXPECT_FALSE(measured_cases(json::array(), &problem));
  EXPECT_NE(problem.find("no result of"), std::string::npos);
  EXPECT_FALSE(measured_cases({{"schema", "zerohop-bench-algorithms/1"}}, &problem));
  EXPECT_NE(problem.find("not as that command writes them"), std::string::npos) << problem;
  json older = row("bcast", "binomial", 8, 0, 1024, 5);
  older.erase("slowest_us");
  EXPECT_FALSE(measured_cases(compared_document(json::array({older})), &problem));
  EXPECT_NE(problem.find("slowest_us"), std::string::npos) << problem;
  json wrong = row("bcast", "binomial", 8, 0, 1024, 5);
  wrong["ranks"] = "eight";
  EXPECT_FALSE(measured_cases(compared_document(json::array({wrong})), &problem));
  EXPECT_FALSE(measured_cases(compared_document(json::array({row("bcast", "no-such", 8, 0, 8, 1)})), &problem));
  EXPECT_NE(problem.find("none of its rows"), std::string::npos) << problem;
  EXPECT_FALSE(measured_cases(compared_document(json::array({row("bcast", "auto", 8, 0, 8, 1)})), &problem));
}

TEST(ModelCompare, PretendedNodesShareTheMachinesProcessors) {
  model::Parameters p = *model::built_in_profile("gigabit-like");
  EXPECT_EQ(measured_cluster({8, 2, 1}, p).processors_per_node, 0U) << "not known";
  p.processors_per_node = 6;
  EXPECT_EQ(measured_cluster({8, 1, 1}, p).processors_per_node, 6U);
  EXPECT_EQ(measured_cluster({8, 2, 1}, p).processors_per_node, 3U);
  EXPECT_EQ(measured_cluster({8, 8, 1}, p).processors_per_node, 1U);
  EXPECT_EQ(measured_cluster({8, 8, 1}, p).chips_per_node, p.chips_per_node);
}

TEST(ModelCompare, AMachineThatIsAsTheProfileSaysShowsNoError) {
  const model::Parameters& profile = *model::built_in_profile("gigabit-like");
  MeasuredCase m;
  m.what.algorithm = "binomial";
  m.what.cluster = {8, 2, 1};
  m.what.bytes = 4096;
  const Comparison first = compare(m, profile);
  ASSERT_TRUE(any(first.form) && any(first.walk));
  EXPECT_FALSE(first.form[3]) << "the paper has no model with links";
  EXPECT_EQ(first.measured.what.cluster.chips_per_node, profile.chips_per_node);
  m.us.mid = *first.walk[2];
  m.us.low = 0.9 * m.us.mid;
  m.us.high = 1.1 * m.us.mid;
  const std::vector<ErrorSummary> all = summaries({compare(m, profile)});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_FALSE(all[0].walk);
  EXPECT_TRUE(all[1].walk);
  EXPECT_DOUBLE_EQ(*all[1].mean[2], 0);
  EXPECT_NEAR(all[1].spread, 0.1, 1e-12);
  EXPECT_GT(*all[1].mean[0], 0) << "log3P prices all messages as between nodes";
}

TEST(ModelCompare, ErrorsAreMeansOfAmountsByAlgorithm) {
  const auto compared = [](const char* algorithm, double measured, double predicted) {
    Comparison c;
    c.measured.what.algorithm = algorithm;
    c.measured.us = {measured, measured, measured, 1, 8, true};
    c.walk = {predicted, predicted, predicted, predicted};
    return c;
  };
  const std::vector<ErrorSummary> all =
      summaries({compared("linear", 10, 12), compared("linear", 10, 9), compared("binomial", 10, 10)});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].points, 2);
  EXPECT_DOUBLE_EQ(*all[0].mean[1], 0.15);
  EXPECT_DOUBLE_EQ(*all[0].greatest[1], 0.2);
  EXPECT_EQ(all[1].what.algorithm, "binomial");
  EXPECT_DOUBLE_EQ(*all[1].greatest[0], 0);
  EXPECT_DOUBLE_EQ(relative_error(12, 10), 0.2);
  EXPECT_DOUBLE_EQ(relative_error(9, 10), -0.1);
}

}  // namespace
}  // namespace zh::tools
