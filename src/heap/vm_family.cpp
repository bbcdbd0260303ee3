// The calls by which a program manages pages itself, as libzerohop.so exports them: where they meet shared pages they
// do what they would do to private memory. Everything else goes straight to the next function of the name. Compiled
// into libzerohop.so only.
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#include "heap/heap.h"
#include "heap/next.h"
#include "os/own_memory.h"

#define ZH_EXPORT extern "C" __attribute__((visibility("default")))

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

namespace {

using zh::heap::Bit;
using zh::heap::next;
using zh::heap::process_heap;
using Protection = zh::heap::Heap::Protection;

bool whole_pages(const void* at) { return reinterpret_cast<uintptr_t>(at) % zh::kPage == 0; }

bool meets_heap(const void* at, size_t n) { return n != 0 && whole_pages(at) && process_heap.touches(at, n); }

int failed(int error) {
  errno = error;
  return -1;
}

/// Only what is private hears the advice; `left_too`: also where a file is behind it.
int advise_private(void* at, size_t n, int advice, bool left_too) {
  int result = 0;
  process_heap.for_each_private(at, n, left_too, [&](void* from, size_t bytes) {
    if (next().madvise(from, bytes, advice) != 0) result = -1;
  });
  return result;
}

int advise_heap(void* at, size_t n, int advice) {
  switch (advice) {
    case MADV_DONTNEED:
    case MADV_DONTNEED_LOCKED: {
      // Shared pages keep their contents through it.
      const int result = next().madvise(at, n, advice);
      const int error = errno;
      if (result == 0 || error == ENOMEM) process_heap.drop_contents(at, n);  // ENOMEM: all but the holes in it
      errno = error;
      return result;
    }
    case MADV_FREE:
      return 0;  // the contents may be dropped, later or never
    case MADV_REMOVE:
      return failed(EINVAL);  // as for private memory
    case MADV_DONTFORK:
    case MADV_DOFORK:
      process_heap.mark(Bit::kHidden, at, n, advice == MADV_DONTFORK);
      return advise_private(at, n, advice, true);
    case MADV_WIPEONFORK:
    case MADV_KEEPONFORK:
      process_heap.mark(Bit::kWiped, at, n, advice == MADV_WIPEONFORK);
      return advise_private(at, n, advice, false);
    case MADV_COLLAPSE:
    case MADV_GUARD_INSTALL:
      if (!process_heap.come_back(at, n)) return failed(ENOMEM);
      return next().madvise(at, n, advice);
    default:
      return next().madvise(at, n, advice);
  }
}

void* map(void* at, size_t n, int protection, int flags, int fd, off_t offset) {
  const bool fixed = (flags & MAP_FIXED) != 0 && (flags & MAP_FIXED_NOREPLACE) != MAP_FIXED_NOREPLACE;
  if (!fixed || !meets_heap(at, n)) [[likely]]
    return next().mmap(at, n, protection, flags, fd, offset);
  void* result = MAP_FAILED;
  process_heap.replace(at, n, [&] {
    result = next().mmap(at, n, protection, flags, fd, offset);
    return result != MAP_FAILED;
  });
  return result;
}

int unmap(void* at, size_t n) {
  if (!meets_heap(at, n)) [[likely]] {
    process_heap.forget_uses(at);
    return next().munmap(at, n);
  }
  return process_heap.replace(at, n, [&] { return next().munmap(at, n) == 0; }) ? 0 : -1;
}

size_t whole(size_t n) { return (n + zh::kPage - 1) / zh::kPage * zh::kPage; }

/// What the program has mapped at the end of [at, +bytes), as protection bits.
int protection_at_end(const std::byte* at, size_t bytes) {
  zh::os::Mapping mapping;
  if (!zh::os::Mappings().find(reinterpret_cast<uintptr_t>(at) + bytes - 1, &mapping)) return PROT_READ | PROT_WRITE;
  return (mapping.readable ? PROT_READ : 0) | (mapping.writable ? PROT_WRITE : 0) |
         (mapping.executable ? PROT_EXEC : 0);
}

/// Moves private memory that is several mappings, each with its protection; false if something is missing.
bool move_pieces(std::byte* at, size_t bytes, std::byte* target) {
  for (size_t done = 0; done < bytes;) {
    zh::os::Mapping mapping;
    const auto from = reinterpret_cast<uintptr_t>(at) + done;
    if (!zh::os::Mappings().find(from, &mapping)) return failed(EFAULT), false;
    const size_t n = mapping.to - from < bytes - done ? mapping.to - from : bytes - done;
    if (next().mremap(at + done, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, target + done) == MAP_FAILED) return false;
    done += n;
  }
  return true;
}

// Several mappings lie where the program knows one, and the system resizes and moves one at a time.
void* resize_mapping(std::byte* at, size_t old_bytes, size_t new_bytes, int flags, void* target) {
  constexpr int kFixed = MREMAP_FIXED;
  constexpr int kKnown = MREMAP_MAYMOVE | MREMAP_FIXED;
  old_bytes = whole(old_bytes);
  new_bytes = whole(new_bytes);
  const bool guarded = process_heap.guarded(at, old_bytes);
  // MREMAP_DONTUNMAP, and what is an error.
  const bool by_system = (flags & ~kKnown) != 0 || new_bytes == 0 || old_bytes == 0;
  if ((by_system || guarded) && !process_heap.come_back(at, old_bytes)) return failed(ENOMEM), MAP_FAILED;
  if (by_system) return next().mremap(at, old_bytes, new_bytes, flags, target);
  const int protection = guarded ? protection_at_end(at, old_bytes) : PROT_READ | PROT_WRITE;
  if ((flags & kFixed) == 0) {
    if (new_bytes <= old_bytes) {
      return new_bytes == old_bytes || unmap(at + new_bytes, old_bytes - new_bytes) == 0 ? at : MAP_FAILED;
    }
    const size_t more = new_bytes - old_bytes;
    void* const wanted = at + old_bytes;
    constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    void* const there = next().mmap(wanted, more, protection, kAnonymous | MAP_FIXED_NOREPLACE, -1, 0);
    if (there == wanted) return at;
    if (there != MAP_FAILED) next().munmap(there, more);
    if ((flags & MREMAP_MAYMOVE) == 0) return failed(ENOMEM), MAP_FAILED;
    target = next().mmap(nullptr, new_bytes, protection, kAnonymous, -1, 0);
  } else {
    const auto* const to = static_cast<std::byte*>(target);
    if (!whole_pages(to) || (to < at + old_bytes && at < to + new_bytes)) return failed(EINVAL), MAP_FAILED;
    target = map(target, new_bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  }
  if (target == MAP_FAILED) return MAP_FAILED;
  const size_t kept = old_bytes < new_bytes ? old_bytes : new_bytes;
  if (guarded) {
    if (!move_pieces(at, kept, static_cast<std::byte*>(target))) return MAP_FAILED;
    if (kept < old_bytes) unmap(at + kept, old_bytes - kept);
    return target;
  }
  std::memcpy(target, at, kept);
  unmap(at, old_bytes);
  return target;
}

/// The end of the data segment is about to move there.
void shrink_to(std::byte* end) {
  auto* const now = static_cast<std::byte*>(next().sbrk(0));
  if (end < now && process_heap.touches(end, static_cast<size_t>(now - end))) {
    (void)process_heap.come_back(end, static_cast<size_t>(now - end));
  }
}

/// Advice that shared memory would not keep, for memory that may be adopted later.
void remember(const void* at, size_t n, int advice) {
  switch (advice) {
    case MADV_DONTFORK:
    case MADV_WIPEONFORK:
    case MADV_MERGEABLE:
    case MADV_DONTDUMP:
      if (process_heap.started() && n != 0) process_heap.exclude(at, n);
      break;
    case MADV_HUGEPAGE:
      process_heap.wish_huge_pages();
      break;
    default:
      break;
  }
}

}  // namespace

ZH_EXPORT int madvise(void* at, size_t n, int advice) noexcept {
  const int result = meets_heap(at, n) ? advise_heap(at, n, advice) : next().madvise(at, n, advice);
  if (result == 0) remember(at, n, advice);
  return result;
}

ZH_EXPORT int munmap(void* at, size_t n) noexcept { return unmap(at, n); }

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
  // Makes a second mapping of shared memory; of private memory there is none to be had.
  if (old_bytes == 0 && meets_heap(at, 1)) [[unlikely]]
    return failed(EINVAL), MAP_FAILED;
  if (meets_heap(at, old_bytes)) [[unlikely]]
    return resize_mapping(static_cast<std::byte*>(at), old_bytes, new_bytes, flags, target);
  if (target != nullptr && meets_heap(target, new_bytes)) [[unlikely]] {
    if (map(target, new_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
      return MAP_FAILED;
  }
  return next().mremap(at, old_bytes, new_bytes, flags, target);
}

ZH_EXPORT int mprotect(void* at, size_t n, int protection) noexcept {
  if (!meets_heap(at, n)) [[likely]]
    return next().mprotect(at, n, protection);
  constexpr int kReadWrite = PROT_READ | PROT_WRITE;
  if (protection == kReadWrite) {
    const int result = next().mprotect(at, n, protection);
    if (result == 0) process_heap.protect(at, n, Protection::kReadWrite);
    return result;
  }
  if (protection == PROT_READ || protection == PROT_NONE) {
    process_heap.protect(at, n, protection == PROT_READ ? Protection::kRead : Protection::kNone);
    const int result = next().mprotect(at, n, protection);
    if (result != 0) {
      const int error = errno;
      process_heap.look_again(at, n);
      errno = error;
    }
    return result;
  }
  // Code, above all. Some systems allow that in anonymous memory only.
  if (!process_heap.leave(at, n)) return failed(ENOMEM);
  const int result = next().mprotect(at, n, protection);
  if (result == 0 || errno != EACCES || !process_heap.come_back(at, n)) return result;
  return next().mprotect(at, n, protection);
}

ZH_EXPORT int pkey_mprotect(void* at, size_t n, int protection, int key) noexcept {
  if (meets_heap(at, n) && !process_heap.leave(at, n)) [[unlikely]]
    return failed(ENOMEM);
  if (process_heap.started() && n != 0 && key > 0) process_heap.exclude(at, n);
  return next().pkey_mprotect(at, n, protection, key);
}

/// Unmaps a library, with memory of it that messages may have made shared, by calls that are not seen here.
ZH_EXPORT int dlclose(void* library) noexcept {
  const int result = next().dlclose(library);
  if (process_heap.holds_any()) process_heap.look_again();
  return result;
}

/// SHM_REMAP takes away what is there.
ZH_EXPORT void* shmat(int id, const void* at, int flags) noexcept {
  constexpr uintptr_t kNone = ~uintptr_t{0};
  if ((flags & SHM_REMAP) == 0 || at == nullptr || !process_heap.holds_any()) return next().shmat(id, at, flags);
  shmid_ds segment{};
  const uintptr_t place = reinterpret_cast<uintptr_t>(at) / zh::kPage * zh::kPage;
  auto* const from = reinterpret_cast<void*>((flags & SHM_RND) != 0 ? place : reinterpret_cast<uintptr_t>(at));
  if (shmctl(id, IPC_STAT, &segment) != 0 || !meets_heap(from, segment.shm_segsz)) return next().shmat(id, at, flags);
  void* result = nullptr;
  process_heap.replace(from, whole(segment.shm_segsz), [&] {
    result = next().shmat(id, at, flags);
    return reinterpret_cast<uintptr_t>(result) != kNone;
  });
  return result;
}

ZH_EXPORT int brk(void* end) noexcept {
  if (process_heap.holds_any()) shrink_to(static_cast<std::byte*>(end));
  return next().brk(end);
}

ZH_EXPORT void* sbrk(intptr_t more) noexcept {
  if (more < 0 && process_heap.holds_any()) [[unlikely]] {
    shrink_to(static_cast<std::byte*>(next().sbrk(0)) + more);
  }
  return next().sbrk(more);
}
