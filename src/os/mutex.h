// A lock between threads that never throws, for code below malloc (std::mutex brings the exception runtime with it).
#pragma once

#include <pthread.h>

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
  }
  void unlock() { pthread_mutex_unlock(&mutex_); }

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
