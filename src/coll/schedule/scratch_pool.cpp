// See scratch_pool.h.
#include "coll/schedule/scratch_pool.h"

#include <new>

#include "base/shm_types.h"

namespace zh::coll {

std::byte* ScratchPool::allocate(uint64_t bytes) {
  return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kLineBytes}, std::nothrow));
}

void ScratchPool::free(std::byte* memory) { ::operator delete (memory, std::align_val_t{kLineBytes}); }

ScratchPool::ScratchPool() { idle_.reserve(kMostIdleBlocks); }

ScratchPool::~ScratchPool() {
  for (const Block& block : idle_) free(block.memory);
}

// The smallest that is large enough and at most twice as large, so that small needs do not hold large blocks; of equal
// ones the last given.
std::byte* ScratchPool::take(uint64_t bytes, uint64_t* size) {
  {
    const std::lock_guard lock(mutex_);
    auto best = idle_.end();
    for (auto b = idle_.begin(); b != idle_.end(); ++b) {
      const bool fits = b->size >= bytes && b->size / 2 <= bytes;
      if (fits && (best == idle_.end() || b->size <= best->size)) best = b;
    }
    if (best != idle_.end()) {
      const Block block = *best;
      idle_.erase(best);
      idle_bytes_ -= block.size;
      *size = block.size;
      return block.memory;
    }
  }
  *size = bytes;
  return allocate(bytes);
}

void ScratchPool::give(std::byte* memory, uint64_t size) {
  if (memory == nullptr) return;
  if (size > kMostIdleBytes) return free(memory);
  const std::lock_guard lock(mutex_);
  while (!idle_.empty() && (idle_bytes_ + size > kMostIdleBytes || idle_.size() >= kMostIdleBlocks)) {
    free(idle_.front().memory);
    idle_bytes_ -= idle_.front().size;
    idle_.erase(idle_.begin());
  }
  idle_.push_back({memory, size});
  idle_bytes_ += size;
}

uint64_t ScratchPool::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  return idle_bytes_;
}

}  // namespace zh::coll
