// What ZEROHOP_LOG=debug tells: each decision once, and nothing where nobody listens.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "engine_support.h"

namespace zh::test {
namespace {

/// A file that a log writes to.
class LogFile {
 public:
  LogFile() : file_(std::tmpfile()) {}
  ~LogFile() { std::fclose(file_); }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  [[nodiscard]] Log log(int rank, LogLevel level) const { return {rank, level, fileno(file_)}; }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    std::rewind(file_);
    char line[4096];
    while (std::fgets(line, sizeof line, file_) != nullptr) lines.emplace_back(line);
    return lines;
  }

 private:
  std::FILE* file_;
};

size_t count_of(const std::vector<std::string>& lines, const std::string& part) {
  return static_cast<size_t>(std::count_if(
      lines.begin(), lines.end(), [&part](const std::string& line) { return line.find(part) != std::string::npos; }));
}

/// Messages of `sizes` from rank 0 to rank 1, each `times` times.
void send_all(engine::Rank& rank, uint32_t self, const std::vector<uint64_t>& sizes, int times) {
  for (const uint64_t bytes : sizes) {
    std::vector<std::byte> data(bytes, std::byte{1});
    for (int i = 0; i < times; ++i) {
      if (self == 0) {
        ASSERT_EQ(rank.send(to_other(1, 0, data.data(), bytes)).code, Code::kOk);
      } else {
        ASSERT_EQ(rank.recv(message_from(0, 0, data.data(), bytes)).code, Code::kOk);
      }
    }
  }
}

/// A rank whose log at `level` goes to `file`.
EngineRank logging_rank(TestBootstrap& world, World kind, LogLevel level, const LogFile& file) {
  return make_rank(world, {.world = kind, .log = file.log(world.rank(), level)});
}

class Tracing : public ::testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Worlds, Tracing, ::testing::Values(World::kThreads, World::kProcesses), world_name);

TEST_P(Tracing, TellsEachDecisionOnce) {
  run_ranks(GetParam(), 2, [&](TestBootstrap& world) {
    const LogFile file;
    EngineRank r = logging_rank(world, GetParam(), LogLevel::kDebug, file);
    ASSERT_NE(r.rank, nullptr);
    send_all(*r.rank, r.node->self(), {8, 1000, 1001, 100'000, 1 << 20}, 3);
    r.rank->count_fallback("something");
    r.rank->count_fallback("something");
    ASSERT_TRUE(world.barrier().ok());
    const std::vector<std::string> lines = file.lines();
    EXPECT_EQ(count_of(lines, "left to the host: something"), 1U);
    if (r.node->self() == 1) {
      EXPECT_EQ(lines.size(), 1U) << "a receiver that only receives decides nothing else";
      return;
    }
    EXPECT_EQ(count_of(lines, "zerohop[0]: "), lines.size());
    EXPECT_EQ(count_of(lines, "first message to rank 1, which is "), 1U);
    EXPECT_EQ(count_of(lines, "first of 512 to 1K bytes this way to rank 1: eager"), 1U)
        << "1000 and 1001 are one class";
    // Which way a large one goes depends on which end is there.
    EXPECT_GE(count_of(lines, "first of 64K to 128K bytes this way to rank 1: "), 1U);
    EXPECT_GE(count_of(lines, "first of 1M to 2M bytes this way to rank 1: "), 1U);
    for (const std::string& line : lines) EXPECT_EQ(count_of(lines, line), 1U) << line;
    EXPECT_GE(count_of(lines, "payload ring to rank 1: now "), 1U);
  });
}

TEST_P(Tracing, IsSilentBelowDebug) {
  run_ranks(GetParam(), 2, [&](TestBootstrap& world) {
    const LogFile file;
    EngineRank r = logging_rank(world, GetParam(), LogLevel::kInfo, file);
    ASSERT_NE(r.rank, nullptr);
    send_all(*r.rank, r.node->self(), {8, 1000, 100'000}, 2);
    ASSERT_TRUE(world.barrier().ok());
    EXPECT_TRUE(file.lines().empty());
  });
}

}  // namespace
}  // namespace zh::test
