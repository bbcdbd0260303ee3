#include "coll/team/control_block_pool.h"

namespace zh::coll {

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
