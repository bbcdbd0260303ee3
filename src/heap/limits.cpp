#include "heap/limits.h"

#include "heap/huge_pages.h"
#include "os/vm.h"

namespace zh::heap {

const char* system_obstacle() {
  if (os::system_page_bytes() != kPage) return "the system's pages are not 4 KiB";
  if (strict_overcommit()) {
    return "vm.overcommit_memory is 2: the system counts memory that is not backed yet";
  }
  return nullptr;
}

}  // namespace zh::heap
