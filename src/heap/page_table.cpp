#include "heap/page_table.h"

#include <new>

#include "os/vm.h"

namespace zh::heap {

bool PageTable::prepare(Pages pages) {
  if (pages.n == 0 || (pages.end() - 1) / kLeafPages >= kTopEntries) return false;
  if (top_ == nullptr) {
    constexpr uint64_t kBytes = kTopEntries * sizeof(Atomic<uintptr_t>) + kMaxLeaves * sizeof(uint64_t);
    std::byte* const memory = os::map_lazy(kBytes);
    if (memory == nullptr) return false;
    os::keep_out_of_dumps(memory, kBytes);  // nearly all of it is never touched, and a dump through a pipe holds zeros
    top_ = reinterpret_cast<Atomic<uintptr_t>*>(memory);
    leaves_ = reinterpret_cast<uint64_t*>(memory + kTopEntries * sizeof(Atomic<uintptr_t>));
    top_known_.store_release(reinterpret_cast<uintptr_t>(top_));  // HL0 -> HL1: zeroed entries
  }
  for (uint64_t i = pages.first / kLeafPages; i <= (pages.end() - 1) / kLeafPages; ++i) {
    if (top_[i].load_relaxed() != 0) continue;
    std::byte* const memory = n_leaves_ == kMaxLeaves ? nullptr : os::map_lazy(sizeof(Leaf));
    if (memory == nullptr) return false;
    auto* const leaf = new (memory) Leaf;
    leaves_[n_leaves_++] = i;
    top_[i].store_release(reinterpret_cast<uintptr_t>(leaf));  // HL0 -> HL1: the leaf's bits
  }
  return true;
}

}  // namespace zh::heap
