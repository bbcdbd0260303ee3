// The rounds of a benchmark of MPI programs: which hosts take part, short launches in turn, and the file of their
// documents. Called by the benchmarks (bench_command.h says how they run as a whole); knows nothing of what the
// programs measure.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench_judge.h"
#include "bench_launch.h"

namespace CLI {
class App;
}

namespace zh::tools {

/// The options by which a user names the hosts.
struct HostOptions {
  std::string hosts = "mpich,openmpi,impi";
  std::string under = "mpich,openmpi";
  std::string hosts_py;
  std::string mpiexec;
  std::string abi = "mpich";
};
void add_host_options(CLI::App& command, HostOptions* o);

struct Hosts {
  std::vector<BenchHost> peers;  ///< run bare
  std::vector<BenchHost> under;  ///< carry zerohop
};
/// Those of the wanted hosts that are installed, in the order in which they were named; says on standard error when
/// there are none. `first_only`: zerohop runs under the first alone.
std::optional<Hosts> choose_hosts(const HostOptions& o, bool first_only, const std::string& command);

/// What the rounds leave: the documents of the launches, and those of `zerohop bench raw` beside them.
struct Launches {
  std::vector<LaunchRecord> records;
  nlohmann::json raw = nlohmann::json::array();
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
  /// Every launch of the group once, in an order that rotates with the round. One that did not measure what it should
  /// have is reported on standard error and left out.
  void run_group(const std::string& group, int round, int rounds, std::vector<PlannedLaunch> planned);
  void add_raw(nlohmann::json document) { launches_.raw.push_back(std::move(document)); }
  [[nodiscard]] const Launches& launches() const { return launches_; }
  [[nodiscard]] int failures() const { return failures_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Launches launches_;
  int failures_ = 0;
};

std::vector<std::string> split(const std::string& list);
std::string joined(const std::vector<std::string>& words);
bool contains(const std::vector<std::string>& words, const std::string& word);

// Checks of options, as CLI11 takes them: what is wrong with the value, or nothing.
/// A comma list of some of `names`.
std::string wrong_names(const std::vector<std::string>& names, const std::string& list);
/// A comma list of numbers above 0, with K or M.
std::string wrong_sizes(const std::string& list);
/// A command with its arguments, found in PATH or by its path.
std::string wrong_command(const std::string& command);

}  // namespace zh::tools
