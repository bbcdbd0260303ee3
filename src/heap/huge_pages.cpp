#include "heap/huge_pages.h"

#include <cstring>
#include <initializer_list>

#include "base/atomic.h"
#include "os/vm.h"

namespace zh::heap {
namespace {

/// "always [madvise] never": is one of `words` the chosen one?
bool chosen(const char* path, std::initializer_list<const char*> words) {
  char text[256];
  if (!os::read_text(path, text, sizeof text)) return false;
  for (const char* word : words) {
    if (std::strstr(text, word) != nullptr) return true;
  }
  return false;
}

}  // namespace

bool shared_memory_has_huge_pages() {
  static constinit Atomic<uint32_t> known{0};
  uint32_t answer = known.load_relaxed();
  if (answer == 0) {
    const bool any = chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
                            {"[always]", "[within_size]", "[advise]", "[force]"});
    answer = any ? 1 : 2;
    known.store_relaxed(answer);
  }
  return answer == 1;
}

bool private_memory_has_huge_pages() {
  return chosen("/sys/kernel/mm/transparent_hugepage/enabled", {"[always]", "[madvise]"});
}

uint64_t private_only_from() {
  const bool private_ones =
      chosen("/sys/kernel/mm/transparent_hugepage/enabled", {"[always]"}) &&
      (chosen("/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", {"[always]", "[inherit]"}) ||
       !chosen("/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", {"["}));
  return private_ones && !shared_memory_has_huge_pages() ? kHugePage : 0;
}

bool strict_overcommit() {
  char text[16];
  return os::read_text("/proc/sys/vm/overcommit_memory", text, sizeof text) && text[0] == '2';
}

}  // namespace zh::heap
