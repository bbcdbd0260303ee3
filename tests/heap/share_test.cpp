// zh_share() itself, in the modes that have it; without it the same programs only use the memory. Which memory may not
// be shared, and which part of a buffer is: tests/unit/heap/adopt_test.cpp.
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "heap_test.h"

namespace zh::heap_test {
namespace {

unsigned char g_bss[4 * kMiB];

/// What a call of share() has to return; nothing is asked where there is no such call.
void shared_as(const void* p, size_t n, int wanted, const char* what) {
  if (mode() == Mode::kBare) return;
  const int got = share(p, n);
  CHECK(got == wanted, "%s: %d, not %d", what, got, wanted);
}

unsigned char* mapped(size_t n, int flags = MAP_PRIVATE | MAP_ANONYMOUS) {
  void* p = mmap(nullptr, n, PROT_READ | PROT_WRITE, flags, -1, 0);
  CHECK(p != MAP_FAILED);
  return static_cast<unsigned char*>(p);
}

HEAP_TEST(MappedMemoryAndGlobals) {
  unsigned char* p = mapped(6 * kMiB);
  fill(p, 6 * kMiB, 1);
  shared_as(p, 6 * kMiB, 0, "mapped memory");
  verify(p, 6 * kMiB, 1, "mapped memory that is shared");
  fill(g_bss, sizeof g_bss, 2);
  shared_as(g_bss, sizeof g_bss, 0, "bss");
  for (const size_t little : {size_t{6} * kMiB, size_t{20} * kMiB}) {
    unsigned char* more = mapped(little);
    fill(more, little, 3);
    shared_as(more, little, 0, "more memory");
    join_child(fork_child([&] {
                 verify(p, 6 * kMiB, 1, "mapped memory in the child");
                 verify(g_bss, sizeof g_bss, 2, "bss in the child");
                 verify(more, little, 3, "more memory in the child");
                 fill(p, 6 * kMiB, 7);
                 fill(g_bss, sizeof g_bss, 7);
               }),
               "the child");
    verify(p, 6 * kMiB, 1, "mapped memory after a fork");
    verify(g_bss, sizeof g_bss, 2, "bss after a fork");
    CHECK(munmap(more, little) == 0);
  }
  CHECK(munmap(p, 6 * kMiB) == 0);
  unsigned char* again = mapped(6 * kMiB);
  verify_zero(again, 6 * kMiB, "memory that is mapped anew");
}

HEAP_TEST(WhatIsRefused) {
  unsigned char* p = mapped(kMiB, MAP_SHARED | MAP_ANONYMOUS);
  fill(p, kMiB, 1);
  shared_as(p, kMiB, EAGAIN, "shared memory");
  shared_as(mapped(kMiB), 100, EINVAL, "no whole page");
}

/// Blocks next to the stacks of threads, in the same mappings as often as not.
HEAP_TEST(BlocksBesideStacks) {
  constexpr int kThreads = 6;
  static volatile bool stop = false;
  std::thread threads[kThreads];
  void* blocks[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    threads[i] = std::thread([] {
      unsigned char local[32 * kKiB];
      for (uint64_t seed = 0; !stop; ++seed) {
        fill(local, sizeof local, seed);
        if (seed == 3) shared_as(local, sizeof local, EAGAIN, "a thread's stack");
        verify(local, sizeof local, seed, "a thread's stack");
      }
    });
    blocks[i] = malloc(kMiB);
    fill(blocks[i], kMiB, 1);
    shared_as(blocks[i], kMiB, 0, "a block beside a stack");
    CHECK(mode() == Mode::kBare || block_in_heap(blocks[i]));
  }
  stop = true;
  for (int i = 0; i < kThreads; ++i) {
    threads[i].join();
    verify(blocks[i], kMiB, 1, "a block beside a stack");
    free(blocks[i]);
  }
}

/// dlclose() unmaps a library by itself; nothing of it may stay shared, whatever comes to lie there.
HEAP_TEST(UnloadedLibraries) {
  for (uint64_t round = 0; round < 6; ++round) {
    void* library = dlopen(ZH_GLOBALS_LIBRARY, RTLD_NOW);
    CHECK(library != nullptr, "%s", dlerror());
    auto* bss = reinterpret_cast<unsigned char* (*)()>(dlsym(library, "zh_library_bss"))();
    const size_t n = reinterpret_cast<size_t (*)()>(dlsym(library, "zh_library_bytes"))();
    fill(bss, n, round);
    shared_as(bss, n, 0, "a library's bss");
    CHECK(mode() == Mode::kBare || block_in_heap(bss));
    CHECK(dlclose(library) == 0);
    Mapping mapping;
    CHECK(!mapping_of(bss, &mapping), "the library is still there");
    auto* page = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(bss) + kPage) / kPage * kPage);
    void* there = mmap(page, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(there == page);
    verify_zero(page, kMiB, "what is mapped where a library was");
    fill(page, kMiB, round + 1);
    shared_as(page, kMiB, 0, "what is mapped where a library was");
    CHECK(mode() == Mode::kBare || in_heap(page), "the heap believes that it is shared");
    verify(page, kMiB, round + 1, "what is mapped where a library was");
    CHECK(munmap(page, kMiB) == 0);
  }
}

HEAP_TEST(CallsThatFailChangeNothing) {
  constexpr size_t n = 12 * kMiB;
  unsigned char* p = mapped(n);
  fill(p, n, 1);
  shared_as(p, n, 0, "mapped memory");
  CHECK(mmap(p, n, PROT_READ, MAP_SHARED | MAP_FIXED, -1, 0) == MAP_FAILED && errno == EBADF);
  verify(p, n, 1, "after an mmap that failed");
  // Half of the range can be protected: the system does so, and then fails.
  CHECK(munmap(p + n / 2, kPage) == 0);
  CHECK(mprotect(p, n, PROT_READ) == -1 && errno == ENOMEM);
  CHECK(mprotect(p, n / 2, PROT_READ | PROT_WRITE) == 0);
  const auto writable = [&] {
    verify(p, n / 2, 1, "memory after calls that failed");
    for (size_t at = 0; at < n / 2; at += kPage) p[at] = p[at];
    for (size_t at = n / 2 + kPage; at < n; at += kPage) p[at] = p[at];
  };
  writable();
  join_child(fork_child(writable), "the child");
  writable();
}

HEAP_TEST(LimitOfFileSizeSetByTheProgram) {
  // No SIGXFSZ, whatever becomes shared or private afterwards.
  void* before = malloc(12 * kMiB);
  fill(before, 12 * kMiB, 1);
  shared_as(before, 12 * kMiB, 0, "a block");
  const rlimit little = {kMiB, kMiB};
  CHECK(setrlimit(RLIMIT_FSIZE, &little) == 0);
  void* after = malloc(4 * kMiB);
  fill(after, 4 * kMiB, 2);
  shared_as(after, 4 * kMiB, EAGAIN, "under a limit");
  join_child(fork_child([&] { verify(before, 12 * kMiB, 1, "in the child"); }), "the child");
  verify(before, 12 * kMiB, 1, "a block from before");
  free(before);
  free(after);
}

HEAP_ENTRY(frees_twice) {
  void* p = malloc(2 * kMiB);
  memset(p, 1, 2 * kMiB);
  if (mode() != Mode::kBare && share(p, 2 * kMiB) != 0) return 3;
  free(p);
  free(hidden(p));
  return 0;
}

HEAP_TEST(ADoubleFreeIsNoticed) {
  // libc unmaps such a block, so that the second free() reads where nothing is.
  CHECK(rerun("frees_twice").status != 0);
}

HEAP_TEST(CallocOfAFreedBlockIsZero) {
  for (const size_t n : {kMiB / 8, kMiB, 2 * kMiB}) {
    auto* p = static_cast<unsigned char*>(malloc(n));
    fill(p, n, 3);
    shared_as(p, n, 0, "a block");
    free(p);
    auto* q = static_cast<unsigned char*>(calloc(1, n));
    verify_zero(q, n, "calloc behind a block that was shared");
    free(q);
  }
}

HEAP_TEST(UsableSizesAreLibcs) {
  for (const size_t n : {20 * kKiB, 100 * kKiB, kMiB, 40 * kMiB}) {
    void* p = malloc(n);
    const size_t before = malloc_usable_size(p);
    CHECK(before >= n && before < n + kPage + 16, "%zu of %zu", before, n);
    memset(p, 1, n);
    shared_as(p, n, 0, "a block");
    CHECK(malloc_usable_size(p) == before);
    free(p);
    p = malloc(n);
    CHECK(malloc_usable_size(p) >= n && malloc_usable_size(p) < n + 2 * kPage);
    free(p);
  }
}

HEAP_ENTRY(tells_addresses) {
  void* all[] = {malloc(100), malloc(64 * kKiB), malloc(kMiB), malloc(100 * kMiB)};
  char text[128];
  const int n = snprintf(text, sizeof text, "%p %p %p %p", all[0], all[1], all[2], all[3]);
  return write(STDOUT_FILENO, text, static_cast<size_t>(n)) == n ? 0 : 1;
}

HEAP_TEST(AddressesAreSpread) {
  unsigned long first[4] = {};
  unsigned long seen[4] = {};
  for (int run = 0; run < 17; ++run) {
    unsigned long at[4];
    const Outcome outcome = rerun("tells_addresses");
    CHECK(outcome.status == 0 && sscanf(outcome.said, "%lx %lx %lx %lx", &at[0], &at[1], &at[2], &at[3]) == 4);
    if (run == 0) memcpy(first, at, sizeof first);
    for (int i = 0; i < 4; ++i) seen[i] |= first[i] ^ at[i];
  }
  for (int i = 0; i < 4; ++i) {
    const int bits = __builtin_popcountl(seen[i] >> 12);
    CHECK(bits >= 20, "block %d: %d bits of its page vary", i, bits);
  }
}

}  // namespace
}  // namespace zh::heap_test
