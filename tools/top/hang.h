// The watcher of `zerohop run --hang-report`: a process beside a program, which tells once when nothing moves any more.
// Started by tools/cli/run.cpp through the command, which calls watch(); refuses to know launchers.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "tools/top/look.h"

namespace zh::tools::top {

/// Finds in one look after another when a job stands still.
class HangWatch {
 public:
  explicit HangWatch(uint64_t patience_ns) : patience_ns_(patience_ns) {}
  /// The report, once for each time that nothing has moved for so long while a rank waits; else "".
  [[nodiscard]] std::string see(const JobLook& now);

 private:
  uint64_t patience_ns_;
  JobLook last_;
  uint64_t moved_ns_ = 0;  ///< the first look since which all were alike
  bool reported_ = false;
};

/// Until that process has ended. What it runs under zerohop is looked at, by itself or by processes that it starts.
void watch(pid_t pid, uint64_t patience_ns);

}  // namespace zh::tools::top
