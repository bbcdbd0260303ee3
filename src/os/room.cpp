#include "os/room.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/shm_types.h"

namespace zh::os {

namespace {
constexpr uint64_t kStep = 1 << 20;
}

PrivateRoom::~PrivateRoom() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

bool PrivateRoom::reserve(uint64_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  base_ = static_cast<std::byte*>(p);
  bytes_ = bytes;
  return true;
}

bool PrivateRoom::open(uint64_t bytes) {
  if (bytes <= opened_) return true;
  if (bytes > bytes_) return false;
  const uint64_t to = std::min(round_up(bytes, kStep), bytes_);
  if (mprotect(base_ + opened_, to - opened_, PROT_READ | PROT_WRITE) != 0) return false;
  opened_ = to;
  return true;
}

}  // namespace zh::os
