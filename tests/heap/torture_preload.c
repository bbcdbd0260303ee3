// A library for tests that is preloaded in front of libzerohop.so: ordinary programs then run with most of their large
// memory shared, though they send no message. After an allocation it calls zh_share() on the block before the caller
// sees it, before realloc() and free() on what the block holds by then, and now and then on older blocks of a program
// that has one thread: at these moments nobody else writes there. Without zh_share() it does nothing but count.
//
//   ZH_TORTURE_COUNTS   a file that all processes of a run add their counts to (struct Counts); it must exist
//   ZH_TORTURE_MIN      bytes from which on a block is looked at (65536)
//   ZH_TORTURE_PERCENT  how many of them are shared (80)
//   ZH_TORTURE_MOST     bytes of a block of which no more than a part is shared (8 MiB)
//   ZH_TORTURE_PARTS    of how many per cent of them only a part is shared (25)
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
// The stack's way to thread-local data: the general one may allocate.
#define OWN_THREAD __thread __attribute__((tls_model("initial-exec")))

/// kLatePercent: of the calls, in which an older block is shared as well.
enum { kPage = 4096, kRemembered = 1024, kLooks = 16, kLatePercent = 20 };
/// Of a larger block only a part is shared: some programs allocate far more than they touch, and often.
static size_t g_most = (size_t)8 << 20;

/// In the file of ZH_TORTURE_COUNTS; tests/heap/outside.py reads it.
struct Counts {
  uint64_t processes;
  uint64_t blocks;   ///< large enough
  uint64_t shared;   ///< calls of zh_share() that returned 0
  uint64_t bytes;    ///< of these calls
  uint64_t used;     ///< those of them where the program had written before
  uint64_t refused;  ///< calls that returned something else
  uint64_t refusal;  ///< the last such value
};

static struct Counts g_nowhere;
static struct Counts* g_counts = &g_nowhere;
static size_t g_min = 64 * 1024;
static uint64_t g_percent = 80;
static uint64_t g_parts = 25;
static uint64_t g_drawn;
/// Blocks that were handed out, each in the place that its address chooses; a later one there replaces it.
static struct Block {
  void* p;
  size_t n;
} g_remembered[kRemembered];

typedef int (*Share)(const void*, size_t);
typedef void* (*Dlsym)(void*, const char*);
typedef void* (*Malloc)(size_t);
typedef void* (*Calloc)(size_t, size_t);
typedef void* (*Realloc)(void*, size_t);
typedef void* (*Aligned)(size_t, size_t);
typedef int (*PosixMemalign)(void**, size_t, size_t);
typedef void (*Free)(void*);
typedef size_t (*UsableSize)(void*);
typedef void* (*Mmap)(void*, size_t, int, int, int, off_t);

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void __libc_free(void*);

/// Looking for the next functions may allocate: meanwhile libc serves.
static struct {
  Malloc malloc;
  Calloc calloc;
  Realloc realloc;
  Aligned memalign, aligned_alloc;
  PosixMemalign posix_memalign;
  Free free;
  UsableSize usable_size;
  Mmap mmap;
  Share share;
} g_next = {.malloc = &__libc_malloc,
            .calloc = &__libc_calloc,
            .realloc = &__libc_realloc,
            .memalign = &__libc_memalign,
            .aligned_alloc = &__libc_memalign,
            .free = &__libc_free};
static int g_known;                  ///< g_next is whole
static OWN_THREAD int t_inside;      ///< in this library, or in zh_share(): what is allocated there is not looked at
static const int kOff = 0, kOn = 1;  ///< of g_state
static int g_state;

static Dlsym real_dlsym(void) {
  static Dlsym found;
  Dlsym f = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (f == NULL) {
    // The name's version of each machine that this is built for, newest first.
    const char* const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (size_t i = 0; f == NULL && i < sizeof versions / sizeof versions[0]; ++i) {
      f = (Dlsym)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    }
    __atomic_store_n(&found, f, __ATOMIC_RELAXED);
  }
  return f;
}

// Two threads may do this at once: they write the same.
static void find_next(void) {
  if (t_inside) return;
  t_inside = 1;
  const Dlsym find = real_dlsym();
  g_next.malloc = (Malloc)find(RTLD_NEXT, "malloc");
  g_next.calloc = (Calloc)find(RTLD_NEXT, "calloc");
  g_next.realloc = (Realloc)find(RTLD_NEXT, "realloc");
  g_next.memalign = (Aligned)find(RTLD_NEXT, "memalign");
  g_next.aligned_alloc = (Aligned)find(RTLD_NEXT, "aligned_alloc");
  g_next.posix_memalign = (PosixMemalign)find(RTLD_NEXT, "posix_memalign");
  g_next.free = (Free)find(RTLD_NEXT, "free");
  g_next.usable_size = (UsableSize)find(RTLD_NEXT, "malloc_usable_size");
  g_next.mmap = (Mmap)find(RTLD_NEXT, "mmap");
  g_next.share = (Share)find(RTLD_DEFAULT, "zh_share");
  __atomic_store_n(&g_known, 1, __ATOMIC_RELEASE);
  t_inside = 0;
}

static inline void know(void) {
  if (__builtin_expect(!__atomic_load_n(&g_known, __ATOMIC_ACQUIRE), 0)) find_next();
}

static uint64_t setting(const char* name, uint64_t otherwise) {
  const char* value = getenv(name);
  return value != NULL && *value != '\0' ? strtoull(value, NULL, 10) : otherwise;
}

// Other constructors may have allocated before: until here blocks are only forwarded.
__attribute__((constructor)) static void start(void) {
  know();
  g_min = setting("ZH_TORTURE_MIN", g_min);
  g_percent = setting("ZH_TORTURE_PERCENT", g_percent);
  g_parts = setting("ZH_TORTURE_PARTS", g_parts);
  g_most = setting("ZH_TORTURE_MOST", g_most);
  const char* file = getenv("ZH_TORTURE_COUNTS");
  const int fd = file != NULL ? open(file, O_RDWR | O_CLOEXEC) : -1;
  if (fd >= 0) {
    // Shared and not written at exit: processes that are killed or call _exit() count too, and children after a fork.
    void* p = g_next.mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED) g_counts = p;
    close(fd);
  }
  __atomic_fetch_add(&g_counts->processes, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&g_state, g_next.share != NULL ? kOn : kOff, __ATOMIC_RELEASE);
}

/// splitmix64: the nth number of a run is the same in each.
static uint64_t draw(void) {
  uint64_t x = (UINT64_C(1) << 32) + __atomic_add_fetch(&g_drawn, 1, __ATOMIC_RELAXED) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static int chance(uint64_t percent) { return draw() % 100 < percent; }

enum Holds { kZeros, kRubbish, kData };

/// Calls zh_share() for the block or a part of it; false if it refused.
static int share(unsigned char* p, size_t n, enum Holds holds) {
  if (t_inside) return 1;
  const int before = errno;
  t_inside = 1;
  if (n > g_most && g_parts == 0) {
    n = g_most;
  } else if (n > g_most || chance(g_parts)) {
    // A part: pages before and behind it stay as they are.
    const size_t most = n < g_most ? n : g_most;
    const size_t part = most / 2 + draw() % (most / 2 + 1);
    p += draw() % (n - part + 1);
    n = part;
  }
  // What was never written has no pages that could be shared.
  for (size_t at = 0; holds != kData && at < n; at += kPage) {
    volatile unsigned char* byte = p + at;
    *byte = holds == kZeros ? 0 : *byte;
  }
  const int result = g_next.share(p, n);
  if (result == 0) {
    __atomic_fetch_add(&g_counts->shared, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&g_counts->bytes, n, __ATOMIC_RELAXED);
    if (holds == kData) __atomic_fetch_add(&g_counts->used, 1, __ATOMIC_RELAXED);
  } else {
    __atomic_fetch_add(&g_counts->refused, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&g_counts->refusal, (uint64_t)result, __ATOMIC_RELAXED);
  }
  t_inside = 0;
  errno = before;
  return result == 0;
}

static struct Block* place_of(const void* p) {
  return &g_remembered[((uintptr_t)p >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

/// Shares an older block with what the program has written there. No other thread can write it meanwhile. It may have
/// been unmapped or replaced since: MPI is given such addresses as well.
static void share_older(void) {
  if (!__libc_single_threaded || !chance(kLatePercent)) return;
  for (uint64_t at = draw(), end = at + kLooks; at != end; ++at) {
    struct Block* block = &g_remembered[at % kRemembered];
    if (block->p == NULL) continue;
    if (!share(block->p, block->n, kData)) block->p = NULL;
    return;
  }
}

static inline int looked_at(size_t n) {
  return __builtin_expect(n >= g_min, 0) && __atomic_load_n(&g_state, __ATOMIC_ACQUIRE) == kOn && !t_inside;
}

/// A block that the caller has not seen yet.
static void new_block(void* p, size_t n, enum Holds holds) {
  if (p == NULL) return;
  share_older();
  __atomic_fetch_add(&g_counts->blocks, 1, __ATOMIC_RELAXED);
  if (chance(g_percent)) (void)share(p, n, holds);
  struct Block* place = place_of(p);
  place->n = n;
  __atomic_store_n(&place->p, p, __ATOMIC_RELAXED);
}

/// The caller gives the block up: nobody else may use it any more.
static void old_block(void* p) {
  if (p == NULL || t_inside || __atomic_load_n(&g_state, __ATOMIC_ACQUIRE) != kOn) return;
  struct Block* place = place_of(p);
  if (__atomic_load_n(&place->p, __ATOMIC_RELAXED) != p) return;
  void* same = p;
  if (!__atomic_compare_exchange_n(&place->p, &same, NULL, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
  if (chance(kLatePercent)) (void)share(p, g_next.usable_size(p), kData);
}

EXPORT void* malloc(size_t n) {
  know();
  void* p = g_next.malloc(n);
  if (looked_at(n)) new_block(p, n, kRubbish);
  return p;
}

EXPORT void* calloc(size_t n, size_t size) {
  know();
  void* p = g_next.calloc(n, size);
  if (p != NULL && looked_at(n * size)) new_block(p, n * size, kZeros);
  return p;
}

EXPORT void free(void* p) {
  know();
  old_block(p);
  g_next.free(p);
}

EXPORT void* realloc(void* p, size_t n) {
  know();
  old_block(p);
  void* moved = g_next.realloc(p, n);
  if (looked_at(n)) new_block(moved, n, kRubbish);
  return moved;
}

EXPORT void* reallocarray(void* p, size_t n, size_t size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(n, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  return realloc(p, bytes);
}

EXPORT void* memalign(size_t alignment, size_t n) {
  know();
  void* p = g_next.memalign(alignment, n);
  if (looked_at(n)) new_block(p, n, kRubbish);
  return p;
}

EXPORT void* aligned_alloc(size_t alignment, size_t n) {
  know();
  void* p = g_next.aligned_alloc(alignment, n);
  if (looked_at(n)) new_block(p, n, kRubbish);
  return p;
}

EXPORT int posix_memalign(void** out, size_t alignment, size_t n) {
  know();
  const int result = g_next.posix_memalign != NULL ? g_next.posix_memalign(out, alignment, n) : ENOMEM;
  if (result == 0 && looked_at(n)) new_block(*out, n, kRubbish);
  return result;
}

EXPORT void* mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) {
  know();
  if (g_next.mmap == NULL) {  // somebody maps memory while the next function is looked for
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void* p = g_next.mmap(at, n, protection, flags, fd, offset);
  const int wanted = MAP_PRIVATE | MAP_ANONYMOUS;
  // A stack that grows by itself must stay what it is, and huge pages of the pool are no memory to share.
  const int kinds = wanted | MAP_SHARED | MAP_GROWSDOWN | MAP_HUGETLB;
  if (p != MAP_FAILED && protection == (PROT_READ | PROT_WRITE) && (flags & kinds) == wanted && looked_at(n))
    new_block(p, n, kZeros);
  return p;
}

EXPORT void* mmap64(void* at, size_t n, int protection, int flags, int fd, off64_t offset) {
  return mmap(at, n, protection, flags, fd, offset);
}

// The library under test asks whether malloc is libc's or its own. It is: this one only looks on. The real dlsym() must
// see who asks, for RTLD_NEXT, so this call has to be the last thing done here, a jump (-foptimize-sibling-calls).
EXPORT void* dlsym(void* restrict handle, const char* restrict name) {
  const Dlsym real = real_dlsym();
  if (handle == RTLD_DEFAULT && !t_inside) {
    know();
    if (strcmp(name, "malloc") == 0) return (void*)g_next.malloc;
    if (strcmp(name, "mmap") == 0) return (void*)g_next.mmap;
    if (strcmp(name, "free") == 0) return (void*)g_next.free;
  }
  return real(handle, name);
}
