// The functions that stand behind those this library exports: libc's, or those of an allocator that the program brings.
// Found at the first call, which may come before any constructor.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"

namespace zh::heap {

// ZH_NEXT(name, type): everything that the two families forward.
#define ZH_NEXT_FUNCTIONS                                         \
  ZH_NEXT(malloc, void* (*)(size_t))                              \
  ZH_NEXT(calloc, void* (*)(size_t, size_t))                      \
  ZH_NEXT(realloc, void* (*)(void*, size_t))                      \
  ZH_NEXT(free, void (*)(void*))                                  \
  ZH_NEXT(malloc_usable_size, size_t (*)(void*))                  \
  ZH_NEXT(malloc_trim, int (*)(size_t))                           \
  ZH_NEXT(madvise, int (*)(void*, size_t, int))                   \
  ZH_NEXT(mmap, void* (*)(void*, size_t, int, int, int, off_t))   \
  ZH_NEXT(munmap, int (*)(void*, size_t))                         \
  ZH_NEXT(mremap, void* (*)(void*, size_t, size_t, int, ...))     \
  ZH_NEXT(mprotect, int (*)(void*, size_t, int))                  \
  ZH_NEXT(pkey_mprotect, int (*)(void*, size_t, int, int))        \
  ZH_NEXT(brk, int (*)(void*))                                    \
  ZH_NEXT(sbrk, void* (*)(intptr_t))                              \
  ZH_NEXT(_Fork, int (*)())                                       \
  ZH_NEXT(clone, int (*)(int (*)(void*), void*, int, void*, ...)) \
  ZH_NEXT(shmat, void* (*)(int, const void*, int))                \
  ZH_NEXT(dlclose, int (*)(void*))

struct Next {
#define ZH_NEXT(name, type)     \
  using name##_function = type; \
  name##_function name = nullptr;
  ZH_NEXT_FUNCTIONS
#undef ZH_NEXT
  bool is_libc = false;      ///< malloc is libc's
  bool tells_sizes = false;  ///< malloc_usable_size is of the same allocator as free
};

/// The object that holds an address, by what only compares; null if none does. Cheap, unlike dladdr(), which looks
/// through the object's symbols.
const void* object_of(const void* address);

extern Next next_table;
extern Atomic<uint32_t> next_known;
void find_next();

inline const Next& next() {
  const bool known = next_known.load_acquire() != 0;  // HN1 <- HN0: the table
  if (!known) [[unlikely]] {
    find_next();
  }
  return next_table;
}

}  // namespace zh::heap
