#include "coll/team/control_block_pool.h"

#include <utility>

#include "coll/team/services.h"

namespace zh::coll {

ControlBlockShm* ControlBlockPool::control(Offset offset) const {
  return at<ControlBlockShm>(services_.base(), offset);
}

// A member whose control block names another team, or none, has found the team quiet itself.
bool ControlBlockPool::quiet(const Retired& team) const {
  for (const Offset offset : team.blocks) {
    const ControlBlockShm* theirs = control(offset);
    // CB1 -> CB0: what is seen of a control block that serves another team is of after it was given up.
    if (theirs->context.load_acquire() != team.context) continue;
    // CN1 -> CN0: that member's last reads.
    if (theirs->done.load_acquire() == team.done) continue;
    // CB1 -> CB0: given up meanwhile.
    if (theirs->context.load_acquire() == team.context) return false;
  }
  return true;
}

Offset ControlBlockPool::take(uint64_t context) {
  const std::scoped_lock lock(mutex_);
  for (size_t i = 0; i < retired_.size();) {
    if (!quiet(retired_[i])) {
      ++i;
      continue;
    }
    idle_.push_back(retired_[i].own);
    // CB0 -> CB1: the others may still look at it, and then know that this member is through.
    control(retired_[i].own)->context.store_release(0);
    std::swap(retired_[i], retired_.back());
    retired_.pop_back();
  }
  Offset offset = kNoOffset;
  if (!idle_.empty()) {
    offset = idle_.back();
    idle_.pop_back();
  } else {
    offset = services_.allocate(sizeof(ControlBlockShm));
    if (offset == kNoOffset) return kNoOffset;
  }
  ControlBlockShm* fresh = control(offset);
  fresh->done.store_relaxed(0);  // who sees this and still the old team waits a little longer
  fresh->fallback.word.store_relaxed(0);
  fresh->arrivals.store_relaxed(0);
  fresh->throttle.inside.store_relaxed(0);
  fresh->result.seq.store_relaxed(0);
  for (ContributionShm& slot : fresh->slots) {
    slot.seq.store_relaxed(0);
    slot.stage.store_relaxed(0);
  }
  fresh->context.store_release(context);  // CB0 -> CB1
  return offset;
}

void ControlBlockPool::give(uint64_t context, uint32_t done, Offset own, std::vector<Offset> blocks) {
  const std::scoped_lock lock(mutex_);
  retired_.push_back({context, done, own, std::move(blocks)});
}

Offset ControlBlockPool::take_area(std::vector<Offset>& idle, uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (idle.empty()) return services_.allocate(bytes);
  const Offset area = idle.back();
  idle.pop_back();
  return area;
}

void ControlBlockPool::give_area(std::vector<Offset>& idle, Offset area) {
  const std::scoped_lock lock(mutex_);
  idle.push_back(area);
}

Offset ControlBlockPool::take_staging() { return take_area(idle_staging_, kStagingBytes); }
void ControlBlockPool::give_staging(Offset area) { give_area(idle_staging_, area); }
Offset ControlBlockPool::take_edges() { return take_area(idle_edges_, sizeof(EdgesShm)); }
void ControlBlockPool::give_edges(Offset area) { give_area(idle_edges_, area); }

}  // namespace zh::coll
