// How much of the processors other programs use while something is measured. Called by the benchmarks at their start,
// after every round and at their end; reads /proc and says no more than "busy".
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace zh::tools {

/// Processor time of all programs since the machine started, from the first line of /proc/stat; time that a hypervisor
/// gave to others counts. Nothing where the kernel keeps no count.
std::optional<double> busy_seconds_of(const std::string& proc_stat, double ticks_per_second);

/// Other programs' use of the machine, in processors.
struct MachineLoad {
  bool known = false;
  int processors = 0;
  double others_at_start = 0;
  double others_during = 0;  ///< mean of the run
  double others_most = 0;    ///< in the busiest round

  [[nodiscard]] bool busy_at_start() const;
  [[nodiscard]] bool busy_during() const;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(MachineLoad, known, processors, others_at_start, others_during,
                                                others_most)
/// Null where nothing is known.
nlohmann::json json_of(const MachineLoad& load);
/// One line, or nothing when the machine is quiet.
std::string start_line_of(const MachineLoad& load);
std::string run_line_of(const MachineLoad& load);

/// Watches from its construction on. What this process and the children that it waited for use is not counted.
class LoadWatch {
 public:
  /// Looks for a fifth of a second, in which nothing of ours runs; tells of a busy machine in the name of `command`.
  explicit LoadWatch(const std::string& command);
  /// Ends a round. A round of less than half a second is added to the next one: processor time comes in ticks.
  void look();
  /// Ends the last round, prints the line of a busy run, and gives what results have of it.
  nlohmann::json end();
  [[nodiscard]] const MachineLoad& load() const { return load_; }

 private:
  struct Moment {
    std::chrono::steady_clock::time_point when;
    double busy_s = 0;
    double own_s = 0;
  };
  static std::optional<Moment> now();
  static double others(const Moment& from, const Moment& to);

  MachineLoad load_;
  Moment begun_;
  Moment last_;
};

}  // namespace zh::tools
