// Formatting and writing of log lines; see log.h.
#include "base/log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace zh {

LogLevel log_level(std::string_view word) {
  if (word == "error") return LogLevel::kError;
  if (word == "info") return LogLevel::kInfo;
  if (word == "debug") return LogLevel::kDebug;
  return LogLevel::kWarn;
}

void Log::print(LogLevel level, const char* format, ...) const {
  if (!wants(level)) return;
  char line[2048];
  const int prefix = rank_ >= 0 ? std::snprintf(line, sizeof line, "zerohop[%d]: ", rank_)
                                : std::snprintf(line, sizeof line, "zerohop: ");
  size_t length = static_cast<size_t>(std::max(0, prefix));
  std::va_list arguments;
  va_start(arguments, format);
  const int text = std::vsnprintf(line + length, sizeof line - length - 1, format, arguments);
  va_end(arguments);
  // Cut rather than split: lines of several ranks share one terminal.
  length = std::min(length + static_cast<size_t>(std::max(0, text)), sizeof line - 2);
  line[length++] = '\n';
  [[maybe_unused]] const ssize_t written = write(fd_, line, length);
}

}  // namespace zh
