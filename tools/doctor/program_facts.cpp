// What a program is and brings with it: see job_facts.h.
#include <filesystem>
#include <set>
#include <sstream>

#include "mpi/entry/known_hosts.h"
#include "os/elf_file.h"
#include "os/program.h"
#include "tools/bench/launch.h"
#include "tools/cli/preload.h"
#include "tools/doctor/job_facts.h"

namespace zh::tools {
namespace {

constexpr double kProgramPatienceS = 20;

/// "MPI_Send", but no data object, as "MPI_F08_STATUS_IGNORE".
bool is_function_of_mpi(const std::string& name) {
  return name.size() > 5 && name.starts_with("MPI_") && name[4] >= 'A' && name[4] <= 'Z' && name[5] >= 'a' &&
         name[5] <= 'z';
}

/// What a file has to do with MPI, by its symbols.
struct Role {
  bool library = false;   ///< it defines PMPI_Init
  bool profiler = false;  ///< it defines functions of MPI and none of the profiling interface
  bool doubtful = false;  ///< a profiler that looks functions up itself (as src/mpi/entry/profilers.cpp judges)
};

Role role_of(const std::string& path) {
  std::set<std::string> defined;
  std::set<std::string> taken;
  bool profiling_interface = false;
  bool looks_up = false;
  Role role;
  os::any_symbol(path, [&](const std::string& versioned, bool here) {
    const std::string name = versioned.substr(0, versioned.find('@'));
    if (here && is_function_of_mpi(name)) defined.insert(name);
    if (here && name.starts_with("PMPI_")) profiling_interface = true;
    if (here && name == "PMPI_Init") role.library = true;
    if (!here && name.starts_with("PMPI_")) taken.insert(name.substr(1));
    if (!here && (name == "dlsym" || name == "dlvsym")) looks_up = true;
    return false;
  });
  role.profiler = !defined.empty() && !profiling_interface;
  for (const std::string& name : defined) role.doubtful |= role.profiler && looks_up && !taken.contains(name);
  return role;
}

void note(const std::string& file, const Role& role, ProgramFacts* out) {
  if (!role.profiler) return;
  out->profilers.push_back(file);
  if (role.doubtful) out->doubtful_profiler = file;
}

bool is_of_a_sanitizer(const std::string& library) {
  for (const char* name : {"libasan.", "libtsan.", "libmsan.", "libhwasan.", "liblsan."}) {
    if (library.starts_with(name)) return true;
  }
  return false;
}

/// The libraries of a dynamically linked program, as its own loader finds them.
void look_at_libraries(const std::string& program, const os::ElfFile& file, ProgramFacts* out) {
  // Like this and not by --list, the loader goes on where it misses a library. The program is not run.
  const std::vector<std::string> command = {"env", "LD_TRACE_LOADED_OBJECTS=1", file.loader, program};
  std::istringstream lines(output_of(command, kProgramPatienceS).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::string name;
    std::string path;
    if (!read_loader_line(line, &name, &path) || name.starts_with("libzerohop")) continue;
    out->sanitizer |= is_of_a_sanitizer(name);
    if (path.empty()) out->missing.push_back(name);
    const bool known = mpi::host_called(name.c_str()) != nullptr;
    const Role role = path.empty() || known ? Role{} : role_of(path);
    if (known || role.library) out->mpi.push_back(look_at_library(name, path));
    // They come in the order in which names are looked up: behind the MPI library nobody sees the program's calls.
    if (out->mpi.empty()) note(name, role, out);
  }
}

}  // namespace

ProgramFacts look_at_program(const std::string& name) {
  ProgramFacts out;
  out.name = name;
  if (const Status s = os::find_program(name, &out.path); !s.ok()) {
    out.error = s.error();
    return out;
  }
  out.obstacle = preload_obstacle(out.path);
  out.script_of = os::inspect_program(out.path).interpreter;
  const std::string program = out.script_of.empty() ? out.path : out.script_of;
  out.interpreter_missing = !os::readable(program) && !out.script_of.empty();
  const os::ElfFile file = os::read_elf(program);
  if (!file.valid) return out;
  out.other_machine = !file.same_machine;
  if (out.other_machine) return out;
  const Role role = role_of(program);
  out.holds_mpi = role.library;
  note(std::filesystem::path(program).filename(), role, &out);
  if (!file.loader.empty()) look_at_libraries(program, file, &out);
  return out;
}

}  // namespace zh::tools
