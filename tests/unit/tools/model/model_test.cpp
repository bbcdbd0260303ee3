// Profiles as JSON, and who is fastest from which size on.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "model/profiles.h"
#include "tools/model/case.h"
#include "tools/model/choose.h"
#include "tools/model/profile.h"

namespace zh::tools {
namespace {

using nlohmann::json;

json good() { return profile_json(model::built_in_profiles().front()); }

std::string problem_with(const json& document) {
  std::string problem;
  const bool read = profile_from(document, &problem).has_value();
  EXPECT_EQ(read, problem.empty());
  return problem;
}

TEST(ModelProfile, IsReadAsItWasWritten) {
  for (model::Parameters p : model::built_in_profiles()) {
    std::string problem;
    EXPECT_EQ(profile_from(json::parse(profile_json(p).dump()), &problem), p) << problem;
    p.has_inter_chip = false;
    p.levels[static_cast<size_t>(model::CommLevel::kInterChip)] = {};
    p.levels[0].gap = {{{0, 3}}};
    p.processors_per_node = 4;
    EXPECT_EQ(profile_from(profile_json(p), &problem), p) << problem;
  }
}

/// Facts of every form.
model::MachineFacts some_facts() {
  model::MachineFacts facts;
  facts.levels.push_back({"shared-l3", {0, 2}, "near", 0.05, 8, {"1K8S"}, "intra-cmp", {}});
  facts.levels.push_back({"same-core", {0, 1}, "near", 0.03, 6, {}, "", {}});
  facts.levels.back().costs.overhead.points = {{8, 0.2}, {1024, 0.3}};
  facts.levels.back().costs.latency.rows.push_back({64, {{{1024, 0.4}}}});
  facts.levels.push_back({"other-node", {}, "several", 0, 8, {}, "inter-node", {}});
  facts.caches = {{"L1d", 32768, 32768, false, false}, {"L2", 0, 0, false, false}, {"last-level", 1, 2, true, true}};
  facts.copies = {{"shared-l3", 2048, model::kNeverWins, std::nullopt}, {"same-core", {}, {}, 8192}};
  facts.contention = {{"mapped", 65536, {{1, 6.5}, {2, 8}}, false}, {"kernel", 1048576, {{1, 90}}, true}};
  return facts;
}

TEST(ModelProfile, FactsAreReadAsTheyWereWritten) {
  model::Parameters p = model::built_in_profiles().front();
  EXPECT_FALSE(profile_json(p).contains("measured_levels")) << "what was not measured is left out";
  p.facts = some_facts();
  const json written = profile_json(p);
  EXPECT_FALSE(written["measured_levels"][0].contains("overhead")) << "its tables are in levels.intra-cmp";
  EXPECT_EQ(written["copies"][0]["kernel_both"], "never");
  EXPECT_FALSE(written["copies"][0].contains("mapped_both"));
  std::string problem;
  EXPECT_EQ(profile_from(json::parse(written.dump()), &problem), p) << problem;
}

/// A value of a profile that is wrong, as JSON ("": it is missing), and what is said of it.
struct Spoilt {
  const char* place;
  const char* value;
  const char* said;
};

void expect_named(const json& whole, std::span<const Spoilt> all) {
  for (const Spoilt& s : all) {
    json document = whole;
    const json::json_pointer place(s.place);
    if (*s.value == 0) {
      document[place.parent_pointer()].erase(place.back());
    } else {
      document[place] = json::parse(s.value);
    }
    const std::string problem = problem_with(document);
    EXPECT_NE(problem.find(s.said), std::string::npos) << s.said << "\nsaid: " << problem;
  }
}

TEST(ModelProfile, WhatIsWrongWithAFactIsNamed) {
  const Spoilt all[] = {
      {"/caches", "5", "caches: a list"},
      {"/copies", "[1]", "copies, entry 1: an object"},
      {"/caches/1/size", "1", "caches, entry 2, size: there is no such key; there are name, described"},
      {"/caches/0/measured", "-4", "caches, entry 1, measured: a whole number"},
      {"/caches/0/noisy", "0", "caches, entry 1, noisy: true or false"},
      {"/contention/0/us", "[[2, 1]]", "contention: us: a list of [readers"},
      {"/contention/0/us", "[[1, 1], [1, 2]]", "contention: us: a list of [readers"},
      {"/contention/1/us", "7", "contention, entry 2, us: a list"},
      {"/contention/0/ways", "1", "contention, entry 1, ways: there is no such key"},
      {"/copies/0/nontemporal", "\"x\"", "copies, entry 1, nontemporal: a whole number"},
      {"/measured_levels/0/processor", "1", "measured_levels, entry 1, processor: there is no such key"},
      {"/measured_levels/0/processors", "[-1]", "measured_levels, entry 1, processors, entry 1: a whole number"},
      {"/measured_levels/0/line_us", "-1", "measured_levels, entry 1, line_us: a number"},
      {"/measured_levels/0/noisy", "1", "measured_levels, entry 1, noisy: a list"},
      {"/measured_levels/0/stands_for", "\"chip\"", "measured_levels, shared-l3: stands_for: intra-cmp"},
      {"/measured_levels/0/overhead", "[[8, 0.2], [1024, 0.3]]",
       "measured_levels, shared-l3: its costs are in levels.intra-cmp"},
      {"/measured_levels/1/overhead", "", "measured_levels, same-core: overhead: no points"},
  };
  model::Parameters p = model::built_in_profiles().front();
  p.facts = some_facts();
  expect_named(profile_json(p), all);
}

TEST(ModelProfile, WhatIsNoProfileIsRefusedByItsKind) {
  EXPECT_EQ(problem_with(good()), "");
  EXPECT_NE(problem_with(json::array()).find("no JSON object"), std::string::npos);
  EXPECT_NE(problem_with({{"version", 4}, {"classes", json::array()}}).find("another kind of file"), std::string::npos);
  json later = good();
  later["version"] = 2;
  EXPECT_EQ(problem_with(later), "\"version\" is 2, and this zerohop reads version 1 alone");
}

TEST(ModelProfile, WhatIsWrongIsNamed) {
  const Spoilt all[] = {
      {"/levels/intra-cmp/overhed", "1", "overhed: there is no such key"},
      {"/levels/inter-socket", "1", "levels.inter-socket: there is no such key"},
      {"/name", "", "name: a text"},
      {"/sources", "[1]", "sources, entry 1: a text"},
      {"/chips_per_node", "-2", "chips_per_node: a whole number"},
      {"/chips_per_node", "0", "chips_per_node: a number from 1"},
      {"/processors_per_node", "\"two\"", "processors_per_node: a whole number"},
      {"/processors_per_node", "2097152", "processors_per_node: a number from 0"},
      {"/levels", "", "levels.intra-cmp: an object"},
      {"/levels/inter-node", "", "levels.inter-node: an object"},
      {"/levels/intra-cmp/overhead", "", "levels.intra-cmp.overhead: no points"},
      {"/levels/inter-node/network", "", "levels.inter-node.network: no points"},
      {"/levels/intra-cmp/network", "[[0, 1], [8, 2]]", "leave it out"},
      {"/levels/inter-cmp/overhead", "[[0, 1], [8]]", "levels.inter-cmp.overhead: point 2: a list of"},
      {"/levels/inter-node/gap", "[[8, 1], [8, 2]]", "point 2: sizes must rise"},
      {"/levels/inter-node/overhead", "[[0, -1], [8, 2]]", "from 0 to 1e9"},
      {"/levels/inter-node/latency", "3", "latency: a list"},
  };
  expect_named(good(), all);
  json swapped = good();
  json& rows = swapped["levels"]["inter-node"]["latency"];
  std::swap(rows[0], rows[1]);
  EXPECT_NE(problem_with(swapped).find("strides must rise"), std::string::npos);
}

TEST(ModelProfile, IsFoundByNameOrFile) {
  std::string problem;
  EXPECT_EQ(find_profile("infiniband-ddr-like", &problem)->name, "infiniband-ddr-like");
  EXPECT_FALSE(find_profile("no-such-profile", &problem));
  EXPECT_NE(problem.find("no profile no-such-profile: it is none of gigabit-like, infiniband-ddr-like, and no file"),
            std::string::npos);
  const std::string path = testing::TempDir() + "zh_model_profile.json";
  json mine = good();
  mine["name"] = "mine";
  std::ofstream(path) << mine;
  EXPECT_EQ(find_profile(path, &problem)->name, "mine");
  std::ofstream(path) << "{";
  EXPECT_FALSE(find_profile(path, &problem));
  EXPECT_EQ(problem,
            path +
                " is no profile of a machine: it is not JSON; `zerohop tune --profile gigabit-like` prints one "
                "to start from");
  std::remove(path.c_str());
}

TEST(ModelCase, TooManyRanksOrStepsAreRefused) {
  ModelCase c;
  c.algorithm = "linear";
  std::string problem;
  EXPECT_EQ(schedules_of(c, kManyWalks, &problem).size(), 64U);
  EXPECT_EQ(problem, "");
  c.algorithm = "nonsense";
  EXPECT_TRUE(schedules_of(c, kManyWalks, &problem).empty());
  EXPECT_NE(problem, "");
  c.algorithm = "linear";
  c.cluster.ranks = 8 * 1024;
  EXPECT_TRUE(schedules_of(c, kManyWalks, &problem).empty());
  EXPECT_NE(problem.find("4096 ranks at most, not 8192"), std::string::npos) << problem;
  c.cluster.ranks = 2048;
  c.collective = coll::Collective::kAlltoall;
  EXPECT_TRUE(schedules_of(c, kManyWalks, &problem).empty());
  EXPECT_NE(problem.find("more than 2000000 steps"), std::string::npos) << problem;
}

TEST(ModelCase, RanksGoIntoNodesAlike) {
  ModelCase c;
  EXPECT_EQ(fault_of(c), "");
  c.root = 64;
  EXPECT_EQ(fault_of(c), "there is no rank 64");
  c.cluster.nodes = 7;
  EXPECT_NE(fault_of(c).find("a multiple of 7"), std::string::npos);
  c.cluster = {2, 8, 1};
  EXPECT_NE(fault_of(c), "") << "fewer ranks than nodes";
}

TEST(ModelCrossover, FindsWhoTakesOverAndWhere) {
  // 10 + s, 100 + s / 2 and 1000 + s / 8: they meet at 180 and 2400.
  const TimeOf time_of = [](std::string_view algorithm, uint64_t bytes) {
    const auto s = static_cast<double>(bytes);
    return algorithm == "a" ? 10 + s : algorithm == "b" ? 100 + s / 2 : 1000 + s / 8;
  };
  const std::string_view names[] = {"c", "b", "a"};
  const auto found = takeovers(names, 8, 1 << 20, time_of);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].algorithm, "a");
  EXPECT_EQ(found[0].from_bytes, 8U);
  EXPECT_EQ(found[0].us, 18);
  EXPECT_EQ(found[1].algorithm, "b");
  EXPECT_EQ(found[1].from_bytes, 184U) << "the first multiple of 8 above";
  EXPECT_EQ(found[2].algorithm, "c");
  EXPECT_GT(found[2].from_bytes, 2400U);
  EXPECT_LE(found[2].from_bytes, 2400U + 2400U / 50 + 8);
  EXPECT_EQ(found[2].us, time_of("c", found[2].from_bytes));
}

TEST(ModelCrossover, OfTwoThatAreAlikeTheFirstWins) {
  const std::string_view names[] = {"first", "second"};
  const auto found = takeovers(names, 8, 1 << 20, [](std::string_view, uint64_t) { return 1.0; });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].algorithm, "first");
  EXPECT_TRUE(takeovers({}, 8, 16, [](std::string_view, uint64_t) { return 1.0; }).empty());
}

}  // namespace
}  // namespace zh::tools
