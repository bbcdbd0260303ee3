// A mutex that is taken only where several threads may meet: most ranks have one, and its fast paths pay for no lock.
#pragma once

#include <mutex>

namespace zh {

/// Locks what it is given, if that is not null, until its end.
class OptionalLock {
 public:
  explicit OptionalLock(std::mutex* mutex) : mutex_(mutex) {
    if (mutex_ != nullptr) mutex_->lock();
  }
  ~OptionalLock() {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  OptionalLock(const OptionalLock&) = delete;
  OptionalLock& operator=(const OptionalLock&) = delete;

  /// For whoever has just made a second thread: holds `mutex` from now on.
  void take(std::mutex& mutex) {
    if (mutex_ != nullptr) return;
    mutex_ = &mutex;
    mutex_->lock();
  }

 private:
  std::mutex* mutex_;
};

}  // namespace zh
