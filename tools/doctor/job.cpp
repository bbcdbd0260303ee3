// The doctor's checks of what a job meets before it runs: zerohop's own files, the MPI library, what is preloaded, the
// variables, the program. Judges what job_facts.h has found.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/options.h"
#include "coll/algorithms/precedence.h"
#include "mpi/entry/known_hosts.h"
#include "node/machine.h"
#include "tools/cli/inputs.h"
#include "tools/doctor/doctor.h"

namespace zh::tools {
namespace {

constexpr const char* kInstallAgain =
    "install zerohop again, and move its folders only together (make install PREFIX=...)";
constexpr const char* kHostOnly = "zerohop stays out: every call goes to the MPI library, and nothing is faster";

/// Versions of docs/user/guide.md, the table of MPI libraries.
struct Tried {
  const char* mark;  ///< in what the library says of itself
  const char* name;
  std::vector<mpi::Version> versions;
};
const std::vector<Tried>& tried() {
  static const std::vector<Tried> table = {
      {"Intel(R) MPI Library", "Intel MPI", {{2021, 9}, {2021, 10}, {2021, 13}, {2021, 15}, {2021, 19}}},
      {"MPICH Version", "MPICH", {{3, 4}, {4, 0}, {5, 0}}},
      {"Open MPI", "Open MPI", {{4, 1}, {5, 0}}},
  };
  return table;
}

std::string listed(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

/// "", or that nobody has tried the version.
std::string untried(const std::string& text) {
  for (const Tried& t : tried()) {
    mpi::Version version;
    if (!mpi::version_behind(text.c_str(), t.mark, &version)) continue;
    std::vector<std::string> names;
    for (const mpi::Version& v : t.versions) {
      if (v.major == version.major && v.minor == version.minor) return "";
      names.push_back(std::to_string(v.major) + "." + std::to_string(v.minor));
    }
    return "; tried were " + listed(names);
  }
  return text.empty() ? "" : "; not tried";
}

/// "libmpi.so.40: Open MPI 5.0.11, served (/path)".
std::string described(const MpiLibrary& library) {
  const std::string what = library.version.empty() ? "of an unknown version" : short_version(library.version);
  const std::string served = library.module.empty() ? "not served" : "served" + untried(library.version);
  return library.name + ": " + what + ", " + served + (library.path.empty() ? "" : " (" + library.path + ")");
}

Check check_library(const Parts& parts) {
  Check c{"library", parts.library};
  if (parts.library_whole) return c;
  c.finding = parts.library.empty() ? "libzerohop.so is not beside this command (../lib)"
                                    : parts.library + " is no shared library for this machine";
  return c.mark(State::kBad, "`zerohop run` starts nothing", kInstallAgain);
}

Check check_modules(const Parts& parts, const MpiFacts& mpi) {
  Check c{"modules", listed(parts.modules)};
  if (parts.modules.empty()) {
    c.finding = "no module for an MPI library is beside libzerohop.so";
    return c.mark(State::kBad, kHostOnly, kInstallAgain);
  }
  std::vector<std::string> lacking;
  std::vector<std::string> libraries;
  for (const MpiLibrary& library : mpi.libraries) {
    if (library.module.empty() || contains(parts.modules, library.module)) continue;
    if (!contains(lacking, library.module)) lacking.push_back(library.module);
    libraries.push_back(library.name);
  }
  if (lacking.empty()) return c;
  c.finding = "missing: " + listed(lacking) + ", for " + listed(libraries);
  return c.mark(
      State::kWarn, "jobs under that MPI library run without zerohop",
      "build zerohop with that library's mpi.h (the table at the end of the configuration says what was left out)");
}

/// Programs that load their MPI library when a script asks for it.
bool is_interpreter(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  for (const char* known : {"python", "julia", "Rscript", "perl", "ruby", "octave", "java", "node"}) {
    if (name.starts_with(known)) return true;
  }
  for (const char* shell : {"sh", "bash", "dash", "zsh", "ksh", "env", "R", "time", "nice", "numactl", "taskset"}) {
    if (name == shell) return true;
  }
  return false;
}

struct JobVerdict {
  State state;
  std::string finding;
  std::string cost = {};
  std::string cure = {};
};

JobVerdict judge_mpi_of(const ProgramFacts& p, const Parts& parts, const MpiFacts& mpi) {
  const MpiLibrary& library = p.mpi.front();
  std::string found = "links with " + described(library);
  if (library.path.empty()) {
    return {State::kBad, "links with " + library.name + ", which the loader does not find", "the program cannot start",
            "put its folder in LD_LIBRARY_PATH (often: module load ...)"};
  }
  if (library.module.empty()) {
    return {State::kBad, found, kHostOnly,
            "link it with MPICH, Open MPI or Intel MPI in a version of the user guide's table (docs/user/guide.md)"};
  }
  if (!contains(parts.modules, library.module)) {
    return {State::kBad, found + "; its module " + library.module + " is missing", kHostOnly,
            "build zerohop with that library's mpi.h"};
  }
  const bool abi = library.module == mpi::kAbiModule;
  if (!abi && !mpi.launcher_module.empty() && mpi.launcher_module != library.module) {
    return {State::kBad, found + ", but " + mpi.launcher + " belongs to " + mpi.launcher_version,
            "each rank is a job of its own, of one rank", "start it with the mpiexec of its own MPI library"};
  }
  return {State::kOk, found};
}

JobVerdict judge_program(const ProgramFacts& p, const Parts& parts, const MpiFacts& mpi) {
  constexpr const char* kNotStarted = "it cannot be started";
  constexpr const char* kWithout = "it runs without zerohop";
  const auto bad = [](std::string finding, const char* cost, const char* cure) {
    return JobVerdict{State::kBad, std::move(finding), cost, cure};
  };
  if (p.error == ENOENT) return bad("program not found", kNotStarted, "give its path, or put its folder on PATH");
  if (p.error != 0) return bad(std::strerror(p.error), kNotStarted, "chmod +x, or give the program and not its folder");
  if (p.interpreter_missing)
    return bad("a script of " + p.script_of + ", which is not there", kNotStarted, "mend the first line of the script");
  if (p.other_machine) return bad("made for another kind of processor", kNotStarted, "compile it on this machine");
  if (!p.obstacle.empty()) return bad(p.obstacle, kWithout, "a 64-bit, dynamically linked program without such rights");
  if (p.holds_mpi)
    return bad("its MPI library is linked into it statically", kWithout, "link it with the shared MPI library");
  if (!p.doubtful_profiler.empty())
    return bad(
        p.doubtful_profiler + ", a profiler, looks up functions itself and may call the MPI library past zerohop",
        kHostOnly, "preload that profiler instead of linking with it (LD_PRELOAD, before zerohop)");
  if (!p.mpi.empty()) {
    JobVerdict v = judge_mpi_of(p, parts, mpi);
    if (v.state != State::kOk || p.missing.empty()) return v;
  }
  if (!p.missing.empty())
    return bad("the loader does not find " + listed(p.missing), kNotStarted, "put their folder in LD_LIBRARY_PATH");
  if (!p.script_of.empty())
    return {State::kOk, "a script, run by " + p.script_of + "; its MPI library is the one that it loads later"};
  if (is_interpreter(p.path)) return {State::kOk, "links with no MPI library; what it loads or starts later is served"};
  return {State::kWarn, "links with no MPI library",
          "zerohop has nothing to do in it, unless it loads an MPI library or starts an MPI program later",
          "give the program that calls MPI"};
}

Check check_program(const ProgramFacts& p, const Parts& parts, const MpiFacts& mpi) {
  JobVerdict v = judge_program(p, parts, mpi);
  Check c{"program", (p.path.empty() ? p.name : p.path) + ": " + v.finding, v.state, v.cost, v.cure};
  if (p.sanitizer) c.finding += "; a sanitizer watches its memory, so no buffer becomes shared";
  if (!p.profilers.empty()) c.finding += "; profilers in it: " + listed(p.profilers);
  return c;
}

/// Values that are obeyed, with which no job can start; "" if there are none.
std::string what_stops_every_job(const Options& options) {
  const std::string& topology = options.get_text(Opt::kTopology);
  if (!topology.empty()) {
    node::Machine machine;
    if (const Status s = machine.load(topology); !s.ok()) return "topology=" + topology + ": " + s.what();
  }
  const std::string& folder = options.get_text(Opt::kFolder);
  if (options.is(Opt::kSegment, "file") && !folder.empty() && access((folder + "/").c_str(), W_OK | X_OK) != 0) {
    return "folder=" + folder + ": " + std::strerror(errno) + ", and segment=file needs it";
  }
  return "";
}

/// Why no file can be written under the name of ZEROHOP_STATS, as far as it is known before a job; "" if it can.
std::string what_stops_statistics(const std::string& name) {
  if (name.empty()) return "";
  const size_t slash = name.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : name.substr(0, slash + 1);
  if (folder.find('%') != std::string::npos) return "";
  struct stat info {};
  int error = 0;
  if (name.find('%') == std::string::npos && stat(name.c_str(), &info) == 0) {
    error = S_ISDIR(info.st_mode) ? EISDIR : access(name.c_str(), W_OK) == 0 ? 0 : errno;
  } else if (access(folder.c_str(), W_OK | X_OK) != 0) {
    error = errno;
  }
  return error == 0 ? "" : "ZEROHOP_STATS=" + name + ": " + std::strerror(error);
}

Check check_preloads(const std::vector<Preload>& preloads) {
  Check c{"preloads", "nothing is preloaded (LD_PRELOAD)"};
  std::vector<std::string> names;
  std::vector<std::string> failed;
  std::string other;
  for (const Preload& p : preloads) {
    names.push_back(p.entry + (p.profiler ? " (a profiler, which sees the program's calls first)" : ""));
    if (!p.loaded) failed.push_back(p.entry);
    if (p.other_zerohop) other = p.entry;
  }
  if (names.empty()) return c;
  c.finding = listed(names);
  if (!other.empty()) {
    c.finding += "; " + other + " is not the library of this command";
    c.mark(State::kWarn,
           "two copies of zerohop meet in each process; ranks with different ones leave everything to the MPI library",
           "take it out of LD_PRELOAD");
  } else if (!failed.empty()) {
    c.finding += "; cannot be loaded: " + listed(failed);
    c.mark(State::kWarn, "each process complains and goes on without it",
           "take it out of LD_PRELOAD, or mend its path");
  }
  return c;
}

}  // namespace

Check check_mpi(const MpiFacts& mpi, bool program_decides) {
  Check c{"mpi"};
  if (mpi.launcher.empty() && mpi.libraries.empty()) {
    c.finding = "neither a launcher (mpiexec, mpirun, srun) on PATH nor an MPI library that the loader finds";
    if (program_decides) return c;
    return c.mark(State::kWarn,
                  "there is nothing that zerohop could make faster, unless a program brings its MPI library with it",
                  "put the bin folder of an MPI library on PATH (often: module load openmpi)");
  }
  c.finding = mpi.launcher.empty() ? "no launcher (mpiexec, mpirun, srun) on PATH" : mpi.launcher;
  if (!mpi.launcher_version.empty()) c.finding += " (" + mpi.launcher_version + ")";
  for (const MpiLibrary& library : mpi.libraries) c.finding += "; " + described(library);
  if (mpi.libraries.empty())
    c.finding += "; no MPI library beside it: a program's own is judged by `zerohop doctor ./app`";
  const auto served = [](const MpiLibrary& library) { return !library.module.empty(); };
  if (program_decides || mpi.libraries.empty() || std::any_of(mpi.libraries.begin(), mpi.libraries.end(), served)) {
    return c;
  }
  return c.mark(State::kBad, kHostOnly,
                "use MPICH, Open MPI or Intel MPI in a version of the user guide's table (docs/user/guide.md)");
}

std::string short_version(const std::string& text) {
  for (const Tried& t : tried()) {
    const size_t at = text.find(t.mark);
    if (at == std::string::npos) continue;
    const size_t from = text.find_first_of("0123456789", at + std::strlen(t.mark));
    if (from == std::string::npos) continue;
    return std::string(t.name) + " " + text.substr(from, text.find_first_of(" \t\r\n,;", from) - from);
  }
  constexpr size_t kMost = 60;
  std::string line = text.substr(0, std::min(text.find('\n'), kMost));
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return line;
}

Check check_variables(const Options& options) {
  Check c{"variables"};
  for (size_t i = 0; i < option_table().size(); ++i) {
    const auto option = static_cast<Opt>(i);
    if (options.source(option) == Source::kDefault) continue;
    c.finding += (c.finding.empty() ? "" : ", ") + std::string(option_table()[i].name) + "=" + options.get_text(option);
  }
  if (c.finding.empty()) c.finding = "none is set";
  if (!options.get_bool(Opt::kEnable)) c.finding += ": every call goes to the MPI library";
  std::vector<std::string> complaints = options.complaints();
  static_cast<void>(coll::read_names(options.get_text(Opt::kAlgorithm), &complaints));
  if (const std::string why = what_stops_statistics(options.get_text(Opt::kStats)); !why.empty()) {
    complaints.push_back(why);
  }
  const std::string stops = what_stops_every_job(options);
  if (complaints.empty() && stops.empty()) return c;
  c.finding = stops;
  for (const std::string& complaint : complaints) c.finding += (c.finding.empty() ? "" : "; ") + complaint;
  c.state = stops.empty() ? State::kWarn : State::kBad;
  c.cost = stops.empty() ? "what was meant is not done" : kHostOnly;
  c.cure = "correct or unset them; docs/user/variables.md and `zerohop info --variables` name all";
  return c;
}

std::vector<Check> job_checks(const Parts& parts, const MpiFacts& mpi, const ProgramFacts* program,
                              const std::vector<Preload>& preloads) {
  std::vector<Check> checks = {check_library(parts), check_modules(parts, mpi), check_mpi(mpi, program != nullptr)};
  if (program != nullptr) checks.push_back(check_program(*program, parts, mpi));
  checks.push_back(check_preloads(preloads));
  return checks;
}

}  // namespace zh::tools
