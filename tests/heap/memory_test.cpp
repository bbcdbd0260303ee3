// How much memory a program takes: after forks, when large blocks grow, and for what it never touches.
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "heap_test.h"

namespace zh::heap_test {
namespace {

constexpr size_t kSize = 400 * kMiB;

unsigned char g_bss[kGiB];

/// Memory in zerohop's files, which may be in nobody's mapping.
size_t file_bytes() {
  size_t sum = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    char path[64];
    char name[256];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(path, name, sizeof name - 1);
    struct stat about {};
    if (n <= 0) continue;
    name[n] = 0;
    if (strstr(name, "memfd:zerohop-heap") != nullptr && fstat(fd, &about) == 0)
      sum += static_cast<size_t>(about.st_blocks) * 512;
  }
  return sum;
}

unsigned char* shared_block(size_t n) {
  auto* p = static_cast<unsigned char*>(malloc(n));
  CHECK(p != nullptr);
  stamp(p, n, 1);
  if (mode() != Mode::kBare) CHECK(share(p, n) == 0);
  return p;
}

HEAP_TEST(SharingDoesNotDouble) {
  const size_t before = resident_bytes();
  unsigned char* p = shared_block(kSize);
  CHECK(resident_bytes() < before + kSize + 16 * kMiB, "%zu MiB resident", resident_bytes() / kMiB);
  CHECK(peak_resident_bytes() < before + kSize + 24 * kMiB, "%zu MiB at most", peak_resident_bytes() / kMiB);
  if (mode() != Mode::kBare) CHECK(file_bytes() < kSize + 16 * kMiB && file_bytes() > kSize - 16 * kMiB);
  free(p);
  CHECK(file_bytes() < 40 * kMiB, "%zu MiB in files after free", file_bytes() / kMiB);
  CHECK(resident_bytes() < before + 48 * kMiB, "%zu MiB resident after free", resident_bytes() / kMiB);
  CHECK(file_bytes() < 16 * kMiB, "%zu MiB in files after forks and free", file_bytes() / kMiB);
}

HEAP_TEST(ForksDoNotDouble) {
  const size_t before = resident_bytes();
  unsigned char* p = shared_block(kSize);
  constexpr int kChildren = 3;
  const Gate ready[kChildren];
  const Gate read[kChildren];
  const Gate end[kChildren];
  int children[kChildren];
  for (int i = 0; i < kChildren; ++i) {
    children[i] = fork_child([&] {
      verify_stamp(p, kSize, 1, "a child's view", 64 * kKiB);
      ready[i].open();
      read[i].wait();
      CHECK(proportional_bytes() < kSize / 2 + kSize / 8, "%zu MiB are this child's", proportional_bytes() / kMiB);
      ready[i].open();
      end[i].wait();
    });
    ready[i].wait();
    verify_stamp(p, kSize, 1, "the parent's view", 64 * kKiB);  // what both have read is of both
    read[i].open();
    ready[i].wait();
  }
  CHECK(proportional_bytes() < before + kSize / (kChildren + 1) + 32 * kMiB, "%zu MiB are the parent's",
        proportional_bytes() / kMiB);
  CHECK(peak_resident_bytes() < before + kSize + 32 * kMiB, "%zu MiB at most", peak_resident_bytes() / kMiB);
  for (int i = 0; i < kChildren; ++i) {
    end[i].open();
    join_child(children[i], "a child");
  }
  for (int i = 0; i < 3; ++i) CHECK(system("true") == 0);
  verify_stamp(p, kSize, 1, "the parent's");
  CHECK(resident_bytes() < before + kSize + 16 * kMiB);
  free(p);
  CHECK(resident_bytes() < before + 48 * kMiB, "%zu MiB resident after free", resident_bytes() / kMiB);
}

HEAP_TEST(GrowingDoesNotDouble) {
  const size_t before = resident_bytes();
  unsigned char* p = shared_block(600 * kMiB);
  const size_t last = 600 * kMiB - kPage;
  CHECK(memset(p + last, 7, 100) != nullptr);
  for (const size_t n : {700 * kMiB, 800 * kMiB, 650 * kMiB}) {
    p = static_cast<unsigned char*>(realloc(p, n));
    CHECK(p != nullptr && p[last] == 7 && p[last + 99] == 7);
  }
  // The library that shares takes the first part of each block only, and libc copies a block of which a part comes
  // back: the system moves one mapping at a time.
  if (mode() == Mode::kShared) return;
  CHECK(peak_resident_bytes() < before + 600 * kMiB + 250 * kMiB, "%zu MiB at most", peak_resident_bytes() / kMiB);
  free(p);
}

HEAP_TEST(ReadingUntouchedMemoryCostsNothing) {
  const size_t before = resident_bytes();
  size_t sum = 0;
  for (size_t i = 0; i < sizeof g_bss; i += kPage) sum += g_bss[i];
  if (mode() != Mode::kShared) {  // the sharing library writes to blocks
    auto* p = static_cast<unsigned char*>(calloc(3, kGiB));
    CHECK(p != nullptr);
    for (size_t i = 0; i < 3 * kGiB; i += kPage) sum += p[i];
    free(p);
  }
  CHECK(sum == 0);
  CHECK(peak_resident_bytes() < before + 32 * kMiB, "%zu MiB at most", peak_resident_bytes() / kMiB);
  if (mode() != Mode::kBare) CHECK(share(g_bss, sizeof g_bss) == EAGAIN);
  CHECK(peak_resident_bytes() < before + 32 * kMiB && file_bytes() < kMiB);
}

}  // namespace
}  // namespace zh::heap_test
