// Readers of one process's memory: what repetitions say, and that this machine gives a figure for each number of them.
#include "tools/tune/contention.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "os/affinity.h"

namespace zh::tools {
namespace {

TEST(Contention, IsTheMedianOfTheSlowestByReaders) {
  const std::vector<uint32_t> readers = {1, 2};
  const std::vector<double> steady(25, 4);
  std::vector<double> outlier(25, 6);
  outlier[3] = 900;
  const model::Contention quiet = contention_of("mapped", 4096, readers, {steady, outlier});
  EXPECT_EQ(quiet.way, "mapped");
  EXPECT_EQ(quiet.bytes, 4096U);
  EXPECT_EQ(quiet.us, (std::vector<std::pair<uint32_t, double>>{{1, 4}, {2, 6}}));
  EXPECT_FALSE(quiet.noisy);
  std::vector<double> scattered;
  for (int i = 0; i < 25; ++i) scattered.push_back(1 + i);
  EXPECT_TRUE(contention_of("mapped", 4096, readers, {steady, scattered}).noisy);
  EXPECT_TRUE(contention_of("mapped", 4096, readers, {{4, 4, 4}, steady}).noisy) << "too few to tell";
}

TEST(Contention, NeedsTwoProcessors) {
  EXPECT_TRUE(measure_contention({}).empty());
  const uint32_t one[] = {0};
  EXPECT_TRUE(measure_contention(one).empty());
}

TEST(Contention, ThisMachineGivesATimeForEachNumberOfReaders) {
  const os::CpuSet before = os::allowed_cpus();
  std::vector<uint32_t> processors;
  for (uint32_t cpu = 0; cpu < os::CpuSet::kMaxCpus && processors.size() < 3; ++cpu) {
    if (before.has(cpu)) processors.push_back(cpu);
  }
  if (processors.size() < 2) GTEST_SKIP() << "needs two processors";
  const std::vector<model::Contention> all = measure_contention(processors);
  EXPECT_GE(all.size(), 3U) << "of mapped memory, all sizes";
  EXPECT_EQ(all.front().bytes, 16U << 10) << "the multicore collectives paper's";
  for (const model::Contention& c : all) {
    ASSERT_EQ(c.us.size(), processors.size()) << "1, 2 and 3, or 1 and 2";
    EXPECT_EQ(c.us.back().first, processors.size());
    for (const auto& [readers, us] : c.us) EXPECT_GT(us, 0) << c.way << " " << readers;
  }
  EXPECT_EQ(os::allowed_cpus(), before) << "this process is where it was";
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no reader is left";
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace zh::tools
