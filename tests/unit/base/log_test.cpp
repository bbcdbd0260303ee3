// Log: levels, prefix, one line per call, speaking once.
#include "base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace zh {
namespace {

std::string captured(LogLevel threshold, LogLevel level, const char* text) {
  int ends[2];
  if (pipe(ends) != 0) return "pipe";
  Log(3, threshold, ends[1]).print(level, "%s %d", text, 7);
  close(ends[1]);
  std::string all(5000, '\0');
  const ssize_t n = read(ends[0], all.data(), all.size());
  close(ends[0]);
  all.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return all;
}

TEST(Log, PrefixesAndFilters) {
  EXPECT_EQ(captured(LogLevel::kInfo, LogLevel::kWarn, "a"), "zerohop[3]: a 7\n");
  EXPECT_EQ(captured(LogLevel::kInfo, LogLevel::kInfo, "b"), "zerohop[3]: b 7\n");
  EXPECT_EQ(captured(LogLevel::kInfo, LogLevel::kDebug, "c"), "");
}

TEST(Log, CutsLongLines) {
  const std::string text = captured(LogLevel::kWarn, LogLevel::kWarn, std::string(4000, 'x').c_str());
  EXPECT_LT(text.size(), 2100u);
  EXPECT_EQ(text.find('\0'), std::string::npos);
  EXPECT_EQ(text.back(), '\n');
}

TEST(Log, LevelsByName) {
  EXPECT_EQ(log_level("error"), LogLevel::kError);
  EXPECT_EQ(log_level("debug"), LogLevel::kDebug);
  EXPECT_EQ(log_level("?"), LogLevel::kWarn);
}

}  // namespace
}  // namespace zh
