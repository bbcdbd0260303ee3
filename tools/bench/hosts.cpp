// See hosts.h.
#include "tools/bench/hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "os/program.h"
#include "tools/cli/inputs.h"

namespace zh::tools {
namespace {

namespace fs = std::filesystem;

struct LibraryName {
  const char* abi;
  const char* name;
};
// Debian calls MPICH's library libmpich.so.12.
constexpr LibraryName kLibraries[] = {{"ompi", "libmpi.so.40"},
                                      {"mpich", "libmpi.so.12"},
                                      {"mpich", "libmpich.so.12"},
                                      {"abi", "libmpi_abi.so.1"},
                                      {"abi", "libmpi_abi.so.0"}};

bool has_part(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::string word_after(const std::string& text, const std::string& mark) {
  const size_t at = text.find(mark);
  if (at == std::string::npos) return {};
  std::istringstream in(text.substr(at + mark.size()));
  std::string word;
  in >> word;
  while (!word.empty() && word.back() == ',') word.pop_back();
  return word;
}

std::string names_of(const std::vector<BenchHost>& hosts) {
  std::vector<std::string> names;
  for (const BenchHost& h : hosts) names.push_back(h.name);
  return joined(names);
}

/// Open MPI refuses root and more ranks than cores unless told so; the programs pin themselves. What the user has set
/// stays.
std::map<std::string, std::string> openmpi_environment() {
  std::map<std::string, std::string> wanted = {{"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
                                               {"PRTE_MCA_hwloc_default_binding_policy", "none"},
                                               {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                               {"OMPI_MCA_hwloc_base_binding_policy", "none"}};
  if (geteuid() == 0) wanted.insert({{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
  std::erase_if(wanted, [](const auto& entry) { return std::getenv(entry.first.c_str()) != nullptr; });
  return wanted;
}

/// The host behind one launcher; nothing, after a message, when its binary interface stays unknown.
std::optional<BenchHost> host_of(const std::string& launcher, const HostOptions& o, const std::string& command) {
  BenchHost h;
  std::istringstream in(launcher);
  for (std::string w; in >> w;) h.mpiexec.push_back(w);
  std::string path;
  if (!os::find_program(h.mpiexec.front(), &path).ok()) path = h.mpiexec.front();
  const LauncherKind kind = launcher_kind(output_of({path, "--version"}, 10).value_or(""));
  const auto library = library_beside(path, o.abi.empty() ? kind.abi : o.abi);
  h.abi = !o.abi.empty() ? o.abi : !kind.abi.empty() ? kind.abi : library ? library->abi : "";
  if (h.abi.empty()) {
    fmt::print(
        stderr,
        "zerohop {}: {} does not say which MPI it belongs to, and no libmpi lies beside it: add --abi mpich, ompi "
        "or abi\n",
        command, path);
    return std::nullopt;
  }
  h.name = kind.host.empty() ? "custom" : kind.host;
  if (h.abi == "ompi") h.env = openmpi_environment();
  std::string where;
  if (library) {
    // Else a program finds the library with which it was built.
    const char* before = std::getenv("LD_LIBRARY_PATH");
    h.env["LD_LIBRARY_PATH"] = library->folder + (before == nullptr || *before == 0 ? "" : std::string(":") + before);
    where = ", " + library->folder + "/" + library->name;
  }
  fmt::print(stderr, "zerohop {}: host {}: {}, {}, ABI {}{}\n", command, h.name, path,
             kind.version.empty() ? "unknown version" : kind.version, h.abi, where);
  return h;
}

std::vector<BenchHost> known_hosts(const HostOptions& o, const std::string& command) {
  const auto one = [](std::optional<BenchHost> h) {
    return h ? std::vector<BenchHost>{*std::move(h)} : std::vector<BenchHost>{};
  };
  if (!o.mpiexec.empty()) return one(host_of(o.mpiexec, o, command));
  std::string problem;
  const std::string table = o.hosts_py.empty() ? default_hosts_py() : o.hosts_py;
  if (!table.empty()) {
    std::vector<BenchHost> known = find_hosts(table, &problem);
    if (!known.empty()) return known;
    if (!o.hosts_py.empty()) {
      fmt::print(stderr, "zerohop {}: {}\n", command, problem);
      return {};
    }
  }
  for (const char* name : {"mpiexec", "mpirun"}) {
    std::string path;
    if (os::find_program(name, &path).ok()) return one(host_of(path, o, command));
  }
  fmt::print(stderr,
             "zerohop {}: no MPI found: no mpiexec or mpirun in PATH{}. Put your MPI's bin folder into PATH, name its "
             "launcher by --mpiexec, or run dev/setup in a checkout\n",
             command, table.empty() ? "" : ", and " + table + " knows no installed host");
  return {};
}

/// Those of `known` that `named` asks for, or else the usual ones, or else all.
std::optional<std::vector<BenchHost>> selected(const std::vector<BenchHost>& known, const std::string& named,
                                               const std::string& usual, const std::string& command) {
  std::vector<BenchHost> chosen;
  for (const std::string& name : split(named.empty() ? usual : named)) {
    const size_t before = chosen.size();
    for (const BenchHost& h : known) {
      if (h.name == name) chosen.push_back(h);
    }
    if (chosen.size() == before && !named.empty()) {
      fmt::print(stderr,
                 "zerohop {}: no MPI host {} here (there are {}; dev/setup installs others, --mpiexec names one)\n",
                 command, name, names_of(known));
      return std::nullopt;
    }
  }
  return chosen.empty() ? known : chosen;
}

/// Their jobs run on machines made of namespaces from now on. False, after a message, where nothing here starts them.
bool put_on_machines(const HostOptions& o, const std::string& command, Hosts* hosts) {
  const std::string table = o.hosts_py.empty() ? default_hosts_py() : o.hosts_py;
  const fs::path starter = fs::path(table).parent_path() / "on_machines.py";
  if (!o.mpiexec.empty() || table.empty() || !os::readable(starter)) {
    fmt::print(
        stderr,
        "zerohop {}: --machines needs a checkout's dev/on_machines.py, which knows the hosts of dev/hosts.py alone; "
        "a launcher of your own goes to your machines itself (--mpiexec \"mpiexec -hosts a,b -ppn 4\")\n",
        command);
    return false;
  }
  for (std::vector<BenchHost>* list : {&hosts->peers, &hosts->under}) {
    for (BenchHost& h : *list) {
      h.mpiexec = {"python3", starter, "--host", h.name, "--machines", std::to_string(o.machines)};
      if (o.cyclic) h.mpiexec.emplace_back("--cyclic");
    }
  }
  return true;
}

}  // namespace

LauncherKind launcher_kind(const std::string& version_text) {
  if (has_part(version_text, "Open MPI") || has_part(version_text, "OpenRTE"))
    return {"openmpi", "ompi",
            "Open MPI " + word_after(version_text, has_part(version_text, "(Open MPI)") ? "(Open MPI)" : ") ")};
  if (has_part(version_text, "PRRTE") || has_part(version_text, "prterun")) return {"openmpi", "ompi", "Open MPI"};
  if (has_part(version_text, "Intel(R) MPI"))
    return {"impi", "mpich", "Intel MPI " + word_after(version_text, "Version ")};
  if (has_part(version_text, "MVAPICH") || has_part(version_text, "mvapich")) return {"mvapich", "mpich", "MVAPICH"};
  if (has_part(version_text, "HYDRA") || has_part(version_text, "MPICH"))
    return {"mpich", "mpich", "MPICH " + word_after(version_text, "Version:")};
  return {};
}

std::optional<FoundLibrary> library_beside(const std::string& launcher, const std::string& abi) {
  std::error_code ignored;
  std::vector<fs::path> prefixes = {fs::absolute(launcher, ignored).parent_path().parent_path()};
  const fs::path real = fs::canonical(launcher, ignored);
  if (!real.empty()) prefixes.push_back(real.parent_path().parent_path());
  std::optional<FoundLibrary> found;
  for (const fs::path& prefix : prefixes) {
    for (const char* folder : {"lib", "lib64", "lib/release", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"}) {
      for (const LibraryName& l : kLibraries) {
        if ((!abi.empty() && abi != l.abi) || !fs::exists(prefix / folder / l.name, ignored)) continue;
        // Every MPICH of today brings the standard ABI's library too.
        if (found && found->abi != l.abi && std::string(l.abi) != "abi") return std::nullopt;
        if (!found) found = FoundLibrary{l.abi, (prefix / folder).string(), l.name};
      }
    }
  }
  return found;
}

std::string bench_program(const HostOptions& o, const std::string& name, const std::string& abi) {
  const std::string file = fmt::format("bench_{}_{}", name, abi);
  if (!o.programs.empty()) return o.programs + "/" + file;
  const fs::path own = os::own_folder();
  const fs::path installed = own.parent_path() / "libexec" / "zerohop" / file;
  return os::readable(installed) ? installed.string() : (own / file).string();
}

void add_host_options(CLI::App& command, HostOptions* o) {
  command.add_option("--hosts", o->hosts, "Bare MPIs to compare with (default: those of these that are installed)")
      ->default_str(o->usual_hosts);
  add_under_options(command, o);
}

void add_under_options(CLI::App& command, HostOptions* o) {
  command.add_option("--under", o->under, "MPIs under which zerohop runs (--quick takes the first of the default)")
      ->default_str(o->usual_under);
  command
      .add_option("--hosts-py", o->hosts_py,
                  "The project's dev/hosts.py (default: found above the command or the current folder; else "
                  "mpiexec or mpirun in PATH is the only host)")
      ->check(&wrong_input);
  command.add_option("--mpiexec", o->mpiexec, "Use this launcher (with its arguments) as the only host")
      ->check(&wrong_command);
  command
      .add_option("--abi", o->abi,
                  "Build of the benchmark program for --mpiexec or the mpiexec in PATH: mpich, ompi or abi (default: "
                  "found by --version or the libmpi beside it)")
      ->check(CLI::IsMember({"mpich", "ompi", "abi"}));
  command.add_option("--programs", o->programs, "Folder of the benchmark programs (default: as built or installed)")
      ->check(CLI::ExistingDirectory);
}

void add_machine_options(CLI::App& command, HostOptions* o) {
  CLI::Option* machines =
      command
          .add_option("--machines", o->machines,
                      "Spread each job over so many machines, made of namespaces of this one with TCP between them; "
                      "neighbours share one")
          ->check(CLI::Range(2, 64));
  command.add_flag("--cyclic", o->cyclic, "Deal the ranks out to the machines in turn")->needs(machines);
}

std::optional<Hosts> choose_hosts(const HostOptions& o, bool first_only, const std::string& command,
                                  const std::string& program) {
  const std::vector<BenchHost> known = known_hosts(o, command);
  if (known.empty()) return std::nullopt;
  auto peers = selected(known, o.hosts, o.usual_hosts, command);
  auto under = selected(known, o.under, o.usual_under, command);
  if (!peers || !under) return std::nullopt;
  if (first_only && o.under.empty()) under->resize(1);
  for (const std::vector<BenchHost>* list : {&*peers, &*under}) {
    for (const BenchHost& h : *list) {
      const std::string path = bench_program(o, program, h.abi);
      if (access(path.c_str(), X_OK) == 0) continue;
      fmt::print(
          stderr,
          "zerohop {}: the benchmark program for host {} is missing: {} (build or install zerohop where this MPI's "
          "mpicc is, see bench/README.md, or leave the host out by --hosts and --under)\n",
          command, h.name, path);
      return std::nullopt;
    }
  }
  Hosts hosts{*std::move(peers), *std::move(under)};
  if (o.machines > 0 && !put_on_machines(o, command, &hosts)) return std::nullopt;
  return hosts;
}

}  // namespace zh::tools
