// A Fortran program's COMMON block, module arrays and allocatable arrays over fork.
#include <cerrno>
#include <cstdlib>

#include "heap_test.h"

extern "C" {
void zh_common_write(int seed);
int zh_common_wrong(int seed);
int zh_allocate_sum(int n);
void* zh_common_place();
}

namespace zh::heap_test {
namespace {

HEAP_TEST(CommonBlockOverFork) {
  zh_common_write(1);
  if (mode() != Mode::kBare) {
    CHECK(share(zh_common_place(), kMiB) == 0);
    CHECK(block_in_heap(zh_common_place()));
    CHECK(zh_common_wrong(1) == 0);
  }
  const Gate wrote;
  const Gate checked;
  const int child = fork_child([&] {
    CHECK(zh_common_wrong(1) == 0);
    zh_common_write(2);
    wrote.open();
    checked.wait();
    CHECK(zh_common_wrong(2) == 0, "the child sees %d foreign values", zh_common_wrong(2));
    CHECK(zh_allocate_sum(1000000) == 1000000);
  });
  wrote.wait();
  CHECK(zh_common_wrong(1) == 0, "the parent sees %d foreign values", zh_common_wrong(1));
  zh_common_write(3);
  CHECK(zh_allocate_sum(3000000) == 3000000);
  checked.open();
  join_child(child, "the child");
  CHECK(zh_common_wrong(3) == 0);
}

}  // namespace
}  // namespace zh::heap_test
