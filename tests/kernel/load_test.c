/* Much of everything, and what no program means. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "test.h"

static void ten_thousand_of_each(void) {
  const int fd = joined(60);
  char* at = pages(8 * kPage);
  for (int i = 0; i < 10000; i++) {
    close(i % 2 ? open_device() : joined(61));
    const uint64_t region = region_of(fd, at + i % kPage, 4 * kPage);
    CHECK(drop_region(fd, region) == 0);
  }
  const struct zerohop_statistics s = statistics(fd);
  CHECK(s.registered == 10000 && s.regions == 0 && s.pages == 0 && s.revoked == 0);
}

static void many_regions_of_one_range(void) {
  limit_locked(1 << 30);
  become(kUser);
  const int fd = joined(62);
  char* at = pages(kPage);
  for (int i = 0; i < 5000; i++) region_of(fd, at, kPage);
  CHECK(statistics(fd).regions == 4096 && statistics(fd).evicted == 904);
  CHECK(munmap(at, kPage) == 0);
  unpinned(fd);
  CHECK(statistics(fd).regions == 0);
}

static uint64_t state = 88172645463325252u;
static uint64_t any(void) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

/* Numbers around which checks go wrong. */
static uint64_t odd(void) {
  static const uint64_t kEdges[] = {0,
                                    1,
                                    2,
                                    7,
                                    63,
                                    64,
                                    4095,
                                    4096,
                                    4097,
                                    1u << 31,
                                    1ull << 32,
                                    1ull << 47,
                                    1ull << 63,
                                    UINT64_MAX,
                                    UINT64_MAX - 1,
                                    UINT64_MAX - 4095,
                                    0xffff800000000000u,
                                    40,
                                    32,
                                    16};
  return any() % 3 ? kEdges[any() % (sizeof kEdges / sizeof *kEdges)] : any() >> any() % 64;
}

static void hostile_arguments(void) {
  enum { kWords = 12 };
  char* good = pages(16 * kPage);
  const int fds[] = {joined(63), joined(63), joined(64), open_device(), open("/dev/null", O_RDWR), 1000};
  uint64_t regions[2] = {region_of(fds[0], good, 8 * kPage), region_of(fds[1], good + 8 * kPage, 8 * kPage)};
  uint64_t words[kWords];
  for (int i = 0; i < 200000; i++) {
    for (int w = 0; w < kWords; w++) {
      const uint64_t kind = any() % 4;
      words[w] = kind == 0   ? odd()
                 : kind == 1 ? (uintptr_t)good + odd() % (16 * kPage)
                 : kind == 2 ? regions[any() % 2]
                             : any() % 4;
    }
    const unsigned nr = 0xE0 + (unsigned)(any() % 6), sizes[] = {48, 32, 16, 64, 72, 0};
    const unsigned size = any() % 4 ? sizes[nr - 0xE0] : (unsigned)(odd() % 100);
    if (any() % 8) ((uint32_t*)words)[0] = size;
    void* argument = any() % 16 ? (void*)words : (void*)odd();
    if (argument == words || (uintptr_t)argument < kPage || (uintptr_t)argument >> 47)
      ioctl(fds[any() % 6], _IOC(any() % 4, 'Z', nr, size), argument);
    if (i % 1000 == 0) regions[0] = region_of(fds[0], good, 8 * kPage);
  }
  while (waitpid(-1, NULL, WNOHANG) > 0) continue;
  char byte = 1;
  CHECK(copy_to(fds[0], region_of(fds[0], good, kPage), 0, &byte, 1, NULL) == 0 && good[0] == 1);
}

static void unload_while_in_use(void) {
  const int fd = open_device();
  FAILS(unload_module(), EWOULDBLOCK);
  close(fd);
}

/* Revoked at once, and the last file closed while the work for it is queued or runs. */
static void unload_with_work_queued(void) {
  for (int round = 0; round < 10; round++) {
    struct Turns t;
    if (with_child(&t) == 0) {
      const int fd = joined(67);
      char* at = pages(512 * kPage);
      for (int i = 0; i < 512; i++) region_of(fd, at + i * kPage, kPage);
      CHECK(munmap(at, 512 * kPage) == 0);
      _exit(0);
    }
    ends_well(t.child);
    CHECK(unload_module() == 0 && load_module("") == 0);
  }
}

static void many_processes(void) {
  enum { kRanks = 6, kRounds = 60, kBytes = 32 * kPage };
  uint64_t* table = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t ranks[kRanks];
  for (int r = 0; r < kRanks; r++) {
    ranks[r] = fork();
    if (ranks[r]) continue;
    const int fd = joined(65);
    char* here = malloc(kBytes);
    for (int round = 0; round < kRounds; round++) {
      char* at = pages(kBytes);
      memset(at, r + 1, kBytes);
      __atomic_store_n(&table[r], region_of(fd, at, kBytes), __ATOMIC_RELEASE);
      for (int i = 0; i < 10; i++) {
        const int peer = (int)(any() % kRanks);
        uint64_t copied = 0;
        copy_from(fd, __atomic_load_n(&table[peer], __ATOMIC_ACQUIRE), 0, here, kBytes, &copied);
        for (uint64_t b = 0; b < copied; b += 512) CHECK(here[b] == peer + 1);
      }
      CHECK(munmap(at, kBytes) == 0);
    }
    _exit(0);
  }
  for (int r = 0; r < kRanks; r++) ends_well(ranks[r]);
}

enum { kMuch = 1 << 29 };
struct Racing {
  int fd, stop;
  char* at;
};

/* Ends regions by the number that the next will have, while they are registered. */
static void* end_the_next(void* argument) {
  struct Racing* r = argument;
  while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) drop_region(r->fd, statistics(r->fd).registered + any() % 3);
  return NULL;
}

static void* discard_pages(void* argument) {
  struct Racing* r = argument;
  while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) madvise(r->at, kPage, MADV_DONTNEED);
  return NULL;
}

static void registered_and_ended_at_once(void) {
  struct Racing r = {joined(66), 0, pages(4 * kPage)};
  pthread_t threads[2];
  CHECK(pthread_create(&threads[0], NULL, end_the_next, &r) == 0);
  CHECK(pthread_create(&threads[1], NULL, discard_pages, &r) == 0);
  uint64_t last = 0;
  for (int i = 0; i < 20000; i++) {
    uint64_t region = 0;
    if (make_region(r.fd, r.at, 4 * kPage, ZEROHOP_WRITE, &region) == 0) {
      CHECK(region > last && region <= last + 1); /* never another memory's bytes */
      last = region;
    } else {
      CHECK(errno == EAGAIN && region == 0);
    }
  }
  __atomic_store_n(&r.stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void* discard_much(void* argument) {
  struct Racing* r = argument;
  while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) madvise(r->at + kPage, kMuch - kPage, MADV_DONTNEED);
  return NULL;
}

/* Who was passed a file ends it, and others register, while its owner changes its mapping all the time. */
static void closed_by_another(void) {
  enum { kThreads = 4, kStep = 2 << 20 };
  struct Racing r = {joined(68), 0, pages(kMuch)};
  const int passed = joined(68);
  pthread_t threads[kThreads];
  CHECK(madvise(r.at, kMuch, MADV_NOHUGEPAGE) == 0);
  for (int i = 0; i < kMuch; i += kStep) r.at[i] = 1; /* so that there is something to walk through */
  struct Turns t;
  if (with_child(&t) == 0) {
    const int own = joined(69);
    char* at = pages(2 * kPage);
    close(r.fd);
    hear(&t);
    CHECK(close(passed) == 0);
    limit_locked(kPage);
    for (int i = 0; i < 100; i++) region_of(own, at + i % 2 * kPage, kPage); /* each makes room */
    say(&t, 1);
    _exit(0);
  }
  region_of(r.fd, r.at, kPage);
  region_of(passed, pages(kPage), kPage);
  close(passed);
  alarm(60);
  for (int i = 0; i < kThreads; i++) CHECK(pthread_create(&threads[i], NULL, discard_much, &r) == 0);
  usleep(100000);
  CHECK(madvise(r.at, kPage, MADV_DONTNEED) == 0);
  say(&t, 1);
  CHECK(hear(&t) == 1);
  __atomic_store_n(&r.stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < kThreads; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  ends_well(t.child);
}

const struct Case kLoadCases[] = {
    {"load.ten_thousand_of_each", ten_thousand_of_each, 0},
    {"load.many_regions_of_one_range", many_regions_of_one_range, 1},
    {"load.hostile_arguments", hostile_arguments, 0},
    {"load.unload_while_in_use", unload_while_in_use, 1},
    {"load.unload_with_work_queued", unload_with_work_queued, 1},
    {"load.registered_and_ended_at_once", registered_and_ended_at_once, 0},
    {"load.many_processes", many_processes, 0},
    {"load.closed_by_another", closed_by_another, 0},
    {0},
};
