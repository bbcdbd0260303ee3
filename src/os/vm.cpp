#include "os/vm.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "os/high_descriptor.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace zh::os {
namespace {

constexpr int kReadWrite = PROT_READ | PROT_WRITE;
constexpr size_t kKernelSignalBytes = 8;  // of its set of signals

// The mapping calls by number: by name they may be the program's, or the preloaded library's own, which look after the
// very ranges that are worked on here.
void* raw_mmap(void* at, uint64_t bytes, int protection, int flags, int fd, uint64_t offset) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, fd, offset));
}
void raw_munmap(void* at, uint64_t bytes) { syscall(SYS_munmap, at, bytes); }
bool raw_madvise(const void* at, uint64_t bytes, int advice) { return syscall(SYS_madvise, at, bytes, advice) == 0; }

std::byte* checked(void* p) { return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p); }

bool map_at(std::byte* at, uint64_t bytes, int flags, int fd, uint64_t offset) {
  return raw_mmap(at, bytes, kReadWrite, flags | MAP_FIXED, fd, offset) != MAP_FAILED;
}

}  // namespace

std::byte* map_lazy(uint64_t bytes) {
  return checked(raw_mmap(nullptr, bytes, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

std::byte* map_file(int fd, uint64_t offset, uint64_t bytes, uintptr_t at) {
  constexpr uintptr_t kHuge = 2 << 20;
  // Only what may hold a huge page needs the address.
  const uint64_t spare = bytes >= kHuge ? kHuge : 0;
  std::byte* const room =
      checked(raw_mmap(nullptr, bytes + spare, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (room == nullptr) return nullptr;
  const uint64_t skip = spare == 0 ? 0 : (at - reinterpret_cast<uintptr_t>(room)) % kHuge;
  if (skip != 0) raw_munmap(room, skip);
  if (skip != spare) raw_munmap(room + skip + bytes, spare - skip);
  if (map_at(room + skip, bytes, MAP_SHARED, fd, offset) && keep_from_children(room + skip, bytes, true)) {
    return room + skip;
  }
  raw_munmap(room + skip, bytes);
  return nullptr;
}

void unmap_raw(std::byte* at, uint64_t bytes) { raw_munmap(at, bytes); }

bool map_file_at(std::byte* at, uint64_t bytes, int fd, uint64_t offset, bool private_copy) {
  return map_at(at, bytes, private_copy ? MAP_PRIVATE : MAP_SHARED, fd, offset);
}

bool map_private_at(std::byte* at, uint64_t bytes) { return map_at(at, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

std::byte* map_again(std::byte* at, uint64_t bytes) {
  auto* const again = checked(reinterpret_cast<void*>(syscall(SYS_mremap, at, 0, bytes, MREMAP_MAYMOVE)));
  if (again != nullptr) (void)keep_from_children(again, bytes, true);
  return again;
}

bool move_to(std::byte* at, std::byte* from, uint64_t bytes) {
  return syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == reinterpret_cast<intptr_t>(at);
}

bool is_mapped(const std::byte* at, uint64_t bytes) {
  constexpr uint64_t kBatch = 256;
  unsigned char in_core[kBatch];
  const uint64_t page = page_bytes();
  for (uint64_t done = 0; done < bytes; done += kBatch * page) {
    const uint64_t n = bytes - done < kBatch * page ? bytes - done : kBatch * page;
    if (syscall(SYS_mincore, at + done, n, in_core) != 0 && errno == ENOMEM) return false;
  }
  return true;
}

bool keep_from_children(std::byte* at, uint64_t bytes, bool keep) {
  return raw_madvise(at, bytes, keep ? MADV_DONTFORK : MADV_DOFORK);
}

void wipe_in_children(std::byte* at, uint64_t bytes) { (void)raw_madvise(at, bytes, MADV_WIPEONFORK); }

void keep_out_of_dumps(std::byte* at, uint64_t bytes) { (void)raw_madvise(at, bytes, MADV_DONTDUMP); }

bool return_pages(std::byte* at, uint64_t bytes) { return raw_madvise(at, bytes, MADV_REMOVE); }

bool return_file_pages(int fd, uint64_t offset, uint64_t bytes) {
  return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(bytes)) == 0;
}

void want_huge_pages(std::byte* at, uint64_t bytes) { (void)raw_madvise(at, bytes, MADV_HUGEPAGE); }

bool can_populate() { return raw_madvise(nullptr, 0, MADV_POPULATE_WRITE); }

void touch_for_write(std::byte* at) { __atomic_fetch_or(reinterpret_cast<unsigned char*>(at), 0, __ATOMIC_RELAXED); }

bool protect(std::byte* at, uint64_t bytes, bool readable) {
  return syscall(SYS_mprotect, at, bytes, readable ? PROT_READ : PROT_NONE) == 0;
}

bool read_protected(const std::byte* at, std::byte* out, uint64_t bytes) {
  const int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok = read_at(fd, reinterpret_cast<uintptr_t>(at), out, bytes);
  close(fd);
  return ok;
}

void wake_futex(const void* at) { (void)syscall(SYS_futex, at, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0); }

bool populate_for_write(const void* at, uint64_t bytes) { return raw_madvise(at, bytes, MADV_POPULATE_WRITE); }

int make_sparse_file(const char* name, uint64_t bytes) {
  const int out = move_high(memfd_create(name, MFD_CLOEXEC));
  if (out < 0) return -1;
  if (ftruncate(out, static_cast<off_t>(bytes)) == 0) return out;
  close(out);
  return -1;
}

uint64_t file_id(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? info.st_ino ^ static_cast<uint64_t>(info.st_dev) << 40 : 0;
}

bool read_at(int fd, uint64_t offset, std::byte* out, uint64_t bytes) {
  while (bytes > 0) {
    const ssize_t n = pread(fd, out, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    offset += static_cast<uint64_t>(n);
    out += n;
    bytes -= static_cast<uint64_t>(n);
  }
  return true;
}

NearMemory::NearMemory(const void* address) {
  static int several = -1;  // several threads write the same
  if (several < 0) {
    char text[64];
    several = read_text("/sys/devices/system/node/online", text, sizeof text) && std::strpbrk(text, ",-") != nullptr;
  }
  if (several == 0) return;
  int node = 0;
  if (syscall(SYS_get_mempolicy, &node, nullptr, 0, address, MPOL_F_NODE | MPOL_F_ADDR) != 0) return;
  if (node < 0 || static_cast<unsigned>(node) >= kMaxNodes) return;
  if (syscall(SYS_get_mempolicy, &mode_, nodes_, kMaxNodes, nullptr, 0) != 0) return;
  unsigned long wanted[sizeof nodes_ / sizeof nodes_[0]] = {};
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  wanted[static_cast<unsigned>(node) / kBits] = 1UL << static_cast<unsigned>(node) % kBits;
  changed_ = syscall(SYS_set_mempolicy, MPOL_PREFERRED, wanted, kMaxNodes) == 0;
}

NearMemory::~NearMemory() {
  if (changed_) syscall(SYS_set_mempolicy, mode_, mode_ == MPOL_DEFAULT ? nullptr : nodes_, kMaxNodes);
}

// By system call: the program may have functions of its own in front of libc's.
void SignalMask::block() {
  sigset_t all;
  sigfillset(&all);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, kKernelSignalBytes);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_);
}

void SignalMask::unblock() {
  pthread_setcancelstate(cancel_, nullptr);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, kKernelSignalBytes);
}

void close_fd(int fd) {
  if (fd >= 0) close(fd);
}

bool read_text(const char* path, char* out, size_t bytes) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t n = read(fd, out, bytes - 1);
  close(fd);
  if (n < 0) return false;
  out[n] = '\0';
  return true;
}

uint64_t page_bytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

uint64_t soft_limit(Limit which) {
  constexpr decltype(RLIMIT_AS) kResources[] = {RLIMIT_AS, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_MEMLOCK};
  rlimit limit{};
  const bool known = getrlimit(kResources[static_cast<size_t>(which)], &limit) == 0;
  return known && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : ~uint64_t{0};
}

bool make_tether(Tether* out) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  *out = {fds[0], fds[1]};
  return true;
}

void wait_for_tether(int reader) {
  char byte = 0;
  while (read(reader, &byte, 1) < 0 && errno == EINTR) {
  }
}

void pull_tether(int writer) {
  const char byte = 0;
  while (write(writer, &byte, 1) < 0 && errno == EINTR) {
  }
}

// The lock is the open file's, which lives as long as the mapping, whatever descriptors a child closes.
std::byte* map_lock(int fd) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const int again = open(path, O_RDWR | O_CLOEXEC);
  if (again < 0) return nullptr;
  std::byte* page = nullptr;
  if (flock(again, LOCK_SH | LOCK_NB) == 0) {
    page = checked(raw_mmap(nullptr, page_bytes(), PROT_NONE, MAP_SHARED, again, 0));
  }
  close(again);
  return page;
}

bool lock_is_free(int fd) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return false;
  flock(fd, LOCK_UN);
  return true;
}

void say_line(const char* a, const char* b) {
  const iovec parts[4] = {{const_cast<char*>("zerohop: "), 9},
                          {const_cast<char*>(a), std::strlen(a)},
                          {const_cast<char*>(b), std::strlen(b)},
                          {const_cast<char*>("\n"), 1}};
  (void)!writev(STDERR_FILENO, parts, 4);
}

}  // namespace zh::os
