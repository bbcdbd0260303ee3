#include "heap/next.h"

#include <dlfcn.h>
#include <link.h>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void __libc_free(void*);
}

namespace zh::heap {

// dlsym() itself may allocate, in older versions of libc; it is given libc's own meanwhile.
constinit Next next_table{
    .malloc = &__libc_malloc, .calloc = &__libc_calloc, .realloc = &__libc_realloc, .free = &__libc_free};
constinit Atomic<uint32_t> next_known{0};

namespace {

struct Search {
  uintptr_t address;
  const void* object;
};

int holds_address(dl_phdr_info* info, size_t, void* search) {
  auto* const wanted = static_cast<Search*>(search);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || wanted->address - info->dlpi_addr - segment.p_vaddr >= segment.p_memsz) continue;
    wanted->object = info->dlpi_phdr;
    return 1;
  }
  return 0;
}

}  // namespace

const void* object_of(const void* address) {
  Search search{reinterpret_cast<uintptr_t>(address), nullptr};
  dl_iterate_phdr(&holds_address, &search);
  return search.object;
}

// Two threads may do this at once: they write the same.
void find_next() {
  static constinit Atomic<uintptr_t> finding{0};
  const auto me = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
  if (finding.load_relaxed() == me) return;
  finding.store_relaxed(me);
#define ZH_NEXT(name, type) next_table.name = reinterpret_cast<Next::name##_function>(dlsym(RTLD_NEXT, #name));
  ZH_NEXT_FUNCTIONS
#undef ZH_NEXT
  const void* libc = object_of(reinterpret_cast<void*>(&__libc_malloc));
  next_table.is_libc = object_of(reinterpret_cast<void*>(next_table.malloc)) == libc;
  const void* frees = object_of(reinterpret_cast<void*>(next_table.free));
  next_table.tells_sizes = frees == object_of(reinterpret_cast<void*>(next_table.malloc_usable_size));
  next_known.store_release(1);  // HN0 -> HN1: the table
}

}  // namespace zh::heap
