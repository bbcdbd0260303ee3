// Starts one launch of an MPI program under one host and brings back the JSON document that it wrote. Called by the
// benchmark rounds; knows hosts, command lines and time limits, and nothing of what is measured.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace zh::tools {

/// One MPI library as dev/hosts.py describes it.
struct BenchHost {
  std::string name;                        ///< mpich, openmpi, impi, ... or "custom"
  std::string abi;                         ///< mpich, ompi or abi: which build of the benchmark program it runs
  std::vector<std::string> mpiexec;        ///< start of the command line
  std::map<std::string, std::string> env;  ///< variables for launcher and ranks
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(BenchHost, name, abi, mpiexec, env)

struct LaunchSpec {
  const BenchHost* host = nullptr;
  int ranks = 2;
  std::vector<std::string> program;             ///< program and arguments; "--out <file>" is appended
  std::map<std::string, std::string> env;       ///< on top of the host's
  bool zerohop = false;                         ///< false: LD_PRELOAD and ZEROHOP_* are taken out of the environment
  std::map<std::string, std::string> settings;  ///< of ZEROHOP_CONFIG, on top of the environment's
  double timeout_s = 120;
};

struct LaunchResult {
  bool ok = false;
  std::string problem;  ///< why not, with the last lines of what the job said
  double wall_s = 0;
  nlohmann::json document;
};

/// Runs the launch to its end, or ends it (and everything it started) after the time limit.
LaunchResult run_launch(const LaunchSpec& spec);

/// The hosts that `python3 <hosts_py> --json` names; empty with a reason on failure.
std::vector<BenchHost> find_hosts(const std::string& hosts_py, std::string* problem);

/// Path of dev/hosts.py above the executable's folder or the current one; empty when there is none.
std::string default_hosts_py();

/// Runs a command, returns its standard output; nothing when it fails.
std::optional<std::string> output_of(const std::vector<std::string>& command, double timeout_s);

}  // namespace zh::tools
