// Memory that crosses borders: blocks that libc's own functions allocate and the program frees, operators new and
// delete, blocks that libc's allocator gave out behind the heap's back, and libc's switches.
#include <malloc.h>
#include <unistd.h>
#include <wchar.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "heap_test.h"

// libc's allocator by its other name, as libraries that bypass an interposed malloc call it.
extern "C" void* __libc_malloc(size_t) __attribute__((weak));
extern "C" void __libc_free(void*) __attribute__((weak));

namespace zh::heap_test {
namespace {

HEAP_TEST(StringsThatLibcAllocates) {
  for (const size_t n : {size_t{10}, 40 * kKiB, 3 * kMiB}) {
    std::string text(n, 'q');
    for (int round = 0; round < 20; ++round) {
      char* a = strdup(text.c_str());
      char* b = strndup(text.c_str(), n / 2);
      CHECK(strlen(a) == n && strlen(b) == n / 2);
      a = static_cast<char*>(realloc(a, 2 * n + 100));
      CHECK(a != nullptr && strlen(a) == n);
      free(a);
      free(b);
      char* c = nullptr;
      CHECK(asprintf(&c, "%s%s", text.c_str(), text.c_str()) == static_cast<int>(2 * n));
      CHECK(strlen(c) == 2 * n);
      free(c);
      std::wstring wide(n, L'w');
      wchar_t* d = wcsdup(wide.c_str());
      CHECK(wcslen(d) == n);
      free(d);
    }
  }
  char* here = getcwd(nullptr, 0);
  char* real = realpath("/proc/self/exe", nullptr);
  CHECK(here != nullptr && real != nullptr);
  free(here);
  free(real);
}

HEAP_TEST(StreamsThatLibcAllocates) {
  char* buffer = nullptr;
  size_t length = 0;
  FILE* stream = open_memstream(&buffer, &length);
  CHECK(stream != nullptr);
  for (int i = 0; i < 200000; ++i) fprintf(stream, "%08d\n", i);
  CHECK(fclose(stream) == 0 && length == 9 * 200000);
  CHECK(memcmp(buffer + length - 9, "00199999\n", 9) == 0);
  // The same text read again in lines, the last of them very long.
  FILE* input = fmemopen(buffer, length, "r");
  char* line = nullptr;
  size_t room = 0;
  int lines = 0;
  while (getline(&line, &room, input) > 0) CHECK(atoi(line) == lines++);
  CHECK(lines == 200000);
  rewind(input);
  CHECK(getdelim(&line, &room, 'x', input) == static_cast<ssize_t>(length));
  CHECK(memcmp(line, buffer, length) == 0);
  line = static_cast<char*>(realloc(line, 2 * length));
  CHECK(memcmp(line, buffer, length) == 0);
  free(line);
  fclose(input);
  free(buffer);
  // A large buffer of a stream that the program provides and takes back.
  char* own = static_cast<char*>(malloc(kMiB));
  FILE* null = fopen("/dev/null", "w");
  CHECK(setvbuf(null, own, _IOFBF, kMiB) == 0);
  for (int i = 0; i < 100000; ++i) fprintf(null, "some text %d\n", i);
  CHECK(fclose(null) == 0);
  free(own);
}

HEAP_TEST(NewAndDelete) {
  struct alignas(4096) Paged {
    char bytes[64 * 1024];
  };
  for (int round = 0; round < 50; ++round) {
    auto* a = new char[kMiB];
    CHECK_SERVED(a);
    fill(a, kMiB, 1);
    auto* b = new Paged;
    CHECK(reinterpret_cast<uintptr_t>(b) % 4096 == 0);
    CHECK_SERVED(b);
    auto* c = new Paged[5];
    fill(c, 5 * sizeof(Paged), 2);
    auto* d = new (std::nothrow) char[100000];
    CHECK(d != nullptr);
    auto* e = static_cast<char*>(::operator new (200000, std::align_val_t{1 << 20}));
    CHECK(reinterpret_cast<uintptr_t>(e) % (1 << 20) == 0);
    verify(a, kMiB, 1, "new");
    verify(c, 5 * sizeof(Paged), 2, "aligned new[]");
    ::operator delete (e, size_t{200000}, std::align_val_t{1 << 20});
    delete[] d;
    delete[] c;
    delete b;
    delete[] a;
  }
  CHECK(new (std::nothrow) char[hidden(size_t{PTRDIFF_MAX} - 100000)] == nullptr);
  bool thrown = false;
  try {
    ::operator delete(::operator new(hidden(size_t{PTRDIFF_MAX} - 100000)));
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown);
}

HEAP_TEST(ContainersGrowAndMove) {
  std::vector<std::vector<double>> rows;
  for (size_t i = 0; i < 300; ++i) {
    rows.emplace_back();
    for (size_t k = 0; k < 20000; ++k) rows.back().push_back(static_cast<double>(i * k));
  }
  for (size_t i = 0; i < 300; i += 2) std::vector<double>().swap(rows[i]);
  for (size_t i = 1; i < 300; i += 2)
    for (size_t k = 0; k < 20000; k += 777) CHECK(rows[i][k] == static_cast<double>(i * k));
}

HEAP_TEST(BlocksFromBehindTheHeap) {
  if (__libc_malloc == nullptr || __libc_free == nullptr) skip("this libc has no __libc_malloc");
  for (const size_t n : {size_t{100}, 64 * kKiB, 10 * kMiB}) {
    void* p = __libc_malloc(n);
    CHECK(p != nullptr && malloc_usable_size(p) >= n && !in_heap(p));
    fill(p, n, 9);
    p = realloc(p, 2 * n);
    CHECK(p != nullptr);
    verify(p, n / 8 * 8, 9, "a block of libc after realloc");
    free(p);
    void* q = __libc_malloc(n);
    free(q);
  }
}

HEAP_TEST(SwitchesOfLibc) {
  CHECK(mallopt(M_MMAP_THRESHOLD, 64 * 1024) == 1);
  CHECK(mallopt(M_TRIM_THRESHOLD, 1 << 20) == 1);
  CHECK(mallopt(M_TOP_PAD, 1 << 16) == 1);
  CHECK(mallopt(M_MMAP_MAX, 1000) == 1);
  CHECK(mallopt(M_ARENA_MAX, 2) == 1);
  CHECK(mallopt(M_PERTURB, 0x5A) == 1);
  for (int round = 0; round < 20; ++round) {
    for (const size_t n : {size_t{1000}, 64 * kKiB, kMiB, 8 * kMiB}) {
      void* p = malloc(n);
      fill(p, n, n);
      verify(p, n, n, "with libc's switches set");
      free(p);
      p = calloc(1, n);
      verify_zero(p, n, "calloc with M_PERTURB");
      free(p);
    }
    malloc_trim(0);
    const struct mallinfo2 info = mallinfo2();
    CHECK(info.uordblks <= info.arena);
  }
  FILE* null = fopen("/dev/null", "w");
  CHECK(null != nullptr && malloc_info(0, null) == 0);
  fclose(null);
  malloc_stats();
}

HEAP_ENTRY(blocks_of_all_sizes) {
  for (int round = 0; round < 20; ++round) {
    for (const size_t n : {size_t{1000}, 64 * kKiB, kMiB, 8 * kMiB}) {
      auto* p = static_cast<char*>(malloc(n));
      CHECK(p != nullptr);
      // Memory in huge pages stays private, where shared memory would have small ones.
      if (n > 64 * kKiB && getenv("ZH_TEST_HUGE_PAGES") == nullptr) CHECK_SERVED(p);
      fill(p, n, n);
      p = static_cast<char*>(realloc(p, n + n / 3));
      verify(p, n / 8 * 8, n, "after realloc");
      free(p);
      p = static_cast<char*>(calloc(1, n));
      verify_zero(p, n, "calloc");
      free(p);
    }
  }
  return 0;
}

HEAP_TEST(TunablesOfLibc) {  // long
  const char* const settings[][2] = {{"GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=65536:glibc.malloc.arena_max=1"},
                                     {"GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.mmap_max=0"},
                                     {"GLIBC_TUNABLES", "glibc.malloc.perturb=123"},
                                     {"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"},
                                     {"MALLOC_ARENA_MAX", "1"},
                                     {"MALLOC_MMAP_THRESHOLD_", "4096"},
                                     {"MALLOC_PERTURB_", "99"},
                                     {"MALLOC_CHECK_", "3"}};
  for (const auto& setting : settings) {
    const Outcome outcome = rerun("blocks_of_all_sizes", [&] {
      setenv(setting[0], setting[1], 1);
      if (strstr(setting[1], "hugetlb") != nullptr) setenv("ZH_TEST_HUGE_PAGES", "1", 1);
    });
    CHECK(outcome.status == 0, "under %s=%s", setting[0], setting[1]);
  }
}

}  // namespace
}  // namespace zh::heap_test
