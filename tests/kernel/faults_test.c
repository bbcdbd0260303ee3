/* Each allocation inside each call failing in turn: the call says ENOMEM, and leaves nothing behind. */
#define _GNU_SOURCE
#include <fcntl.h>

#include "test.h"

enum { kPinned = 2049 * kPage }; /* pinned in three steps */

static int fd, other; /* of one context */
static char* at;
static uint64_t region;

static int closed(int file, int rc) {
  const int error = errno;
  if (file >= 0) close(file);
  errno = error;
  return rc;
}

static int opens(void) {
  const int file = open("/dev/zerohop", O_RDWR | O_CLOEXEC);
  return closed(file, file < 0 ? -1 : 0);
}

static int joins(unsigned char secret) {
  const int file = open("/dev/zerohop", O_RDWR | O_CLOEXEC);
  return file < 0 ? -1 : closed(file, join(file, secret));
}
static int joins_the_first(void) { return joins(151); }
static int joins_another(void) { return joins(150); }

static int registers(void) {
  uint64_t made = 0;
  const int rc = make_region(fd, at, kPinned, ZEROHOP_READ | ZEROHOP_WRITE, &made);
  if (rc == 0) CHECK(drop_region(fd, made) == 0);
  return rc;
}

static int copies(void) {
  char here[64];
  return copy_from(other, region, 0, here, sizeof here, NULL);
}

static int copies_addresses(void) {
  char here[64];
  struct zerohop_copy call = {.flags = ZEROHOP_OF_MEMBER, .region = 1};
  const struct zerohop_segment mine = {(uintptr_t)here, sizeof here}, theirs = {(uintptr_t)at, sizeof here};
  return copy_lists(other, &call, &mine, 1, &theirs, 1);
}

static int reuses(void) { return make_region(fd, at, kPage, ZEROHOP_READ | ZEROHOP_REUSE, NULL); }

static void set_number(const char* name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  set_parameter(name, text);
}

/* `expected` allocations, none of which is missed. */
static void each_fails(int (*attempt)(void), int expected) {
  for (int n = 1;; n++) {
    const struct zerohop_statistics before = statistics(fd);
    const int failed = parameter("failed"), held = parameter("held");
    const uint64_t pinned = pinned_kib();
    set_number("fail_at", n);
    const int rc = attempt(), error = errno;
    set_number("fail_at", 0);
    const struct zerohop_statistics after = statistics(fd);
    CHECK(parameter("held") == held && pinned_kib() == pinned);
    CHECK(after.members == before.members && after.regions == before.regions && after.pages == before.pages);
    if (parameter("failed") == failed) {
      CHECK(rc == 0 && n - 1 == expected);
      return;
    }
    CHECK(rc == -1 && error == ENOMEM);
    CHECK(after.registered == before.registered && after.copies == before.copies);
  }
}

static void in_each_call(void) {
  set_number("fail_of", getpid());
  fd = joined(150);
  other = joined(150);
  at = pages(kPinned);
  memset(at, 1, kPinned);
  each_fails(opens, 1);
  each_fails(joins_the_first, 5); /* the file, the notifier, the user, the context, its place among the members */
  each_fails(joins_another, 4);
  each_fails(registers, 6); /* the region, its pages, three steps of pinning, its place by number */
  region = region_of(fd, at, kPage);
  each_fails(copies, 2); /* both lists */
  each_fails(copies_addresses, 2);
  each_fails(reuses, 0);
  CHECK(statistics(fd).regions == 1 && statistics(fd).pages == 1);
  set_number("fail_of", 0);
}

static void while_loading(void) {
  CHECK(unload_module() == 0);
  FAILS(load_module("fail_at=1"), ENOMEM);
  FAILS(load_module("fail_at=2"), ENOMEM);
  CHECK(load_module("fail_at=3") == 0);
  CHECK(parameter("failed") == 0);
  set_number("fail_at", 0);
}

/* What the module allocated it has freed, after all that revokes. */
static void nothing_is_left(void) {
  for (const struct Case* c = kRevokeCases; c->name; c++) {
    const pid_t child = fork();
    if (child == 0) {
      setpgid(0, 0);
      become(kUser);
      c->body();
      _exit(0);
    }
    ends_well(child);
    kill(-child, SIGKILL); /* who keeps files open */
  }
  for (int i = 0; i < 500 && parameter("held"); i++) usleep(10000);
  CHECK(parameter("held") == 0);
}

const struct Case kFaultCases[] = {
    {"faults.in_each_call", in_each_call, 1},
    {"faults.while_loading", while_loading, 1},
    {"faults.nothing_is_left", nothing_is_left, 1},
    {0},
};
