// Blocks of shared memory that a rank has for its teams, one for each team. A block is used again when every member of
// its old team has done the last collective there. Held by ControlBlockPool; thread safe.
#pragma once

#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "base/shm_types.h"
#include "coll/team/services.h"

namespace zh::coll {

/// `Block` has `context`, which names the team that it serves, or 0; `done`, the collectives for which its owner needs
/// nothing from others any more; and reset(), after which nothing is done in it.
template <typename Block>
class BlockPool {
 public:
  explicit BlockPool(Services& services) : services_(services) {}

  /// A block for team `context`, nothing done; kNoOffset when the budget of shared memory is used up.
  [[nodiscard]] Offset take(uint64_t context) {
    const std::scoped_lock lock(mutex_);
    for (size_t i = 0; i < retired_.size();) {
      if (!quiet(retired_[i])) {
        ++i;
        continue;
      }
      idle_.push_back(retired_[i].own);
      // CB0 -> CB1: the others may still look at it, and then know that this member is through.
      block(retired_[i].own)->context.store_release(0);
      std::swap(retired_[i], retired_.back());
      retired_.pop_back();
    }
    Offset offset = kNoOffset;
    if (!idle_.empty()) {
      offset = idle_.back();
      idle_.pop_back();
    } else {
      offset = services_.allocate(sizeof(Block));
      if (offset == kNoOffset) return kNoOffset;
      // It may have been something else before, and reset() leaves what stays with a block.
      std::memset(static_cast<void*>(block(offset)), 0, sizeof(Block));
    }
    Block* fresh = block(offset);
    fresh->reset();  // who still waits for the old team sees that the block is not that one's any more
    fresh->context.store_release(context);  // CB0 -> CB1
    return offset;
  }

  /// The team `context` is gone here, after `done` collectives; `blocks` are all its members' blocks, `own` among them.
  void give(uint64_t context, uint64_t done, Offset own, std::vector<Offset> blocks) {
    const std::scoped_lock lock(mutex_);
    retired_.push_back({context, done, own, std::move(blocks)});
  }

 private:
  struct Retired {
    uint64_t context;
    uint64_t done;
    Offset own;
    std::vector<Offset> blocks;
  };

  /// A member whose block names another team, or none, has found the team quiet itself.
  [[nodiscard]] bool quiet(const Retired& team) const {
    for (const Offset offset : team.blocks) {
      const Block* theirs = block(offset);
      // CB1 -> CB0: what is seen of a block that serves another team is of after it was given up.
      if (theirs->context.load_acquire() != team.context) continue;
      // CN1 -> CN0 and SD1 <- SD0: that member's last reads.
      if (theirs->done.load_acquire() == team.done) continue;
      // CB1 -> CB0: given up meanwhile.
      if (theirs->context.load_acquire() == team.context) return false;
    }
    return true;
  }
  [[nodiscard]] Block* block(Offset offset) const { return at<Block>(services_.base(), offset); }

  Services& services_;
  std::mutex mutex_;
  std::vector<Offset> idle_;
  std::vector<Retired> retired_;
};

}  // namespace zh::coll
