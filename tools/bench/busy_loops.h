// Processes that compute all the time: the other work beside which a calibration is made on purpose.
#pragma once

#include <sys/types.h>

#include <vector>

namespace zh::tools {

/// Ended with this object, and with this process, however it ends.
class BusyLoops {
 public:
  explicit BusyLoops(int count);
  ~BusyLoops();
  BusyLoops(const BusyLoops&) = delete;
  BusyLoops& operator=(const BusyLoops&) = delete;
  /// Those that could be started.
  [[nodiscard]] const std::vector<pid_t>& children() const { return children_; }

 private:
  std::vector<pid_t> children_;
};

}  // namespace zh::tools
