// A leveled log on stderr, one write per line, prefixed "zerohop[<rank>]:". An object of whoever runs a rank, not a
// global. Whoever detects an error logs it, once. It refuses to know variables: its owner sets the level.
#pragma once

#include <cstdint>
#include <string_view>

namespace zh {

enum class LogLevel : uint8_t { kError, kWarn, kInfo, kDebug };
/// "error", "warn", "info", "debug"; kWarn for anything else.
[[nodiscard]] LogLevel log_level(std::string_view word);

class Log {
 public:
  Log() = default;
  Log(int rank, LogLevel level, int fd = 2) : rank_(rank), fd_(fd), level_(level) {}

  [[nodiscard]] bool wants(LogLevel level) const { return level <= level_; }
  [[gnu::format(printf, 3, 4)]] void print(LogLevel level, const char* format, ...) const;

 private:
  int rank_ = -1;  ///< -1: not known yet; the prefix is then "zerohop:"
  int fd_ = 2;
  LogLevel level_ = LogLevel::kWarn;
};

}  // namespace zh
