// The doctor's checks of the machine: what it permits and how much of it a job gets. Every answer comes from trying or
// reading the running system.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
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
#include "tools/bench/level_pairs.h"
#include "tools/cli/commands.h"
#include "tools/doctor/doctor.h"

namespace zh::tools {
namespace {

constexpr const char* kCmaCost =
    "large messages between private buffers are copied twice (through shared memory) instead of once";

Check check_module(const Options& options, const Status& module, bool needed) {
  if (options.is(Opt::kKernel, "0")) return {"kernel_module", "switched off by ZEROHOP_KERNEL"};
  if (module.ok()) return {"kernel_module", "copies between ranks where the system refuses process_vm_readv"};
  Check c{"kernel_module", module.text()};
  if (!needed) c.finding += " (not needed: cma works)";
  if (!needed) return c;
  return c.mark(State::kWarn, kCmaCost,
                module.code() == Code::kNotSupported ? "modprobe zerohop (docs/kernel-module.md; containers: --device "
                                                       "/dev/zerohop), or as cma says"
                : module.code() == Code::kNotPermitted
                    ? "the udev rule kernel/60-zerohop.rules (containers: --device /dev/zerohop)"
                    : "ulimit -l unlimited (docker --ulimit memlock=-1)");
}

Check check_cma(bool has_module) {
  const int closed = os::probe_sibling_read(false);
  if (closed == 0) return {"cma", "a process reads its sibling's memory (process_vm_readv)"};
  if (os::yama_scope() == 1 && os::probe_sibling_read(true) == 0)
    return {"cma",
            "works after PR_SET_PTRACER, which zerohop calls in each rank (ZEROHOP_CONFIG=ptracer=0 forbids it)"};
  Check c{"cma", fmt::format("process_vm_readv between siblings: {}", std::strerror(-closed))};
  if (has_module) return c;
  return c.mark(State::kWarn, kCmaCost,
                closed == -ENOSYS         ? "a kernel with CONFIG_CROSS_MEMORY_ATTACH, or a container runtime whose "
                                            "seccomp profile lets the call through"
                : os::yama_scope() > 0    ? "sysctl -w kernel.yama.ptrace_scope=0"
                : os::seccomp_mode() == 2 ? "docker run --cap-add=SYS_PTRACE (or --security-opt seccomp=unconfined)"
                                          : "run all ranks as the same user, in the same user namespace");
}

Check check_yama(bool has_module) {
  const int scope = os::yama_scope();
  Check c{"yama", scope < 0 ? "Yama is not in this kernel" : fmt::format("kernel.yama.ptrace_scope = {}", scope)};
  return scope < 2 || has_module ? c : c.mark(State::kWarn, kCmaCost, "sysctl -w kernel.yama.ptrace_scope=1");
}

Check check_namespaces(bool has_module) {
  // Inode numbers of the first namespaces are constants of the kernel (include/linux/proc_ns.h).
  std::string own;
  if (os::namespace_id("user") != 0xEFFFFFFDu) own += " user";
  if (os::namespace_id("pid") != 0xEFFFFFFCu) own += " pid";
  if (os::namespace_id("ipc") != 0xEFFFFFFFu) own += " ipc";
  if (own.empty()) return {"namespaces", "the machine's own user, pid and ipc namespaces"};
  Check c{"namespaces", "own namespaces:" + own + " (a container)"};
  if (own.find("user") == std::string::npos || has_module) return c;
  return c.mark(State::kWarn,
                "if every rank has a container of its own, CMA and mapped memory are refused between them (one user "
                "namespace per rank)",
                "start one container per node with all its ranks inside, or rootless runtimes with --userns=host");
}

Check check_memfd() {
  const Status s = os::probe_memfd();
  if (s.ok()) return {"memfd", "memfd_create works and /proc/<pid>/fd reaches it"};
  return Check{"memfd", fmt::format("{}: {}", s.what(), std::strerror(s.error()))}.mark(
      State::kWarn,
      "the segment is a file in /dev/shm (or TMPDIR), whose size limit then counts; there is no shared heap",
      "allow memfd_create in the seccomp profile; mount /proc");
}

Check check_shm(bool memfd_works) {
  const os::FileSystemSpace space = os::space_of("/dev/shm");
  Check c{"dev_shm", space.exists
                         ? fmt::format("/dev/shm: {} free of {}", amount(space.free_bytes), amount(space.size_bytes))
                         : "/dev/shm does not exist"};
  if (memfd_works) c.finding += " (not needed: memfd works)";
  const uint64_t wanted = uint64_t{8} << 20 << 3;  // 8 ranks' starting memory
  if (memfd_works || (space.exists && space.free_bytes >= wanted)) return c;
  return c.mark(State::kBad, "too small for the segment: zerohop stays out and every call goes to the host MPI",
                space.exists ? "mount -o remount,size=1G /dev/shm   (containers: --shm-size=1g)"
                             : "mount -t tmpfs -o size=1G tmpfs /dev/shm");
}

Check check_affinity() {
  return {"affinity", fmt::format("may use CPUs {} ({} of {} online)", os::allowed_cpus().to_string(),
                                  os::allowed_cpus().count(), os::online_cpus())};
}

Check check_cgroup_cpu(double quota) {
  if (quota <= 0) return {"cgroup_cpu", "no CPU quota"};
  Check c{"cgroup_cpu", fmt::format("the cgroup grants {:.2f} CPUs' time", quota)};
  if (quota >= os::allowed_cpus().count()) return c;
  return c.mark(
      State::kWarn,
      "ranks that spin use the quota up and are then stopped for up to 100 ms; zerohop yields and sleeps instead",
      "give whole CPUs instead of a quota (docker --cpuset-cpus; Kubernetes static CPU policy), or fewer ranks");
}

Check check_cgroup_memory() {
  const os::MemoryLimit memory = os::cgroup_memory(os::find_cgroup());
  if (memory.limit_bytes == os::kUnlimited) return {"cgroup_memory", "no memory limit"};
  Check c{"cgroup_memory", fmt::format("{} left of {}", amount(memory.headroom()), amount(memory.limit_bytes))};
  if (memory.headroom() >= uint64_t{256} << 20) return c;
  return c.mark(State::kWarn, "the segment cannot grow with traffic; shared memory counts against the limit",
                "raise memory.max (docker --memory), or lower ZEROHOP_MEMORY");
}

Check check_oversubscription(double quota) {
  const uint32_t cpus = os::allowed_cpus().count();
  const int ranks = launched_local_ranks();
  const double usable = quota > 0 && quota < cpus ? quota : cpus;
  if (ranks == 0)
    return {"oversubscription", fmt::format("not started by a launcher; up to {} ranks have a CPU of their own", cpus)};
  Check c{"oversubscription", fmt::format("{} ranks here, {} CPUs for this one", ranks, cpus)};
  // A rank that is bound to one CPU is not short of CPUs.
  if (cpus <= 1 || ranks <= usable) return c;
  return c.mark(State::kWarn,
                "ranks take turns on a CPU: zerohop yields at once, but a host MPI that only spins slows all",
                fmt::format("start at most {} ranks on this machine", static_cast<int>(usable)));
}

Check check_seccomp() {
  const int mode = os::seccomp_mode();
  return {"seccomp", mode == 0   ? "no filter"
                     : mode == 2 ? "a filter is in force; the checks above tell what it refuses"
                                 : fmt::format("mode {}", mode)};
}

Check check_limits() {
  const uint64_t space = os::soft_limit(os::Limit::kAddressSpace), file = os::soft_limit(os::Limit::kFileSize);
  Check c{"limits", fmt::format("address space {}, file size {}, locked memory {} (not used)", amount(space),
                                amount(file), amount(os::soft_limit(os::Limit::kLockedMemory)))};
  if (file < uint64_t{1} << 30)
    return c.mark(State::kBad, "the segment cannot be made: zerohop stays out and every call goes to the host MPI",
                  "ulimit -f unlimited");
  if (space >= uint64_t{16} << 30) return c;
  return c.mark(State::kWarn,
                "the segment (64 MiB of addresses for each rank) and the shared heap's span (a quarter of the limit) "
                "are made smaller to fit",
                "ulimit -v unlimited");
}

Check check_overcommit() {
  const std::string mode = os::read_small_file("/proc/sys/vm/overcommit_memory");
  Check c{"overcommit", "vm.overcommit_memory = " + mode};
  if (mode != "2") return c;
  return c.mark(State::kWarn,
                "memory is promised strictly: allocations may fail although memory is free; there is no shared heap",
                "sysctl -w vm.overcommit_memory=0");
}

Check check_pidfd() {
  const int error = os::probe_pidfd();
  if (error == 0) return {"pidfd", "the end of a rank is seen by pidfd"};
  return {"pidfd", fmt::format("pidfd_open: {}; ranks are looked for by number instead", std::strerror(-error))};
}

Check check_clock() {
  const bool steady = os::ticks_are_steady();
  Check c{"clock", fmt::format("{:.0f} ticks a microsecond, {}", os::ticks_per_us(),
                               steady ? "steady" : "not said to be steady")};
  if (steady) return c;
  return c.mark(State::kWarn, "calibration may be off, as the CPU's counter follows its frequency",
                "pass the invariant TSC through to the virtual machine (QEMU: -cpu host,+invtsc)");
}

/// Sockets on which this process may run.
uint32_t sockets_reached(const node::Machine& machine) {
  std::vector<uint32_t> found;  // a CPU of each
  for (const uint32_t cpu : numbers_of(os::allowed_cpus())) {
    const bool known = std::ranges::any_of(
        found, [&](uint32_t other) { return machine.level(only(cpu), only(other)) < node::Level::kOtherSocket; });
    if (!known) found.push_back(cpu);
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
  if (sockets <= 1) return {"binding", "one socket"};
  if (ranks == 0)
    return {
        "binding",
        fmt::format("{0} sockets; whether ranks are bound is seen in a job: mpiexec -n {0} zerohop doctor", sockets)};
  if (reached <= 1) return {"binding", fmt::format("{} sockets, this rank is bound to one", sockets)};
  return Check{"binding", fmt::format("{} sockets, this rank may run on {}", sockets, reached)}.mark(
      State::kWarn,
      "the system may move a rank away from its memory and its peers; what was measured for a pair no longer holds",
      "mpiexec --bind-to core (Open MPI), -bind-to core (MPICH), I_MPI_PIN=1 (Intel MPI), srun --cpu-bind=cores");
}

std::vector<Check> machine_checks(const Options& options) {
  const double quota = os::cgroup_cpu_quota(os::find_cgroup());
  const Check memfd = check_memfd();
  const Status module = os::probe_copy_module();
  const bool has_module = module.ok() && !options.is(Opt::kKernel, "0");
  const Check cma = check_cma(has_module);
  return {cma,
          check_module(options, module, cma.state != State::kOk),
          check_yama(has_module),
          check_namespaces(has_module),
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
