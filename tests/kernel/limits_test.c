/* What one user may have, all jobs together, and what happens where there is no more. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "test.h"

enum { kPoolPages = 256 }; /* of a pool of 1 MiB */

/* A process of this user that registers pages in a context of its own, and keeps them until it is told otherwise. */
static void holds(struct Turns* t, unsigned user, unsigned char secret, uint64_t count) {
  if (with_child(t)) {
    CHECK(hear(t) == count);
    return;
  }
  become(user);
  const int fd = joined(secret);
  char byte, *at = pages(count * kPage);
  const uint64_t region = region_of(fd, at, count * kPage);
  say(t, count);
  const int is_kept = (int)hear(t);
  CHECK((copy_from(fd, region, 0, &byte, 1, NULL) == 0) == is_kept);
  CHECK(statistics(fd).evicted == !is_kept && statistics(fd).pages == (is_kept ? count : 0));
  CHECK(pinned_kib() == (is_kept ? count * 4 : 0));
  _exit(0);
}

static void pool_is_of_all_contexts(void) {
  set_parameter("pool_mib", "1");
  struct Turns first, second, others;
  holds(&first, kUser, 100, 200);
  holds(&second, kUser, 101, 200);  /* for which the first's go */
  holds(&others, kOther, 102, 200); /* has a pool of its own */
  say(&first, 0);
  say(&second, 1);
  say(&others, 1);
  ends_well(first.child);
  ends_well(second.child);
  ends_well(others.child);
  set_parameter("pool_mib", "1024");
  set_parameter("pool_regions", "1");
  holds(&first, kUser, 100, 1);
  holds(&second, kUser, 101, 1);
  holds(&others, kOther, 102, 1);
  say(&first, 0);
  say(&second, 1);
  say(&others, 1);
  ends_well(first.child);
  ends_well(second.child);
  ends_well(others.child);
  set_parameter("pool_regions", "4096");
}

static void contexts_are_counted(void) {
  set_parameter("pool_contexts", "4");
  struct Turns t;
  if (with_child(&t) == 0) {
    become(kUser);
    int fds[4];
    for (int i = 0; i < 4; i++) fds[i] = joined((unsigned char)(110 + i));
    const int more = open_device();
    FAILS(join(more, 114), EDQUOT);
    CHECK(join(more, 111) == 0); /* one that there is */
    close(fds[0]);
    joined(114);
    FAILS(join(open_device(), 110), EDQUOT);
    close(more);
    FAILS(join(open_device(), 110), EDQUOT); /* it still has a member */
    close(fds[1]);
    joined(110);
    say(&t, 0);
    hear(&t);
    _exit(0);
  }
  hear(&t);
  struct Turns o;
  if (with_child(&o) == 0) {
    become(kOther);
    for (int i = 0; i < 4; i++) joined((unsigned char)(120 + i));
    FAILS(join(open_device(), 110), EPERM);
    _exit(0);
  }
  ends_well(o.child);
  say(&t, 0);
  ends_well(t.child);
  set_parameter("pool_contexts", "1024");
}

/* A page that comes when it is given: a copy to it stands still until then. */
static char* absent_page(int* giver) {
  char* at = pages(kPage);
  struct uffdio_api api = {.api = UFFD_API};
  struct uffdio_register call = {.range = {(uintptr_t)at, kPage}, .mode = UFFDIO_REGISTER_MODE_MISSING};
  *giver = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  CHECK(*giver >= 0 && ioctl(*giver, UFFDIO_API, &api) == 0 && ioctl(*giver, UFFDIO_REGISTER, &call) == 0);
  return at;
}

static void give_page(int giver, char* at) {
  struct uffd_msg fault;
  CHECK(read(giver, &fault, sizeof fault) == sizeof fault); /* somebody stands there */
  struct uffdio_zeropage call = {.range = {(uintptr_t)at, kPage}};
  CHECK(ioctl(giver, UFFDIO_ZEROPAGE, &call) == 0);
}

struct Copying {
  int fd;
  uint64_t region;
  char* to;
};

static void* copies(void* argument) {
  struct Copying* c = argument;
  CHECK(copy_from(c->fd, c->region, 0, c->to, 1, NULL) == 0);
  return NULL;
}

static void full_pool_in_use(void) {
  set_parameter("pool_mib", "1");
  const int fd = joined(103);
  int giver;
  char *at = pages(kPoolPages * kPage), *absent = absent_page(&giver);
  struct Copying c = {fd, region_of(fd, at, kPoolPages * kPage), absent};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, copies, &c) == 0);
  usleep(300000);
  for (int i = 0; i < 3; i++) FAILS(make_region(fd, pages(kPage), kPage, ZEROHOP_WRITE, NULL), EDQUOT);
  CHECK(statistics(fd).regions == 1 && statistics(fd).evicted == 0);
  CHECK(drop_region(fd, c.region) == 0); /* its pages stay until the copy ends */
  CHECK(statistics(fd).regions == 0 && statistics(fd).pages == kPoolPages && pinned_kib() == 4 * kPoolPages);
  FAILS(make_region(fd, pages(kPage), kPage, ZEROHOP_WRITE, NULL), EDQUOT);
  give_page(giver, absent);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(statistics(fd).pages == 0 && pinned_kib() == 0);
  region_of(fd, at, kPage);
  set_parameter("pool_mib", "1024");
}

/* Others register as fast as they can what one evicts who wants all: it comes to an end, and they go on meanwhile. */
static void who_wants_all(void) {
  enum { kRivals = 3, kEndS = 200 };
  uint64_t* done = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  set_parameter("pool_mib", "1");
  struct Turns t[kRivals];
  for (int r = 0; r < kRivals; r++) {
    if (with_child(&t[r])) continue;
    const int fd = joined((unsigned char)(104 + r));
    char* at = pages(kPoolPages * kPage);
    memset(at, 1, kPoolPages * kPage);
    for (uint64_t i = 0;; i++)
      if (make_region(fd, at + i % kPoolPages * kPage, kPage, ZEROHOP_READ, NULL) == 0)
        __atomic_fetch_add(&done[r], 1, __ATOMIC_RELAXED);
      else
        CHECK(errno == EDQUOT);
  }
  const int fd = joined(107);
  char* at = pages(kPoolPages * kPage);
  memset(at, 1, kPoolPages * kPage);
  for (int r = 0; r < kRivals; r++)
    while (__atomic_load_n(&done[r], __ATOMIC_RELAXED) < kPoolPages) usleep(1000);
  alarm(kEndS);
  for (int i = 0; i < 5; i++) {
    uint64_t region = 0;
    if (make_region(fd, at, kPoolPages * kPage, ZEROHOP_READ, &region) == 0)
      drop_region(fd, region);
    else
      CHECK(errno == EDQUOT);
  }
  for (int r = 0; r < kRivals; r++) {
    const uint64_t before = __atomic_load_n(&done[r], __ATOMIC_RELAXED);
    while (__atomic_load_n(&done[r], __ATOMIC_RELAXED) < before + 100) usleep(1000);
    CHECK(kill(t[r].child, SIGKILL) == 0);
  }
  set_parameter("pool_mib", "1024");
}

const struct Case kLimitCases[] = {
    {"limits.pool_is_of_all_contexts", pool_is_of_all_contexts, 1},
    {"limits.contexts_are_counted", contexts_are_counted, 1},
    {"limits.full_pool_in_use", full_pool_in_use, 1},
    {"limits.who_wants_all_comes_to_an_end", who_wants_all, 1},
    {0},
};
