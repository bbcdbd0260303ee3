#include "os/own_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <link.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "os/copy_module.h"
#include "os/vm.h"

namespace zh::os {
namespace {

// Of linux/fs.h, which older systems have without them.
struct ProcmapQuery {
  uint64_t size;
  uint64_t query_flags;
  uint64_t query_addr;
  uint64_t vma_start;
  uint64_t vma_end;
  uint64_t vma_flags;
  uint64_t vma_page_size;
  uint64_t vma_offset;
  uint64_t inode;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint32_t vma_name_size;
  uint32_t build_id_size;
  uint64_t vma_name_addr;
  uint64_t build_id_addr;
};
constexpr unsigned long kProcmapQuery = _IOWR('f', 17, ProcmapQuery);
constexpr uint64_t kReadable = 1;
constexpr uint64_t kWritable = 2;
constexpr uint64_t kExecutable = 4;
constexpr uint64_t kShared = 8;

struct PageRegion {
  uint64_t start;
  uint64_t end;
  uint64_t categories;
};
struct ScanArguments {
  uint64_t size;
  uint64_t flags;
  uint64_t start;
  uint64_t end;
  uint64_t walk_end;
  uint64_t vec;
  uint64_t vec_len;
  uint64_t max_pages;
  uint64_t category_inverted;
  uint64_t category_mask;
  uint64_t category_anyof_mask;
  uint64_t return_mask;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArguments);
constexpr uint64_t kIsFile = 1 << 2;
constexpr uint64_t kIsPresent = 1 << 3;
constexpr uint64_t kIsZeroPage = 1 << 5;
constexpr uint64_t kIsHuge = 1 << 6;

/// Reads a file line by line; visit(line) returns false to stop. Lines longer than the buffer are cut.
template <typename Visit>
bool for_each_line(int fd, Visit&& visit) {
  char text[1024];  // a thread that sends may have a small stack
  size_t have = 0;
  bool cut = false;
  if (lseek(fd, 0, SEEK_SET) != 0) return false;
  for (;;) {
    const ssize_t n = read(fd, text + have, sizeof text - 1 - have);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0;
    have += static_cast<size_t>(n);
    text[have] = '\0';
    char* line = text;
    for (char* end = std::strchr(line, '\n'); end != nullptr; end = std::strchr(line, '\n')) {
      *end = '\0';
      if (!cut && !visit(line)) return true;
      cut = false;
      line = end + 1;
    }
    have = static_cast<size_t>(text + have - line);
    if (have == sizeof text - 1) {
      if (!cut && !visit(line)) return true;
      cut = true;
      have = 0;
    }
    std::memmove(text, line, have);
  }
}

struct DirectoryEntry {  // as the system call gives it; readdir() allocates
  uint64_t inode;
  int64_t offset;
  unsigned short length;
  unsigned char type;
  char name[1];
};

/// visit(folder descriptor, name) for each entry but those that begin with a dot, while it returns true.
template <typename Visit>
bool for_each_entry(const char* path, Visit&& visit) {
  const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  alignas(8) char buffer[1024];
  bool more = true;
  long n = 0;
  while (more && (n = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
    for (long at = 0; more && at < n;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      if (entry->name[0] != '.') more = visit(fd, entry->name);
      at += entry->length;
    }
  }
  close(fd);
  return n >= 0;
}

/// The number of a line «Name: number kB»; 0 if it is another line.
uint64_t number_of(const char* line, const char* name) {
  const size_t n = std::strlen(name);
  return std::strncmp(line, name, n) == 0 ? std::strtoull(line + n, nullptr, 10) : 0;
}

Behind behind_by_text(int fd, const void* at, uint64_t bytes) {
  constexpr uint64_t kPresent = uint64_t{1} << 63;
  constexpr uint64_t kShare = uint64_t{1} << 61;
  constexpr uint64_t kBatch = 64;
  uint64_t entries[kBatch];
  const uint64_t page = page_bytes();
  const uint64_t pages = bytes / page;
  const uint64_t first = reinterpret_cast<uintptr_t>(at) / page;
  for (uint64_t done = 0; done < pages; done += kBatch) {
    const uint64_t batch = pages - done < kBatch ? pages - done : kBatch;
    const ssize_t got = pread(fd, entries, batch * sizeof(uint64_t), static_cast<off_t>((first + done) * 8));
    if (got != static_cast<ssize_t>(batch * sizeof(uint64_t))) return Behind::kUnknown;
    for (uint64_t i = 0; i < batch; ++i) {
      if ((entries[i] & kPresent) == 0) return Behind::kUntouched;
      if ((entries[i] & kShare) != 0) return Behind::kFile;
    }
  }
  return Behind::kPrivate;
}

/// Is there a page in the range of one of the categories, or without kIsPresent? -1: the system does not tell.
int any_page(int fd, const void* at, uint64_t bytes, uint64_t categories) {
  PageRegion found{};
  ScanArguments scan{};
  scan.size = sizeof scan;
  scan.start = reinterpret_cast<uintptr_t>(at);
  scan.end = scan.start + bytes;
  scan.vec = reinterpret_cast<uintptr_t>(&found);
  scan.vec_len = 1;
  scan.max_pages = 1;
  scan.category_inverted = categories & kIsPresent;
  scan.category_anyof_mask = categories;
  scan.return_mask = categories;
  const int n = ioctl(fd, kPagemapScan, &scan);
  return n < 0 ? -1 : n > 0 ? 1 : 0;
}

}  // namespace

Mappings::Mappings(bool by_text) : fd_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)), by_text_(by_text) {}

Mappings::~Mappings() { close_fd(fd_); }

bool Mappings::find(uintptr_t address, Mapping* out) const {
  if (fd_ < 0) return false;
  if (by_text_) return find_in_text(address, out);
  char name[32] = {};
  ProcmapQuery query{};
  query.size = sizeof query;
  query.query_addr = address;
  query.vma_name_addr = reinterpret_cast<uintptr_t>(name);
  query.vma_name_size = sizeof name;
  int error = ioctl(fd_, kProcmapQuery, &query) == 0 ? 0 : errno;
  if (error == ENAMETOOLONG) {  // a file's, which says enough
    query.vma_name_addr = 0;
    query.vma_name_size = 0;
    error = ioctl(fd_, kProcmapQuery, &query) == 0 ? 0 : errno;
  }
  if (error == ENOENT) return false;
  if (error != 0) return find_in_text(address, out);
  *out = {query.vma_start,
          query.vma_end,
          (query.vma_flags & kReadable) != 0,
          (query.vma_flags & kWritable) != 0,
          (query.vma_flags & kExecutable) != 0,
          (query.vma_flags & kShared) != 0,
          std::strcmp(name, "[stack]") == 0,
          query.inode};
  return true;
}

bool Mappings::find_in_text(uintptr_t address, Mapping* out) const {
  bool found = false;
  for_each_line(fd_, [&](char* line) {
    char* at = line;
    out->from = std::strtoull(at, &at, 16);
    out->to = *at == '-' ? std::strtoull(at + 1, &at, 16) : 0;
    if (address >= out->to) return true;
    if (address < out->from || std::strlen(at) < 6) return false;
    out->readable = at[1] == 'r';
    out->writable = at[2] == 'w';
    out->executable = at[3] == 'x';
    out->shared = at[4] == 's';
    at += 5;
    std::strtoull(at, &at, 16);  // offset
    std::strtoull(at, &at, 16);  // device: major
    if (*at == ':') std::strtoull(at + 1, &at, 16);
    out->inode = std::strtoull(at, &at, 10);
    out->stack = std::strstr(at, "[stack]") != nullptr;
    found = true;
    return false;
  });
  return found;
}

Behind behind(const void* at, uint64_t bytes, bool* knows_huge, bool plain) {
  *knows_huge = false;
  const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Behind::kUnknown;
  Behind answer = Behind::kPrivate;
  const int other = plain ? -1 : any_page(fd, at, bytes, kIsPresent | kIsFile | kIsZeroPage | kIsHuge);
  if (other < 0) {
    answer = behind_by_text(fd, at, bytes);
  } else {
    *knows_huge = true;
    if (other == 1) {
      answer = any_page(fd, at, bytes, kIsHuge) == 1   ? Behind::kHuge
               : any_page(fd, at, bytes, kIsFile) == 1 ? Behind::kFile
                                                       : Behind::kUntouched;
    }
  }
  close(fd);
  return answer;
}

// The list of a thread's robust locks, which the system knows, is in its own data.
void for_each_thread(FunctionRef<void(uintptr_t address)> visit) {
  const long process = getpid();
  for_each_entry("/proc/self/task", [&](int, const char* name) {
    const long thread = std::strtol(name, nullptr, 10);
    uintptr_t head = 0;
    size_t bytes = 0;
    if (thread != process && syscall(SYS_get_robust_list, thread, &head, &bytes) == 0 && head != 0) {
      visit(head);
    }
    return true;
  });
}

// A thread's own data lie at the top of the stack that libc made for it.
bool in_thread_stack(const Mappings& mappings, const Mapping& mapping, uintptr_t address) {
  constexpr uintptr_t kOwnData = 8192;
  constexpr uintptr_t kLargest = uintptr_t{1} << 30;
  constexpr uint32_t kMostParts = 64;
  const uintptr_t least = address < mapping.from + kOwnData ? mapping.from : address - kOwnData + 1;
  uintptr_t nearest = ~uintptr_t{0};
  for_each_thread([&](uintptr_t head) {
    if (head >= least && head < nearest) nearest = head;
  });
  if (nearest >= mapping.to && nearest - mapping.from >= kLargest) return false;
  // What follows without a hole, up to the guard page of another stack.
  uintptr_t end = mapping.to;
  for (uint32_t i = 0; end <= nearest; ++i) {
    Mapping next;
    if (i == kMostParts || !mappings.find(end, &next) || next.from != end) return false;
    if (next.shared || (!next.readable && !next.writable)) return false;
    end = next.to;
  }
  return true;
}

const char* holder_of_pages() {
  const char* why = nullptr;
  bool told = false;
  bool pinned = false;
  bool by_module = false;  // whose pins follow the mapping
  const int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  for_each_line(status, [&](const char* line) {
    if (number_of(line, "VmLck:") != 0) why = "the process has locked memory (mlock)";
    pinned = pinned || number_of(line, "VmPin:") != 0;
    told = std::strncmp(line, "VmRSS:", 6) == 0;  // the others come before
    return !told;
  });
  close_fd(status);
  if (!told) return "/proc does not tell of this process";
  if (why != nullptr) return why;
  static constexpr struct {
    const char* prefix;
    const char* why;
  } kHolders[] = {
      {"/dev/infiniband/", "an RDMA device is open"},
      {"/dev/hfi1", "an RDMA device is open"},
      {"/dev/cxi", "an RDMA device is open"},
      {"/dev/kgni", "an RDMA device is open"},
      {"/dev/ipath", "an RDMA device is open"},
      {"/dev/nvidia", "a GPU is open"},
      {"/dev/kfd", "a GPU is open"},
      {"/dev/dri/render", "a GPU is open"},
      {"/dev/vfio/", "a vfio device is open"},
      {"anon_inode:[io_uring]", "an io_uring is open"},
      {"/dev/xpmem", "XPMEM is open"},
      {"anon_inode:[userfaultfd]", "a userfaultfd is open"},
      {"/dev/userfaultfd", "a userfaultfd is open"},
      {"/dev/accel/", "an accelerator is open"},
  };
  const bool read = for_each_entry("/proc/self/fd", [&](int folder, const char* name) {
    char target[64];
    const ssize_t n = readlinkat(folder, name, target, sizeof target - 1);
    if (n <= 0) return true;
    target[n] = '\0';
    by_module = by_module || std::strcmp(target, kCopyDevice) == 0;
    for (const auto& holder : kHolders) {
      if (std::strncmp(target, holder.prefix, std::strlen(holder.prefix)) == 0) why = holder.why;
    }
    return why == nullptr;
  });
  if (!read) return "/proc does not tell of this process";
  return why == nullptr && pinned && !by_module ? "a device has pinned memory of the process" : why;
}

// Go marks what it has linked by a note of its own.
const char* manages_pages_unseen() {
  // Each namespace of libraries has a libc of its own; the first one's record leads to the next (glibc 2.35).
  uintptr_t behind_record = reinterpret_cast<uintptr_t>(&_r_debug) + sizeof _r_debug;
  asm("" : "+r"(behind_record));  // the declared type ends there
  if (_r_debug.r_version >= 2 && *reinterpret_cast<void* const*>(behind_record) != nullptr) {
    return "a library has a libc of its own (dlmopen)";
  }
  const auto look = [](dl_phdr_info* info, size_t, void*) -> int {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = info->dlpi_phdr[i];
      if (header.p_type != PT_NOTE) continue;
      const uintptr_t end = info->dlpi_addr + header.p_vaddr + header.p_memsz;
      for (uintptr_t at = info->dlpi_addr + header.p_vaddr; at + sizeof(ElfW(Nhdr)) + 4 <= end;) {
        const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
        at += sizeof *note;
        if (note->n_namesz == 4 && std::memcmp(reinterpret_cast<const void*>(at), "Go\0", 4) == 0) return 1;
        at += (note->n_namesz + 3U) / 4 * 4 + (note->n_descsz + 3U) / 4 * 4;
      }
    }
    return 0;
  };
  return dl_iterate_phdr(look, nullptr) != 0 ? "a Go runtime drops pages by direct system calls" : nullptr;
}

// A folder has as many links as it has folders inside, and two.
uint32_t threads_of_process() {
  struct stat info {};
  return stat("/proc/self/task", &info) == 0 && info.st_nlink > 2 ? static_cast<uint32_t>(info.st_nlink - 2) : 0;
}

void for_each_futex_wait(FunctionRef<void(uintptr_t address)> visit) {
  for_each_entry("/proc/self/task", [&](int folder, const char* name) {
    char path[48];
    std::snprintf(path, sizeof path, "%.16s/syscall", name);
    const int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return true;
    char text[128];
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return true;
    text[n] = '\0';
    char* at = nullptr;
    if (std::strtol(text, &at, 10) == SYS_futex && at != text) visit(std::strtoull(at, nullptr, 16));
    return true;
  });
}

}  // namespace zh::os
