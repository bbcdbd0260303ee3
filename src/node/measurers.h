// Which ranks of a node time cache lines, and whose lines these are. Called by the joiner; refuses to know how a line
// is timed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "os/affinity.h"

namespace zh::node {

/// Ranks are numbers on one node. Where each rank can have a processor to itself, all measure. Where ranks outnumber
/// processors, a measurement between any two would be between processes that wait for their turn. Then at most two
/// ranks measure for all that have the same processors, and the others sleep meanwhile.
class Measurers {
 public:
  /// `cpus`: what each rank may run on; `usable`: how many processors the node's ranks have together.
  Measurers(const std::vector<os::CpuSet>& cpus, uint32_t usable);

  /// Ascending. Fewer than two: nobody measures.
  [[nodiscard]] const std::vector<uint32_t>& ranks() const { return ranks_; }
  [[nodiscard]] bool has(uint32_t rank) const;
  /// Ranks outnumber processors.
  [[nodiscard]] bool stand_in() const { return stand_in_; }
  /// Where a measurer stays meanwhile, so that the two of one pair of processors are not both on one of them.
  [[nodiscard]] os::CpuSet place_of(uint32_t measurer) const;
  /// The two measurers whose line counts for ranks a and b; equal if there are none.
  [[nodiscard]] std::pair<uint32_t, uint32_t> of(uint32_t a, uint32_t b) const;

 private:
  std::vector<uint32_t> ranks_;
  std::vector<os::CpuSet> cpus_;
  std::vector<uint32_t> first_;   ///< by rank: the first rank with its processors
  std::vector<uint32_t> second_;  ///< ... and the second one that measures; the first again if there is none
  bool stand_in_ = false;
};

}  // namespace zh::node
