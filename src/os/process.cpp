// Process identity and liveness; see process.h.
#include "os/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "os/clock.h"
#include "os/high_descriptor.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace zh::os {

int open_pidfd(pid_t pid) {
  const long fd = syscall(SYS_pidfd_open, pid, 0);
  return fd >= 0 ? move_high(static_cast<int>(fd)) : -errno;
}

namespace {
bool is_pidfd(int fd) {
  char path[64];
  char target[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(path, target, sizeof target - 1);
  if (n <= 0) return true;  // without /proc the poll counts
  target[n] = '\0';
  return target[0] != '/' && std::strstr(target, "pidfd") != nullptr;
}
}  // namespace

bool process_ended(int pidfd, pid_t pid) {
  if (pidfd >= 0) {
    pollfd item{pidfd, POLLIN, 0};
    if (poll(&item, 1, 0) <= 0) return false;
    // It has ended, or the program has closed the descriptor (close_range) and may have opened another under its
    // number.
    if ((item.revents & POLLNVAL) == 0 && is_pidfd(pidfd)) return true;
  }
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  const std::string stat = read_small_file(path);
  // "pid (name) S ...": the name may hold anything, so look behind its last parenthesis.
  const size_t end = stat.rfind(')');
  if (end == std::string::npos || end + 2 >= stat.size()) return false;
  const char state = stat[end + 2];
  return state == 'Z' || state == 'X';
}

void die_with_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it had ended before the request
}

std::string boot_id() { return read_small_file("/proc/sys/kernel/random/boot_id"); }

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "";
  return name;
}

uint32_t user_id() { return static_cast<uint32_t>(geteuid()); }
pid_t process_id() { return getpid(); }
pid_t thread_id() { return static_cast<pid_t>(syscall(SYS_gettid)); }

uint64_t namespace_id(const char* kind) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
  struct stat info {};
  return stat(path, &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

int seccomp_mode() {
  const std::string status = read_small_file("/proc/self/status");
  const size_t found = status.find("\nSeccomp:");
  return found == std::string::npos ? -1 : std::atoi(status.c_str() + found + std::strlen("\nSeccomp:"));
}

bool wakes_late() {
  const int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
  return policy == SCHED_BATCH || policy == SCHED_IDLE;
}

uint64_t thread_preemptions() {
  rusage used{};
  if (getrusage(RUSAGE_THREAD, &used) != 0) return 0;
  return static_cast<uint64_t>(used.ru_nivcsw);
}

uint64_t thread_run_delay_ns() {
  const std::string text = read_small_file("/proc/thread-self/schedstat");  // ns run, ns delayed, times run
  const size_t second = text.find(' ');
  return second == std::string::npos ? 0 : std::strtoull(text.c_str() + second, nullptr, 10);
}

std::string read_small_file(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  std::string text(8192, '\0');  // not on the stack: a thread that sends may have a small one
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t n = read(fd, text.data() + have, text.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    have += static_cast<size_t>(n);
  }
  close(fd);
  while (have > 0 && text[have - 1] == '\n') --have;
  text.resize(have);
  return text;
}

uint64_t random_token() {
  uint64_t token = 0;
  if (getrandom(&token, sizeof token, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof token)) {
    token = now_ns() * 0x9e3779b97f4a7c15u ^ static_cast<uint64_t>(thread_id()) << 32;
  }
  return token | 1;  // 0 means "not written yet" wherever tokens are compared
}

}  // namespace zh::os
