// Which CPUs and how much memory this process may really use: affinity mask, cgroup v1/v2 limits, rlimits.
// Called by src/node and the tools; refuses to know topology (that is hwloc's, in src/node).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace zh::os {

/// A set of CPU numbers, plain data so that ranks can exchange it.
struct CpuSet {
  static constexpr uint32_t kMaxCpus = 4096;
  uint64_t words[kMaxCpus / 64] = {};

  void add(uint32_t cpu) {
    if (cpu < kMaxCpus) words[cpu / 64] |= uint64_t{1} << (cpu % 64);
  }
  [[nodiscard]] bool has(uint32_t cpu) const { return cpu < kMaxCpus && (words[cpu / 64] >> (cpu % 64) & 1) != 0; }
  void add(const CpuSet& other) {
    for (size_t i = 0; i < kMaxCpus / 64; ++i) words[i] |= other.words[i];
  }
  [[nodiscard]] uint32_t count() const {
    uint32_t n = 0;
    for (const uint64_t w : words) n += static_cast<uint32_t>(__builtin_popcountll(w));
    return n;
  }
  bool operator==(const CpuSet&) const = default;
  /// "0-3,8", as taskset writes it; "" if empty.
  [[nodiscard]] std::string to_string() const;
};

/// CPUs the calling thread may run on; empty if the kernel does not say.
[[nodiscard]] CpuSet allowed_cpus();
/// The CPU that the calling thread is on; 0 if the kernel does not say.
[[nodiscard]] uint32_t current_cpu();
/// Binds the calling thread; 0 or -errno.
int bind_to(const CpuSet& cpus);
/// Moves the calling thread to a CPU that it may run on. Where it may run does not change; so the kernel may move it
/// on. 0 or -errno.
int move_to(uint32_t cpu);
/// CPUs that are online.
[[nodiscard]] uint32_t online_cpus();

/// The cgroup of this process: its folder for a controller, "" if there is none or it is hidden.
struct Cgroup {
  std::string cpu_folder;
  std::string memory_folder;
  bool v2 = false;
};
/// `root` and `proc_file` are for tests; normally "/sys/fs/cgroup" and "/proc/self/cgroup".
[[nodiscard]] Cgroup find_cgroup(const std::string& root = "/sys/fs/cgroup",
                                 const std::string& proc_file = "/proc/self/cgroup");
/// CPUs' worth of time that the cgroup (or one above it) grants, e.g. 1.5; 0 if unlimited.
[[nodiscard]] double cgroup_cpu_quota(const Cgroup& cgroup, const std::string& root = "/sys/fs/cgroup");

constexpr uint64_t kUnlimited = ~uint64_t{0};
struct MemoryLimit {
  uint64_t limit_bytes = kUnlimited;
  uint64_t used_bytes = 0;  ///< without the page cache that can be dropped
  [[nodiscard]] uint64_t headroom() const {
    if (limit_bytes == kUnlimited) return kUnlimited;
    return limit_bytes > used_bytes ? limit_bytes - used_bytes : 0;
  }
};
/// The tightest memory limit of the cgroup and those above it.
[[nodiscard]] MemoryLimit cgroup_memory(const Cgroup& cgroup, const std::string& root = "/sys/fs/cgroup");

/// Address space that may still be mapped under RLIMIT_AS; kUnlimited without one.
[[nodiscard]] uint64_t address_space_left();

}  // namespace zh::os
