/* Memory of other kinds: huge pages, files, a program of 32 bits. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "test.h"

enum { kHuge = 2 << 20 };
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* KiB that /proc counts by this name, of the mapping that begins at `at`, or with NULL of the whole process. */
static uint64_t counted_kib(const void* at, const char* name) {
  char line[256], first[32];
  uint64_t kib = 0;
  int here = !at;
  const int length = snprintf(first, sizeof first, "%lx-", (unsigned long)at);
  FILE* file = fopen(at ? "/proc/self/smaps" : "/proc/self/smaps_rollup", "r");
  CHECK(file);
  while (fgets(line, sizeof line, file)) {
    if (at && strncmp(line, first, (size_t)length) == 0) here = 1;
    if (here && strncmp(line, name, strlen(name)) == 0) kib += strtoull(line + strlen(name) + 1, NULL, 10);
    if (at && strncmp(line, "VmFlags", 7) == 0) here = 0;
  }
  fclose(file);
  return kib;
}

static uint64_t dirty_kib(const void* at) { return counted_kib(at, "Shared_Dirty") + counted_kib(at, "Private_Dirty"); }

/* Others may read it. */
static uint64_t readable(int fd, const void* at, uint64_t bytes) {
  uint64_t region = 0;
  CHECK(make_region(fd, at, bytes, ZEROHOP_READ, &region) == 0 && region > 0);
  return region;
}

/* Bytes on the limit of huge pages, aligned to them; `are_huge`: or small ones where huge ones could be. */
static char* huge_range(uint64_t bytes, int are_huge) {
  char* at = pages(bytes + kHuge);
  at += kHuge - (uintptr_t)at % kHuge;
  CHECK(madvise(at, bytes, are_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0);
  fill(at, bytes, 1);
  CHECK(counted_kib(NULL, "AnonHugePages") == (are_huge ? bytes >> 10 : 0));
  return at;
}

/* Reads and writes over the limits of pages, small and huge. */
static void is_reached(int fd, uint64_t region, char* at, unsigned seed) {
  const uint64_t bytes = kHuge + 5 * kPage + 99, from = kHuge - kPage - 17;
  char* here = malloc(bytes);
  CHECK(copy_from(fd, region, from, here, bytes, NULL) == 0 && memcmp(here, at + from, bytes) == 0);
  fill(here, bytes, seed);
  CHECK(copy_to(fd, region, from, here, bytes, NULL) == 0 && is_filled(at + from, bytes, seed));
  free(here);
}

/* The region is gone, or reaches the owner's pages; a new one reaches them. */
static void is_true(int fd, uint64_t region, char* at, uint64_t bytes) {
  unsigned char byte;
  for (uint64_t i = 0; i < bytes; i += kPage) {
    at[i] = (char)(i >> 12);
    if (copy_from(fd, region, i, &byte, 1, NULL) == 0)
      CHECK(byte == (unsigned char)(i >> 12));
    else
      CHECK(errno == ENOENT);
  }
  is_reached(fd, region_of(fd, at, bytes), at, 3);
}

static void transparent_huge_pages(void) {
  const int fd = joined(130);
  char byte, *at = huge_range(3 * kHuge, 1);
  CHECK(drop_region(fd, readable(fd, at, 3 * kHuge)) == 0);
  const uint64_t region = region_of(fd, at, 3 * kHuge);
  CHECK(pinned_kib() == 3 * kHuge / 1024 && counted_kib(NULL, "AnonHugePages") == 3 * kHuge / 1024);
  is_reached(fd, region, at, 2);
  CHECK(mprotect(at + kHuge + kPage, kPage, PROT_READ) == 0); /* which splits the mapping */
  CHECK(mprotect(at + kHuge + kPage, kPage, PROT_READ | PROT_WRITE) == 0);
  is_true(fd, region, at, 3 * kHuge);
  const uint64_t second = region_of(fd, at, 3 * kHuge);
  CHECK(munmap(at + kHuge + 5 * kPage, kPage) == 0);
  FAILS(copy_from(fd, second, 0, &byte, 1, NULL), ENOENT);
  unpinned(fd);
}

static void huge_pages_made_below(void) {
  const int fd = joined(131);
  char* at = huge_range(3 * kHuge, 0);
  const uint64_t region = region_of(fd, at, 3 * kHuge);
  CHECK(madvise(at, 3 * kHuge, MADV_HUGEPAGE) == 0);
  if (madvise(at, 3 * kHuge, MADV_COLLAPSE) == 0) printf("    collapsed\n");
  is_true(fd, region, at, 3 * kHuge);
}

static void huge_pages_of_the_system(void) {
  FILE* file = fopen("/proc/sys/vm/nr_hugepages", "w");
  CHECK(file && fputs("3", file) >= 0 && fclose(file) == 0);
  become(kUser);
  const int fd = joined(132), kind = MAP_ANONYMOUS | MAP_HUGETLB;
  char byte, *at = mmap(NULL, 3 * kHuge, PROT_READ | PROT_WRITE, kind | MAP_PRIVATE, -1, 0);
  CHECK(at != MAP_FAILED);
  fill(at, 3 * kHuge, 1);
  FAILS(make_region(fd, at, 3 * kHuge, ZEROHOP_READ | ZEROHOP_WRITE, NULL), EFAULT);
  FAILS(make_region(fd, at, 3 * kHuge, ZEROHOP_READ, NULL), EFAULT);
  const pid_t child = fork(); /* no page is free for a copy */
  if (child == 0) _exit(is_filled(at, 3 * kHuge, 1) ? 0 : 1);
  ends_well(child);
  CHECK(munmap(at, 3 * kHuge) == 0);

  at = mmap(NULL, 3 * kHuge, PROT_READ | PROT_WRITE, kind | MAP_SHARED, -1, 0);
  CHECK(at != MAP_FAILED);
  fill(at, 3 * kHuge, 1);
  const uint64_t region = region_of(fd, at, 3 * kHuge);
  is_reached(fd, region, at, 2);
  CHECK(munmap(at + kHuge, kHuge) == 0);
  FAILS(copy_from(fd, region, 0, &byte, 1, NULL), ENOENT);
  unpinned(fd);
}

/* Of what is only read, neither it nor the owner's view of it may change. */
static void files(void) {
  static const char kPath[] = "/tmp/ram/file";
  mkdir("/tmp", 0755);
  mkdir("/tmp/ram", 0755);
  CHECK(mount("ram", "/tmp/ram", "ramfs", 0, NULL) == 0);
  const int file = open(kPath, O_RDWR | O_CREAT, 0644), fd = joined(133);
  CHECK(file >= 0 && ftruncate(file, 2 * kPage) == 0);
  char byte = 3, *shared = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  char* own = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  CHECK(shared != MAP_FAILED && own != MAP_FAILED);
  const int input = open(kPath, O_RDONLY);
  char* constant = mmap(NULL, kPage, PROT_READ, MAP_SHARED, input, 0);
  CHECK(constant != MAP_FAILED && drop_region(fd, readable(fd, constant, kPage)) == 0);
  CHECK(munmap(constant, kPage) == 0 && close(input) == 0);
  FAILS(make_region(fd, shared, kPage, ZEROHOP_WRITE, NULL), EFAULT);
  FAILS(make_region(fd, own, kPage, ZEROHOP_READ, NULL), EFAULT);
  CHECK(drop_region(fd, readable(fd, shared, kPage)) == 0);
  unpinned(fd);
  const uint64_t region = readable(fd, shared, kPage);
  CHECK(dirty_kib(shared) == 0 && counted_kib(own, "Anonymous") == 0);
  CHECK(pwrite(file, &byte, 1, 0) == 1 && own[0] == 3);
  byte = 0;
  CHECK(copy_from(fd, region, 0, &byte, 1, NULL) == 0 && byte == 3);
  byte = 5;
  CHECK(copy_to(fd, region_of(fd, own, kPage), 0, &byte, 1, NULL) == 0 && own[0] == 5 && shared[0] == 3);
  readable(fd, own, kPage);
  close(fd);
  CHECK(munmap(shared, kPage) == 0 && munmap(own, kPage) == 0 && close(file) == 0);
  CHECK(umount("/tmp/ram") == 0);
}

static void never_touched(void) {
  const int fd = joined(135);
  char* at = pages(16 * kPage);
  at[3 * kPage] = 1;
  FAILS(make_region(fd, at, 16 * kPage, ZEROHOP_READ, NULL), EFAULT);
  CHECK(counted_kib(at, "Anonymous") == kPage / 1024);
  readable(fd, at + 3 * kPage, kPage);
  region_of(fd, at, 16 * kPage); /* what is written to becomes its own */
  CHECK(counted_kib(at, "Anonymous") == 16 * kPage / 1024);
  CHECK(mprotect(at, 16 * kPage, PROT_READ) == 0);
  readable(fd, at, 16 * kPage);
  FAILS(make_region(fd, at, kPage, ZEROHOP_WRITE, NULL), EFAULT);
}

static void shared_with_a_child(void) {
  const int fd = joined(136);
  struct Turns t;
  char* at = pages(2 * kPage);
  fill(at, 2 * kPage, 1);
  if (with_child(&t) == 0) {
    hear(&t);
    _exit(is_filled(at, 2 * kPage, 1) ? 0 : 1);
  }
  FAILS(make_region(fd, at, 2 * kPage, ZEROHOP_READ, NULL), EFAULT);
  CHECK(dirty_kib(at) > 0 && counted_kib(at, "Private_Dirty") == 0);
  fill(at, 2 * kPage, 2);
  readable(fd, at, 2 * kPage);
  say(&t, 0);
  ends_well(t.child);
}

/* Its first page stays the parent's own. */
static void huge_page_shared_with_a_child(void) {
  const int fd = joined(137);
  struct Turns t;
  char* at = huge_range(kHuge, 1);
  CHECK(madvise(at, kPage, MADV_DONTFORK) == 0);
  fill(at + kPage, kHuge - kPage, 2);
  if (with_child(&t) == 0) {
    hear(&t);
    _exit(is_filled(at + kPage, kHuge - kPage, 2) ? 0 : 1);
  }
  FAILS(make_region(fd, at + kPage, kHuge - kPage, ZEROHOP_READ, NULL), EFAULT);
  readable(fd, at, kPage);
  say(&t, 0);
  ends_well(t.child);
}

static void refused_before_others_go(void) {
  enum { kPages = 8 };
  limit_locked(kPages * kPage);
  const int fd = joined(138);
  char byte, *good = pages(kPages * kPage), *bad = pages(kPages * kPage);
  fill(good, kPages * kPage, 1);
  fill(bad, (kPages - 1) * kPage, 1);
  const uint64_t region = readable(fd, good, kPages * kPage);
  FAILS(make_region(fd, bad, kPages * kPage, ZEROHOP_READ, NULL), EFAULT);
  CHECK(copy_from(fd, region, 0, &byte, 1, NULL) == 0 && statistics(fd).evicted == 0);
}

static void stack(void) {
  char bytes[3 * kPage], here[3 * kPage];
  const int fd = joined(134);
  fill(bytes, sizeof bytes, 4);
  CHECK(copy_from(fd, region_of(fd, bytes, sizeof bytes), 0, here, sizeof here, NULL) == 0);
  CHECK(is_filled(here, sizeof here, 4));
}

static void of_32_bits(void) {
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/word32", "word32", NULL);
    _exit(127);
  }
  ends_well(child);
}

const struct Case kMemoryCases[] = {
    {"memory.transparent_huge_pages", transparent_huge_pages, 0},
    {"memory.huge_pages_made_below", huge_pages_made_below, 0},
    {"memory.huge_pages_of_the_system", huge_pages_of_the_system, 1},
    {"memory.files", files, 1},
    {"memory.never_touched", never_touched, 0},
    {"memory.shared_with_a_child", shared_with_a_child, 0},
    {"memory.huge_page_shared_with_a_child", huge_page_shared_with_a_child, 0},
    {"memory.refused_before_others_go", refused_before_others_go, 0},
    {"memory.stack", stack, 0},
    {"abi.of_32_bits", of_32_bits, 0},
    {0},
};
