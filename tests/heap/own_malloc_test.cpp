// A program that brings its own malloc in the executable: all allocations, libc's included, are its own, and the heap
// stays out.
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "heap_test.h"

namespace {

// A bump allocator whose blocks are remembered by a header and never reused.
constexpr size_t kArena = size_t{256} << 20;
alignas(4096) unsigned char g_arena[kArena];
size_t g_used = 0;
size_t g_frees = 0;
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

void* take(size_t alignment, size_t n) {
  pthread_mutex_lock(&g_lock);
  const size_t at = (g_used + 16 + alignment - 1) / alignment * alignment;
  void* p = nullptr;
  if (n < kArena && at + n <= kArena) {
    g_used = at + n;
    memcpy(g_arena + at - 16, &n, sizeof n);
    p = g_arena + at;
  }
  pthread_mutex_unlock(&g_lock);
  if (p == nullptr) errno = ENOMEM;
  return p;
}

size_t size_of(const void* p) {
  size_t n = 0;
  memcpy(&n, static_cast<const unsigned char*>(p) - 16, sizeof n);
  return n;
}

bool is_own(const void* p) { return p >= g_arena && p < g_arena + kArena; }

}  // namespace

#define OWN extern "C" __attribute__((visibility("default")))
OWN void* malloc(size_t n) noexcept { return take(16, n); }
OWN void* calloc(size_t n, size_t size) noexcept { return take(16, n * size); }
OWN void* memalign(size_t alignment, size_t n) noexcept { return take(alignment < 16 ? 16 : alignment, n); }
OWN void* aligned_alloc(size_t alignment, size_t n) noexcept { return memalign(alignment, n); }
OWN void free(void* p) noexcept {
  if (p == nullptr) return;
  if (!is_own(p)) abort();  // a block of somebody else's
  ++g_frees;
}
OWN void* realloc(void* p, size_t n) noexcept {
  void* moved = take(16, n);
  if (p != nullptr && moved != nullptr) memcpy(moved, p, size_of(p) < n ? size_of(p) : n);
  return moved;
}
OWN int posix_memalign(void** out, size_t alignment, size_t n) noexcept {
  *out = memalign(alignment, n);
  return *out == nullptr ? ENOMEM : 0;
}
OWN size_t malloc_usable_size(void* p) noexcept { return p == nullptr ? 0 : size_of(p); }

namespace zh::heap_test {
namespace {

HEAP_TEST(AllBlocksAreTheProgramsOwn) {
  for (const size_t n : {size_t{100}, 64 * kKiB, 3 * kMiB}) {
    void* all[] = {malloc(n), calloc(1, n), memalign(64, n), aligned_alloc(64, n), realloc(nullptr, n), strdup("text")};
    for (void* p : all) {
      CHECK(is_own(p) && !in_heap(p), "%p", p);
      free(p);
    }
    auto* p = new char[n];
    CHECK(is_own(p));
    delete[] p;
  }
  CHECK(g_frees >= 21);
  CHECK(zerohop_mappings() == 0, "%d mappings of the heap beside a malloc of the program's own", zerohop_mappings());
  join_child(fork_child([] { CHECK(is_own(malloc(kMiB))); }), "the child");
}

}  // namespace
}  // namespace zh::heap_test
