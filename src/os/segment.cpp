// Making, opening and mapping shared memory; see segment.h.
#include "os/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "os/error.h"
#include "os/high_descriptor.h"
#include "os/process.h"
#include "os/vm.h"

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1U
#endif

namespace zh::os {
namespace {

constexpr long kTmpfsMagic = 0x01021994;

/// A file larger than RLIMIT_FSIZE raises SIGXFSZ instead of an error, so look first.
Status set_size(int fd, uint64_t bytes) {
  if (bytes > soft_limit(Limit::kFileSize)) {
    return {Code::kNoMemory,
            "the file size limit (ulimit -f) is smaller than the segment: raise it or lower ZEROHOP_MEMORY", EFBIG};
  }
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return from_errno("ftruncate of the segment", errno);
  return kOk;
}

}  // namespace

void Descriptor::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

Status make_memfd(const char* name, uint64_t bytes, Descriptor* out) {
  Descriptor fd(move_high(static_cast<int>(syscall(SYS_memfd_create, name, MFD_CLOEXEC))));
  if (!fd.valid()) return from_errno("memfd_create", errno);
  if (Status s = set_size(fd.get(), bytes); !s.ok()) return s;
  *out = std::move(fd);
  return kOk;
}

Status make_file(const std::string& folder, uint64_t bytes, bool keep_name, Descriptor* out, std::string* path) {
  std::string name = folder + "/zerohop-XXXXXX";
  Descriptor fd(move_high(mkostemp(name.data(), O_CLOEXEC)));
  if (!fd.valid()) return from_errno("making a file for the segment (/dev/shm, TMPDIR)", errno);
  if (!keep_name) remove_name(name);
  if (Status s = set_size(fd.get(), bytes); !s.ok()) {
    if (keep_name) remove_name(name);
    return s;
  }
  if (path != nullptr) *path = name;
  *out = std::move(fd);
  return kOk;
}

std::string find_shared_folder() {
  const char* temporary = std::getenv("TMPDIR");
  for (const char* folder : {"/dev/shm", temporary, "/tmp"}) {
    if (folder != nullptr && folder[0] == '/' && access(folder, W_OK | X_OK) == 0) return folder;
  }
  return "";
}

void remove_name(const std::string& path) {
  if (!path.empty()) unlink(path.c_str());
}

Status open_peer_descriptor(pid_t pid, int fd, Descriptor* out) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(pid), fd);
  Descriptor opened(move_high(open(path, O_RDWR | O_CLOEXEC)));
  if (!opened.valid()) return from_errno("open of /proc/<pid>/fd/<n>", errno);
  *out = std::move(opened);
  return kOk;
}

Status open_peer_memory(pid_t pid, int fd, uint32_t generation, Descriptor* out) {
  Descriptor opened;
  if (Status s = open_peer_descriptor(pid, fd, &opened); !s.ok()) return s;
  constexpr char kName[] = "/memfd:zerohop";
  char path[64];
  char name[64] = {};
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", opened.get());
  const ssize_t n = readlink(path, name, sizeof name - 1);
  if (n < 0) return from_errno("readlink of /proc/self/fd/<n>", errno);
  if (std::strncmp(name, kName, sizeof kName - 1) != 0 || file_generation(opened.get()) != generation) {
    return {Code::kInvalid, "a peer's descriptor is not the memory that it was", EINVAL};
  }
  *out = std::move(opened);
  return kOk;
}

Status open_path(const std::string& path, Descriptor* out) {
  Descriptor opened(move_high(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)));
  if (!opened.valid()) return from_errno("open of the segment's file", errno);
  struct stat info {};
  if (fstat(opened.get(), &info) != 0 || info.st_uid != geteuid()) {
    return {Code::kNotPermitted, "the segment's file belongs to another user", EPERM};
  }
  *out = std::move(opened);
  return kOk;
}

namespace {
Status map_range(int fd, uint64_t offset, uint64_t bytes, int protection, std::byte** out) {
  // Mapping beyond the end would raise SIGBUS at the first touch.
  struct stat info {};
  if (fstat(fd, &info) != 0) return from_errno("fstat of shared memory", errno);
  if (static_cast<uint64_t>(info.st_size) < offset + bytes) {
    return {Code::kInvalid, "shared memory is smaller than its header says", EINVAL};
  }
  void* p = mmap(nullptr, bytes, protection, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (p == MAP_FAILED) {
    if (errno == ENOMEM) {
      return {Code::kNoMemory,
              "mmap of shared memory: no address space (ulimit -v, vm.max_map_count); lower ZEROHOP_MEMORY", ENOMEM};
    }
    return from_errno("mmap of shared memory", errno);
  }
  *out = static_cast<std::byte*>(p);
  return kOk;
}
}  // namespace

Status map_shared(int fd, uint64_t bytes, std::byte** out) { return map_shared_range(fd, 0, bytes, true, out); }

Status map_shared_range(int fd, uint64_t offset, uint64_t bytes, bool writable, std::byte** out) {
  return map_range(fd, offset, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, out);
}

Status map_shared_closed(int fd, uint64_t bytes, uint64_t open_bytes, std::byte** out) {
  std::byte* base = nullptr;
  if (Status s = map_range(fd, 0, bytes, PROT_NONE, &base); !s.ok()) return s;
  if (Status s = make_writable(base, open_bytes); !s.ok()) {
    unmap(base, bytes);
    return s;
  }
  *out = base;
  return kOk;
}

void unmap(std::byte* address, uint64_t bytes) {
  if (address != nullptr) munmap(address, bytes);
}

Status make_writable(std::byte* address, uint64_t bytes) {
  return from_errno("mprotect of shared memory", mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0 ? 0 : errno);
}

uint64_t size_of(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

namespace {
/// Makes the pages by the fault of a write, which fails here where it would end the process (Linux 5.14).
int touch_range(int fd, uint64_t offset, uint64_t bytes) {
  void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (p == MAP_FAILED) return errno;
  int error = 0;
  do {
    error = populate_for_write(p, bytes) ? 0 : errno;
  } while (error == EINTR);
  munmap(p, bytes);
  return error == EFAULT ? ENOSPC : error == EINVAL ? EOPNOTSUPP : error;
}
}  // namespace

Status back_range(int fd, uint64_t offset, uint64_t bytes) {
  int error = 0;
  do {
    error = fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  } while (error == EINTR);
  // A file system without fallocate (TMPDIR on some network or FUSE mounts), or a container that refuses it.
  if (error == EOPNOTSUPP || error == ENOSYS || error == EPERM) {
    const int touched = touch_range(fd, offset, bytes);
    error =
        touched == EOPNOTSUPP ? posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes)) : touched;
  }
  return from_errno("fallocate of the segment", error);
}

void populate(std::byte* address, uint64_t bytes) { (void)populate_for_write(address, bytes); }

void populate_for_reading(std::byte* address, uint64_t bytes) {
#ifndef MADV_POPULATE_READ
  constexpr int MADV_POPULATE_READ = 22;
#endif
  (void)madvise(address, bytes, MADV_POPULATE_READ);
}

Status release_range(int fd, uint64_t offset, uint64_t bytes) {
  return return_file_pages(fd, offset, bytes) ? kOk : from_errno("fallocate (punch hole)", errno);
}

uint64_t free_bytes_of(int fd) {
  struct statfs info {};
  if (fstatfs(fd, &info) != 0) return ~uint64_t{0};
  if (info.f_type == kTmpfsMagic && info.f_blocks == 0)
    return ~uint64_t{0};  // the kernel's own tmpfs (memfd): no limit
  return static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_bsize);
}

}  // namespace zh::os
