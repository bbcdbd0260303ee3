// Calibrations made beside other work against built-in thresholds, and the busy loops beside which they are made.
#include "tools/bench/calibration.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "tools/bench/busy_loops.h"

namespace zh::tools {
namespace {

using Json = nlohmann::json;

LaunchRecord calibrated_launch(int round, const std::string& setting, const std::string& placement, double us) {
  const Json c = {{"bench", "latency"}, {"size", 1024}, {"metrics", {{"time_us", {{us, us}}}}}};
  return {round, kCalibrationGroup, "mpich", true, setting, 1, {{"placement", placement}, {"cases", {c}}}};
}

TEST(Calibrations, ArePairedWithBuiltInThresholdsOfTheSameRoundAndPlacement) {
  std::vector<LaunchRecord> all;
  for (int round = 0; round < 8; ++round) {
    const double slow = 1 + round;
    all.push_back(calibrated_launch(round, "built-in", round == 7 ? "near" : "far", 2 * slow));
    all.push_back(calibrated_launch(round, "beside 2", "far", 3 * slow));
    all.push_back(calibrated_launch(round, "beside 0", round == 6 ? "mixed" : "far", 2 * slow));
  }
  const auto rows = calibration_rows_of(all);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].setting, "beside 0");
  EXPECT_EQ(rows[0].ratio.count, 6);
  EXPECT_DOUBLE_EQ(rows[0].ratio.mid, 1);
  EXPECT_EQ(rows[1].ratio.count, 7) << "the eighth has its partner in the other placement";
  EXPECT_DOUBLE_EQ(rows[1].ratio.low, 1.5);
  EXPECT_DOUBLE_EQ(rows[1].ratio.high, 1.5);
  EXPECT_NE(calibration_table_of(rows).find("1.500 [1.500, 1.500]"), std::string::npos);
  EXPECT_EQ(json_of(rows)[1]["ratio"]["median"], 1.5);
}

TEST(Calibrations, WithoutAPairThereIsNoRow) {
  EXPECT_TRUE(
      calibration_rows_of({calibrated_launch(0, "beside 1", "far", 2), calibrated_launch(1, "built-in", "far", 2)})
          .empty());
}

bool runs(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  std::string number, name, state;
  return (in >> number >> name >> state) && state != "Z" && state != "X";
}

TEST(BusyLoops, RunUntilTheirOwnerLetsThemGo) {
  std::vector<pid_t> loops;
  {
    const BusyLoops busy(2);
    loops = busy.children();
    ASSERT_EQ(loops.size(), 2U);
    for (const pid_t p : loops) EXPECT_TRUE(runs(p));
  }
  for (const pid_t p : loops) EXPECT_FALSE(runs(p));
}

TEST(BusyLoops, EndWithAProcessThatIsInterrupted) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const BusyLoops busy(1);
    const pid_t loop = busy.children().front();
    if (write(ends[1], &loop, sizeof loop) < 0) _exit(1);
    for (;;) pause();
  }
  pid_t loop = 0;
  ASSERT_EQ(read(ends[0], &loop, sizeof loop), static_cast<ssize_t>(sizeof loop));
  close(ends[0]);
  close(ends[1]);
  EXPECT_TRUE(runs(loop));
  kill(owner, SIGINT);
  waitpid(owner, nullptr, 0);
  for (int i = 0; i < 500 && runs(loop); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(runs(loop));
}

}  // namespace
}  // namespace zh::tools
