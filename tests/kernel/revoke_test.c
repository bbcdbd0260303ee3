/* The owner changes its mapping while others reach it: they see its old bytes, its new ones or nothing, never
 * another's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/wait.h>

#include "test.h"

enum { kBytes = 16 * kPage };

/* After what `change` does to a region, nobody reaches it by its number, and its pages are not pinned. */
static void is_revoked_by(void (*change)(char* at)) {
  const int fd = joined(40);
  char here[64], *at = pages(kBytes);
  fill(at, kBytes, 1);
  const uint64_t region = region_of(fd, at, kBytes);
  CHECK(copy_from(fd, region, 0, here, sizeof here, NULL) == 0);
  change(at);
  FAILS(copy_from(fd, region, 0, here, sizeof here, NULL), ENOENT);
  FAILS(copy_to(fd, region, 0, here, sizeof here, NULL), ENOENT);
  unpinned(fd);
  CHECK(statistics(fd).revoked == 1 && pinned_kib() == 0);
}

static void unmap(char* at) { CHECK(munmap(at + kPage, kPage) == 0); }
static void remap(char* at) {
  CHECK(mremap(at, kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages(kBytes)) != MAP_FAILED);
}
static void shrink(char* at) { CHECK(mremap(at, kBytes, kPage, 0) != MAP_FAILED); }
static void discard(char* at) { CHECK(madvise(at + 3 * kPage, kPage, MADV_DONTNEED) == 0); }
static void replace(char* at) {
  CHECK(mmap(at, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
  fill(at, kBytes, 2);
}
static void fork_over(char* at) {
  (void)at;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ends_well(child);
}
static void fork_and_exec(char* at) {
  (void)at;
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/true", "true", NULL);
    _exit(1);
  }
  ends_well(child);
}

static void by_unmap(void) { is_revoked_by(unmap); }
static void by_mremap(void) { is_revoked_by(remap); }
static void by_shrinking(void) { is_revoked_by(shrink); }
static void by_dontneed(void) { is_revoked_by(discard); }
static void by_mmap_over_it(void) { is_revoked_by(replace); }
static void by_fork(void) { is_revoked_by(fork_over); }
static void by_fork_and_exec(void) { is_revoked_by(fork_and_exec); }

/* As network cards do: protection is of the owner's own accesses. */
static void mprotect_keeps_the_region(void) {
  const int fd = joined(48);
  char here[64], *at = pages(kBytes);
  fill(at, kBytes, 1);
  const uint64_t region = region_of(fd, at, kBytes);
  CHECK(mprotect(at, kBytes, PROT_READ) == 0);
  CHECK(copy_from(fd, region, 0, here, sizeof here, NULL) == 0 && is_filled(here, sizeof here, 1));
  fill(here, sizeof here, 2);
  CHECK(copy_to(fd, region, 0, here, sizeof here, NULL) == 0 && is_filled(at, sizeof here, 2));
  CHECK(statistics(fd).revoked == 0);
}

static void by_truncate(void) {
  const int fd = joined(41), file = memfd_create("truncated", 0);
  char byte;
  CHECK(file >= 0 && ftruncate(file, kBytes) == 0);
  char* at = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(at != MAP_FAILED);
  const uint64_t region = region_of(fd, at, kBytes);
  CHECK(copy_from(fd, region, 0, &byte, 1, NULL) == 0);
  CHECK(ftruncate(file, 0) == 0);
  FAILS(copy_from(fd, region, 0, &byte, 1, NULL), ENOENT);
}

static void by_exit_of_the_owner(void) {
  const int fd = joined(42);
  struct Turns t;
  char byte;
  if (with_child(&t) == 0) {
    char* at = pages(kBytes);
    say(&t, region_of(joined(42), at, kBytes));
    hear(&t);
    _exit(0);
  }
  const uint64_t region = hear(&t);
  CHECK(copy_from(fd, region, 0, &byte, 1, NULL) == 0);
  say(&t, 0);
  ends_well(t.child);
  FAILS(copy_from(fd, region, 0, &byte, 1, NULL), ENOENT);
  unpinned(fd);
  CHECK(statistics(fd).members == 1);
}

/* The file lives on in a child of the owner, the mapping does not. */
static void by_exit_with_the_file_kept(void) {
  const int fd = joined(43);
  struct Turns t;
  char byte;
  if (with_child(&t) == 0) {
    const int own = joined(43);
    if (fork() == 0) {
      sleep(60);
      _exit(0);
    }
    say(&t, region_of(own, pages(kBytes), kBytes));
    hear(&t);
    _exit(0);
  }
  const uint64_t region = hear(&t);
  CHECK(copy_from(fd, region, 0, &byte, 1, NULL) == 0);
  say(&t, 0);
  ends_well(t.child);
  FAILS(copy_from(fd, region, 0, &byte, 1, NULL), ENOENT);
  CHECK(statistics(fd).members == 2);
}

/* The owner's own writes, and a child's, after a fork: the new region has the owner's pages. */
static void fork_leaves_the_owner_its_pages(void) {
  const int fd = joined(44);
  char here[64], *at = pages(kBytes);
  fill(at, kBytes, 1);
  const uint64_t pinned = region_of(fd, at, kBytes);
  struct Turns t;
  if (with_child(&t) == 0) {
    hear(&t);
    CHECK(is_filled(at, kBytes, 1)); /* what was there at the fork */
    fill(at, kBytes, 3);
    say(&t, 0);
    hear(&t);
    _exit(0);
  }
  fill(at, kBytes, 2);
  const uint64_t region = region_of(fd, at, kBytes);
  say(&t, 0);
  hear(&t);
  FAILS(copy_from(fd, pinned, 0, here, sizeof here, NULL), ENOENT);
  CHECK(copy_from(fd, region, 0, here, sizeof here, NULL) == 0 && is_filled(here, sizeof here, 2));
  fill(at, kBytes, 5);
  CHECK(copy_from(fd, region, 0, here, sizeof here, NULL) == 0 && is_filled(here, sizeof here, 5));
  fill(here, sizeof here, 6);
  CHECK(copy_to(fd, region, 0, here, sizeof here, NULL) == 0 && is_filled(at, sizeof here, 6));
  say(&t, 0);
  ends_well(t.child);
}

/* Copies go on while the owner takes the memory away and others get it: each page has one owner's bytes. */
static void changes_while_copying(void) {
  enum { kRounds = 300 };
  struct Turns t;
  if (with_child(&t) == 0) {
    const int fd = joined(46);
    unsigned char* here = malloc(kBytes);
    for (int round = 0; round < kRounds; round++) {
      const uint64_t region = hear(&t);
      say(&t, 0);
      for (uint64_t copied = kBytes; copied == kBytes;) {
        memset(here, 0xEE, kBytes);
        copy_from(fd, region, 0, here, kBytes, &copied);
        for (uint64_t i = 0; i < copied; i += 64) CHECK(here[i] == 0x11 || here[i] == 0);
      }
    }
    _exit(0);
  }
  const int fd = joined(46);
  for (int round = 0; round < kRounds; round++) {
    char* at = pages(kBytes);
    memset(at, 0x11, kBytes);
    say(&t, region_of(fd, at, kBytes));
    hear(&t);
    if (round % 3 == 0) CHECK(madvise(at, kBytes, MADV_DONTNEED) == 0);
    CHECK(munmap(at, kBytes) == 0);
    char* other = pages(kBytes); /* often the same pages */
    memset(other, 0x77, kBytes);
    CHECK(munmap(other, kBytes) == 0);
  }
  ends_well(t.child);
}

static void killed(int owner) {
  for (int round = 0; round < 20; round++) {
    struct Turns o, c;
    const int fd = joined(47);
    if (with_child(&o) == 0) {
      char* at = pages(256 * kPage);
      say(&o, region_of(joined(47), at, 256 * kPage));
      pause();
    }
    const uint64_t region = hear(&o);
    if (with_child(&c) == 0) {
      char* here = pages(256 * kPage);
      const int own = joined(47);
      say(&c, 0);
      while (copy_from(own, region, 0, here, 256 * kPage, NULL) == 0) continue;
      CHECK(errno == ENOENT);
      _exit(0);
    }
    hear(&c);
    usleep((unsigned)round * 700);
    int status = 0;
    CHECK(kill(owner ? o.child : c.child, SIGKILL) == 0);
    if (owner) ends_well(c.child);
    CHECK(waitpid(owner ? o.child : c.child, &status, 0) > 0 && WIFSIGNALED(status));
    CHECK(statistics(fd).members == (owner ? 1u : 2u));
    if (!owner) {
      CHECK(statistics(fd).pages == 256);
      kill(o.child, SIGKILL);
      waitpid(o.child, &status, 0);
    }
    unpinned(fd);
    close(fd);
  }
}
static void owner_is_killed(void) { killed(1); }
static void copier_is_killed(void) { killed(0); }

const struct Case kRevokeCases[] = {
    {"revoke.by_unmap", by_unmap, 0},
    {"revoke.by_mremap", by_mremap, 0},
    {"revoke.by_shrinking", by_shrinking, 0},
    {"revoke.by_dontneed", by_dontneed, 0},
    {"revoke.mprotect_keeps_the_region", mprotect_keeps_the_region, 0},
    {"revoke.by_mmap_over_it", by_mmap_over_it, 0},
    {"revoke.by_fork", by_fork, 0},
    {"revoke.by_fork_and_exec", by_fork_and_exec, 0},
    {"revoke.by_truncate", by_truncate, 0},
    {"revoke.by_exit_of_the_owner", by_exit_of_the_owner, 0},
    {"revoke.by_exit_with_the_file_kept", by_exit_with_the_file_kept, 0},
    {"revoke.fork_leaves_the_owner_its_pages", fork_leaves_the_owner_its_pages, 0},
    {"revoke.changes_while_copying", changes_while_copying, 0},
    {"revoke.owner_is_killed", owner_is_killed, 0},
    {"revoke.copier_is_killed", copier_is_killed, 0},
    {0},
};
