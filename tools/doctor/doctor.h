// One check of `zerohop doctor`, and the checks by subject, each in a file of its own. Called by doctor.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/doctor/heap_facts.h"
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
  State state = State::kOk;
  std::string finding;
  std::string cost;  ///< what the state costs; empty if ok
  std::string cure;  ///< the command that mends it; empty if ok
};

/// "1.5 GiB", "unlimited".
[[nodiscard]] std::string size_text(uint64_t bytes);
/// In the largest unit of which there is one: "12 B", "1.5 KiB".
[[nodiscard]] std::string amount(uint64_t bytes);

/// What a job meets (doctor_job.cpp). `program` may be null: then the machine's MPI libraries are judged.
[[nodiscard]] std::vector<Check> job_checks(const Parts& parts, const MpiFacts& mpi, const ProgramFacts* program,
                                            const std::vector<Preload>& preloads);
/// "Open MPI 5.0.11": a library's name and version, by what it says of itself.
[[nodiscard]] std::string short_version(const std::string& text);
/// ZEROHOP_ variables that are not obeyed.
[[nodiscard]] Check check_variables(const Options& options);

/// What the machine permits, and how much of it there is (doctor_machine.cpp).
[[nodiscard]] std::vector<Check> machine_checks(const Options& options);
/// Ranks that may wander between sockets. `sockets` of the machine, `reached` by this process; `ranks` 0: no job.
[[nodiscard]] Check check_binding(uint32_t sockets, uint32_t reached, int ranks);

/// The measured copy costs that are kept for this machine (doctor_calibration.cpp).
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

/// What the shared heap may do here (doctor_heap.cpp).
[[nodiscard]] std::vector<Check> heap_checks(const HeapFacts& facts);

/// What a run made of it, by its statistics (doctor_run.cpp).
[[nodiscard]] Check check_run(const RunStats& run);
/// Whether other programs wanted the job's processors.
[[nodiscard]] Check check_company(const RunStats& run);
/// That, how the run ended, and its collectives.
[[nodiscard]] std::vector<Check> run_checks(const RunStats& run);

}  // namespace zh::tools
