// The malloc family as libzerohop.so exports it: libc's, or that of an allocator which the program brings, but for
// blocks whose pages messages have made shared, which are looked after before it sees them again. Also what else the
// library does when it is loaded. Compiled into libzerohop.so only.
#include <dlfcn.h>
#include <sched.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#include "base/atomic.h"
#include "heap/decide.h"
#include "heap/heap.h"
#include "heap/next.h"
#include "os/high_descriptor.h"

#define ZH_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;  // names this library

namespace {

using zh::heap::next;
using zh::heap::process_heap;

uint64_t usable_bytes(void* block) { return next().malloc_usable_size(block); }
void free_block(void* block) { next().free(block); }

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

bool in_this_library(const void* p) { return zh::heap::object_of(p) == zh::heap::object_of(&process_heap); }

// What malloc and free do now: first they look for the next ones, then they go there straight, and from the first
// shared page on they ask the heap.
using Malloc = void* (*)(size_t);
using Free = void (*)(void*);
void* first_malloc(size_t n);
void first_free(void* p);
constinit zh::Atomic<Malloc> malloc_now{&first_malloc};
constinit zh::Atomic<Free> free_now{&first_free};

void* first_malloc(size_t n) {
  const Malloc straight = next().malloc;
  Malloc first = &first_malloc;
  if (zh::heap::next_known.load_relaxed() != 0) (void)malloc_now.cas_relaxed(first, straight);
  return straight(n);
}

void first_free(void* p) {
  const Free straight = next().free;
  Free first = &first_free;
  if (zh::heap::next_known.load_relaxed() != 0) (void)free_now.cas_relaxed(first, straight);
  straight(p);
}

void* malloc_with_heap(size_t n) {
  void* kept = process_heap.reuse(n);
  return kept != nullptr ? kept : next().malloc(n);
}

void free_with_heap(void* p) {
  if (process_heap.holds_any() && p != nullptr && process_heap.keep(p)) return;
  next().free(p);
}

// A thread that frees a shared block has it from one that knows of the message.
void ask_heap() {
  malloc_now.store_relaxed(&malloc_with_heap);
  free_now.store_relaxed(&free_with_heap);
}

// Everything else that the objects of the program set up has run, main() and the executable's own constructors not.
__attribute__((constructor)) void start() {
  zh::os::widen_descriptor_table();
  const zh::heap::Decision decision = zh::heap::decide();
  if (!decision.use) {
    process_heap.decline(decision.why);
    return;
  }
  if (!register_first()) {
    process_heap.decline("no memory for the handlers of a fork");
    return;
  }
  code_at_load = code_of_calls();
  zh::heap::Surroundings around;
  around.calls_intact = &calls_intact;
  around.ask_about_blocks = &ask_heap;
  around.usable_bytes = &usable_bytes;
  around.free_block = &free_block;
  around.libc_blocks = next().is_libc;
  around.keeps_blocks = in_this_library(dlsym(RTLD_DEFAULT, "malloc")) && in_this_library(dlsym(RTLD_DEFAULT, "free"));
  if (!next().tells_sizes) process_heap.decline("the program's allocator does not tell the sizes of its blocks");
  around.at_second_use = decision.always;
  process_heap.start(around, decision.always);
}

}  // namespace

/// What pthread_atfork() calls, for whichever object.
ZH_EXPORT int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* object) noexcept {
  (void)register_first();
  return register_with_next(prepare, parent, child, object);
}

/// fork() without handlers (glibc 2.34), so ours are called here.
ZH_EXPORT int _Fork() noexcept {
  process_heap.before_fork();
  const int child = next()._Fork();
  if (child == 0) {
    process_heap.after_fork_in_child();
  } else {
    process_heap.after_fork_in_parent();
  }
  return child;
}

namespace {
struct Child {
  int (*run)(void*);
  void* argument;
};

int run_child(void* child) {
  const Child c = *static_cast<Child*>(child);
  process_heap.after_fork_in_child();
  return c.run(c.argument);
}
}  // namespace

/// A child with memory of its own is a fork without handlers.
ZH_EXPORT int clone(int (*run)(void*), void* stack, int flags, void* argument, ...) noexcept {
  va_list rest;
  va_start(rest, argument);
  void* const parent_id = va_arg(rest, void*);
  void* const thread_data = va_arg(rest, void*);
  void* const child_id = va_arg(rest, void*);
  va_end(rest);
  if ((flags & CLONE_VM) != 0 || run == nullptr) {
    return next().clone(run, stack, flags, argument, parent_id, thread_data, child_id);
  }
  Child child{run, argument};  // the child has its own copy
  process_heap.before_fork();
  const int id = next().clone(&run_child, stack, flags, &child, parent_id, thread_data, child_id);
  process_heap.after_fork_in_parent();
  return id;
}

ZH_EXPORT void* malloc(size_t n) { return malloc_now.load_relaxed()(n); }

ZH_EXPORT void* calloc(size_t n, size_t size) {
  size_t bytes = 0;
  if (!__builtin_mul_overflow(n, size, &bytes)) {
    void* kept = process_heap.reuse(bytes);
    if (kept != nullptr) return std::memset(kept, 0, bytes);
  }
  return next().calloc(n, size);
}

ZH_EXPORT void free(void* p) { free_now.load_relaxed()(p); }

ZH_EXPORT void free_sized(void* p, size_t) { free(p); }
ZH_EXPORT void free_aligned_sized(void* p, size_t, size_t) { free(p); }

ZH_EXPORT void* realloc(void* p, size_t n) {
  if (process_heap.holds_any() && p != nullptr && !process_heap.prepare_resize(p)) [[unlikely]] {
    errno = ENOMEM;
    return nullptr;
  }
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

ZH_EXPORT int malloc_trim(size_t pad) {
  const bool any = process_heap.trim();
  return next().malloc_trim(pad) != 0 || any ? 1 : 0;
}

/// Makes the whole pages inside [address, +bytes) mappable for the other ranks of the node now, as messages that use
/// the buffer again would. Nobody else may write them during the call. 0; ENOTSUP where that is off or declined, EINVAL
/// where there is no whole page, EAGAIN where these pages have to stay as they are.
ZH_EXPORT int zh_share(const void* address, size_t bytes) {
  if (!process_heap.started() || process_heap.declined() != nullptr) return ENOTSUP;
  if (zh::heap::pages_inside(address, bytes).n == 0) return EINVAL;
  return process_heap.share(address, bytes) == zh::heap::Sharing::kMapped ? 0 : EAGAIN;
}
