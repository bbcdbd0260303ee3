// See both_sides.h.
#include "tools/bench/both_sides.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "os/affinity.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/segment.h"
#include "tools/bench/level_pairs.h"
#include "tools/cli/commands.h"

namespace zh::tools {
namespace {

bool refuse_sides(const char* what, int error) {
  std::fprintf(stderr, "zerohop bench: %s%s%s\n", what, error != 0 ? ": " : "", error != 0 ? std::strerror(error) : "");
  return false;
}

}  // namespace

int choose_cpus(const std::string& command, std::vector<int>* cpus) {
  constexpr int kWrong = 2;
  constexpr int kNotHere = 77;
  const os::CpuSet allowed = os::allowed_cpus();
  for (const int cpu : *cpus) {
    const bool known = cpu >= 0 && static_cast<uint32_t>(cpu) < os::CpuSet::kMaxCpus;
    if (!known || !allowed.has(static_cast<uint32_t>(cpu)))
      return refuse(command,
                    fmt::format("this process may not use CPU {}, only {}: give two of these by --cpus", cpu,
                                allowed.to_string()),
                    kWrong);
  }
  if (cpus->size() == 2 && cpus->front() == cpus->back())
    return refuse(
        command,
        fmt::format("--cpus names CPU {} twice: give two different ones of {}", cpus->front(), allowed.to_string()),
        kWrong);
  for (uint32_t c = 0; c < os::CpuSet::kMaxCpus && cpus->size() < 2; ++c) {
    if (allowed.has(c)) cpus->push_back(static_cast<int>(c));
  }
  if (cpus->size() == 2) return 0;
  return refuse(command, fmt::format("needs two CPUs, this process may use only {}", allowed.to_string()), kNotHere);
}

void bind_to_cpu(uint32_t cpu) { (void)os::bind_to(only(cpu)); }

bool on_both_sides(const tune::ScratchLimits& limits,
                   const std::function<bool(tune::MeasuringPair& pair, int side)>& part) {
  const uint64_t bytes = tune::MeasuringPair::scratch_bytes(limits);
  std::byte* scratch = nullptr;
  os::Descriptor fd;
  Status status = os::make_memfd("zerohop-bench", bytes, &fd);
  if (status.ok()) status = os::back_range(fd.get(), 0, bytes);
  if (status.ok()) status = os::map_shared(fd.get(), bytes, &scratch);
  if (!status.ok()) return refuse_sides(status.what(), status.error());
  (void)os::ticks_per_us();  // measured before the fork: both sides then use one value
  const pid_t parent = os::process_id();
  const pid_t child = fork();
  if (child == 0) {
    os::die_with_parent(parent);
    tune::MeasuringPair pair(scratch, limits, 1, os::process_id(), true);
    _exit(part(pair, 1) ? 0 : 1);
  }
  if (child < 0) return refuse_sides("fork", errno);
  tune::MeasuringPair pair(scratch, limits, 0, parent, true);
  const bool complete = part(pair, 0);
  int result = 0;
  waitpid(child, &result, 0);
  os::unmap(scratch, bytes);
  return complete || refuse_sides("the two processes lost each other (a CPU taken away, or a kill)", 0);
}

}  // namespace zh::tools
