#include "os/vm.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace zh::os {
namespace {

constexpr int kReadWrite = PROT_READ | PROT_WRITE;
constexpr rlim_t kHighDescriptor = 200;  // below 256, for the table of descriptors grows in powers of two

// The mapping calls by number: by name they may be the program's, or the preloaded library's own, which look after the
// very ranges that are worked on here.
void* raw_mmap(void* at, uint64_t bytes, int protection, int flags, int fd, uint64_t offset) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, fd, offset));
}
void raw_munmap(void* at, uint64_t bytes) { syscall(SYS_munmap, at, bytes); }
bool raw_madvise(const void* at, uint64_t bytes, int advice) { return syscall(SYS_madvise, at, bytes, advice) == 0; }

std::byte* checked(void* p) { return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p); }

bool map_at(std::byte* at, uint64_t bytes, int protection, int flags, int fd, uint64_t offset) {
  return raw_mmap(at, bytes, protection, flags | MAP_FIXED | MAP_NORESERVE, fd, offset) != MAP_FAILED;
}

bool map_new_at(std::byte* at, uint64_t bytes, int flags, int fd, uint64_t offset) {
  void* p = raw_mmap(at, bytes, kReadWrite, flags | MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd, offset);
  if (p == at) return true;
  if (p != MAP_FAILED) raw_munmap(p, bytes);  // before Linux 4.17 the address is a wish
  return false;
}

/// `call`: pread or pwrite, until all is moved.
template <typename Byte, typename Call>
bool move_all(Call call, int fd, uint64_t offset, Byte* data, uint64_t bytes) {
  while (bytes > 0) {
    const ssize_t n = call(fd, data, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    offset += static_cast<uint64_t>(n);
    data += n;
    bytes -= static_cast<uint64_t>(n);
  }
  return true;
}

}  // namespace

bool map_new_file_at(std::byte* at, uint64_t bytes, int fd, uint64_t offset) {
  return map_new_at(at, bytes, MAP_SHARED, fd, offset);
}

bool map_new_lazy_at(std::byte* at, uint64_t bytes) {
  return map_new_at(at, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void keep_from_children(std::byte* at, uint64_t bytes, bool keep) {
  (void)raw_madvise(at, bytes, keep ? MADV_DONTFORK : MADV_DOFORK);
}

std::byte* map_lazy(uint64_t bytes) {
  return checked(raw_mmap(nullptr, bytes, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

bool map_file_at(std::byte* at, uint64_t bytes, int fd, uint64_t offset, bool private_copy) {
  return map_at(at, bytes, kReadWrite, private_copy ? MAP_PRIVATE : MAP_SHARED, fd, offset);
}

bool map_lazy_at(std::byte* at, uint64_t bytes) {
  return map_at(at, bytes, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

bool give_up_at(std::byte* at, uint64_t bytes) {
  return map_at(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

bool move_to(std::byte* at, std::byte* from, uint64_t bytes) {
  return syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == reinterpret_cast<intptr_t>(at);
}

bool return_pages(std::byte* at, uint64_t bytes) { return madvise(at, bytes, MADV_REMOVE) == 0; }

bool return_file_pages(int fd, uint64_t offset, uint64_t bytes) {
  return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(bytes)) == 0;
}

void want_huge_pages(std::byte* at, uint64_t bytes) { (void)raw_madvise(at, bytes, MADV_HUGEPAGE); }

bool populate_for_write(const void* at, uint64_t bytes) { return raw_madvise(at, bytes, MADV_POPULATE_WRITE); }

int make_sparse_file(const char* name, uint64_t bytes) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return -1;
  rlimit limit{};
  rlim_t high = kHighDescriptor;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < 2 * high) {
    high = limit.rlim_cur / 2;
  }
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, static_cast<int>(high));
  if (moved >= 0) close(fd);
  const int out = moved >= 0 ? moved : fd;
  if (ftruncate(out, static_cast<off_t>(bytes)) == 0) return out;
  close(out);
  return -1;
}

uint64_t file_id(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? info.st_ino ^ static_cast<uint64_t>(info.st_dev) << 40 : 0;
}

uint64_t backed_bytes_of(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? static_cast<uint64_t>(info.st_blocks) * 512 : 0;
}

bool next_data(int fd, uint64_t from, uint64_t end, uint64_t* data_from, uint64_t* data_end) {
  const off_t data = lseek(fd, static_cast<off_t>(from), SEEK_DATA);
  if (data < 0 || static_cast<uint64_t>(data) >= end) return false;
  const off_t hole = lseek(fd, data, SEEK_HOLE);
  *data_from = static_cast<uint64_t>(data);
  *data_end = hole < 0 || static_cast<uint64_t>(hole) > end ? end : static_cast<uint64_t>(hole);
  return true;
}

bool read_at(int fd, uint64_t offset, std::byte* out, uint64_t bytes) {
  return move_all(&pread, fd, offset, out, bytes);
}

bool write_at(int fd, uint64_t offset, const std::byte* data, uint64_t bytes) {
  return move_all(&pwrite, fd, offset, data, bytes);
}

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

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

uint32_t threads_of_process() {
  char text[1024];
  if (!read_text("/proc/self/stat", text, sizeof text)) return 0;
  // Field 20; the second one, a name in parentheses, may hold spaces.
  const char* at = std::strrchr(text, ')');
  if (at == nullptr) return 0;
  for (int field = 2; field < 20 && at != nullptr; ++field) {
    at = std::strchr(at + 1, ' ');
  }
  return at == nullptr ? 0 : static_cast<uint32_t>(std::strtoul(at, nullptr, 10));
}

uint64_t physical_bytes() {
  struct sysinfo info {};
  return sysinfo(&info) == 0 ? uint64_t{info.totalram} * info.mem_unit : 0;
}

uint64_t random_number() {
  uint64_t number = 0;
  const auto* given = reinterpret_cast<const void*>(getauxval(AT_RANDOM));
  if (given != nullptr) std::memcpy(&number, given, sizeof number);
  return number;
}

uint64_t page_bytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

bool uses_rdma_device() {
  constexpr const char* kDevices[] = {"/dev/infiniband/", "/dev/hfi1", "/dev/cxi", "/dev/kgni", "/dev/ipath"};
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return false;
  bool found = false;
  while (const dirent* entry = readdir(folder)) {
    char target[64];
    const ssize_t n = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
    if (n <= 0) continue;
    target[n] = '\0';
    for (const char* device : kDevices) found = found || std::strncmp(target, device, std::strlen(device)) == 0;
  }
  closedir(folder);
  return found;
}

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

void say_line(const char* a, const char* b) {
  const iovec parts[4] = {{const_cast<char*>("zerohop: "), 9},
                          {const_cast<char*>(a), std::strlen(a)},
                          {const_cast<char*>(b), std::strlen(b)},
                          {const_cast<char*>("\n"), 1}};
  (void)!writev(STDERR_FILENO, parts, 4);
}

}  // namespace zh::os
