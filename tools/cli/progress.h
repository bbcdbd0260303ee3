// What a long command is at, how far it is, and how long the rest will take. Called between two pieces of its work; has
// no thread, for whatever runs beside a measurement disturbs it.
#pragma once

#include <chrono>
#include <string>
#include <utility>

namespace zh::tools {

/// On standard error, in the way of no table or JSON: on a terminal one line that is rewritten, elsewhere a plain line
/// a minute, so none of what is done sooner.
class Progress {
 public:
  /// `command`: as it is called, such as "bench p2p".
  explicit Progress(std::string command, std::chrono::seconds between_lines = std::chrono::minutes(1))
      : command_(std::move(command)), between_lines_(between_lines) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `what` begins. `done` of `total` pieces of work that take about as long as each other are behind; with 0 of them
  /// a new kind begins. Total 0: nobody knows how many there are.
  void show(const std::string& what, int done = 0, int total = 0);
  /// A line that stays.
  void tell(const std::string& line);
  /// Takes the rewritten line away, before something else is printed.
  void clear();
  [[nodiscard]] double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  std::string command_;
  std::chrono::seconds between_lines_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point kind_start_ = start_;
  Clock::time_point next_line_ = start_ + between_lines_;
  bool on_screen_ = false;
};

}  // namespace zh::tools
