// The malloc family as libzerohop.so exports it: large allocations go into the shared heap, everything else, and all of
// it where the heap is not used, straight to the next allocator. The decision falls when the library is loaded; what is
// called before is forwarded. Compiled into libzerohop.so only.
#include <dlfcn.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/atomic.h"
#include "heap/decide.h"
#include "heap/heap.h"
#include "heap/next.h"

#define ZH_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;  // names this library

namespace {

using zh::heap::kMinBytes;
using zh::heap::next;
using zh::heap::process_heap;

inline void* take(size_t n) {
  if (n >= kMinBytes && process_heap.takes()) [[unlikely]] {
    void* p = process_heap.allocate(n, 1, false);
    if (p != nullptr) return p;
  }
  return next().malloc(n);
}

void* aligned(size_t alignment, size_t n) {
  if (n < kMinBytes || !std::has_single_bit(alignment) || !process_heap.takes()) [[likely]]
    return nullptr;
  return process_heap.allocate(n, alignment, false);
}

/// What grows step by step stays with libc, which never copies it: an allocation moves into the heap by realloc() only
/// if it becomes this many times as large.
constexpr size_t kGrowth = 8;

/// `p` (not null) of the next allocator becomes a large allocation.
void* grow_into_heap(void* p, size_t n) {
  const size_t have = next().malloc_usable_size(p);
  if (have > n / kGrowth) return next().realloc(p, n);
  void* moved = process_heap.allocate_growing(n);
  if (moved == nullptr) return next().realloc(p, n);
  std::memcpy(moved, p, have < n ? have : n);
  next().free(p);
  return moved;
}

void* resize_in_heap(void* p, size_t n) {
  if (n == 0) {
    process_heap.free(p);
    return nullptr;
  }
  const size_t have = process_heap.usable_bytes(p);
  void* moved = nullptr;
  if (n >= kMinBytes) {
    if (process_heap.resize(p, n)) return p;
    moved = n > have ? process_heap.allocate_growing(n) : process_heap.allocate(n, 1, false);
  }
  if (moved == nullptr) moved = next().malloc(n);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, p, have < n ? have : n);
  process_heap.free(p);
  return moved;
}

// What stands at the start of the calls of vm_family.cpp. Some MPI libraries write a jump there, to hear of memory that
// goes away; then the calls no longer lead through this library.
constexpr size_t kCodeBytes = 16;
using Code = std::array<unsigned char, 5 * kCodeBytes>;
Code code_at_load;

Code code_of_calls() {
  Code code;
  size_t at = 0;
  for (const char* name : {"madvise", "munmap", "mremap", "mmap", "mprotect"}) {
    std::memcpy(code.data() + at, dlsym(RTLD_DEFAULT, name), kCodeBytes);
    at += kCodeBytes;
  }
  return code;
}

bool calls_intact() { return code_of_calls() == code_at_load; }

void before_fork() { process_heap.before_fork(); }
void after_fork_in_parent() { process_heap.after_fork_in_parent(); }
void after_fork_in_child() { process_heap.after_fork_in_child(); }

using RegisterAtfork = int (*)(void (*)(), void (*)(), void (*)(), void*);

int register_with_next(void (*prepare)(), void (*parent)(), void (*child)(), void* object) {
  const auto next = reinterpret_cast<RegisterAtfork>(dlsym(RTLD_NEXT, "__register_atfork"));
  return next != nullptr ? next(prepare, parent, child, object) : ENOMEM;
}

// The heap's handlers of a fork come before all others, so that they run next to the fork itself: whoever else does
// something before or after a fork may allocate, and sees in the child what is the child's.
bool register_first() {
  static constinit zh::Atomic<uint32_t> registered{0};  // 1 yes, 2 refused
  uint32_t none = 0;
  if (registered.cas_relaxed(none, 1) &&
      register_with_next(&before_fork, &after_fork_in_parent, &after_fork_in_child, &__dso_handle) != 0) {
    registered.store_relaxed(2);
  }
  return registered.load_relaxed() == 1;
}

bool in_this_library(const void* p) {
  Dl_info there;
  Dl_info here;
  return dladdr(p, &there) != 0 && dladdr(&process_heap, &here) != 0 && there.dli_fbase == here.dli_fbase;
}

// Everything else that the objects of the program set up has run, main() and the executable's own constructors not.
__attribute__((constructor)) void start() {
  const bool first = in_this_library(dlsym(RTLD_DEFAULT, "malloc"));
  const zh::heap::Decision decision = zh::heap::decide(!first || !next().is_libc);
  if (!decision.use) {
    process_heap.decline(decision.why);
    return;
  }
  if (!register_first()) {
    process_heap.decline("no memory for the handlers of a fork");
    return;
  }
  code_at_load = code_of_calls();
  process_heap.watch_calls(&calls_intact);
  process_heap.start(decision.huge_too);
  process_heap.adopt_globals();
}

}  // namespace

/// What pthread_atfork() calls, for whichever object.
ZH_EXPORT int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* object) noexcept {
  (void)register_first();
  return register_with_next(prepare, parent, child, object);
}

ZH_EXPORT void* malloc(size_t n) { return take(n); }

ZH_EXPORT void* calloc(size_t n, size_t size) {
  size_t bytes = 0;
  if (!__builtin_mul_overflow(n, size, &bytes) && bytes >= kMinBytes && process_heap.takes()) [[unlikely]] {
    void* p = process_heap.allocate(bytes, 1, true);
    if (p != nullptr) return p;
  }
  return next().calloc(n, size);
}

ZH_EXPORT void free(void* p) {
  if (process_heap.owns(p)) [[unlikely]] {
    process_heap.free(p);
    return;
  }
  next().free(p);
}

ZH_EXPORT void free_sized(void* p, size_t) { free(p); }
ZH_EXPORT void free_aligned_sized(void* p, size_t, size_t) { free(p); }

ZH_EXPORT void* realloc(void* p, size_t n) {
  if (process_heap.owns(p)) return resize_in_heap(p, n);
  if (p == nullptr) return take(n);
  if (n >= kMinBytes && process_heap.takes()) return grow_into_heap(p, n);
  return next().realloc(p, n);
}

ZH_EXPORT void* reallocarray(void* p, size_t n, size_t size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(n, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return realloc(p, bytes);
}

ZH_EXPORT void* memalign(size_t alignment, size_t n) {
  void* p = aligned(alignment, n);
  return p != nullptr ? p : next().memalign(alignment, n);
}

ZH_EXPORT void* aligned_alloc(size_t alignment, size_t n) {
  void* p = aligned(alignment, n);
  return p != nullptr ? p : next().aligned_alloc(alignment, n);
}

ZH_EXPORT int posix_memalign(void** out, size_t alignment, size_t n) {
  if (alignment % sizeof(void*) == 0) {
    void* p = aligned(alignment, n);
    if (p != nullptr) {
      *out = p;
      return 0;
    }
  }
  return next().posix_memalign(out, alignment, n);
}

ZH_EXPORT void* valloc(size_t n) {
  void* p = aligned(zh::heap::kPage, n);
  return p != nullptr ? p : next().valloc(n);
}

ZH_EXPORT void* pvalloc(size_t n) {
  void* p = aligned(zh::heap::kPage, n);
  return p != nullptr ? p : next().pvalloc(n);
}

ZH_EXPORT size_t malloc_usable_size(void* p) {
  return process_heap.owns(p) ? process_heap.usable_bytes(p) : next().malloc_usable_size(p);
}

ZH_EXPORT int malloc_trim(size_t pad) {
  const bool any = process_heap.trim();
  return next().malloc_trim(pad) != 0 || any ? 1 : 0;
}
