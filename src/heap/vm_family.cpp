// The calls by which a program manages pages itself, as libzerohop.so exports them: where they meet the shared heap
// they do what they would do to private memory, or the pages leave the heap first. Everything else goes straight to the
// next function of the name. Compiled into libzerohop.so only.
#include <sys/mman.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>

#include "heap/heap.h"
#include "heap/next.h"

#define ZH_EXPORT extern "C" __attribute__((visibility("default")))

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

namespace {

using zh::heap::next;
using zh::heap::process_heap;

bool meets_heap(const void* at, size_t n) { return process_heap.started() && process_heap.touches(at, n); }

bool whole_pages(const void* at) { return reinterpret_cast<uintptr_t>(at) % zh::heap::kPage == 0; }

int failed(int error) {
  errno = error;
  return -1;
}

int advise_heap(void* at, size_t n, int advice) {
  switch (advice) {
    case MADV_DONTNEED:
    case MADV_DONTNEED_LOCKED: {
      // Shared pages keep their contents through it, what is private already does not.
      const int result = next().madvise(at, n, advice);
      if (result != 0) return result;
      return process_heap.drop_contents(at, n) ? 0 : failed(ENOMEM);
    }
    case MADV_FREE:
      return 0;  // the contents may be dropped, later or never
    case MADV_HUGEPAGE:
      // Private memory gets huge pages for the asking; where shared memory does not, it is no place for this range.
      if (!process_heap.keeps_huge_wishes(n)) (void)process_heap.leave(at, n, false);
      return next().madvise(at, n, advice);
    case MADV_WIPEONFORK:
    case MADV_DONTFORK:
    case MADV_MERGEABLE:
      if (!process_heap.leave(at, n, true)) return failed(ENOMEM);
      return next().madvise(at, n, advice);
    default:
      return next().madvise(at, n, advice);
  }
}

void* map(void* at, size_t n, int protection, int flags, int fd, off_t offset) {
  const bool fixed = (flags & MAP_FIXED) != 0 && (flags & MAP_FIXED_NOREPLACE) != MAP_FIXED_NOREPLACE;
  if (fixed && meets_heap(at, n) && whole_pages(at)) [[unlikely]]
    process_heap.forget(at, n);
  return next().mmap(at, n, protection, flags, fd, offset);
}

}  // namespace

ZH_EXPORT int madvise(void* at, size_t n, int advice) noexcept {
  if (!meets_heap(at, n) || !whole_pages(at) || n == 0) [[likely]]
    return next().madvise(at, n, advice);
  return advise_heap(at, n, advice);
}

ZH_EXPORT int munmap(void* at, size_t n) noexcept {
  if (meets_heap(at, n) && whole_pages(at) && n != 0) [[unlikely]]
    process_heap.forget(at, n);
  return next().munmap(at, n);
}

ZH_EXPORT void* mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) noexcept {
  return map(at, n, protection, flags, fd, offset);
}

ZH_EXPORT void* mmap64(void* at, size_t n, int protection, int flags, int fd, off64_t offset) noexcept {
  return map(at, n, protection, flags, fd, offset);
}

ZH_EXPORT void* mremap(void* at, size_t old_bytes, size_t new_bytes, int flags, ...) noexcept {
  va_list rest;
  va_start(rest, flags);
  void* target = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  if (meets_heap(at, old_bytes) && whole_pages(at)) [[unlikely]] {
    if (!process_heap.leave(at, old_bytes, true)) {
      errno = ENOMEM;
      return MAP_FAILED;
    }
  }
  if (target != nullptr && meets_heap(target, new_bytes)) [[unlikely]]
    process_heap.forget(target, new_bytes);
  return next().mremap(at, old_bytes, new_bytes, flags, target);
}

ZH_EXPORT int mprotect(void* at, size_t n, int protection) noexcept {
  // A peer would not see the protection. Read and write is what the heap's pages have.
  if (protection != (PROT_READ | PROT_WRITE) && meets_heap(at, n) && whole_pages(at)) [[unlikely]] {
    if (!process_heap.leave(at, n, false)) return failed(ENOMEM);
  }
  return next().mprotect(at, n, protection);
}
