// The doctor's checks of the machine: what it permits and how much of it a job gets. Every answer comes from trying or
// reading the running system.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/options.h"
#include "node/machine.h"
#include "os/affinity.h"
#include "os/clock.h"
#include "os/peer_mem.h"
#include "os/probe.h"
#include "os/process.h"
#include "os/segment.h"
#include "os/vm.h"
#include "tools/cli/commands.h"
#include "tools/doctor/doctor.h"

namespace zh::tools {
namespace {

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

/// Sockets on which this process may run.
uint32_t sockets_reached(const node::Machine& machine) {
  const os::CpuSet allowed = os::allowed_cpus();
  std::vector<os::CpuSet> found;  // a CPU of each
  for (uint32_t cpu = 0; cpu < os::CpuSet::kMaxCpus; ++cpu) {
    if (!allowed.has(cpu)) continue;
    os::CpuSet one;
    one.add(cpu);
    const bool known = std::any_of(found.begin(), found.end(), [&](const os::CpuSet& other) {
      return machine.level(one, other) < node::Level::kOtherSocket;
    });
    if (!known) found.push_back(one);
  }
  return static_cast<uint32_t>(found.size());
}

Check check_binding_here(const Options& options) {
  node::Machine machine;
  if (!machine.load(options.get_text(Opt::kTopology)).ok()) return check_binding(1, 1, 0);
  return check_binding(machine.summary().packages, sockets_reached(machine), launched_local_ranks());
}

}  // namespace

Check check_binding(uint32_t sockets, uint32_t reached, int ranks) {
  Check c{"binding", State::kOk, "one socket", "", ""};
  if (sockets <= 1) return c;
  c.finding = std::to_string(sockets) + " sockets";
  if (ranks == 0) {
    c.finding +=
        "; whether ranks are bound is seen in a job: mpiexec -n " + std::to_string(sockets) + " zerohop doctor";
    return c;
  }
  c.finding += reached <= 1 ? ", this rank is bound to one" : ", this rank may run on " + std::to_string(reached);
  if (reached <= 1) return c;
  c.state = State::kWarn;
  c.cost =
      "the system may move a rank away from its memory and its peers; what was measured for a pair no longer holds; "
      "algorithms with a leader for each socket (-domains) do not serve";
  c.cure = "mpiexec --bind-to core (Open MPI), -bind-to core (MPICH), I_MPI_PIN=1 (Intel MPI), srun --cpu-bind=cores";
  return c;
}

std::vector<Check> machine_checks(const Options& options) {
  const double quota = os::cgroup_cpu_quota(os::find_cgroup());
  const Check memfd = check_memfd();
  return {check_cma(),
          check_yama(),
          check_namespaces(),
          memfd,
          check_shm(memfd.state == State::kOk),
          check_pidfd(),
          check_affinity(),
          check_binding_here(options),
          check_cgroup_cpu(quota),
          check_cgroup_memory(),
          check_oversubscription(quota),
          check_seccomp(),
          check_limits(),
          check_overcommit(),
          check_clock()};
}

}  // namespace zh::tools
