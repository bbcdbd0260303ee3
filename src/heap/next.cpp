#include "heap/next.h"

#include <dlfcn.h>

extern "C" void* __libc_malloc(size_t);

namespace zh::heap {

constinit Next next_table;
constinit Atomic<uint32_t> next_known{0};

// Two threads may do this at once: they write the same.
void find_next() {
#define ZH_NEXT(name, type) next_table.name = reinterpret_cast<Next::name##_function>(dlsym(RTLD_NEXT, #name));
  ZH_NEXT_FUNCTIONS
#undef ZH_NEXT
  next_table.is_libc = next_table.malloc == &__libc_malloc;
  next_known.store_release(1);  // N0 -> N1: the table
}

}  // namespace zh::heap
