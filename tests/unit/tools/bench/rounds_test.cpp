// The file of launches, and which parts of a benchmark --only leaves.
#include "tools/bench/rounds.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "tools/bench/command.h"
#include "tools/cli/inputs.h"

namespace zh::tools {
namespace {

TEST(BenchRounds, LaunchesAndRawLimitsComeBackFromTheirFile) {
  Launches launches;
  launches.records.push_back({3, "latency", "mpich", true, "heap_off", 1.5, {{"placement", "near"}}});
  launches.raw.push_back({{"placement", "near"}, {"rows", nlohmann::json::array()}});
  const std::string path = (std::filesystem::temp_directory_path() / "zerohop-bench-rounds-test.json").string();
  ASSERT_TRUE(write_launches(path, launches, "bench p2p"));
  const auto back = read_launches(path, "bench p2p");
  std::remove(path.c_str());
  ASSERT_TRUE(back);
  ASSERT_EQ(back->records.size(), 1U);
  const LaunchRecord& r = back->records[0];
  EXPECT_EQ(std::tie(r.round, r.group, r.host, r.setting), std::make_tuple(3, "latency", "mpich", "heap_off"));
  EXPECT_TRUE(r.zerohop);
  EXPECT_EQ(r.wall_s, 1.5);
  EXPECT_EQ(r.document, launches.records[0].document);
  EXPECT_EQ(back->raw, launches.raw);
}

TEST(BenchRounds, OnlyChoosesWithinAPart) {
  BenchOptions o;
  EXPECT_EQ(joined(wanted_of(o, "bcast,reduce")), "bcast,reduce");
  o.only = "reduce,scan";
  EXPECT_EQ(joined(wanted_of(o, "bcast,reduce")), "reduce");
  EXPECT_TRUE(wanted_of(o, "gather").empty());
}

}  // namespace
}  // namespace zh::tools
