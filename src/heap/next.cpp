#include "heap/next.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>

namespace zh::heap {

constinit Next next_table;
constinit Atomic<uint32_t> next_known{0};

// Two threads may do this at once: they write the same.
void find_next() {
#define ZH_NEXT(name, type) next_table.name = reinterpret_cast<Next::name##_function>(dlsym(RTLD_NEXT, #name));
  ZH_NEXT_FUNCTIONS
#undef ZH_NEXT
  Dl_info theirs;
  Dl_info libc;
  next_table.is_libc = dladdr(reinterpret_cast<void*>(next_table.malloc), &theirs) != 0 &&
                       dladdr(reinterpret_cast<void*>(&gnu_get_libc_version), &libc) != 0 &&
                       theirs.dli_fbase == libc.dli_fbase;
  next_known.store_release(1);  // N0 -> N1: the table
}

}  // namespace zh::heap
