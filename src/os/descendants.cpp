#include "os/descendants.h"

#include <sys/mman.h>

#include <cerrno>

namespace zh::os {

bool Descendants::reserve() {
  if (shm_ == nullptr && !lost_) {
    void* p = mmap(nullptr, sizeof(DescendantsShm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
      lost_ = true;
      return false;
    }
    shm_ = static_cast<DescendantsShm*>(p);  // zeroed
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    for (pthread_mutex_t& life : shm_->life) pthread_mutex_init(&life, &attributes);
    pthread_mutexattr_destroy(&attributes);
  }
  if (lost_) return false;
  mine_ = shm_->reserved.fetch_add_acq_rel(1);  // D0 -> D1: a slot counts before its process exists
  return mine_ < DescendantsShm::kSlots;
}

void Descendants::take() {
  if (shm_ == nullptr || mine_ >= DescendantsShm::kSlots) return;
  own_ = mine_;
  if (pthread_mutex_lock(&shm_->life[own_]) == 0) shm_->taken[own_].store_release(1);  // D2 -> D3: the lock is held
}

bool Descendants::all_ended() {
  if (lost_) return false;
  if (shm_ == nullptr) return true;
  const uint32_t n = shm_->reserved.load_acquire();  // D1 <- D0
  if (n > DescendantsShm::kSlots) return false;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t state = shm_->taken[i].load_acquire();  // D3 <- D2
    if (state == 2 || i == own_) continue;
    if (state == 0) return false;
    const int error = pthread_mutex_trylock(&shm_->life[i]);
    if (error == EBUSY) return false;
    if (error != 0 && error != EOWNERDEAD) return false;
    shm_->taken[i].store_release(2);  // D2 -> D3: ended for good; the mutex is never used again
  }
  return true;
}

}  // namespace zh::os
