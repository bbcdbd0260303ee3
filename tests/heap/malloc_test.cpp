// Conformance of malloc, calloc, the memalign family, free and malloc_usable_size: what the manual promises, for every
// size class and around every border. All of it holds for libc alone as well.
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "heap_test.h"

namespace zh::heap_test {
namespace {

constexpr size_t kTooMuch = size_t{PTRDIFF_MAX} + 1;

bool aligned(const void* p, size_t alignment) { return reinterpret_cast<uintptr_t>(p) % alignment == 0; }

const size_t kSizes[] = {0,       1,         2,     7,        8,        15,       16,       17,        24,       100,
                         1000,    4095,      4096,  4097,     16384,    32736,    32752,    32767,     32768,    32769,
                         32784,   40000,     65535, 65536,    65537,    100000,   131071,   131072,    131088,   262144,
                         1000000, kMiB - 16, kMiB,  kMiB + 1, 3 * kMiB, 33554432, 33554433, 64 * kMiB, 100000000};

HEAP_TEST(EverySizeIsAlignedAndWritable) {
  for (int round = 0; round < 3; ++round) {
    for (const size_t n : kSizes) {
      void* p = malloc(n);
      CHECK(p != nullptr, "malloc(%zu)", n);
      CHECK(aligned(p, 16), "malloc(%zu) = %p", n, p);
      const size_t usable = malloc_usable_size(p);
      CHECK(usable >= n, "%zu of %zu", usable, n);
      fill(p, usable, n);
      verify(p, usable, n, "what was just written");
      free(p);
    }
  }
}

HEAP_TEST(OneGibibyte) {
  void* p = malloc(kGiB);
  CHECK(p != nullptr && aligned(p, 16) && malloc_usable_size(p) >= kGiB);
  CHECK_SERVED(p);
  stamp(p, kGiB, 1, 4 * kMiB);
  verify_stamp(p, kGiB, 1, "1 GiB", 4 * kMiB);
  p = realloc(p, kGiB + kMiB);
  CHECK(p != nullptr);
  verify_stamp(p, kGiB, 1, "grown 1 GiB", 4 * kMiB);
  free(p);
}

HEAP_TEST(LargeBlocksAreServed) {
  for (const size_t n : {64 * kKiB, 100000 * size_t{1}, kMiB, 5 * kMiB + 3, 40 * kMiB}) {
    void* p = malloc(n);
    CHECK_SERVED(p);
    p = realloc(p, n + n / 2);
    CHECK_SERVED(p);
    p = reallocarray(p, 2, n);
    CHECK_SERVED(p);
    free(p);
    p = calloc(n, 1);
    CHECK_SERVED(p);
    free(p);
    CHECK(posix_memalign(&p, 64, n) == 0);
    CHECK_SERVED(p);
    free(p);
    for (void* q : {aligned_alloc(4096, n / 4096 * 4096), memalign(256, n)}) {
      CHECK(q != nullptr);
      CHECK_SERVED(q);
      CHECK_SERVED(static_cast<char*>(q) + n / 4);
      free(q);
    }
  }
}

HEAP_TEST(SmallBlocksStayWithLibc) {
  for (const size_t n : {size_t{1}, size_t{100}, size_t{4096}, 12 * kKiB}) {
    for (void* p : {malloc(n), calloc(1, n), memalign(64, n), realloc(nullptr, n)}) {
      CHECK(p != nullptr && !in_heap(p), "%zu bytes at %p", n, p);
      free(p);
    }
  }
}

HEAP_TEST(LiveBlocksDoNotOverlap) {
  constexpr int kBlocks = 600;
  struct Block {
    void* p;
    size_t n;
  } blocks[kBlocks] = {};
  Random random(7);
  for (int round = 0; round < 8; ++round) {
    for (int i = 0; i < kBlocks; ++i) {
      Block& b = blocks[i];
      if (b.p != nullptr && random.below(2) == 0) continue;
      if (b.p != nullptr) {
        verify_stamp(b.p, b.n, static_cast<uint64_t>(i), "a live block");
        free(b.p);
      }
      b.n = random.size(1, kMiB);
      b.p = random.below(4) == 0 ? memalign(size_t{16} << random.below(12), b.n) : malloc(b.n);
      CHECK(b.p != nullptr);
      b.n = malloc_usable_size(b.p);
      stamp(b.p, b.n, static_cast<uint64_t>(i));
    }
  }
  for (int i = 0; i < kBlocks; ++i) {
    verify_stamp(blocks[i].p, blocks[i].n, static_cast<uint64_t>(i), "a live block");
    free(blocks[i].p);
  }
}

HEAP_TEST(NothingIsSomething) {
  void* a = malloc(0);
  void* b = malloc(0);
  CHECK(a != nullptr && b != nullptr && a != b);
  free(a);
  free(b);
  void* c = calloc(0, 8);
  void* d = calloc(8, 0);
  CHECK(c != nullptr && d != nullptr && c != d);
  free(c);
  free(d);
  void* e = nullptr;
  CHECK(posix_memalign(&e, 64, 0) == 0);
  free(e);
  free(nullptr);
  CHECK(malloc_usable_size(nullptr) == 0);
}

HEAP_TEST(AbsurdSizesFail) {
  const size_t absurd[] = {kTooMuch,     kTooMuch + kPage, SIZE_MAX - 4096,
                           SIZE_MAX - 1, SIZE_MAX,         size_t{PTRDIFF_MAX} - 4096};
  for (const size_t raw : absurd) {
    const size_t n = hidden(raw);
    struct {
      const char* name;
      void* p;
      int error;
    } answers[8];
    int count = 0;
    auto ask = [&](const char* name, auto call) {
      errno = 0;
      void* p = call();
      answers[count++] = {name, p, errno};
    };
    ask("malloc", [&] { return malloc(n); });
    ask("calloc", [&] { return calloc(1, n); });
    ask("calloc", [&] { return calloc(n, 1); });
    ask("realloc", [&] { return realloc(nullptr, n); });
    ask("memalign", [&] { return memalign(64, n); });
    ask("aligned_alloc", [&] { return aligned_alloc(64, n); });
    ask("valloc", [&] { return valloc(n); });
    ask("pvalloc", [&] { return pvalloc(n); });
    for (int i = 0; i < count; ++i)
      CHECK(answers[i].p == nullptr && answers[i].error == ENOMEM, "%s of %#zx: %p, errno %d", answers[i].name, n,
            answers[i].p, answers[i].error);
    void* untouched = hidden(reinterpret_cast<void*>(uintptr_t{0x1234}));
    void* const before = untouched;
    CHECK(posix_memalign(&untouched, 64, n) == ENOMEM && untouched == before);
  }
}

HEAP_TEST(ProductsThatOverflowFail) {
  const size_t half = hidden(SIZE_MAX / 2);
  errno = 0;
  CHECK(calloc(half, 3) == nullptr && errno == ENOMEM);
  errno = 0;
  CHECK(calloc(hidden(size_t{1} << 32), hidden(size_t{1} << 32)) == nullptr && errno == ENOMEM);
  for (const size_t n : {size_t{100}, kMiB}) {
    void* p = malloc(n);
    fill(p, n, 3);
    for (const size_t count : {half, SIZE_MAX, size_t{1} << 62}) {
      errno = 0;
      CHECK(reallocarray(p, hidden(count), 8) == nullptr && errno == ENOMEM);
      errno = 0;
      CHECK(realloc(p, hidden(kTooMuch)) == nullptr && errno == ENOMEM);
      verify(p, n, 3, "a block whose realloc failed");
    }
    free(p);
  }
}

HEAP_TEST(BadAlignmentsAreRefused) {
  for (const size_t n : {size_t{10}, 64 * kKiB, 2 * kMiB}) {
    for (const size_t alignment : {0, 1, 2, 3, 4, 7, 12, 24, 48, 4097}) {
      void* p = reinterpret_cast<void*>(uintptr_t{0x4321});
      void* const before = p;
      CHECK(posix_memalign(&p, hidden(alignment), n) == EINVAL && p == before, "alignment %zu", alignment);
    }
    // memalign takes any number and rounds it up to a power of two, as libc does.
    void* p = memalign(hidden(size_t{48}), n);
    CHECK(p != nullptr && aligned(p, 16));
    fill(p, n, 1);
    free(p);
  }
  errno = 0;
  CHECK(memalign(hidden(kTooMuch), 100) == nullptr && (errno == EINVAL || errno == ENOMEM));
}

HEAP_TEST(AlignmentsUpToTwoMebibytes) {
  const size_t sizes[] = {1, 100, 5000, 32 * kKiB - 1, 32 * kKiB, 40000, 100000, kMiB, 3 * kMiB + 5};
  for (size_t alignment = 16; alignment <= 2 * kMiB; alignment *= 2) {
    for (const size_t n : sizes) {
      void* all[3] = {nullptr, memalign(alignment, n),
                      aligned_alloc(alignment, (n + alignment - 1) / alignment * alignment)};
      CHECK(posix_memalign(&all[0], alignment, n) == 0);
      for (void*& p : all) {
        CHECK(p != nullptr && aligned(p, alignment), "%p for alignment %zu", p, alignment);
        CHECK(malloc_usable_size(p) >= n);
        stamp(p, malloc_usable_size(p), alignment + n);
      }
      for (void* p : all) verify_stamp(p, malloc_usable_size(p), alignment + n, "an aligned block");
      // An aligned block may be reallocated; it keeps its contents, not its alignment.
      void* grown = realloc(all[2], n + 100000);
      CHECK(grown != nullptr && aligned(grown, 16));
      if (n >= 16) CHECK(memcmp(grown, all[1], 8) == 0);
      free(grown);
      free(all[0]);
      free(all[1]);
    }
  }
}

HEAP_TEST(PagesForVallocAndPvalloc) {
  for (const size_t n : {size_t{1}, kPage, kPage + 1, 40000 * size_t{1}, kMiB + 1}) {
    void* v = valloc(n);
    void* w = pvalloc(n);
    CHECK(v != nullptr && aligned(v, kPage) && malloc_usable_size(v) >= n);
    CHECK(w != nullptr && aligned(w, kPage) && malloc_usable_size(w) >= (n + kPage - 1) / kPage * kPage);
    fill(v, n, 1);
    fill(w, malloc_usable_size(w), 2);
    verify(v, n, 1, "valloc");
    free(v);
    free(w);
  }
}

HEAP_TEST(FreeKeepsErrno) {
  for (const size_t n : {size_t{10}, size_t{5000}, 64 * kKiB, kMiB, 64 * kMiB}) {
    for (int round = 0; round < 3; ++round) {
      void* p = malloc(n);
      stamp(p, n, 1);
      errno = 7777;
      free(p);
      CHECK(errno == 7777, "after free of %zu", n);
    }
  }
}

HEAP_TEST(CallocIsZeroAfterDirtyReuse) {
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    const size_t n = random.size(16, 4 * kMiB);
    unsigned char* dirty[4];
    for (auto& p : dirty) {
      p = static_cast<unsigned char*>(malloc(n));
      memset(p, 0xA5, n);
    }
    for (auto* p : dirty) free(p);
    for (const size_t m : {n, n / 2 + 1, n + n / 4}) {
      void* p = calloc(m, 1);
      CHECK(p != nullptr);
      // Large blocks promise no more than their size; libc's usable bytes beyond it may be dirty.
      verify_zero(p, m, "calloc");
      memset(p, 0x5A, m);
      free(p);
    }
    void* p = calloc(n / 8 + 1, 8);
    verify_zero(p, (n / 8 + 1) * 8, "calloc of words");
    free(p);
  }
}

HEAP_TEST(UntouchedMemoryIsNotResident) {
  if (mode() == Mode::kShared) skip("blocks are written to before they are shared");
  const size_t before = resident_bytes();
  void* p = malloc(kGiB);
  void* q = calloc(kGiB, 1);
  CHECK(p != nullptr && q != nullptr);
  CHECK_SERVED(p);
  CHECK_SERVED(q);
  const size_t after = resident_bytes();
  CHECK(after < before + 32 * kMiB, "%zu MiB became resident", (after - before) / kMiB);
  free(p);
  free(q);
}

/// Polls, because a heap may give memory back a moment after it was freed.
void check_returned(size_t limit, const char* what) {
  size_t now = 0;
  for (int tenths = 0; tenths < 200; ++tenths) {
    now = resident_bytes();
    if (now < limit) return;
    usleep(100000);
    free(malloc(100000));  // a heap without a thread of its own works when it is called
  }
  CHECK(now < limit, "%s: %zu MiB are still resident", what, now / kMiB);
}

HEAP_TEST(FreedMemoryGoesBack) {
  const size_t before = resident_bytes();
  void* blocks[8];
  for (auto& p : blocks) {
    p = malloc(64 * kMiB);
    CHECK(p != nullptr);
    stamp(p, 64 * kMiB, 1);
  }
  CHECK(resident_bytes() > before + 500 * kMiB);
  for (auto* p : blocks) free(p);
  check_returned(before + 200 * kMiB, "512 MiB freed");
}

HEAP_TEST(ShrunkMemoryGoesBack) {
  const size_t before = resident_bytes();
  void* p = malloc(512 * kMiB);
  CHECK(p != nullptr);
  stamp(p, 512 * kMiB, 1);
  p = realloc(p, kMiB);
  CHECK(p != nullptr);
  check_returned(before + 200 * kMiB, "512 MiB shrunk to one");
  free(p);
}

HEAP_TEST(MemoryIsReused) {  // long
  // The address space of a process may be limited: a loop must not walk through it.
  Mapping mapping;
  uintptr_t low = UINTPTR_MAX;
  uintptr_t high = 0;
  const int rounds = mode() == Mode::kShared ? 100 : 2000;  // all of them is written to then
  for (int i = 0; i < rounds; ++i) {
    void* p = malloc(48 * kMiB);
    CHECK(p != nullptr && mapping_of(p, &mapping));
    *static_cast<volatile char*>(p) = 1;
    const auto at = reinterpret_cast<uintptr_t>(p);
    low = at < low ? at : low;
    high = at > high ? at : high;
    free(p);
  }
  CHECK(high - low < 4 * kGiB, "%d blocks of 48 MiB, one at a time, spread over %zu MiB", rounds, (high - low) / kMiB);
}

}  // namespace
}  // namespace zh::heap_test
