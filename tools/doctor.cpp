// `zerohop doctor`: what this machine permits, what it costs where it does not, and the command that mends it.
// Every answer comes from trying or reading the running system.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "commands.h"
#include "doctor.h"
#include "os/affinity.h"
#include "os/clock.h"
#include "os/peer_mem.h"
#include "os/probe.h"
#include "os/process.h"
#include "os/segment.h"
#include "os/vm.h"

namespace zh::tools {
namespace {

const char* to_string(State state) { return state == State::kOk ? "ok" : state == State::kWarn ? "warn" : "bad"; }

constexpr const char* kCmaCost =
    "large messages between private buffers are copied twice (through shared memory) instead of once";

Check check_cma() {
  Check c{"cma", State::kOk, "", "", ""};
  const int closed = os::probe_sibling_read(false);
  if (closed == 0) {
    c.finding = "a process reads its sibling's memory (process_vm_readv)";
    return c;
  }
  if (os::yama_scope() == 1 && os::probe_sibling_read(true) == 0) {
    c.finding = "works after PR_SET_PTRACER, which zerohop calls in each rank (ZEROHOP_PTRACER=0 forbids it)";
    return c;
  }
  c.state = State::kWarn;
  c.finding = std::string("process_vm_readv between siblings: ") + std::strerror(-closed);
  c.cost = kCmaCost;
  if (closed == -ENOSYS) {
    c.cure =
        "a kernel with CONFIG_CROSS_MEMORY_ATTACH, or a container runtime whose seccomp profile lets the call through";
  } else if (os::yama_scope() > 0) {
    c.cure = "sysctl -w kernel.yama.ptrace_scope=0";
  } else if (os::seccomp_mode() == 2) {
    c.cure = "docker run --cap-add=SYS_PTRACE (or --security-opt seccomp=unconfined)";
  } else {
    c.cure = "run all ranks as the same user, in the same user namespace";
  }
  return c;
}

Check check_yama() {
  const int scope = os::yama_scope();
  Check c{"yama", State::kOk, "kernel.yama.ptrace_scope = " + std::to_string(scope), "", ""};
  if (scope < 0) c.finding = "Yama is not in this kernel";
  if (scope >= 2) {
    c.state = State::kWarn;
    c.cost = kCmaCost;
    c.cure = "sysctl -w kernel.yama.ptrace_scope=1";
  }
  return c;
}

Check check_namespaces() {
  // Inode numbers of the first namespaces are constants of the kernel (include/linux/proc_ns.h).
  Check c{"namespaces", State::kOk, "", "", ""};
  std::string own;
  if (os::namespace_id("user") != 0xEFFFFFFDu) own += " user";
  if (os::namespace_id("pid") != 0xEFFFFFFCu) own += " pid";
  if (os::namespace_id("ipc") != 0xEFFFFFFFu) own += " ipc";
  if (own.empty()) {
    c.finding = "the machine's own user, pid and ipc namespaces";
    return c;
  }
  c.finding = "own namespaces:" + own + " (a container)";
  if (own.find("user") != std::string::npos) {
    c.state = State::kWarn;
    c.cost =
        "if every rank has a container of its own, CMA and mapped memory are refused between them (one user namespace "
        "per rank)";
    c.cure = "start one container per node with all its ranks inside, or rootless runtimes with --userns=host";
  }
  return c;
}

Check check_memfd() {
  Check c{"memfd", State::kOk, "memfd_create works and /proc/<pid>/fd reaches it", "", ""};
  const Status s = os::probe_memfd();
  if (s.ok()) return c;
  c.state = State::kWarn;
  c.finding = std::string(s.what()) + ": " + std::strerror(s.error());
  c.cost = "the segment is a file in /dev/shm (or TMPDIR), whose size limit then counts; there is no shared heap";
  c.cure = "allow memfd_create in the seccomp profile; mount /proc";
  return c;
}

Check check_shm(bool memfd_works) {
  const os::FileSystemSpace space = os::space_of("/dev/shm");
  Check c{"dev_shm", State::kOk, "/dev/shm: " + size_text(space.free_bytes) + " free of " + size_text(space.size_bytes),
          "", ""};
  if (!space.exists) c.finding = "/dev/shm does not exist";
  if (memfd_works) {
    c.finding += " (not needed: memfd works)";
    return c;
  }
  const uint64_t wanted = uint64_t{8} << 20 << 3;  // 8 ranks' starting memory
  if (!space.exists || space.free_bytes < wanted) {
    c.state = State::kBad;
    c.cost = "too small for the segment: zerohop stays out and every call goes to the host MPI";
    c.cure = space.exists ? "mount -o remount,size=1G /dev/shm   (containers: --shm-size=1g)"
                          : "mount -t tmpfs -o size=1G tmpfs /dev/shm";
  }
  return c;
}

Check check_affinity() {
  const uint32_t allowed = os::allowed_cpus().count(), online = os::online_cpus();
  Check c{"affinity", State::kOk, "", "", ""};
  c.finding = "may use CPUs " + os::allowed_cpus().to_string() + " (" + std::to_string(allowed) + " of " +
              std::to_string(online) + " online)";
  return c;
}

Check check_cgroup_cpu(double quota) {
  Check c{"cgroup_cpu", State::kOk, "no CPU quota", "", ""};
  if (quota <= 0) return c;
  char text[64];
  std::snprintf(text, sizeof text, "the cgroup grants %.2f CPUs' time", quota);
  c.finding = text;
  if (quota < os::allowed_cpus().count()) {
    c.state = State::kWarn;
    c.cost =
        "ranks that spin use the quota up and are then stopped for up to 100 ms; zerohop yields and sleeps instead";
    c.cure = "give whole CPUs instead of a quota (docker --cpuset-cpus; Kubernetes static CPU policy), or fewer ranks";
  }
  return c;
}

Check check_cgroup_memory() {
  const os::MemoryLimit memory = os::cgroup_memory(os::find_cgroup());
  Check c{"cgroup_memory", State::kOk, "no memory limit", "", ""};
  if (memory.limit_bytes == os::kUnlimited) return c;
  c.finding = size_text(memory.headroom()) + " left of " + size_text(memory.limit_bytes);
  if (memory.headroom() < uint64_t{256} << 20) {
    c.state = State::kWarn;
    c.cost = "the segment cannot grow with traffic; shared memory counts against the limit";
    c.cure = "raise memory.max (docker --memory), or lower ZEROHOP_MEMORY";
  }
  return c;
}

Check check_oversubscription(double quota) {
  const uint32_t cpus = os::allowed_cpus().count();
  const int ranks = launched_local_ranks();
  Check c{"oversubscription", State::kOk, "", "", ""};
  const double usable = quota > 0 && quota < cpus ? quota : cpus;
  if (ranks == 0) {
    c.finding = "not started by a launcher; up to " + std::to_string(cpus) + " ranks have a CPU of their own";
    return c;
  }
  c.finding = std::to_string(ranks) + " ranks here, " + std::to_string(cpus) + " CPUs for this one";
  // A rank that is bound to one CPU is not short of CPUs.
  if (cpus > 1 && ranks > usable) {
    c.state = State::kWarn;
    c.cost = "ranks take turns on a CPU: zerohop yields at once, but a host MPI that only spins slows all";
    c.cure = "start at most " + std::to_string(static_cast<int>(usable)) + " ranks on this machine";
  }
  return c;
}

Check check_seccomp() {
  const int mode = os::seccomp_mode();
  Check c{"seccomp", State::kOk, "", "", ""};
  c.finding = mode == 0   ? "no filter"
              : mode == 2 ? "a filter is in force; the checks above tell what it refuses"
                          : "mode " + std::to_string(mode);
  return c;
}

Check check_limits() {
  Check c{"limits", State::kOk, "", "", ""};
  c.finding = "address space " + size_text(os::soft_limit(os::Limit::kAddressSpace)) + ", file size " +
              size_text(os::soft_limit(os::Limit::kFileSize)) + ", locked memory " +
              size_text(os::soft_limit(os::Limit::kLockedMemory)) + " (not used)";
  if (os::soft_limit(os::Limit::kAddressSpace) < uint64_t{16} << 30) {
    c.state = State::kWarn;
    c.cost =
        "the segment (64 MiB of addresses for each rank) and the shared heap's span (a quarter of the limit) are made "
        "smaller to fit";
    c.cure = "ulimit -v unlimited";
  }
  if (os::soft_limit(os::Limit::kFileSize) < uint64_t{1} << 30) {
    c.state = State::kBad;
    c.cost = "the segment cannot be made: zerohop stays out and every call goes to the host MPI";
    c.cure = "ulimit -f unlimited";
  }
  return c;
}

Check check_overcommit() {
  const std::string mode = os::read_small_file("/proc/sys/vm/overcommit_memory");
  Check c{"overcommit", State::kOk, "vm.overcommit_memory = " + mode, "", ""};
  if (mode == "2") {
    c.state = State::kWarn;
    c.cost = "memory is promised strictly: allocations may fail although memory is free; there is no shared heap";
    c.cure = "sysctl -w vm.overcommit_memory=0";
  }
  return c;
}

Check check_pidfd() {
  Check c{"pidfd", State::kOk, "the end of a rank is seen by pidfd", "", ""};
  const int error = os::probe_pidfd();
  if (error == 0) return c;
  c.finding = std::string("pidfd_open: ") + std::strerror(-error) + "; ranks are looked for by number instead";
  return c;
}

Check check_clock() {
  Check c{"clock", State::kOk, "", "", ""};
  char text[96];
  std::snprintf(text, sizeof text, "%.0f ticks a microsecond, %s", os::ticks_per_us(),
                os::ticks_are_steady() ? "steady" : "not said to be steady");
  c.finding = text;
  if (!os::ticks_are_steady()) {
    c.state = State::kWarn;
    c.cost = "calibration may be off, as the CPU's counter follows its frequency";
    c.cure = "pass the invariant TSC through to the virtual machine (QEMU: -cpu host,+invtsc)";
  }
  return c;
}

std::vector<Check> examine() {
  const double quota = os::cgroup_cpu_quota(os::find_cgroup());
  const Check memfd = check_memfd();
  std::vector<Check> checks = {check_cma(),
                               check_yama(),
                               check_namespaces(),
                               memfd,
                               check_shm(memfd.state == State::kOk),
                               check_pidfd(),
                               check_affinity(),
                               check_cgroup_cpu(quota),
                               check_cgroup_memory(),
                               check_oversubscription(quota),
                               check_seccomp(),
                               check_limits(),
                               check_overcommit(),
                               check_clock()};
  Options options;
  options.read_environment(environ);
  for (Check& c : heap_checks(look_at_heap(options))) checks.push_back(std::move(c));
  return checks;
}

/// False, after a message, if the file cannot be read.
bool examine_run(const std::string& path, std::vector<Check>* checks, nlohmann::json* collectives) {
  std::ifstream file(path);
  const nlohmann::json document = nlohmann::json::parse(file, nullptr, false);
  RunStats run;
  if (!read_run(document, &run)) {
    std::fprintf(stderr, "zerohop doctor: %s is not a file that ZEROHOP_STATS wrote\n", path.c_str());
    return false;
  }
  for (Check& c : run_checks(run)) checks->push_back(std::move(c));
  for (const RunStats::Calls& c : run.calls) {
    collectives->push_back(
        {{"call", c.call}, {"ranks", c.ranks}, {"by", c.by}, {"calls", c.calls}, {"bytes", c.bytes}});
  }
  return true;
}

int doctor(bool as_json, const std::string& stats) {
  if (launched_rank() != 0) return 0;
  std::vector<Check> checks;
  nlohmann::json collectives = nlohmann::json::array();
  if (stats.empty()) {
    checks = examine();
  } else if (!examine_run(stats, &checks, &collectives)) {
    return 2;
  }
  State worst = State::kOk;
  for (const Check& c : checks) worst = std::max(worst, c.state);
  if (as_json) {
    nlohmann::json out = {{"version", ZH_VERSION}, {"worst", to_string(worst)}, {"checks", nlohmann::json::array()}};
    for (const Check& c : checks) {
      out["checks"].push_back({{"name", c.name},
                               {"state", to_string(c.state)},
                               {"finding", c.finding},
                               {"cost", c.cost},
                               {"cure", c.cure}});
    }
    if (!stats.empty()) out["collectives"] = collectives;
    std::printf("%s\n", out.dump(2).c_str());
  } else {
    for (const Check& c : checks) {
      std::printf("%-4s  %-16s  %s\n", to_string(c.state), c.name, c.finding.c_str());
      if (!c.cost.empty()) std::printf("      %-16s  costs: %s\n", "", c.cost.c_str());
      if (!c.cure.empty()) std::printf("      %-16s  mend:  %s\n", "", c.cure.c_str());
    }
  }
  return static_cast<int>(worst);
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto as_json = std::make_shared<bool>(false);
  auto stats = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("doctor",
                         "What this machine permits, what it costs where it does not, and the command that mends it.\n"
                         "Exit code: 0 all is well, 1 something costs speed, 2 zerohop cannot work here.");
  command->add_flag("--json", *as_json, "Print JSON");
  command->add_option("--stats", *stats,
                      "Look at a run instead of the machine: the file that ZEROHOP_STATS wrote. Tells the share of "
                      "bytes that went through mapped memory, and why not more, what collectives were called, and "
                      "how the job ended");
  command->callback([as_json, stats] { exit_code = doctor(*as_json, *stats); });
}

}  // namespace zh::tools
