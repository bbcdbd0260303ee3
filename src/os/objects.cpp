#include "os/objects.h"

#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include "os/vm.h"

namespace zh::os {
namespace {

struct Walk {
  uint32_t left;
  bool (*visit)(const ObjectData&, void*);
  void* argument;
};

int look(dl_phdr_info* info, size_t, void* argument) {
  auto* walk = static_cast<Walk*>(argument);
  if (walk->left-- == 0) return 1;
  const uintptr_t page = page_bytes();
  const auto up = [page](uintptr_t x) { return (x + page - 1) & ~(page - 1); };
  const auto down = [page](uintptr_t x) { return x & ~(page - 1); };
  uintptr_t read_only_end = 0;  // relocated, then protected
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& h = info->dlpi_phdr[i];
    if (h.p_type == PT_GNU_RELRO) read_only_end = info->dlpi_addr + h.p_vaddr + h.p_memsz;
  }
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& h = info->dlpi_phdr[i];
    if (h.p_type != PT_LOAD || (h.p_flags & PF_W) == 0 || (h.p_flags & PF_X) != 0) continue;
    const uintptr_t start = info->dlpi_addr + h.p_vaddr;
    const uintptr_t file_end = start + h.p_filesz;
    const uintptr_t end = start + h.p_memsz;
    const uintptr_t first = read_only_end > start && read_only_end <= end ? read_only_end : start;
    ObjectData data;
    data.name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
    data.initialised = {up(first), up(file_end)};
    data.zeroed = {up(file_end), down(end)};
    // The page in which both meet belongs to the first, unless the object ends in it.
    if (data.initialised.to > down(end)) data.initialised.to = down(end);
    if (!walk->visit(data, walk->argument)) return 1;
  }
  return 0;
}

}  // namespace

uint32_t count_objects() {
  uint32_t n = 0;
  const auto count = [](dl_phdr_info*, size_t, void* sum) {
    ++*static_cast<uint32_t*>(sum);
    return 0;
  };
  dl_iterate_phdr(count, &n);
  return n;
}

void for_each_object(uint32_t n, bool (*visit)(const ObjectData&, void*), void* argument) {
  Walk walk{n, visit, argument};
  dl_iterate_phdr(&look, &walk);
}

PageStates::~PageStates() {
  if (fd_ >= 0) close(fd_);
}

bool PageStates::states(const void* at, size_t n, PageState* out) {
  constexpr uint64_t kPresent = uint64_t{1} << 63;
  constexpr uint64_t kSwapped = uint64_t{1} << 62;
  constexpr uint64_t kShared = uint64_t{1} << 61;
  constexpr size_t kBatch = 256;
  if (fd_ < 0) fd_ = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  uint64_t entries[kBatch];
  const uint64_t first = reinterpret_cast<uintptr_t>(at) / page_bytes();
  for (size_t done = 0; done < n; done += kBatch) {
    const size_t batch = n - done < kBatch ? n - done : kBatch;
    const ssize_t got = pread(fd_, entries, batch * sizeof(uint64_t), static_cast<off_t>((first + done) * 8));
    if (got != static_cast<ssize_t>(batch * sizeof(uint64_t))) return false;
    for (size_t i = 0; i < batch; ++i) {
      const uint64_t e = entries[i];
      out[done + i] = (e & (kPresent | kSwapped)) == 0 ? PageState::kUntouched
                      : (e & kShared) != 0             ? PageState::kFile
                                                       : PageState::kPrivate;
    }
  }
  return true;
}

}  // namespace zh::os
