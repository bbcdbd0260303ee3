// A rank's allocator over its own part of the segment. Only the owner allocates, so the bookkeeping is private; memory
// is backed (and first touched, on the owner's NUMA node) in steps as it is needed, up to the part's size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/shm_types.h"
#include "base/status.h"

namespace zh::node {
class Node;
}

namespace zh::shm {

class Arena {
 public:
  /// Size of the part of the segment that an arena with this budget needs: as much again is the reserve.
  [[nodiscard]] static constexpr uint64_t part_bytes(uint64_t budget_bytes) { return 2 * budget_bytes; }

  /// Manages the node's own part from `first_bytes` on; [0, first_bytes) is backed at once for the part's header.
  Status open(node::Node& node, uint64_t first_bytes);
  /// Manages the node's own annex; all of it is the budget.
  void open_annex(node::Node& node);

  /// Zero-filled on first use only; 128-byte aligned. kNoOffset when the budget is used up.
  [[nodiscard]] Offset allocate(uint64_t bytes) { return allocate_below(budget_, bytes); }
  /// As allocate(), and beyond the budget from the reserve, which is as large again. For what nothing can do without.
  /// `kept_bytes` of the reserve, half of it at most, are left for others.
  [[nodiscard]] Offset allocate_reserve(uint64_t bytes, uint64_t kept_bytes) {
    return allocate_below(end_ - std::min(kept_bytes, (end_ - budget_) / 2), bytes);
  }
  /// Why the last allocation got nothing.
  [[nodiscard]] const Status& refusal() const { return refusal_; }
  /// `bytes` as given to allocate().
  void free(Offset offset, uint64_t bytes);
  /// Like free(), but the memory goes back to the system; only of the block allocated last, else it is free().
  void drop(Offset offset, uint64_t bytes);

  [[nodiscard]] uint64_t backed_bytes() const { return backed_; }
  [[nodiscard]] uint64_t budget_bytes() const { return budget_; }
  [[nodiscard]] uint64_t used_bytes() const { return used_; }

 private:
  static uint64_t block_bytes(uint64_t bytes);
  Status back(uint64_t end);
  Offset allocate_below(uint64_t limit, uint64_t bytes);

  node::Node* node_ = nullptr;
  Offset origin_ = 0;    // positions count from there
  uint64_t step_ = 0;    // backing grows in such steps
  uint64_t next_ = 0;    // position of the first never used byte in the part
  uint64_t backed_ = 0;  // bytes of the part that have memory
  uint64_t budget_ = 0;  // position in the part
  uint64_t end_ = 0;     // of the reserve behind it
  uint64_t used_ = 0;
  Status refusal_;
  std::map<uint64_t, std::vector<Offset>> free_;  // by block size; few sizes are ever used
};

}  // namespace zh::shm
