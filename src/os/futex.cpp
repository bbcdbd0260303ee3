// The shared (not process-private) futex calls; see futex.h.
#include "os/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace zh::os {

static_assert(sizeof(Atomic<uint32_t>) == sizeof(uint32_t));

Wake futex_wait(const Atomic<uint32_t>& word, uint32_t expected, uint64_t timeout_ns) {
  timespec timeout{};
  timespec* limit = nullptr;
  if (timeout_ns != kForever) {
    timeout.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
    timeout.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
    limit = &timeout;
  }
  const long result = syscall(SYS_futex, &word, FUTEX_WAIT, expected, limit, nullptr, 0);
  if (result == 0) return Wake::kWoken;
  if (errno == EAGAIN) return Wake::kChanged;
  if (errno == ETIMEDOUT) return Wake::kTimedOut;
  return Wake::kWoken;  // EINTR: the caller looks again
}

int futex_wake(Atomic<uint32_t>& word, int count) {
  const long woken = syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
  return woken > 0 ? static_cast<int>(woken) : 0;
}

}  // namespace zh::os
