// Which MPI libraries a benchmark runs under: those of dev/hosts.py, one launcher that the user names, or the mpiexec
// in PATH; and which build of the benchmark programs belongs to each. Called before the rounds; starts no job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/launch.h"

namespace CLI {
class App;
}

namespace zh::tools {

/// The options by which a user names the hosts.
struct HostOptions {
  std::string usual_hosts = "mpich,openmpi,impi";  ///< those of them that are installed, unless `hosts` names some
  std::string usual_under = "mpich,openmpi";
  std::string hosts;
  std::string under;
  std::string hosts_py;
  std::string mpiexec;
  std::string abi;       ///< empty: found by the launcher's --version or the libmpi beside it
  std::string programs;  ///< folder of the benchmark programs; empty: where they were built or installed
  int machines = 0;      ///< made of namespaces, by dev/on_machines.py; 0: this one as it is
  bool cyclic = false;   ///< ranks are dealt out to them in turn
};
void add_host_options(CLI::App& command, HostOptions* o);
/// Those of them that say under which MPI zerohop runs, without the bare ones beside it.
void add_under_options(CLI::App& command, HostOptions* o);

/// How many machines a job is spread over.
void add_machine_options(CLI::App& command, HostOptions* o);

struct Hosts {
  std::vector<BenchHost> peers;  ///< run bare
  std::vector<BenchHost> under;  ///< carry zerohop
};
/// In the order in which they were named; says on standard error what is missing and how to get it. `first_only`:
/// zerohop runs under the first alone, unless --under names several. `program`: which benchmark the hosts will run.
std::optional<Hosts> choose_hosts(const HostOptions& o, bool first_only, const std::string& command,
                                  const std::string& program);

/// Path of bench_<name>_<abi>; where it is not installed, the path where it would be built.
std::string bench_program(const HostOptions& o, const std::string& name, const std::string& abi);

/// An MPI library as its launcher's --version names it; empty fields where that says nothing.
struct LauncherKind {
  std::string host;     ///< mpich, openmpi, impi, mvapich
  std::string abi;      ///< mpich or ompi
  std::string version;  ///< "Open MPI 5.0.1"
};
LauncherKind launcher_kind(const std::string& version_text);

/// The libmpi of one binary interface (empty: of any) in the installation to which a launcher belongs.
struct FoundLibrary {
  std::string abi;
  std::string folder;
  std::string name;
};
std::optional<FoundLibrary> library_beside(const std::string& launcher, const std::string& abi);

}  // namespace zh::tools
