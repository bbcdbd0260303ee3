#include "heap/limits.h"

#include "heap/huge_pages.h"
#include "os/vm.h"

namespace zh::heap {

const char* limit_obstacle() {
  constexpr uint64_t kNone = ~uint64_t{0};
  if (os::soft_limit(os::Limit::kData) != kNone)
    return "a limit on private data is set (ulimit -d): it would not count shared memory";
  if (os::soft_limit(os::Limit::kFileSize) != kNone) return "a limit on the size of files is set (ulimit -f)";
  return nullptr;
}

const char* system_obstacle() {
  if (os::page_bytes() != kPage) return "the system's pages are not 4 KiB";
  if (strict_overcommit()) {
    return "vm.overcommit_memory is 2: the system counts memory that is not backed yet";
  }
  return limit_obstacle();
}

}  // namespace zh::heap
