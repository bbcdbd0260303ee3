// The machine as hwloc describes it: levels of distance between sets of CPUs, cache sizes, an identity for caches of
// measurements. Called while joining (by the node's leader) and by the tools; refuses to know ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "node/node.h"
#include "os/affinity.h"

namespace zh::node {

class Machine {
 public:
  Machine();
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// `source`: "" = this machine (with what the cgroup hides still counted), "synthetic:<hwloc description>", or an XML
  /// file.
  Status load(const std::string& source);

  /// Distance of two processes that may run on these CPUs: the nearest level that holds for *every* pair of CPUs that
  /// they may be on; a set that is empty or unknown counts as all CPUs.
  [[nodiscard]] Level level(const os::CpuSet& a, const os::CpuSet& b) const;
  /// The hardware thread that a test's rank `index` pretends to be bound to: all of them in turn, in hwloc's order.
  [[nodiscard]] os::CpuSet place(uint32_t index) const;
  /// CPU cores that the set touches.
  [[nodiscard]] uint32_t cores(const os::CpuSet& set) const;

  struct Summary {
    uint32_t cpus = 0, cores = 0, l2 = 0, l3 = 0, numa_nodes = 0, packages = 0;
    uint64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;  ///< of one cache
    std::string cpu_model;
  };
  [[nodiscard]] const Summary& summary() const { return summary_; }
  /// Text that is equal on machines of one kind: CPU model, kernel release, hypervisor, shape of the topology.
  [[nodiscard]] std::string identity() const;
  [[nodiscard]] static bool has_hwloc();

 private:
  struct State;
  std::unique_ptr<State> state_;
  Summary summary_;
};

}  // namespace zh::node
