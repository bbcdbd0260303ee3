// The doctor's checks of the shared heap: may it be used here, do its files reach the peers, what goes in. And the
// facts behind them (facts of job_facts.h).
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "base/environment.h"
#include "base/options.h"
#include "heap/decide.h"
#include "heap/huge_pages.h"
#include "heap/limits.h"
#include "os/probe.h"
#include "os/process.h"
#include "os/program.h"
#include "os/vm.h"
#include "tools/doctor/doctor.h"

namespace zh::tools {
namespace {

constexpr const char* kNotMapped =
    "large messages between a program's own buffers are copied by the kernel or through cells, not straight";

Check check_use(const HeapFacts& f) {
  if (f.used) return {"shared_heap", "buffers that large messages use again become memory that peers map"};
  Check c{"shared_heap", "not used: " + f.why};
  if (f.switched_off) return c;
  const size_t limit = f.why.find("(ulimit -");
  return c.mark(State::kWarn, kNotMapped,
                limit != std::string::npos ? f.why.substr(limit + 1, std::strlen("ulimit -v")) + " unlimited"
                : f.overcommit == "2"      ? "sysctl -w vm.overcommit_memory=0"
                : f.page_bytes != 4096     ? "a kernel with pages of 4 KiB"
                                           : "unset what is named, for production runs");
}

Check check_peer_files(const HeapFacts& f) {
  if (f.sibling_file == 0) return {"peer_files", "a process maps its sibling's memory file (/proc/<pid>/fd)"};
  Check c{"peer_files",
          fmt::format("a sibling's memory file through /proc/<pid>/fd: {}", std::strerror(-f.sibling_file))};
  return c.mark(State::kWarn, std::string(kNotMapped) + "; MPI_Alloc_mem's buffers neither",
                f.sibling_file == -ENOENT ? "mount -t proc proc /proc   (without hidepid)"
                                          : "run all ranks as one user in one user namespace; let SELinux or AppArmor "
                                            "allow reading /proc/<pid>/fd");
}

Check check_populate(const HeapFacts& f) {
  if (f.populate == 0) return {"populate", "pages are made shared in one call (MADV_POPULATE_WRITE)"};
  Check c{"populate", fmt::format("MADV_POPULATE_WRITE: {}", std::strerror(-f.populate))};
  return !f.used ? c
                 : c.mark(State::kWarn, "buffers become shared page by page, which takes longer",
                          "Linux 5.14 or later, or a sandbox that lets the advice through");
}

Check check_pagemap(const HeapFacts& f) {
  if (f.pagemap) return {"pagemap", "/proc/self/pagemap tells what is behind a buffer"};
  Check c{"pagemap", "/proc/self/pagemap cannot be read"};
  return f.used ? c.mark(State::kWarn, kNotMapped, "mount -t proc proc /proc") : c;
}

Check check_huge_pages(const HeapFacts& f) {
  const auto shown = [](const std::string& mode) { return mode.empty() ? "none in this kernel" : mode; };
  Check c{"huge_pages", fmt::format("private memory: {}; shared memory: {}", shown(f.private_huge_pages),
                                    shown(f.shared_huge_pages))};
  if (!f.used || !f.huge_pages_stay) return c;
  // No fault: huge pages are worth as much to a program as what peers gain by mapping them.
  c.finding += "; memory in huge pages stays private (docs/design/heap.md: how to have both)";
  return c;
}

}  // namespace

HeapFacts look_at_heap(const Options& options) {
  HeapFacts facts;
  facts.setting = options.get_text(Opt::kHeap);
  facts.switched_off = facts.setting == "0" || !options.get_bool(Opt::kEnable);
  // The decision reads the environment, as `zerohop run` would hand it on.
  os::set_variable("ZEROHOP_HEAP", facts.setting);
  os::set_variable("ZEROHOP_ENABLE", options.get_text(Opt::kEnable));
  const heap::Decision decision = heap::decide();
  facts.page_bytes = os::page_bytes();
  facts.overcommit = os::read_small_file("/proc/sys/vm/overcommit_memory");
  facts.private_huge_pages = os::read_small_file("/sys/kernel/mm/transparent_hugepage/enabled");
  facts.shared_huge_pages = os::read_small_file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  facts.huge_pages_stay =
      !decision.always && heap::private_memory_has_huge_pages() && !heap::shared_memory_has_huge_pages();
  facts.populate = os::probe_populate();
  facts.sibling_file = os::probe_sibling_file();
  facts.pagemap = os::probe_pagemap();
  const char* obstacle = heap::system_obstacle();
  if (obstacle == nullptr && !facts.pagemap) obstacle = "/proc/self/pagemap cannot be read";
  facts.used = decision.use && obstacle == nullptr;
  facts.why = decision.use && obstacle != nullptr ? obstacle : decision.why;
  return facts;
}

std::vector<Check> heap_checks(const HeapFacts& facts) {
  return {check_use(facts), check_peer_files(facts), check_populate(facts), check_pagemap(facts),
          check_huge_pages(facts)};
}

}  // namespace zh::tools
