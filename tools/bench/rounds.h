// The rounds of a benchmark of MPI programs: short launches in turn, and the file of their documents. Called by the
// benchmarks (command.h says how they run as a whole); knows nothing of what the programs measure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/judge.h"
#include "tools/bench/launch.h"
#include "tools/bench/machine_load.h"
#include "tools/cli/progress.h"

namespace zh::tools {

/// What the rounds leave: the documents of the launches, and those of `zerohop bench raw` beside them.
struct Launches {
  std::vector<LaunchRecord> records;
  nlohmann::json raw = nlohmann::json::array();
  std::vector<std::string> arms;  ///< as --arm had them
  MachineLoad machine;
};
bool write_launches(const std::string& path, const Launches& launches, const std::string& command);
/// The launches of an earlier run.
std::optional<Launches> read_launches(const std::string& path, const std::string& command);

struct PlannedLaunch {
  const BenchHost* host = nullptr;
  bool zerohop = false;  ///< this launch stands for zerohop (which a null test leaves out: then spec.zerohop is false)
  std::string setting;
  LaunchSpec spec;
};

/// Makes the launches and keeps their documents.
class Rounds {
 public:
  explicit Rounds(const std::string& command) : progress_(command) {}
  /// Every launch of the group once, in an order that rotates with the round. One that did not measure what it should
  /// have is reported on standard error and left out.
  void run_group(const std::string& group, int round, int rounds, std::vector<PlannedLaunch> planned);
  /// While it is so, groups are not launched but counted as those of a round: for the time left.
  void set_counting(bool counting) { counting_ = counting; }
  [[nodiscard]] bool counting() const { return counting_; }
  /// Kept with the launches: what else the machine did meanwhile.
  void set_machine(const MachineLoad& load) { launches_.machine = load; }
  void set_arms(const std::vector<std::string>& arms) { launches_.arms = arms; }
  void add_raw(nlohmann::json document) { launches_.raw.push_back(std::move(document)); }
  [[nodiscard]] const Launches& launches() const { return launches_; }
  /// Something besides a launch went wrong, and was reported.
  void note_failure() { failures_ += counting_ ? 0 : 1; }
  Progress& progress() { return progress_; }
  [[nodiscard]] int failures() const { return failures_; }

 private:
  void launch(const std::string& group, int round, int rounds, const PlannedLaunch& planned);

  Progress progress_;
  Launches launches_;
  bool counting_ = false;
  int failures_ = 0;
  int made_ = 0;      ///< launches
  int in_round_ = 0;  ///< ... of each round
};

}  // namespace zh::tools
