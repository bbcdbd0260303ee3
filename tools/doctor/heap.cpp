// The doctor's checks of the shared heap: may it be used here, do its files reach the peers, what goes in.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/options.h"
#include "tools/doctor/doctor.h"

namespace zh::tools {
namespace {

constexpr const char* kNotMapped =
    "large messages between a program's own buffers are copied by the kernel or through cells, not straight";

Check check_use(const HeapFacts& f) {
  Check c{"shared_heap", State::kOk, "", "", ""};
  if (f.used) {
    c.finding = "buffers that large messages use again become memory that peers map";
    return c;
  }
  c.finding = "not used: " + f.why;
  if (f.switched_off) return c;
  c.state = State::kWarn;
  c.cost = kNotMapped;
  const size_t limit = f.why.find("(ulimit -");
  if (limit != std::string::npos) {
    c.cure = f.why.substr(limit + 1, std::strlen("ulimit -v")) + " unlimited";
  } else {
    c.cure = f.overcommit == "2"    ? "sysctl -w vm.overcommit_memory=0"
             : f.page_bytes != 4096 ? "a kernel with pages of 4 KiB"
                                    : "unset what is named, for production runs";
  }
  return c;
}

Check check_peer_files(const HeapFacts& f) {
  Check c{"peer_files", State::kOk, "a process maps its sibling's memory file (/proc/<pid>/fd)", "", ""};
  if (f.sibling_file == 0) return c;
  c.state = State::kWarn;
  c.finding = std::string("a sibling's memory file through /proc/<pid>/fd: ") + std::strerror(-f.sibling_file);
  c.cost = std::string(kNotMapped) + "; MPI_Alloc_mem's buffers neither";
  c.cure = f.sibling_file == -ENOENT ? "mount -t proc proc /proc   (without hidepid)"
                                     : "run all ranks as one user in one user namespace; let SELinux or AppArmor allow "
                                       "reading /proc/<pid>/fd";
  return c;
}

Check check_populate(const HeapFacts& f) {
  Check c{"populate", State::kOk, "pages are made shared in one call (MADV_POPULATE_WRITE)", "", ""};
  if (f.populate == 0) return c;
  c.finding = std::string("MADV_POPULATE_WRITE: ") + std::strerror(-f.populate);
  if (!f.used) return c;
  c.state = State::kWarn;
  c.cost = "buffers become shared page by page, which takes longer";
  c.cure = "Linux 5.14 or later, or a sandbox that lets the advice through";
  return c;
}

Check check_pagemap(const HeapFacts& f) {
  Check c{"pagemap", State::kOk, "/proc/self/pagemap tells what is behind a buffer", "", ""};
  if (f.pagemap) return c;
  c.finding = "/proc/self/pagemap cannot be read";
  if (!f.used) return c;
  c.state = State::kWarn;
  c.cost = kNotMapped;
  c.cure = "mount -t proc proc /proc";
  return c;
}

Check check_huge_pages(const HeapFacts& f) {
  Check c{"huge_pages", State::kOk, "", "", ""};
  const auto shown = [](const std::string& mode) { return mode.empty() ? "none in this kernel" : mode; };
  c.finding = "private memory: " + shown(f.private_huge_pages) + "; shared memory: " + shown(f.shared_huge_pages);
  if (!f.used || !f.huge_pages_stay) return c;
  c.cost = "memory in huge pages stays private, as shared memory would have small ones: peers cannot map it";
  c.cure = f.shared_huge_pages.empty()
               ? "ZEROHOP_HEAP=1   (it becomes shared, in small pages)"
               : "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled   (or ZEROHOP_HEAP=1: small pages)";
  return c;
}

}  // namespace

std::string size_text(uint64_t bytes) {
  if (bytes == ~uint64_t{0}) return "unlimited";
  char text[32];
  const bool giant = bytes >= uint64_t{1} << 30;
  std::snprintf(text, sizeof text, "%.1f %s", static_cast<double>(bytes) / (giant ? 1 << 30 : 1 << 20),
                giant ? "GiB" : "MiB");
  return text;
}

std::vector<Check> heap_checks(const HeapFacts& facts) {
  return {check_use(facts), check_peer_files(facts), check_populate(facts), check_pagemap(facts),
          check_huge_pages(facts)};
}

}  // namespace zh::tools
