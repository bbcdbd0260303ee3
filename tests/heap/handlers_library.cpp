// A library with handlers of a fork, registered when it is loaded, before the preloaded library decides anything: they
// allocate and free large blocks, and the child's one writes to the library's large data.
#include <pthread.h>

#include <cstdlib>
#include <cstring>

#define ZH_EXPORT extern "C" __attribute__((visibility("default")))

ZH_EXPORT int zh_handlers_state();
ZH_EXPORT int zh_handlers_runs();

namespace {
constexpr size_t kBytes = 2u << 20;
unsigned char g_state[kBytes];
int g_runs;
void* g_kept;

void use_memory() {
  ++g_runs;
  void* block = malloc(200'000);
  memset(block, 1, 200'000);
  free(g_kept);
  g_kept = block;
}
void in_child() {
  use_memory();
  g_state[kBytes / 2] = 1;
}
__attribute__((constructor)) void load() { pthread_atfork(&use_memory, &use_memory, &in_child); }
}  // namespace

int zh_handlers_state() { return g_state[kBytes / 2]; }
int zh_handlers_runs() { return g_runs; }
