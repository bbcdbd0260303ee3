// Large global data of the executable and of a library loaded at start: initial values, copy-on-write over fork, and,
// where it was made shared, that it is private again wherever a fork needs that.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "heap_test.h"

extern "C" {
size_t zh_library_bytes();
void* zh_library_bss();
void* zh_library_data();
int zh_library_check();
}

namespace zh::heap_test {
namespace {

constexpr size_t kWords = 8 * kMiB / 8;

// Not static: their addresses must be the linker's business.
uint64_t g_small_before = 0xAAAA;
uint64_t g_data[kWords] = {1, 2, 3};
uint64_t g_small_between = 0xBBBB;
unsigned char g_bss[8 * kMiB];
uint64_t g_small_after;
thread_local unsigned char g_local[kMiB];

// Before any adoption of pages can be lost: written by a constructor, read by main.
__attribute__((constructor(101))) void write_early() {
  g_bss[5 * kMiB] = 42;
  g_data[kWords - 1] = 43;
  g_small_after = 44;
}

void check_start() {
  CHECK(g_data[0] == 1 && g_data[1] == 2 && g_data[2] == 3 && g_data[kWords - 1] == 43);
  for (size_t i = 3; i < kWords - 1; ++i) CHECK(g_data[i] == 0, "word %zu", i);
  CHECK(g_bss[5 * kMiB] == 42);
  g_bss[5 * kMiB] = 0;
  verify_zero(g_bss, sizeof g_bss, "bss at start");
  CHECK(g_small_before == 0xAAAA && g_small_between == 0xBBBB && g_small_after == 44);
  CHECK(zh_library_check() == 0, "the library's data: %d", zh_library_check());
}

struct Range {
  void* p;
  size_t n;
};
const Range kRanges[] = {{g_data, sizeof g_data},
                         {g_bss, sizeof g_bss},
                         {zh_library_bss(), zh_library_bytes()},
                         {zh_library_data(), zh_library_bytes()},
                         {g_local, sizeof g_local},
                         {&g_small_before, 8},
                         {&g_small_between, 8},
                         {&g_small_after, 8}};

void write_all(uint64_t seed) {
  for (const Range& r : kRanges) fill(r.p, r.n, seed);
}
void check_all(uint64_t seed, const char* what) {
  for (const Range& r : kRanges) verify(r.p, r.n, seed, what);
}

/// Memory that was written to, and that is no file's, can be shared wherever it lies.
void share_globals() {
  if (mode() == Mode::kBare) return;
  CHECK(share(g_bss, sizeof g_bss) == 0);
  CHECK(in_heap(&g_bss[4 * kMiB]));
  CHECK(share(zh_library_bss(), zh_library_bytes()) == 0);
  CHECK(in_heap(static_cast<char*>(zh_library_bss()) + zh_library_bytes() / 2));
  // Initialised data is the file's, and so is thread-local data a stack's or libc's.
  CHECK(share(g_data, sizeof g_data) == EAGAIN);
  CHECK(share(zh_library_data(), zh_library_bytes()) == EAGAIN);
}

HEAP_TEST(LargeGlobalsAreServed) {
  check_start();
  if (mode() == Mode::kBare) return;
  CHECK(share(g_bss, sizeof g_bss) == EAGAIN, "untouched memory has no pages to share");
  memset(g_bss, 0, sizeof g_bss);
  memset(zh_library_bss(), 0, zh_library_bytes());
  g_bss[5 * kMiB] = 42;
  share_globals();
  check_start();
}

HEAP_TEST(BothSidesWriteGlobals) {
  for (uint64_t round = 0; round < 6; ++round) {
    write_all(round);
    if (round < 4) share_globals();
    check_all(round, "globals that are shared");
    const Gate child_wrote;
    const Gate parent_wrote;
    const int child = fork_child([&] {
      if (round % 2 == 0) parent_wrote.wait();
      check_all(round, "globals in the child");
      write_all(round + 100);
      child_wrote.open();
      if (round % 2 == 1) parent_wrote.wait();
      check_all(round + 100, "globals of the child");
      join_child(fork_child([&] {
                   check_all(round + 100, "globals in the grandchild");
                   write_all(round + 300);
                 }),
                 "the grandchild");
      check_all(round + 100, "globals of the child, after its child");
    });
    if (round % 2 == 1) {
      child_wrote.wait();
      check_all(round, "globals of the parent, after the child wrote");
    }
    write_all(round + 200);
    parent_wrote.open();
    join_child(child, "the child");
    check_all(round + 200, "globals of the parent");
  }
}

HEAP_TEST(GlobalsAreUntouchedMemory) {
  // An array that nobody uses costs nothing, also when it is the heap's.
  const size_t before = resident_bytes();
  CHECK(before < 64 * kMiB, "%zu MiB resident at start", before / kMiB);
  for (size_t i = 0; i < sizeof g_bss; i += kPage) g_bss[i] = 1;
  CHECK(resident_bytes() > before + 6 * kMiB);
}

HEAP_TEST(TheKernelSeesGlobals) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  fill(g_bss, 60000, 3);
  CHECK(write(ends[1], g_bss, 60000) == 60000);
  CHECK(read(ends[0], &g_bss[kMiB], 60000) == 60000);
  verify(&g_bss[kMiB], 60000, 3, "what came through the pipe");
}

}  // namespace
}  // namespace zh::heap_test
