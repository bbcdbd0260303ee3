// Allocation at unusual times: before constructors, in constructors, in destructors, exit handlers and thread exit.
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "heap_test.h"

namespace zh::heap_test {
namespace {

constexpr size_t kBlock = 300000;

void* g_preinit = nullptr;
void* g_constructor = nullptr;
std::vector<double>* g_static = new std::vector<double>(kBlock / 8, 1.5);
std::vector<double> g_destroyed_last(kBlock / 8, 2.5);
bool g_announce = false;

void announce(char what) {
  if (g_announce) (void)!write(STDOUT_FILENO, &what, 1);
}

void* fresh(uint64_t seed) {
  void* p = malloc(kBlock);
  CHECK(p != nullptr);
  fill(p, kBlock, seed);
  return p;
}

// Runs before the constructors of every library, the preloaded one included.
void preinit() { g_preinit = fresh(1); }
__attribute__((section(".preinit_array"), used)) void (*const g_preinit_entry)() = preinit;

__attribute__((constructor(101))) void first_constructor() { g_constructor = fresh(2); }

__attribute__((destructor(101))) void last_destructor() {
  if (!g_announce) return;
  void* p = realloc(fresh(3), 2 * kBlock);
  verify(p, kBlock, 3, "a block of the last destructor");
  free(p);
  announce('d');
}

struct AtDestruction {
  ~AtDestruction() {
    if (!g_announce) return;
    verify(g_preinit, kBlock, 1, "the first block, at the end");
    free(g_preinit);
    free(fresh(4));
    announce('s');
  }
} g_object;

HEAP_TEST(BlocksFromBeforeMain) {
  verify(g_preinit, kBlock, 1, "preinit_array");
  verify(g_constructor, kBlock, 2, "constructor");
  g_preinit = realloc(g_preinit, 3 * kBlock);
  g_constructor = realloc(g_constructor, 1000);
  verify(g_preinit, kBlock, 1, "preinit_array, reallocated");
  verify(g_constructor, 1000, 2, "constructor, reallocated");
  free(g_preinit);
  free(g_constructor);
  CHECK((*g_static)[77] == 1.5);
  delete g_static;
  // main's memory is the heap's whatever came before.
  void* p = malloc(kBlock);
  CHECK_SERVED(p);
  free(p);
}

void at_exit_one() {
  free(fresh(5));
  announce('a');
}
void at_exit_two(int, void* block) {
  verify(block, kBlock, 6, "a block for an exit handler");
  free(realloc(block, 2 * kBlock));
  announce('b');
}
void at_quick_exit_one() {
  free(fresh(8));
  announce('q');
}

HEAP_ENTRY(exit_with_handlers) {
  g_announce = true;
  atexit(at_exit_one);
  on_exit(at_exit_two, fresh(6));
  static thread_local std::vector<int> local(kBlock, 7);
  local[3] = 8;
  return 0;
}
HEAP_ENTRY(quick_exit_with_handlers) {
  g_announce = true;
  at_quick_exit(at_quick_exit_one);
  quick_exit(0);
}

HEAP_TEST(ExitHandlersAllocateAndFree) {
  const Outcome at_exit = rerun("exit_with_handlers");
  CHECK(at_exit.status == 0 && strcmp(at_exit.said, "basd") == 0, "the handlers said '%s'", at_exit.said);
  const Outcome quick = rerun("quick_exit_with_handlers");
  CHECK(quick.status == 0 && strcmp(quick.said, "q") == 0, "the handlers said '%s'", quick.said);
}

pthread_key_t g_key;
void key_destructor(void* block) {
  static __thread int rounds = 0;
  verify(block, kBlock, 9, "a block of a thread");
  free(block);
  if (++rounds < 3) pthread_setspecific(g_key, fresh(9));  // libc calls again
}
struct ThreadLocal {
  std::vector<char> bytes = std::vector<char>(kBlock, 'x');
  ~ThreadLocal() {
    CHECK(bytes[kBlock - 1] == 'x');
    free(fresh(10));
  }
};

HEAP_TEST(ThreadsEndWithTheirMemory) {
  CHECK(pthread_key_create(&g_key, key_destructor) == 0);
  for (int round = 0; round < 50; ++round) {
    std::thread threads[4];
    void* blocks[4];
    for (size_t i = 0; i < 4; ++i) {
      threads[i] = std::thread([block = &blocks[i]] {
        static thread_local ThreadLocal local;
        local.bytes[0] = 'y';
        pthread_setspecific(g_key, fresh(9));
        *block = fresh(11);
      });
    }
    for (size_t i = 0; i < 4; ++i) {
      threads[i].join();
      verify(blocks[i], kBlock, 11, "a block that a thread left behind");
      free(blocks[i]);
    }
  }
}

}  // namespace
}  // namespace zh::heap_test
