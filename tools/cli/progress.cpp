// See progress.h.
#include "tools/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "tools/cli/text.h"

namespace zh::tools {

void Progress::show(const std::string& what, int done, int total) {
  const Clock::time_point now = Clock::now();
  if (done == 0) kind_start_ = now;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  if (!terminal && now < next_line_) return;
  const auto text = [](Clock::duration d) {
    return duration(static_cast<uint64_t>(std::chrono::nanoseconds(d).count()));
  };
  std::string line = fmt::format("zerohop {}: {}", command_, what);
  if (total > 0) line += fmt::format(", {} of {}", done + 1, total);
  if (now - start_ > std::chrono::seconds(1)) line += ", after " + text(now - start_);
  if (done > 0 && total > done)
    line += fmt::format(", about {} left", text((now - kind_start_) / done * (total - done)));
  clear();
  // On a terminal what is too long is cut (?7l), for a wrapped line could not be rewritten.
  fmt::print(stderr, "{}", terminal ? "\033[?7l" + line + "\033[?7h" : line + "\n");
  on_screen_ = terminal;
  next_line_ = now + between_lines_;
}

void Progress::tell(const std::string& line) {
  clear();
  fmt::print(stderr, "zerohop {}: {}\n", command_, line);
}

void Progress::clear() {
  if (on_screen_) fmt::print(stderr, "\r\033[K");
  on_screen_ = false;
}

}  // namespace zh::tools
