// What the benchmarks of MPI programs have in common as commands: their options, the command line of one launch, and
// the way from the rounds to the table and the files. Used by `zerohop bench p2p`, `coll` and `algorithms`, each of
// which says what a round launches and what is printed of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/hosts.h"
#include "tools/bench/rounds.h"
#include "tools/cli/inputs.h"

namespace CLI {
class App;
}

namespace zh::tools {

void add_bench_p2p_command(CLI::App& bench);
void add_bench_coll_command(CLI::App& bench);
void add_bench_algorithms_command(CLI::App& bench);
void add_bench_raw_command(CLI::App& bench);
void add_bench_breakdown_command(CLI::App& bench);
/// `zerohop bench raw --lines`: how long a cache line takes between every two CPUs. The command's exit code.
int bench_lines(const std::string& json_path);

struct BenchOptions {
  HostOptions hosts;
  std::string program;  ///< bench_<program>_<abi>; empty: named as the benchmark
  std::string only;     ///< sub-benchmarks; empty: the benchmark's own choice
  std::string sizes;
  std::string buffers = "malloc";
  std::vector<int> ranks = {2, 8};
  std::vector<std::string> arms;  ///< of zerohop (arms.h); none: its defaults, judged
  std::string json_path;
  std::string line;  ///< near or far: only launches whose first two ranks were so; empty: all
  std::string launches_path;
  std::string rejudge_path;
  int rounds = 0;  ///< this and the next three: 0 until the benchmark's Pace fills it in
  int blocks = 0;
  double block_us = 0;
  double case_s = 0;
  double timeout_s = 120;
  bool quick = false;
  bool null_test = false;
  bool one_under = false;                  ///< zerohop under the first of the usual hosts alone
  bool names_ranks = false;                ///< `ranks` are what will be launched
  std::vector<std::string> own_arguments;  ///< what only this benchmark's program understands
};

/// How long a run is unless options say otherwise.
struct Pace {
  int rounds = 10;
  int blocks = 5;
  double block_us = 4000;
  double case_s = 0;  ///< 0: a case makes all its blocks
};

/// One benchmark: `zerohop bench <name>`.
struct MpiBench {
  std::string name;
  std::string about;
  std::string examples;  ///< below the options in the help
  std::string sizes;     ///< help of --sizes
  SizeRange size_range;
  std::string quick;  ///< help of --quick
  Pace usual_pace;
  Pace quick_pace;
  /// What is wrong with the options as a whole; unset or "": nothing.
  std::function<std::string()> check;
  std::function<void(const Hosts& hosts, int round, Rounds* rounds)> run_round;
  /// Prints and writes; the command's exit code.
  std::function<int(const Launches& launches)> report;
};

/// Adds the subcommand with the options that all have. The benchmark's callables see `options` settled: with its pace.
CLI::App* add_mpi_bench(CLI::App& parent, const std::shared_ptr<BenchOptions>& options, MpiBench bench);
void add_ranks_option(CLI::App& command, BenchOptions* options);
/// Why so many ranks cannot be spread over the machines that are asked for; "": they can.
std::string wrong_machines(const BenchOptions& options, int ranks);
void add_line_option(CLI::App& command, BenchOptions* options);
void add_arm_option(CLI::App& command, BenchOptions* options);
/// Table and JSON of launches that had arms; the command's exit code.
int report_arms(const BenchOptions& options, const Launches& launches, const std::string& command);
/// Whether the launch was at that line; all are at "".
bool is_at(const LaunchRecord& record, const std::string& line);
/// How many launches were not, for the end of a table.
std::string left_out_text(const std::vector<LaunchRecord>& launches, const std::string& line);

inline constexpr int kMostRanks = 4096;  // kMaxRanks of bench/mpi/bench.h

inline constexpr const char* kHostArm = "host";
inline constexpr const char* kZerohopArm = "zerohop";
inline constexpr const char* kPairedArms = "host,zerohop,host";

/// One launch of bench_<name>_<abi>, which alternates these arms; zerohop is preloaded where it is one of them.
PlannedLaunch plan_launch(const std::string& name, const BenchOptions& o, const BenchHost& host, int ranks,
                          const std::string& arms);
/// Every host bare, and zerohop under each that carries it. With arms: each of them, and bare those hosts that are
/// named.
std::vector<PlannedLaunch> plan_launches(const std::string& name, const BenchOptions& o, const Hosts& hosts, int ranks);

/// Zerohop carries `collective` out so in this launch (ZEROHOP_ALGORITHM, the setting chunk); "" leaves one as it is.
void choose_algorithm(const std::string& collective, const std::string& algorithm, const std::string& chunk,
                      PlannedLaunch* launch);

/// Those of `part` (a comma list) that --only names; all when it names none.
std::vector<std::string> wanted_of(const BenchOptions& o, const std::string& part);

/// Writes the file that --json names, if it names one: the document and what else the machine did. False after a
/// message when it could not be written.
bool write_document(const BenchOptions& o, nlohmann::json document, const MachineLoad& machine,
                    const std::string& command);
/// The same of judged rows; `summary`, unless null, goes into it.
bool write_judged(const BenchOptions& o, const Judged& judged, const MachineLoad& machine, const std::string& command,
                  const nlohmann::json& summary = nullptr);

}  // namespace zh::tools
