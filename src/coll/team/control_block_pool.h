// The control blocks of one rank, for all its teams, its staging areas and its areas for edges. A control block is used
// again when every member of its old team has done the last collective there. One object per rank, owned by
// engine::Rank; thread safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "coll/team/control_block.h"

namespace zh::coll {

class Services;

class ControlBlockPool {
 public:
  explicit ControlBlockPool(Services& services) : services_(services) {}

  /// A control block for team `context`, nothing done; kNoOffset when the budget of shared memory is used up.
  [[nodiscard]] Offset take(uint64_t context);
  /// The team `context` is gone here, after `done` collectives; `blocks` are all its members' control blocks, `own`
  /// among them.
  void give(uint64_t context, uint32_t done, Offset own, std::vector<Offset> blocks);

  /// An EdgesShm for a team; kNoOffset when the budget is used up.
  [[nodiscard]] Offset take_edges();
  /// No member looks at it any more.
  void give_edges(Offset area);

  /// kStagingBytes for the one collective at hand; kNoOffset when the budget is used up.
  [[nodiscard]] Offset take_staging();
  /// No member looks at it any more.
  void give_staging(Offset area);

 private:
  struct Retired {
    uint64_t context;
    uint32_t done;
    Offset own;
    std::vector<Offset> blocks;
  };
  [[nodiscard]] bool quiet(const Retired& team) const;
  [[nodiscard]] Offset take_area(std::vector<Offset>& idle, uint64_t bytes);
  void give_area(std::vector<Offset>& idle, Offset area);
  [[nodiscard]] ControlBlockShm* control(Offset offset) const;

  Services& services_;
  std::mutex mutex_;
  std::vector<Offset> idle_;
  std::vector<Offset> idle_staging_;
  std::vector<Offset> idle_edges_;
  std::vector<Retired> retired_;
};

}  // namespace zh::coll
