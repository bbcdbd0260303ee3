// A library with large global data that comes and goes: dlopen, dlclose, and dlopen again at what is mostly the same
// place.
#include <dlfcn.h>

#include <cstdlib>

#include "heap_test.h"

namespace zh::heap_test {
namespace {

struct Library {
  void* handle = nullptr;
  size_t bytes = 0;
  void* bss = nullptr;
  void* data = nullptr;
  int (*check)() = nullptr;

  void open(int flags) {
    handle = dlopen(ZH_GLOBALS_LIBRARY, flags);
    CHECK(handle != nullptr, "%s", dlerror());
    bytes = symbol<size_t (*)()>("zh_library_bytes")();
    bss = symbol<void* (*)()>("zh_library_bss")();
    data = symbol<void* (*)()>("zh_library_data")();
    check = symbol<int (*)()>("zh_library_check");
  }
  template <class Function>
  Function symbol(const char* name) const {
    void* at = dlsym(handle, name);
    CHECK(at != nullptr, "%s", name);
    return reinterpret_cast<Function>(at);
  }
};

HEAP_TEST(LoadedAndUnloaded) {
  for (uint64_t round = 0; round < 20; ++round) {
    Library library;
    library.open(RTLD_NOW | (round % 2 == 0 ? RTLD_LOCAL : RTLD_GLOBAL));
    CHECK(library.check() == 0, "round %d: %d", static_cast<int>(round), library.check());
    fill(library.bss, library.bytes, round);
    fill(library.data, library.bytes, round + 1);
    const int child = fork_child([&] {
      verify(library.bss, library.bytes, round, "a loaded library's data in the child");
      fill(library.bss, library.bytes, round + 5);
      fill(library.data, library.bytes, round + 6);
      CHECK(dlclose(library.handle) == 0);
      Library again;
      again.open(RTLD_NOW);
      CHECK(again.check() == 0);
    });
    join_child(child, "the child");
    verify(library.bss, library.bytes, round, "a loaded library's data");
    verify(library.data, library.bytes, round + 1, "a loaded library's initialised data");
    void* beside = malloc(library.bytes);
    fill(beside, library.bytes, round + 2);
    CHECK(dlclose(library.handle) == 0);
    Mapping mapping;
    CHECK(!mapping_of(library.bss, &mapping) || !in_heap(library.bss), "the unloaded library's data is still there");
    verify(beside, library.bytes, round + 2, "a block beside a library that was unloaded");
    free(beside);
  }
}

}  // namespace
}  // namespace zh::heap_test
