// The shared memory of one rank's teams: control blocks, blocks of nonblocking collectives, staging areas and areas for
// edges. One object per rank, owned by engine::Rank; thread safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "coll/team/block_pool.h"
#include "coll/team/control_block.h"
#include "coll/team/slot_block.h"
#include "coll/team/staged_block.h"

namespace zh::coll {

class ControlBlockPool {
 public:
  explicit ControlBlockPool(Services& services)
      : services_(services), controls_(services), slots_(services), staged_(services) {}

  /// For blocking collectives.
  [[nodiscard]] BlockPool<ControlBlockShm>& controls() { return controls_; }
  /// What a control block grows into; kNoOffset when others may need the memory. It stays with that block.
  [[nodiscard]] Offset make_larger() { return services_.allocate_spare(sizeof(LargerBlockShm)); }
  /// For nonblocking ones: small, and large in pieces.
  [[nodiscard]] BlockPool<SlotBlockShm>& slots() { return slots_; }
  [[nodiscard]] BlockPool<StagedBlockShm>& staged() { return staged_; }

  /// An EdgesShm for a team; kNoOffset when the budget is used up.
  [[nodiscard]] Offset take_edges() { return take_area(idle_edges_, sizeof(EdgesShm)); }
  /// No member looks at it any more.
  void give_edges(Offset area) { give_area(idle_edges_, area); }

  /// kStagingBytes for one collective; kNoOffset when the budget is used up.
  [[nodiscard]] Offset take_staging() { return take_area(idle_staging_, kStagingBytes); }
  /// No member looks at it any more.
  void give_staging(Offset area) { give_area(idle_staging_, area); }

 private:
  [[nodiscard]] Offset take_area(std::vector<Offset>& idle, uint64_t bytes) {
    const std::scoped_lock lock(mutex_);
    if (idle.empty()) return services_.allocate(bytes);
    const Offset area = idle.back();
    idle.pop_back();
    return area;
  }
  void give_area(std::vector<Offset>& idle, Offset area) {
    const std::scoped_lock lock(mutex_);
    idle.push_back(area);
  }

  Services& services_;
  BlockPool<ControlBlockShm> controls_;
  BlockPool<SlotBlockShm> slots_;
  BlockPool<StagedBlockShm> staged_;
  std::mutex mutex_;
  std::vector<Offset> idle_staging_;
  std::vector<Offset> idle_edges_;
};

}  // namespace zh::coll
