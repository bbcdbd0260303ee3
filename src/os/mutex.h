// A lock between threads that never throws, for code below malloc (std::mutex brings the exception runtime with it).
#pragma once

#include <pthread.h>

#include <cstdint>

#include "base/atomic.h"
#include "os/yield.h"

namespace zh::os {

class Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() {
    if (pthread_mutex_trylock(&mutex_) != 0) lock_contended();
    owner_.store_relaxed(this_thread());
  }
  void unlock() {
    owner_.store_relaxed(0);
    pthread_mutex_unlock(&mutex_);
  }
  /// In a signal handler: has it interrupted this very thread under the lock?
  [[nodiscard]] bool held_by_me() const { return owner_.load_relaxed() == this_thread(); }

  static uintptr_t this_thread() { return reinterpret_cast<uintptr_t>(__builtin_thread_pointer()); }

 private:
  /// What it protects takes well under a microsecond, a sleep and its wake-up many.
  void lock_contended() {
    for (int i = 0; i < 20; ++i) {
      for (int k = 0; k < 20; ++k) cpu_relax();
      if (pthread_mutex_trylock(&mutex_) == 0) return;
      yield_cpu();
    }
    pthread_mutex_lock(&mutex_);
  }

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  Atomic<uintptr_t> owner_{0};
};

class MutexGuard {
 public:
  explicit MutexGuard(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexGuard() { mutex_.unlock(); }
  MutexGuard(const MutexGuard&) = delete;
  MutexGuard& operator=(const MutexGuard&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace zh::os
