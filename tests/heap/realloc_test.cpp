// Conformance of realloc and reallocarray: contents kept across every border of size, in both directions, in place or
// moved.
#include <malloc.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "heap_test.h"

namespace zh::heap_test {
namespace {

const size_t kSteps[] = {1,      16,     1000,   8192, 32000,    32767,    32768,     32769,    65536,
                         100000, 131072, 200000, kMiB, kMiB + 7, 3 * kMiB, 32 * kMiB, 48 * kMiB};

HEAP_TEST(FromEverySizeToEverySize) {  // long
  for (const size_t from : kSteps) {
    for (const size_t to : kSteps) {
      void* p = malloc(from);
      CHECK(p != nullptr);
      fill(p, from, from ^ to);
      void* q = realloc(p, to);
      CHECK(q != nullptr && reinterpret_cast<uintptr_t>(q) % 16 == 0 && malloc_usable_size(q) >= to);
      const size_t kept = from < to ? from : to;
      verify(q, kept / 8 * 8, from ^ to, "contents after realloc");
      if (to >= 32 * kKiB) CHECK_SERVED(q);
      fill(q, to, to);
      verify(q, to, to, "the block after realloc");
      free(q);
    }
  }
}

HEAP_TEST(GrowsFromNullToMuch) {
  void* p = nullptr;
  size_t n = 16;
  size_t before = 0;
  while (n < 256 * kMiB) {
    p = realloc(p, n);
    CHECK(p != nullptr);
    if (before > 0) verify(p, before / 8 * 8, before, "a growing block");
    fill(p, n, n);
    before = n;
    n += n / 2;
  }
  while (n > 100) {
    n = n / 3;
    fill(p, n < before ? n : before, n);
    p = realloc(p, n);
    CHECK(p != nullptr);
    verify(p, n / 8 * 8, n, "a shrinking block");
    before = n;
  }
  free(p);
}

HEAP_TEST(SizeZeroFrees) {
  for (const size_t n : {size_t{10}, 64 * kKiB, 4 * kMiB}) {
    for (int i = 0; i < 100; ++i) {
      void* p = malloc(n);
      stamp(p, n, 1);
      CHECK(realloc(p, hidden(size_t{0})) == nullptr);
    }
  }
  void* p = realloc(nullptr, hidden(size_t{0}));
  CHECK(p != nullptr);
  free(p);
  CHECK(resident_bytes() < 300 * kMiB, "%zu MiB resident", resident_bytes() / kMiB);
}

HEAP_TEST(SameSizeKeepsEverything) {
  for (const size_t n : kSteps) {
    void* p = malloc(n);
    fill(p, n, n);
    for (int i = 0; i < 5; ++i) {
      p = realloc(p, n);
      CHECK(p != nullptr);
      verify(p, n, n, "a block of the same size");
    }
    free(p);
  }
}

HEAP_TEST(UsableBytesSurviveWhenTheyAreAskedFor) {
  // Programs such as GLib grow into what malloc_usable_size tells them.
  for (const size_t n : kSteps) {
    void* p = malloc(n);
    const size_t usable = malloc_usable_size(p);
    fill(p, usable, n);
    p = realloc(p, usable);
    verify(p, usable, n, "usable bytes");
    p = realloc(p, 2 * usable);
    CHECK(p != nullptr);
    verify(p, usable / 8 * 8, n, "usable bytes of a grown block");
    free(p);
  }
}

HEAP_TEST(NeighboursAreLeftAlone) {
  constexpr int kBlocks = 200;
  void* blocks[kBlocks];
  size_t sizes[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    sizes[i] = 40 * kKiB;
    blocks[i] = malloc(sizes[i]);
    fill(blocks[i], sizes[i], static_cast<uint64_t>(i));
  }
  Random random(3);
  for (int step = 0; step < 2000; ++step) {
    const size_t i = random.below(kBlocks);
    const size_t n = random.size(1000, 600 * kKiB);
    verify(blocks[i], sizes[i] / 8 * 8, i, "a block before it changes");
    blocks[i] = realloc(blocks[i], n);
    CHECK(blocks[i] != nullptr);
    verify(blocks[i], (n < sizes[i] ? n : sizes[i]) / 8 * 8, i, "a block that changed");
    sizes[i] = n;
    fill(blocks[i], n, i);
  }
  for (size_t i = 0; i < kBlocks; ++i) {
    verify(blocks[i], sizes[i], i, "a neighbour");
    free(blocks[i]);
  }
}

HEAP_TEST(ReallocarrayMultiplies) {
  auto* p = static_cast<char*>(reallocarray(nullptr, 1000, 100));
  CHECK(p != nullptr && malloc_usable_size(p) >= 100000);
  fill(p, 100000, 5);
  p = static_cast<char*>(reallocarray(p, 3000, 1000));
  CHECK(p != nullptr && malloc_usable_size(p) >= 3000000);
  CHECK_SERVED(p);
  verify(p, 100000, 5, "reallocarray");
  p = static_cast<char*>(reallocarray(p, 10, 10));
  CHECK(p != nullptr);
  verify(p, 96, 5, "reallocarray to little");
  free(p);
}

}  // namespace
}  // namespace zh::heap_test
