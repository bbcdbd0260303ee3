#include "heap/limits.h"

#include "heap/huge_pages.h"
#include "os/vm.h"

namespace zh::heap {

const char* system_obstacle() {
  if (os::system_page_bytes() != kPage) return "the system's pages are not 4 KiB";
  if (strict_overcommit()) {
    return "vm.overcommit_memory is 2: the system counts memory that is not backed yet";
  }
  if (os::has_limit(os::Limit::kData))
    return "a limit on private data is set (ulimit -d): it would not count shared memory";
  if (os::has_limit(os::Limit::kFileSize)) return "a limit on the size of files is set (ulimit -f)";
  return nullptr;
}

}  // namespace zh::heap
