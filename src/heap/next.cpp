#include "heap/next.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>

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

// Two threads may do this at once: they write the same.
void find_next() {
  static constinit Atomic<uintptr_t> finding{0};
  const auto me = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
  if (finding.load_relaxed() == me) return;
  finding.store_relaxed(me);
#define ZH_NEXT(name, type) next_table.name = reinterpret_cast<Next::name##_function>(dlsym(RTLD_NEXT, #name));
  ZH_NEXT_FUNCTIONS
#undef ZH_NEXT
  Dl_info theirs;
  Dl_info libc;
  next_table.is_libc = dladdr(reinterpret_cast<void*>(next_table.malloc), &theirs) != 0 &&
                       dladdr(reinterpret_cast<void*>(&gnu_get_libc_version), &libc) != 0 &&
                       theirs.dli_fbase == libc.dli_fbase;
  Dl_info sizes;
  next_table.tells_sizes = dladdr(reinterpret_cast<void*>(next_table.free), &theirs) != 0 &&
                           dladdr(reinterpret_cast<void*>(next_table.malloc_usable_size), &sizes) != 0 &&
                           theirs.dli_fbase == sizes.dli_fbase;
  next_known.store_release(1);  // N0 -> N1: the table
}

}  // namespace zh::heap
