// One check of `zerohop doctor`, and the checks by subject, each in a file of its own. Called by doctor.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/doctor/job_facts.h"
#include "tools/doctor/run_stats.h"
#include "tune/profile.h"

namespace zh {
class Options;
}

namespace zh::tools {

enum class State { kOk, kWarn, kBad };

struct Check {
  const char* name;
  std::string finding = {};
  State state = State::kOk;
  std::string cost = {};  ///< what the state costs; empty if ok
  std::string cure = {};  ///< the command that mends it; empty if ok

  /// Not ok: sets these and returns itself.
  Check& mark(State s, std::string costs, std::string mends) {
    state = s;
    cost = std::move(costs);
    cure = std::move(mends);
    return *this;
  }
};

/// In the largest unit of which there is one: "12 B", "1.5 KiB"; "unlimited".
[[nodiscard]] std::string amount(uint64_t bytes);

/// What a job meets (job.cpp). `program` may be null: then the machine's MPI libraries are judged.
[[nodiscard]] std::vector<Check> job_checks(const Parts& parts, const MpiFacts& mpi, const ProgramFacts* program,
                                            const std::vector<Preload>& preloads);
/// Which launcher and which libraries a job takes; `program_decides`: it may bring its own.
[[nodiscard]] Check check_mpi(const MpiFacts& mpi, bool program_decides);
/// "Open MPI 5.0.11": a library's name and version, by what it says of itself.
[[nodiscard]] std::string short_version(const std::string& text);
/// ZEROHOP_ variables that are not obeyed.
[[nodiscard]] Check check_variables(const Options& options);

/// What the machine permits, and how much of it there is (machine.cpp).
[[nodiscard]] std::vector<Check> machine_checks(const Options& options);
/// Ranks that may wander between sockets. `sockets` of the machine, `reached` by this process; `ranks` 0: no job.
[[nodiscard]] Check check_binding(uint32_t sockets, uint32_t reached, int ranks);

/// The measured copy costs that are kept for this machine (calibration.cpp).
struct CalibrationFacts {
  std::string path;    ///< of the file that is read
  std::string folder;  ///< of the user's own
  bool switched_off = false;
  bool writable = true;  ///< jobs can keep what they measure
  Status loaded;         ///< as load_profile() says it
  tune::Profile profile;
  int64_t now = 0;  ///< seconds since 1970
};
[[nodiscard]] CalibrationFacts look_at_calibration(const Options& options);
[[nodiscard]] Check check_calibration(const CalibrationFacts& facts);

/// What decides about the shared heap of a program that is started from here (heap.cpp): `zerohop info` prints it.
struct HeapFacts {
  std::string setting;        ///< of ZEROHOP_HEAP
  bool switched_off = false;  ///< by the user's variables
  bool used = false;
  std::string why;               ///< why not, or by what
  bool huge_pages_stay = false;  ///< memory in huge pages stays private
  uint64_t page_bytes = 0;       ///< of the system
  std::string overcommit;        ///< the settings as the system shows them, "" where it has none
  std::string private_huge_pages;
  std::string shared_huge_pages;
  int populate = 0;      ///< 0 or -errno
  int sibling_file = 0;  ///< 0 or -errno
  bool pagemap = true;
};
/// Tries and reads the running system.
[[nodiscard]] HeapFacts look_at_heap(const Options& options);
/// What the shared heap may do here.
[[nodiscard]] std::vector<Check> heap_checks(const HeapFacts& facts);

/// How much of a run's communication zerohop served, by its statistics (run.cpp).
[[nodiscard]] Check check_served(const RunStats& run);
/// How its messages went.
[[nodiscard]] Check check_run(const RunStats& run);
/// Whether other programs wanted the job's processors.
[[nodiscard]] Check check_company(const RunStats& run);
/// Those, how the run ended, and its collectives.
[[nodiscard]] std::vector<Check> run_checks(const RunStats& run);

}  // namespace zh::tools
