// Handlers of a fork that others have registered, before the heap's own could be: they may allocate, and what they do
// in the child is the child's alone.
#include <unistd.h>

#include <cstdlib>

#include "heap_test.h"

extern "C" {
int zh_handlers_state();
int zh_handlers_runs();
}

namespace zh::heap_test {
namespace {

void forks_beside(size_t bytes) {
  void* block = malloc(bytes);
  CHECK_SERVED(block);
  fill(block, bytes, 1);
  alarm(30);  // they must not wait for each other
  for (int round = 1; round <= 3; ++round) {
    join_child(fork_child([&] {
                 CHECK(zh_handlers_state() == 1, "the child's handler has not run");
                 verify(block, bytes, 1, "a block in the child");
                 fill(block, bytes, 2);
               }),
               "the child");
    CHECK(zh_handlers_state() == 0, "the child's handler wrote to the parent's data");
    CHECK(zh_handlers_runs() == 2 * round, "%d runs", zh_handlers_runs());
    verify(block, bytes, 1, "a block in the parent");
  }
  free(block);
}

HEAP_TEST(WithLittleMemory) { forks_beside(kMiB); }
HEAP_TEST(WithMuchMemory) { forks_beside(40 * kMiB); }

}  // namespace
}  // namespace zh::heap_test
