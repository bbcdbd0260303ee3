// Affinity, cgroup and rlimit readings; see affinity.h.
#include "os/affinity.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "os/process.h"
#include "os/vm.h"

namespace zh::os {
namespace {

/// Line of /proc/self/cgroup whose controller list holds `controller` ("" for v2's single line): its path.
std::string cgroup_path(const std::string& text, const char* controller) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string list = "," + line.substr(first + 1, second - first - 1) + ",";
    if (list.find(std::string(",") + controller + ",") != std::string::npos) return line.substr(second + 1);
  }
  return "";
}

bool exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

/// First of `folders` that holds `file`. A container sees its own cgroup at the mount's root while /proc shows the
/// host's path.
std::string folder_with(const std::string& mount, const std::string& path, const char* file) {
  for (std::string folder = mount + (path == "/" ? "" : path);; folder.resize(folder.rfind('/'))) {
    if (exists(folder + "/" + file)) return folder;
    if (folder.size() <= mount.size()) break;
  }
  return exists(mount + "/" + file) ? mount : "";
}

/// Calls visit(folder) for `folder` and its parents down to `root`.
template <typename Visit>
void for_each_parent(std::string folder, const std::string& root, Visit&& visit) {
  while (folder.size() >= root.size() && !folder.empty()) {
    visit(folder);
    const size_t slash = folder.rfind('/');
    if (slash == std::string::npos || slash < root.size()) break;
    folder.resize(slash);
  }
}

uint64_t to_bytes(const std::string& text) {
  if (text.empty() || text == "max") return kUnlimited;
  const uint64_t value = std::strtoull(text.c_str(), nullptr, 10);
  return value >= (uint64_t{1} << 62) ? kUnlimited : value;  // v1 writes "no limit" as a huge number
}

uint64_t stat_value(const std::string& text, const char* key) {
  const std::string wanted = std::string("\n") + key + " ";
  const size_t found = ("\n" + text).find(wanted);
  return found == std::string::npos ? 0 : std::strtoull(text.c_str() + found + wanted.size() - 1, nullptr, 10);
}

}  // namespace

std::string CpuSet::to_string() const {
  std::string text;
  for (uint32_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (!has(cpu)) continue;
    uint32_t last = cpu;
    while (last + 1 < kMaxCpus && has(last + 1)) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpu);
    if (last > cpu) text += (last == cpu + 1 ? "," : "-") + std::to_string(last);
    cpu = last;
  }
  return text;
}

CpuSet allowed_cpus() {
  CpuSet set;
  static_assert(sizeof set.words == CpuSet::kMaxCpus / 8);
  cpu_set_t* raw = reinterpret_cast<cpu_set_t*>(set.words);
  if (sched_getaffinity(0, sizeof set.words, raw) != 0) return {};
  return set;
}

uint32_t current_cpu() {
  const int cpu = sched_getcpu();
  return cpu < 0 ? 0 : static_cast<uint32_t>(cpu);
}

int bind_to(const CpuSet& cpus) {
  const cpu_set_t* raw = reinterpret_cast<const cpu_set_t*>(cpus.words);
  return sched_setaffinity(0, sizeof cpus.words, raw) == 0 ? 0 : -errno;
}

int move_to(uint32_t cpu) {
  const SignalsBlocked here;  // a handler would see the binding, and a child that it forks would keep it
  const CpuSet before = allowed_cpus();
  CpuSet one;
  one.add(cpu);
  if (!before.has(cpu)) return -EINVAL;
  if (const int error = bind_to(one); error != 0) return error;
  if (allowed_cpus() != one) return 0;  // another thread has bound this one meanwhile
  // Linux remembers what a thread asked for, and obeys it when its cpuset grows. All CPUs are what it asks for at
  // first.
  CpuSet all;
  std::memset(all.words, 0xff, sizeof all.words);
  (void)bind_to(all);
  return allowed_cpus() == before ? 0 : bind_to(before);
}

uint32_t online_cpus() {
  const long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? static_cast<uint32_t>(n) : 1;
}

Cgroup find_cgroup(const std::string& root, const std::string& proc_file) {
  const std::string text = read_small_file(proc_file.c_str());
  Cgroup cgroup;
  cgroup.v2 = exists(root + "/cgroup.controllers");
  if (cgroup.v2) {
    const std::string path = cgroup_path(text, "");
    cgroup.cpu_folder = folder_with(root, path, "cpu.max");
    cgroup.memory_folder = folder_with(root, path, "memory.max");
    return cgroup;
  }
  for (const char* mount : {"/cpu", "/cpu,cpuacct"}) {
    if (!cgroup.cpu_folder.empty()) break;
    cgroup.cpu_folder = folder_with(root + mount, cgroup_path(text, "cpu"), "cpu.cfs_quota_us");
  }
  cgroup.memory_folder = folder_with(root + "/memory", cgroup_path(text, "memory"), "memory.limit_in_bytes");
  return cgroup;
}

double cgroup_cpu_quota(const Cgroup& cgroup, const std::string& root) {
  double tightest = 0;
  for_each_parent(cgroup.cpu_folder, root, [&](const std::string& folder) {
    double quota = 0, period = 0;
    if (cgroup.v2) {
      if (std::sscanf(read_small_file((folder + "/cpu.max").c_str()).c_str(), "%lf %lf", &quota, &period) != 2) return;
    } else {
      quota = std::atof(read_small_file((folder + "/cpu.cfs_quota_us").c_str()).c_str());
      period = std::atof(read_small_file((folder + "/cpu.cfs_period_us").c_str()).c_str());
    }
    if (quota <= 0 || period <= 0) return;
    const double cpus = quota / period;
    if (tightest == 0 || cpus < tightest) tightest = cpus;
  });
  return tightest;
}

MemoryLimit cgroup_memory(const Cgroup& cgroup, const std::string& root) {
  MemoryLimit tightest;
  for_each_parent(cgroup.memory_folder, root, [&](const std::string& folder) {
    MemoryLimit here;
    const char* limit = cgroup.v2 ? "/memory.max" : "/memory.limit_in_bytes";
    const char* used = cgroup.v2 ? "/memory.current" : "/memory.usage_in_bytes";
    here.limit_bytes = to_bytes(read_small_file((folder + limit).c_str()));
    if (here.limit_bytes == kUnlimited) return;
    const uint64_t all = std::strtoull(read_small_file((folder + used).c_str()).c_str(), nullptr, 10);
    const uint64_t cache = stat_value(read_small_file((folder + "/memory.stat").c_str()),
                                      cgroup.v2 ? "inactive_file" : "total_inactive_file");
    here.used_bytes = all > cache ? all - cache : 0;
    if (here.headroom() < tightest.headroom()) tightest = here;
  });
  return tightest;
}

uint64_t address_space_left() {
  const uint64_t limit = soft_limit(Limit::kAddressSpace);
  if (limit == kUnlimited) return kUnlimited;
  const uint64_t pages = std::strtoull(read_small_file("/proc/self/statm").c_str(), nullptr, 10);
  const uint64_t used = pages * page_bytes();
  return limit > used ? limit - used : 0;
}

}  // namespace zh::os
