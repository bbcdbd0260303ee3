/* What each call does and refuses. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "test.h"

static void abi_sizes(void) {
  CHECK(sizeof(struct zerohop_join) == 48 && sizeof(struct zerohop_register) == 32);
  CHECK(sizeof(struct zerohop_unregister) == 16 && sizeof(struct zerohop_copy) == 64);
  CHECK(sizeof(struct zerohop_statistics) == 72 && sizeof(struct zerohop_segment) == 16);
}

static void abi_unknown_calls(void) {
  const int fd = joined(1);
  FAILS(ioctl(fd, _IOWR('Z', 0xE5, struct zerohop_join), NULL), ENOTTY);
  FAILS(ioctl(fd, _IOWR('Z', 0xDF, struct zerohop_join), NULL), ENOTTY);
  FAILS(ioctl(fd, _IOWR('Y', 0xE0, struct zerohop_join), NULL), ENOTTY);
}

static void abi_other_sizes(void) {
  const int fd = joined(1);
  struct {
    struct zerohop_statistics known;
    uint64_t later;
  } longer = {.known = {.size = sizeof longer}};
#define WITH_SIZE(n) _IOC(_IOC_READ | _IOC_WRITE, 'Z', 0xE4, n)
  CHECK(ioctl(fd, WITH_SIZE(sizeof longer), &longer) == 0);
  CHECK(longer.known.members == 1);
  longer.known.size = sizeof longer;
  longer.later = 1;
  FAILS(ioctl(fd, WITH_SIZE(sizeof longer), &longer), E2BIG);
  longer.known.size = 16;
  longer.known.pages = 77;
  CHECK(ioctl(fd, WITH_SIZE(16), &longer) == 0);
  CHECK(longer.known.pages == 77); /* an older program's structure is not written beyond */
  longer.known.size = 24;
  FAILS(ioctl(fd, WITH_SIZE(16), &longer), EINVAL);
  FAILS(ioctl(fd, WITH_SIZE(2), &longer), EINVAL);
  FAILS(ioctl(fd, ZEROHOP_IOC_STATISTICS, (void*)8), EFAULT);
}

static void join_refusals(void) {
  const int fd = open_device();
  struct zerohop_statistics call = {.size = sizeof call};
  FAILS(ioctl(fd, ZEROHOP_IOC_STATISTICS, &call), ENOTCONN);
  FAILS(make_region(fd, &call, 8, ZEROHOP_READ, NULL), ENOTCONN);
  FAILS(copy_from(fd, 1, 0, &call, 8, NULL), ENOTCONN);
  FAILS(drop_region(fd, 1), ENOTCONN);
  FAILS(join(fd, 0), EINVAL);
  CHECK(join(fd, 7) == 0);
  FAILS(join(fd, 7), EISCONN);
  FAILS(join(fd, 8), EISCONN);
  const int second = joined(7);
  CHECK(statistics(fd).members == 2);
  close(second);
  CHECK(statistics(fd).members == 1);
}

static void user_other_is_refused(void) {
  const int fd = joined(9);
  char* at = pages(kPage);
  fill(at, kPage, 1);
  const uint64_t region = region_of(fd, at, kPage);
  struct Turns t;
  if (with_child(&t) == 0) {
    char byte = 0;
    become(kOther);
    struct zerohop_statistics call = {.size = sizeof call};
    FAILS(join(open_device(), 9), EPERM);                   /* who knows the secret */
    FAILS(copy_from(fd, region, 0, &byte, 1, NULL), EPERM); /* who has the descriptor */
    FAILS(copy_to(fd, region, 0, &byte, 1, NULL), EPERM);
    FAILS(drop_region(fd, region), EPERM);
    FAILS(make_region(fd, at, 8, ZEROHOP_READ, NULL), EPERM);
    FAILS(ioctl(fd, ZEROHOP_IOC_STATISTICS, &call), EPERM);
    const int own = joined(10);
    FAILS(copy_from(own, region, 0, &byte, 1, NULL), ENOENT); /* who guesses the number */
    _exit(0);
  }
  ends_well(t.child);
  become(kUser);
  const int again = open_device();
  FAILS(join(again, 9), EPERM); /* the context was root's */
}

static void context_other_has_no_region(void) {
  char byte = 0, *at = pages(kPage);
  const int one = joined(11), other = joined(12);
  const uint64_t region = region_of(one, at, kPage);
  FAILS(copy_from(other, region, 0, &byte, 1, NULL), ENOENT);
  FAILS(drop_region(other, region), ENOENT);
  CHECK(copy_from(one, region, 0, &byte, 1, NULL) == 0);
}

/* Many enough to share places of the module's table. */
static void each_secret_has_its_own_context(void) {
  for (int secret = 1; secret < 256; secret++) CHECK(statistics(joined((unsigned char)secret)).members == 1);
  for (int secret = 1; secret < 256; secret++) CHECK(statistics(joined((unsigned char)secret)).members == 2);
}

static void context_ends_with_its_members(void) {
  close(joined(13));
  struct Turns t;
  if (with_child(&t) == 0) {
    become(kOther);
    joined(13);
    _exit(0);
  }
  ends_well(t.child);
}

static void copy_both_ways(void) {
  const uint64_t bytes = (1 << 20) + 4711, shift = 123;
  char* at = pages(bytes + kPage);
  struct Turns t;
  fill(at + shift, bytes, 3);
  if (with_child(&t) == 0) {
    const int fd = joined(14);
    uint64_t copied = 0;
    char* mine = malloc(bytes);
    const uint64_t region = hear(&t);
    CHECK(copy_from(fd, region, 0, mine, bytes, &copied) == 0 && copied == bytes);
    CHECK(is_filled(mine, bytes, 3));
    fill(mine, bytes, 4);
    CHECK(copy_to(fd, region, 0, mine, bytes, &copied) == 0 && copied == bytes);
    _exit(0);
  }
  const int fd = joined(14);
  say(&t, region_of(fd, at + shift, bytes));
  ends_well(t.child);
  CHECK(is_filled(at + shift, bytes, 4));
  CHECK(at[shift - 1] == 0 && at[shift + bytes] == 0);
  const struct zerohop_statistics s = statistics(fd);
  CHECK(s.copies == 2 && s.bytes == 2 * bytes && s.regions == 1 && s.registered == 1);
}

static void copy_lists_of_segments(void) {
  const int fd = joined(15);
  char *at = pages(3 * kPage), here[600] = {0};
  fill(at, 3 * kPage, 5);
  struct zerohop_copy call = {.region = region_of(fd, at, 3 * kPage), .flags = ZEROHOP_TIMES};
  const struct zerohop_segment mine[] = {{(uintptr_t)here, 100}, {0, 0}, {(uintptr_t)(here + 200), 400}};
  const struct zerohop_segment theirs[] = {{kPage - 50, 250}, {5, 0}, {2 * kPage, 200}, {17, 1}};
  CHECK(copy_lists(fd, &call, mine, 3, theirs, 4) == 0);
  CHECK(call.copied == 451 && call.copy_ns > 0);
  CHECK(memcmp(here, at + kPage - 50, 100) == 0 && memcmp(here + 200, at + kPage + 50, 150) == 0);
  CHECK(memcmp(here + 350, at + 2 * kPage, 200) == 0 && here[550] == at[17] && here[551] == 0 && here[150] == 0);
  FAILS(copy_lists(fd, &call, mine, 0, theirs, 4), EINVAL);
  FAILS(copy_lists(fd, &call, mine, 3, theirs, ZEROHOP_MAX_SEGMENTS + 1), EINVAL);
  FAILS(copy_lists(fd, &call, NULL, 3, theirs, 4), EFAULT);
  call.flags = 64;
  FAILS(copy_lists(fd, &call, mine, 3, theirs, 4), EINVAL);
}

static void copy_stays_within(void) {
  const int fd = joined(16);
  char *at = pages(2 * kPage), here[64];
  const uint64_t region = region_of(fd, at + 100, kPage);
  CHECK(copy_from(fd, region, kPage - 64, here, 64, NULL) == 0);
  FAILS(copy_from(fd, region, kPage - 63, here, 64, NULL), ERANGE);
  FAILS(copy_from(fd, region, kPage + 1, here, 0, NULL), ERANGE);
  FAILS(copy_from(fd, region, UINT64_MAX, here, 64, NULL), ERANGE);
  FAILS(copy_from(fd, region, 8, here, UINT64_MAX - 7, NULL), ERANGE);
  FAILS(copy_to(fd, region, kPage - 63, here, 64, NULL), ERANGE);
}

static void copy_keeps_the_direction(void) {
  const int fd = joined(17);
  char *at = pages(kPage), byte = 1;
  uint64_t in = 0, out = 0;
  CHECK(make_region(fd, at, kPage, ZEROHOP_WRITE, &in) == 0 && make_region(fd, at, kPage, ZEROHOP_READ, &out) == 0);
  FAILS(copy_from(fd, in, 0, &byte, 1, NULL), EACCES);
  FAILS(copy_to(fd, out, 0, &byte, 1, NULL), EACCES);
  CHECK(copy_to(fd, in, 0, &byte, 1, NULL) == 0 && copy_from(fd, out, 0, &byte, 1, NULL) == 0 && at[0] == 1);
}

static void copy_tells_what_it_did(void) {
  const int fd = joined(18);
  char *at = pages(4 * kPage), *mine = pages(4 * kPage);
  fill(at, 4 * kPage, 6);
  const uint64_t region = region_of(fd, at, 4 * kPage);
  uint64_t copied = 0;
  CHECK(mprotect(mine + 2 * kPage, kPage, PROT_NONE) == 0);
  FAILS(copy_from(fd, region, 0, mine + 10, 3 * kPage, &copied), EFAULT);
  CHECK(copied == 2 * kPage - 10 && is_filled(mine + 10, 2 * kPage - 10, 6));
  FAILS(copy_from(fd, region, 0, (void*)(UINT64_MAX - 4095), 8, &copied), EFAULT); /* the kernel's */
  FAILS(copy_to(fd, region, 0, (void*)(UINT64_C(1) << 63), 8, &copied), EFAULT);
  CHECK(copied == 0);
  fill(at, 4 * kPage, 7);
  fill(mine, 2 * kPage, 8);
  FAILS(copy_to(fd, region, 0, mine + 10, 3 * kPage, &copied), EFAULT);
  CHECK(copied == 2 * kPage - 10 && memcmp(at, mine + 10, copied) == 0);
  fill(mine, 2 * kPage, 7); /* beyond, the owner's bytes are as they were */
  for (uint64_t i = copied; i < 2 * kPage; i++) CHECK(at[i] == mine[i]);
}

static void on_alarm(int signal) { (void)signal; }

static void copy_ends_at_a_signal(void) {
  const int fd = joined(19);
  const uint64_t bytes = 8 << 20;
  char *at = pages(bytes), *mine = pages(bytes);
  const uint64_t region = region_of(fd, at, bytes);
  const struct sigaction action = {.sa_handler = on_alarm};
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  for (int i = 0; i < 200; i++) {
    uint64_t copied = 0;
    ualarm(500 + 20 * (unsigned)i, 0);
    const int rc = copy_from(fd, region, 0, mine, bytes, &copied);
    ualarm(0, 0);
    if (rc == 0 && copied < bytes && copied > 0) return;
    CHECK(rc == 0 || (errno == EINTR && copied == 0));
  }
  CHECK(!"ended early");
}

static void abi_writes_what_it_answers(void) {
  const int fd = joined(26);
  char* at = pages(kPage);
  struct zerohop_unregister* constant = pages(kPage);
  *constant = (struct zerohop_unregister){.size = sizeof *constant, .region = region_of(fd, at, kPage)};
  CHECK(mprotect(constant, kPage, PROT_READ) == 0);
  CHECK(ioctl(fd, ZEROHOP_IOC_UNREGISTER, constant) == 0);
  struct zerohop_register* unanswered = pages(kPage);
  *unanswered = (struct zerohop_register){sizeof *unanswered, ZEROHOP_READ, (uintptr_t)at, kPage, 0};
  CHECK(mprotect(unanswered, kPage, PROT_READ) == 0);
  FAILS(ioctl(fd, ZEROHOP_IOC_REGISTER, unanswered), EFAULT);
  CHECK(statistics(fd).regions == 0);
  struct zerohop_register call = {24, ZEROHOP_READ, (uintptr_t)at, kPage, 0};
  FAILS(ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'Z', 0xE1, 24), &call), EINVAL);
  struct zerohop_join again = {.size = sizeof again, .abi = ZEROHOP_ABI, .secret = {1, 2, 3}};
  FAILS(ioctl(fd, ZEROHOP_IOC_JOIN, &again), EISCONN);
  again.reserved = 1;
  FAILS(ioctl(fd, ZEROHOP_IOC_JOIN, &again), EINVAL);
  CHECK(again.secret[2] == 3);
}

static void register_refusals(void) {
  const int fd = joined(20);
  char* at = pages(kPage);
  FAILS(make_region(fd, at, 0, ZEROHOP_READ, NULL), EINVAL);
  FAILS(make_region(fd, at, 8, 0, NULL), EINVAL);
  FAILS(make_region(fd, at, 8, ZEROHOP_REUSE, NULL), EINVAL);
  FAILS(make_region(fd, at, 8, ZEROHOP_READ | 8, NULL), EINVAL);
  FAILS(make_region(fd, at, UINT64_MAX, ZEROHOP_READ, NULL), EFAULT);
  FAILS(make_region(fd, (void*)(UINT64_MAX - 8191), 4096, ZEROHOP_READ, NULL), EFAULT);
  FAILS(make_region(fd, (void*)kPage, UINT64_C(1) << 32, ZEROHOP_READ, NULL), EFAULT);
  CHECK(munmap(at, kPage) == 0);
  FAILS(make_region(fd, at, 8, ZEROHOP_READ, NULL), EFAULT);
  CHECK(statistics(fd).regions == 0);
}

static void unregister_is_the_owners(void) {
  const int fd = joined(22), other = joined(22);
  char byte = 0, *at = pages(kPage);
  const uint64_t region = region_of(fd, at, kPage);
  FAILS(drop_region(other, region), ENOENT);
  CHECK(copy_from(other, region, 0, &byte, 1, NULL) == 0);
  CHECK(drop_region(fd, region) == 0);
  FAILS(drop_region(fd, region), ENOENT);
  FAILS(copy_from(other, region, 0, &byte, 1, NULL), ENOENT);
  CHECK(region_of(fd, at, kPage) != region);
  close(fd);
  CHECK(statistics(other).regions == 0 && statistics(other).pages == 0);
}

static void pages_are_counted(void) {
  become(kUser);
  const int fd = joined(23);
  char* at = pages(64 * kPage);
  limit_locked(32 * kPage);
  CHECK(pinned_kib() == 0);
  FAILS(make_region(fd, at, 33 * kPage, ZEROHOP_WRITE, NULL), ENOMEM);
  CHECK(pinned_kib() == 0 && statistics(fd).pages == 0);
  const uint64_t first = region_of(fd, at + 1, 20 * kPage); /* 21 pages */
  CHECK(pinned_kib() == 84 && statistics(fd).pages == 21);
  const uint64_t second = region_of(fd, at + 32 * kPage, 20 * kPage); /* the first goes for it */
  char byte = 0;
  FAILS(copy_from(fd, first, 0, &byte, 1, NULL), ENOENT);
  FAILS(make_region(fd, at, 33 * kPage, ZEROHOP_WRITE, NULL), ENOMEM); /* nothing goes for what can never be */
  CHECK(copy_from(fd, second, 0, &byte, 1, NULL) == 0);
  CHECK(pinned_kib() == 80 && statistics(fd).evicted == 1);
  CHECK(drop_region(fd, second) == 0);
  CHECK(pinned_kib() == 0 && statistics(fd).pages == 0);
}

/* The region of one range is revoked by a change of its last page, and takes a while to go. */
static void what_goes_makes_room(void) {
  enum { kBytes = 1 << 20, kLast = kBytes - kPage, kFixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED };
  limit_locked(kBytes + kPage);
  become(kUser);
  const int fd = joined(27);
  char* at[2] = {pages(kBytes), pages(kBytes)};
  for (int i = 0; i < 3000; i++) {
    char* range = at[i % 2];
    region_of(fd, range, kBytes);
    CHECK(mmap(range + kLast, kPage, PROT_READ | PROT_WRITE, kFixed, -1, 0) == range + kLast);
  }
}

static void pool_evicts_the_least_used(void) {
  set_parameter("pool_regions", "4");
  const int fd = joined(24);
  char byte = 0, *at = pages(8 * kPage);
  uint64_t region[5];
  for (int i = 0; i < 4; i++) region[i] = region_of(fd, at + i * kPage, kPage);
  for (int i = 0; i < 4; i++)
    if (i != 2) CHECK(copy_from(fd, region[i], 0, &byte, 1, NULL) == 0);
  region[4] = region_of(fd, at + 4 * kPage, kPage);
  for (int i = 0; i < 5; i++) CHECK((copy_from(fd, region[i], 0, &byte, 1, NULL) == 0) == (i != 2));
  CHECK(statistics(fd).evicted == 1 && statistics(fd).regions == 4);
  set_parameter("pool_regions", "4096");
  set_parameter("pool_mib", "1");
  FAILS(make_region(fd, pages(2 << 20), (1 << 20) + kPage, ZEROHOP_WRITE, NULL), EDQUOT);
  region_of(fd, pages(1 << 20), 1 << 20);
  CHECK(statistics(fd).regions == 1 && statistics(fd).pages == 256);
  set_parameter("pool_mib", "1024");
}

static int in_namespaces(void* argument) {
  struct Turns* t = argument;
  t->child = 0;
  char here[100], *at = pages(kPage);
  const int fd = joined(25);
  CHECK(getpid() == 1);
  const uint64_t theirs = hear(t);
  CHECK(copy_from(fd, theirs, 0, here, sizeof here, NULL) == 0 && is_filled(here, sizeof here, 8));
  fill(at, kPage, 9);
  say(t, region_of(fd, at, kPage));
  hear(t);
  return 0;
}

static void namespaces_of_their_own(void) {
  static char stack[1 << 16];
  struct Turns t;
  char here[100], *at = pages(kPage);
  become(kUser);
  fill(at, kPage, 8);
  CHECK(pipe(t.down) == 0 && pipe(t.up) == 0);
  const int fd = joined(25);
  t.child = clone(in_namespaces, stack + sizeof stack, CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWIPC | SIGCHLD, &t);
  CHECK(t.child > 0);
  say(&t, region_of(fd, at, kPage));
  const uint64_t theirs = hear(&t);
  CHECK(copy_from(fd, theirs, 0, here, sizeof here, NULL) == 0 && is_filled(here, sizeof here, 9));
  say(&t, 0);
  ends_well(t.child);
}

const struct Case kCallCases[] = {
    {"abi.sizes", abi_sizes, 0},
    {"abi.unknown_calls", abi_unknown_calls, 0},
    {"abi.other_sizes", abi_other_sizes, 0},
    {"abi.writes_what_it_answers", abi_writes_what_it_answers, 0},
    {"join.refusals", join_refusals, 0},
    {"user.other_is_refused", user_other_is_refused, 1},
    {"context.other_has_no_region", context_other_has_no_region, 0},
    {"context.each_secret_has_its_own", each_secret_has_its_own_context, 0},
    {"context.ends_with_its_members", context_ends_with_its_members, 1},
    {"copy.both_ways", copy_both_ways, 0},
    {"copy.lists_of_segments", copy_lists_of_segments, 0},
    {"copy.stays_within", copy_stays_within, 0},
    {"copy.keeps_the_direction", copy_keeps_the_direction, 0},
    {"copy.tells_what_it_did", copy_tells_what_it_did, 0},
    {"copy.ends_at_a_signal", copy_ends_at_a_signal, 0},
    {"register.refusals", register_refusals, 0},
    {"register.unregister_is_the_owners", unregister_is_the_owners, 0},
    {"pool.pages_are_counted", pages_are_counted, 1},
    {"pool.what_goes_makes_room", what_goes_makes_room, 1},
    {"pool.evicts_the_least_used", pool_evicts_the_least_used, 1},
    {"namespaces.of_their_own", namespaces_of_their_own, 1},
    {0},
};
