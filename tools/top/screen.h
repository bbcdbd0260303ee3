// The terminal as `zerohop top` shows it: the alternate screen, keys without Enter, and all as it was before at any
// end, also by a signal. Called by top.cpp; refuses to know what is shown.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace zh::tools::top {

class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] size_t columns() const;
  [[nodiscard]] size_t lines() const;
  /// The last line stays at the bottom.
  void show(const std::vector<std::string>& lines, const std::string& last);
  /// The next key; 0: none came in time, or the terminal has another size now; 'q' where no more can come.
  [[nodiscard]] char key(int timeout_ms);
};

/// Whether a screen can be shown: both ends are a terminal.
[[nodiscard]] bool has_terminal();

}  // namespace zh::tools::top
