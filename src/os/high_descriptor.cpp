#include "os/high_descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

namespace zh::os {
namespace {

constexpr rlim_t kHigh = 300;  // programs that look which are open look at those up to 255
constexpr int kFirstFree = 3;  // behind the standard ones

}  // namespace

int move_high(int fd) {
  if (fd < 0) return fd;
  const int error = errno;
  rlimit limit{};
  rlim_t high = kHigh;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < 2 * high) {
    high = limit.rlim_cur / 2;
  }
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, static_cast<int>(high));
  if (moved < 0 && fd < kFirstFree) moved = fcntl(fd, F_DUPFD_CLOEXEC, kFirstFree);
  errno = error;
  if (moved < 0) return fd;
  close(fd);
  return moved;
}

void widen_descriptor_table() {
  const int error = errno;
  const int fd = move_high(open("/", O_PATH | O_CLOEXEC));
  if (fd >= 0) close(fd);
  errno = error;
}

}  // namespace zh::os
