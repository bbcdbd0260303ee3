// See job_facts.h.
#include "tools/doctor/job_facts.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "mpi/entry/known_hosts.h"
#include "os/elf_file.h"
#include "os/program.h"
#include "tools/bench/hosts.h"
#include "tools/cli/commands.h"
#include "tools/cli/preload.h"

namespace zh::tools {
namespace {

namespace fs = std::filesystem;

constexpr double kJobPatienceS = 20;
constexpr const char* kLibraryFolders[] = {"lib", "lib64", "lib/release",
#if defined(__aarch64__)
                                           "lib/aarch64-linux-gnu"
#else
                                           "lib/x86_64-linux-gnu"
#endif
};

bool is_library(const std::string& path) {
  const os::ElfFile file = os::read_elf(path);
  return file.valid && file.same_machine;
}

std::vector<std::string> split_paths(const char* list) {
  std::vector<std::string> out;
  std::istringstream in(list != nullptr ? list : "");
  for (std::string folder; std::getline(in, folder, ':');) {
    if (!folder.empty()) out.push_back(folder);
  }
  return out;
}

/// MPI libraries, in the order in which they would be found.
class Finder {
 public:
  /// Libraries of known names in the folder; without one, those of other versions. True if there was any.
  bool take_folder(const fs::path& folder) {
    bool any = false;
    for (const mpi::HostKind& kind : mpi::kHosts) any = take(kind.soname, folder / kind.soname) || any;
    if (any) return true;
    std::error_code none;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
      const std::string file = entry.path().filename();
      const bool named = file.starts_with("libmpi.so") || file.starts_with("libmpich.so");
      if (named && is_library(entry.path())) any = take("", entry.path()) || any;
    }
    return any;
  }
  bool take(const std::string& name, const fs::path& path) {
    std::error_code none;
    const std::string real = fs::canonical(path, none);
    if (none || !is_library(real)) return false;
    if (std::find(seen_.begin(), seen_.end(), real) == seen_.end()) {
      seen_.push_back(real);
      libraries.push_back(look_at_library(name, path.lexically_normal()));
    }
    return true;
  }

  std::vector<MpiLibrary> libraries;

 private:
  std::vector<std::string> seen_;
};

/// Those that the loader knows by its cache.
void take_from_the_cache(Finder* finder) {
  for (const char* tool : {"/sbin/ldconfig", "/usr/sbin/ldconfig"}) {
    if (!os::readable(tool)) continue;
    std::istringstream lines(output_of({tool, "-p"}, kJobPatienceS).value_or(""));
    for (std::string line; std::getline(lines, line);) {
      std::string name;
      std::string path;
      if (!read_loader_line(line, &name, &path)) continue;
      if (mpi::host_called(name.c_str()) != nullptr) finder->take(name, path);
    }
    return;
  }
}

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
  std::istringstream lines(output_of(command, kJobPatienceS).value_or(""));
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

Parts look_at_parts() {
  Parts parts;
  parts.library = find_library();
  if (parts.library.empty()) return parts;
  parts.library_whole = is_library(parts.library);
  const std::string folder = parts.library.substr(0, parts.library.rfind('/') + 1);
  for (const char* module : mpi::kModules) {
    if (is_library(folder + module)) parts.modules.emplace_back(module);
  }
  return parts;
}

int describe_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return 1;
  std::string text;
  const auto ask = reinterpret_cast<int (*)(char*, int*)>(dlsym(library, "MPI_Get_library_version"));
  if (ask != nullptr) {
    static char version[16384];  // MPI_MAX_LIBRARY_VERSION_STRING is 8192 at most
    int length = 0;
    if (ask(version, &length) == 0) text = version;
  }
  const bool is_open_mpi = dlsym(library, mpi::kOpenMpiObject) != nullptr;
  const nlohmann::json out = {{"mpi_library", text}, {"open_mpi", is_open_mpi}};
  std::printf("\n%s\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  return 0;
}

MpiLibrary look_at_library(const std::string& name, const std::string& path) {
  MpiLibrary out{name, path, "", ""};
  if (out.name.empty()) out.name = os::read_elf(path).soname;
  if (out.name.empty()) out.name = fs::path(path).filename();
  const mpi::HostKind* kind = mpi::host_called(out.name.c_str());
  if (kind != nullptr) out.module = kind->module;
  if (path.empty()) return out;
  // In a process of its own: what a library does when it is loaded is its own affair.
  const auto said = output_of({os::own_folder() + "/zerohop", "doctor", "--describe-library", path}, kJobPatienceS);
  std::istringstream lines(said.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json document = nlohmann::json::parse(line, nullptr, false);
    if (!document.is_object() || !document.contains("mpi_library")) continue;
    out.version = document.value("mpi_library", "");
    const bool is_open_mpi = document.value("open_mpi", false);
    const char* module = kind != nullptr ? kind->module : mpi::module_for(out.version.c_str(), is_open_mpi);
    if (kind != nullptr && !mpi::is_what_it_is_called(module, is_open_mpi)) module = nullptr;
    out.module = module != nullptr ? module : "";
  }
  return out;
}

void read_launcher_version(const std::string& text, MpiFacts* facts) {
  const LauncherKind kind = launcher_kind(text);
  facts->launcher_version = kind.version.empty() ? text.substr(0, text.find('\n')) : kind.version;
  facts->launcher_module = kind.abi == "ompi" ? mpi::kOpenMpiModule : kind.abi == "mpich" ? mpi::kMpichModule : "";
}

MpiFacts look_for_mpi() {
  MpiFacts facts;
  for (const char* name : {"mpiexec", "mpirun", "srun"}) {
    if (os::find_program(name, &facts.launcher).ok()) break;
    facts.launcher.clear();
  }
  Finder finder;
  for (const std::string& folder : split_paths(std::getenv("LD_LIBRARY_PATH"))) finder.take_folder(folder);
  if (!facts.launcher.empty()) {
    read_launcher_version(output_of({facts.launcher, "--version"}, kJobPatienceS).value_or(""), &facts);
    std::error_code none;
    const fs::path given = facts.launcher;
    for (const fs::path& launcher : {given, fs::canonical(given, none)}) {
      for (const char* folder : kLibraryFolders) {
        if (!launcher.empty()) finder.take_folder(launcher.parent_path().parent_path() / folder);
      }
    }
  }
  if (finder.libraries.empty()) take_from_the_cache(&finder);
  facts.libraries = finder.libraries;
  return facts;
}

std::vector<Preload> look_at_preloads(const std::string& library) {
  std::vector<Preload> out;
  const char* list = std::getenv("LD_PRELOAD");
  std::error_code none;
  for (const std::string& entry : preloads_of(list != nullptr ? list : "")) {
    Preload p;
    p.entry = entry;
    p.loaded = is_loaded(entry);
    p.profiler = is_profiler(entry);
    const bool zerohop = fs::path(entry).filename() == "libzerohop.so";
    p.other_zerohop = zerohop && p.loaded && entry.find('/') != std::string::npos && !library.empty() &&
                      !fs::equivalent(entry, library, none);
    out.push_back(p);
  }
  return out;
}

bool read_loader_line(const std::string& line, std::string* name, std::string* path) {
  constexpr const char* kArrow = " => ";
  const size_t arrow = line.find(kArrow);
  const size_t start = line.find_first_not_of(" \t");
  if (start == std::string::npos) return false;
  if (arrow == std::string::npos) {
    // A library that is named by its path is not searched for: "dir/libx.so (0x...)". The loader itself stands so, too.
    const size_t address = line.find(" (0x", start);
    if (address == std::string::npos) return false;
    *name = *path = line.substr(start, address - start);
    return name->find('/') != std::string::npos && name->find("/ld-") == std::string::npos;
  }
  if (start >= arrow) return false;
  // In the loader's cache a kind follows the name: "libx.so (libc6,x86-64) => path".
  *name = line.substr(start, std::min(line.find(" (", start), arrow) - start);
  *path = line.substr(arrow + std::strlen(kArrow));
  if (const size_t address = path->rfind(" (0x"); address != std::string::npos) path->resize(address);
  if (*path == "not found") path->clear();
  return true;
}

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
