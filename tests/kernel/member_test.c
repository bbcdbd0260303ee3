/* Members and their addresses, regions that are used again, and descriptors in other processes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "test.h"

static uint32_t member_of(int fd, unsigned char secret) {
  struct zerohop_join call = {.size = sizeof call, .abi = ZEROHOP_ABI, .member = 77};
  memset(call.secret, secret, sizeof call.secret);
  CHECK(ioctl(fd, ZEROHOP_IOC_JOIN, &call) == 0);
  CHECK(call.abi == ZEROHOP_ABI && call.secret[0] == secret);
  return call.member;
}

/* One segment, from the member's address, or to it. */
static int from_member(int fd, uint32_t member, const void* at, void* to, uint64_t bytes, uint64_t* copied) {
  struct zerohop_copy call = {.flags = ZEROHOP_OF_MEMBER, .region = member};
  const struct zerohop_segment here = {(uintptr_t)to, bytes}, there = {(uintptr_t)at, bytes};
  const int rc = copy_lists(fd, &call, &here, 1, &there, 1);
  if (copied) *copied = call.copied;
  return rc;
}

static int to_member(int fd, uint32_t member, void* at, const void* from, uint64_t bytes) {
  struct zerohop_copy call = {.flags = ZEROHOP_OF_MEMBER | ZEROHOP_TO_REGION, .region = member};
  const struct zerohop_segment here = {(uintptr_t)from, bytes}, there = {(uintptr_t)at, bytes};
  return copy_lists(fd, &call, &here, 1, &there, 1);
}

static void numbers_are_used_once(void) {
  const int one = open_device(), two = open_device(), three = open_device();
  CHECK(member_of(one, 80) == 1 && member_of(two, 80) == 2);
  close(two);
  CHECK(member_of(three, 80) == 3);
  CHECK(member_of(open_device(), 81) == 1);
}

static void addresses_of_a_member(void) {
  const uint64_t bytes = (1 << 20) + 4711, shift = 123;
  char *at = pages(bytes + kPage), *here = pages(bytes);
  struct Turns t;
  fill(at + shift, bytes, 3);
  if (with_child(&t) == 0) {
    const int fd = open_device();
    hear(&t);
    CHECK(member_of(fd, 82) == 2);
    CHECK(from_member(fd, 1, at + shift, here, bytes, NULL) == 0 && is_filled(here, bytes, 3));
    fill(here, bytes, 4);
    CHECK(to_member(fd, 1, at + shift, here, bytes) == 0);
    FAILS(from_member(fd, 1, at + shift - 1, here, 1, NULL), ENOENT);
    FAILS(from_member(fd, 1, at + shift + bytes - 1, here, 2, NULL), ENOENT);
    FAILS(from_member(fd, 2, at + shift, here, 1, NULL), ENOENT); /* its own, of which it registered nothing */
    FAILS(from_member(fd, 3, at + shift, here, 1, NULL), ENOENT);
    FAILS(from_member(fd, 0, at + shift, here, 1, NULL), EINVAL);
    FAILS(from_member(fd, 1, (void*)(UINT64_MAX - 8), here, 64, NULL), ENOENT);
    FAILS(from_member(fd, 1, at + shift, here, UINT64_MAX, NULL), ENOENT);
    _exit(0);
  }
  const int fd = open_device();
  CHECK(member_of(fd, 82) == 1);
  region_of(fd, at + shift, bytes);
  say(&t, 0);
  ends_well(t.child);
  CHECK(is_filled(at + shift, bytes, 4) && at[shift - 1] == 0 && at[shift + bytes] == 0);
}

static void each_segment_has_a_region(void) {
  const int fd = open_device();
  char *at = pages(6 * kPage), *here = pages(6 * kPage);
  const uint32_t member = member_of(fd, 83);
  fill(at, 6 * kPage, 5);
  region_of(fd, at, 2 * kPage);
  region_of(fd, at + 3 * kPage, 2 * kPage);
  region_of(fd, at + 5 * kPage, kPage); /* beside it */
  struct zerohop_copy call = {.region = member, .flags = ZEROHOP_OF_MEMBER | ZEROHOP_TIMES};
  const struct zerohop_segment all = {(uintptr_t)here, 6 * kPage};
  const struct zerohop_segment theirs[] = {{(uintptr_t)(at + 3 * kPage + 50), 250}, {17, 0},
                                           {(uintptr_t)(at + kPage - 20), 40},      {(uintptr_t)(at + kPage + 60), 100},
                                           {(uintptr_t)(at + 5 * kPage - 8), 16},   {(uintptr_t)at, 8}};
  CHECK(copy_lists(fd, &call, &all, 1, theirs, 4) == 0);
  CHECK(call.copied == 390 && call.copy_ns > 0 && call.lookup_ns > 0);
  CHECK(memcmp(here, at + 3 * kPage + 50, 250) == 0 && memcmp(here + 250, at + kPage - 20, 40) == 0);
  CHECK(memcmp(here + 290, at + kPage + 60, 100) == 0 && here[390] == 0);
  memset(here, 0, kPage);
  FAILS(copy_lists(fd, &call, &all, 1, theirs, 6), ENOENT); /* no region has the fifth */
  CHECK(call.copied == 390 && memcmp(here + 290, at + kPage + 60, 100) == 0 && here[390] == 0);
}

static void direction_is_kept(void) {
  const int fd = open_device();
  char *at = pages(kPage), byte = 1;
  const uint32_t member = member_of(fd, 84);
  uint64_t out = 0, in = 0;
  *at = 0;
  CHECK(make_region(fd, at, kPage, ZEROHOP_READ, &out) == 0);
  FAILS(to_member(fd, member, at, &byte, 1), ENOENT);
  CHECK(make_region(fd, at, kPage, ZEROHOP_WRITE, &in) == 0);
  CHECK(to_member(fd, member, at, &byte, 1) == 0 && at[0] == 1);
  CHECK(drop_region(fd, out) == 0);
  FAILS(from_member(fd, member, at, &byte, 1, NULL), ENOENT);
}

static void other_contexts_members(void) {
  const int one = open_device(), other = open_device(), third = open_device();
  char *at = pages(kPage), byte;
  CHECK(member_of(one, 85) == 1 && member_of(third, 86) == 1 && member_of(other, 86) == 2);
  region_of(one, at, kPage);
  FAILS(from_member(other, 1, at, &byte, 1, NULL), ENOENT);
  CHECK(from_member(one, 1, at, &byte, 1, NULL) == 0);
}

static void what_is_gone_has_no_addresses(void) {
  const int fd = open_device(), peer = joined(87);
  char *at = pages(2 * kPage), byte;
  const uint32_t member = member_of(fd, 87);
  region_of(fd, at, 2 * kPage);
  CHECK(from_member(peer, member, at, &byte, 1, NULL) == 0);
  CHECK(mmap(at, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
  at[0] = 7;
  FAILS(from_member(peer, member, at, &byte, 1, NULL), ENOENT);
  region_of(fd, at, 2 * kPage);
  CHECK(from_member(peer, member, at, &byte, 1, NULL) == 0 && byte == 7);
  close(fd);
  FAILS(from_member(peer, member, at, &byte, 1, NULL), ENOENT);
  CHECK(statistics(peer).regions == 0 && statistics(peer).pages == 0);
}

/* ---- regions used again */

static const uint32_t kBoth = ZEROHOP_READ | ZEROHOP_WRITE;

static uint64_t again(int fd, const void* at, uint64_t bytes, uint32_t flags) {
  uint64_t region = 0;
  CHECK(make_region(fd, at, bytes, flags | ZEROHOP_REUSE, &region) == 0 && region > 0);
  return region;
}

static void what_covers_is_given(void) {
  const int fd = joined(90), other = joined(90);
  char* at = pages(8 * kPage);
  fill(at, 8 * kPage, 1);
  const uint64_t first = again(fd, at + kPage, 4 * kPage, ZEROHOP_READ);
  CHECK(again(fd, at + kPage, 4 * kPage, ZEROHOP_READ) == first);
  struct zerohop_register call = {sizeof call, ZEROHOP_READ | ZEROHOP_REUSE, (uintptr_t)(at + 2 * kPage + 5), 100, 0};
  CHECK(ioctl(fd, ZEROHOP_IOC_REGISTER, &call) == 0);
  CHECK(call.region == first && call.address == (uintptr_t)(at + kPage) && call.bytes == 4 * kPage);
  CHECK(again(fd, at + 5 * kPage - 1, 1, ZEROHOP_READ) == first);
  struct zerohop_register* unwritable = pages(kPage); /* the answer is lost, others know the region */
  *unwritable = (struct zerohop_register){sizeof call, ZEROHOP_READ | ZEROHOP_REUSE, (uintptr_t)(at + kPage), 1, 0};
  CHECK(mprotect(unwritable, kPage, PROT_READ) == 0);
  FAILS(ioctl(fd, ZEROHOP_IOC_REGISTER, unwritable), EFAULT);
  CHECK(again(fd, at + kPage, 4 * kPage, ZEROHOP_READ) == first);
  CHECK(statistics(fd).registered == 1 && statistics(fd).pages == 4 && pinned_kib() == 16);
  uint64_t more[6] = {first};
  more[1] = again(fd, at + kPage, kPage, kBoth);
  more[2] = again(fd, at + 5 * kPage - 1, 2, ZEROHOP_READ);
  more[3] = again(fd, at, 2, ZEROHOP_READ);
  more[4] = again(other, at + kPage, kPage, ZEROHOP_READ);
  CHECK(make_region(fd, at + kPage, kPage, ZEROHOP_READ, &more[5]) == 0); /* who does not ask for it gets a new one */
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < i; j++) CHECK(more[i] != more[j]);
  CHECK(again(fd, at + kPage + 1, kPage - 1, ZEROHOP_WRITE) == more[1]);
}

static void what_is_gone_is_not_given(void) {
  const int fd = joined(91);
  char byte = 0, *at = pages(kPage);
  const uint64_t first = again(fd, at, kPage, kBoth);
  CHECK(mmap(at, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
  at[0] = 9;
  const uint64_t second = again(fd, at, kPage, kBoth);
  CHECK(second != first);
  CHECK(copy_from(fd, second, 0, &byte, 1, NULL) == 0 && byte == 9);
  CHECK(drop_region(fd, second) == 0);
  CHECK(again(fd, at, kPage, kBoth) != second);
  CHECK(munmap(at, kPage) == 0);
  FAILS(make_region(fd, at, kPage, kBoth | ZEROHOP_REUSE, NULL), EFAULT);
  FAILS(make_region(fd, at, kPage, ZEROHOP_REUSE, NULL), EINVAL);
}

static void use_is_seen_by_eviction(void) {
  set_parameter("pool_regions", "4");
  const int fd = open_device();
  const uint32_t member = member_of(fd, 92);
  char byte, *at = pages(8 * kPage);
  uint64_t region[4];
  fill(at, 8 * kPage, 1);
  for (int i = 0; i < 4; i++) region[i] = again(fd, at + i * kPage, kPage, ZEROHOP_READ);
  CHECK(again(fd, at, kPage, ZEROHOP_READ) == region[0]);
  CHECK(from_member(fd, member, at + 2 * kPage, &byte, 1, NULL) == 0);
  again(fd, at + 5 * kPage, kPage, ZEROHOP_READ);
  again(fd, at + 6 * kPage, kPage, ZEROHOP_READ);
  for (int i = 0; i < 4; i++) CHECK((copy_from(fd, region[i], 0, &byte, 1, NULL) == 0) == (i == 0 || i == 2));
  set_parameter("pool_regions", "4096");
}

/* ---- descriptors in other processes */

/* A member's addresses are those of the process that joined: another may copy with its file, not register. */
static void copies_but_does_not_register(int fd, uint64_t region, uint32_t member, const char* at) {
  char here[64], *own = pages(kPage);
  own[0] = 1;
  FAILS(make_region(fd, own, kPage, kBoth, NULL), EPERM);
  FAILS(make_region(fd, at, kPage, kBoth | ZEROHOP_REUSE, NULL), EPERM);
  CHECK(copy_from(fd, region, 0, here, sizeof here, NULL) == 0 && is_filled(here, sizeof here, 6));
  memset(here, 0, sizeof here);
  CHECK(from_member(fd, member, at, here, sizeof here, NULL) == 0 && is_filled(here, sizeof here, 6));
}

static void inherited(void) {
  const int fd = open_device();
  const uint32_t member = member_of(fd, 94);
  char* at = pages(kPage);
  fill(at, kPage, 6);
  struct Turns t;
  if (with_child(&t) == 0) {
    copies_but_does_not_register(fd, hear(&t), member, at);
    _exit(0);
  }
  say(&t, region_of(fd, at, kPage));
  ends_well(t.child);
  CHECK(statistics(fd).regions == 1 && statistics(fd).registered == 1);
}

static void passed_on(void) {
  int ends[2];
  char* at = pages(kPage);
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct iovec byte = {&(char){0}, 1};
  struct msghdr message = {
      .msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  fill(at, kPage, 6);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  struct Turns t;
  if (with_child(&t) == 0) {
    const uint64_t region = hear(&t);
    CHECK(recvmsg(ends[1], &message, 0) == 1);
    int fd;
    memcpy(&fd, CMSG_DATA(&control.head), sizeof fd);
    copies_but_does_not_register(fd, region, 1, at);
    say(&t, 0);
    hear(&t); /* the sender has closed its own */
    char here[64];
    CHECK(copy_from(fd, region, 0, here, sizeof here, NULL) == 0 && is_filled(here, sizeof here, 6));
    CHECK(statistics(fd).members == 1);
    _exit(0);
  }
  const int fd = open_device();
  CHECK(member_of(fd, 95) == 1);
  say(&t, region_of(fd, at, kPage));
  control.head = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
  CHECK(sendmsg(ends[0], &message, 0) == 1);
  hear(&t);
  close(fd);
  say(&t, 0);
  ends_well(t.child);
}

const struct Case kMemberCases[] = {
    {"member.numbers_are_used_once", numbers_are_used_once, 0},
    {"member.addresses", addresses_of_a_member, 0},
    {"member.each_segment_has_a_region", each_segment_has_a_region, 0},
    {"member.direction_is_kept", direction_is_kept, 0},
    {"member.of_another_context", other_contexts_members, 0},
    {"member.what_is_gone_has_no_addresses", what_is_gone_has_no_addresses, 0},
    {"reuse.what_covers_is_given", what_covers_is_given, 0},
    {"reuse.what_is_gone_is_not_given", what_is_gone_is_not_given, 0},
    {"reuse.is_seen_by_eviction", use_is_seen_by_eviction, 1},
    {"file.inherited", inherited, 0},
    {"file.passed_on", passed_on, 0},
    {0},
};
