// What the tests of the heap share: heaps as objects of their own in this process, memory for them to adopt, and forks
// with the handlers that the preloaded library registers.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

#include "heap/heap.h"
#include "os/own_memory.h"

namespace zh::heap::test {

/// Never destroyed, as the process's own.
inline Heap& unused_heap() {
  static std::array<Heap, 256> heaps;
  static size_t n = 0;
  return heaps.at(n++);
}

/// Started, with no allocator behind it unless `around` names one.
inline Heap& fresh_heap(Surroundings around = {}) {
  Heap& heap = unused_heap();
  around.at_second_use = true;
  heap.start(around, true);
  return heap;
}

/// Private anonymous memory of whole pages, every byte of them `value`; a page that cannot be touched on either side.
inline std::byte* filled(size_t bytes, int value) {
  const size_t whole = (bytes + kPage - 1) / kPage * kPage;
  void* p = mmap(nullptr, whole + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* at = static_cast<std::byte*>(p) + kPage;
  if (mprotect(at, whole, PROT_READ | PROT_WRITE) != 0) return nullptr;
  std::memset(at, value, whole);
  return at;
}

inline bool holds(const std::byte* p, size_t n, int value) {
  for (size_t i = 0; i < n; ++i) {
    if (p[i] != static_cast<std::byte>(value)) return false;
  }
  return true;
}

/// What a peer sees of a place from place.from on; null if it cannot be mapped.
inline std::byte* as_peer(const Heap& heap, const SharedPlace& place) {
  const uint64_t start = (place.offset + place.from) / kPage * kPage;
  const uint64_t end = place.offset + place.end;
  void* p = mmap(nullptr, end - start, PROT_READ | PROT_WRITE, MAP_SHARED, heap.descriptor(place.region),
                 static_cast<off_t>(start));
  return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p) + (place.offset + place.from - start);
}

inline os::Mapping mapping_at(const void* p) {
  os::Mapping mapping;
  const os::Mappings all;
  EXPECT_TRUE(all.find(reinterpret_cast<uintptr_t>(p), &mapping));
  return mapping;
}
/// Anonymous private memory that can be read and written, as a program expects its own to be.
inline bool is_plain(const void* p) {
  const os::Mapping mapping = mapping_at(p);
  return !mapping.shared && mapping.inode == 0 && mapping.readable && mapping.writable;
}

/// fork() with the heap's handlers.
inline pid_t fork_heap(Heap& heap) {
  heap.before_fork();
  const pid_t pid = fork();
  if (pid == 0) {
    heap.after_fork_in_child();
  } else {
    heap.after_fork_in_parent();
  }
  return pid;
}

/// Did the child end by _exit(0)?
inline bool ended_well(pid_t child) {
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

/// Whether `child` says so, forked with the heap's handlers.
template <typename Child>
bool in_fork(Heap& heap, Child&& child) {
  const pid_t pid = fork_heap(heap);
  if (pid == 0) _exit(child() ? 0 : 1);
  return ended_well(pid);
}

/// The same without handlers, for what changes the whole process.
template <typename Child>
bool in_process(Child&& child) {
  const pid_t pid = fork();
  if (pid == 0) _exit(child() ? 0 : 1);
  return ended_well(pid);
}

/// Sanitizers have threads of their own, and other mappings.
constexpr bool kSanitized =
#ifdef ZH_SANITIZE
    true;
#else
    false;
#endif

/// Private memory that is shared at once.
inline std::byte* shared(Heap& heap, size_t n, int value) {
  std::byte* p = filled(n, value);
  EXPECT_EQ(heap.share(p, n), Sharing::kMapped) << heap.stats().declined_why;
  return p;
}

/// Another thread, so that the process has two; it does nothing, or what it is given, again and again.
class Beside {
 public:
  explicit Beside(void (*work)(void*) = nullptr, void* argument = nullptr)
      : thread_([this, work, argument] {
          while (stop_.load_relaxed() == 0) {
            if (work == nullptr) {
              usleep(500);
            } else {
              work(argument);
            }
          }
        }) {}
  ~Beside() { end(); }
  void end() {
    stop_.store_relaxed(1);
    if (thread_.joinable()) thread_.join();
  }

 private:
  Atomic<uint32_t> stop_{0};
  std::thread thread_;
};

}  // namespace zh::heap::test
