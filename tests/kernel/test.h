/* What the module's tests are written in: named cases, each in a process of its own as an ordinary user, and its peers.
 */
#ifndef ZH_KERNEL_TEST_H
#define ZH_KERNEL_TEST_H

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "include/uapi/zerohop.h"

enum { kPage = 4096, kUser = 1000, kOther = 1001 };

/* A case fails by a line that names what was wanted; the process ends. */
#define CHECK(condition)                                                                                \
  do {                                                                                                  \
    if (!(condition)) {                                                                                 \
      printf("    %s:%d: %s (errno %d: %s)\n", __FILE__, __LINE__, #condition, errno, strerror(errno)); \
      fflush(stdout);                                                                                   \
      _exit(1);                                                                                         \
    }                                                                                                   \
  } while (0)
#define FAILS(call, error)   \
  do {                       \
    errno = 0;               \
    const int rc_ = (call);  \
    CHECK(rc_ == -1);        \
    CHECK(errno == (error)); \
  } while (0)

typedef void (*Body)(void);
struct Case {
  const char* name;
  Body body;
  int as_root;
};
/* Each ends with a null name. The last are of a build of the module whose allocations can be made to fail. */
extern const struct Case kCallCases[], kMemberCases[], kMemoryCases[], kLimitCases[], kRevokeCases[], kLoadCases[];
extern const struct Case kFaultCases[];

/* ---- calls */

int open_device(void);                  /* a descriptor */
int join(int fd, unsigned char secret); /* a secret of this byte, 32 times */
int joined(unsigned char secret);       /* open and join; checked */
int make_region(int fd, const void* at, uint64_t bytes, uint32_t flags, uint64_t* region);
uint64_t region_of(int fd, const void* at, uint64_t bytes); /* read and write; checked */
int drop_region(int fd, uint64_t region);
/* The whole of one segment: into `to` from the region's offset, or out of it. `copied` may be null. */
int copy_from(int fd, uint64_t region, uint64_t offset, void* to, uint64_t bytes, uint64_t* copied);
int copy_to(int fd, uint64_t region, uint64_t offset, const void* from, uint64_t bytes, uint64_t* copied);
int copy_lists(int fd, struct zerohop_copy* call, const struct zerohop_segment* here, uint32_t here_count,
               const struct zerohop_segment* there, uint32_t there_count);
struct zerohop_statistics statistics(int fd);
void unpinned(int fd); /* waits until no page of the context is pinned: work of the kernel after a change */

/* ---- memory */

void* pages(uint64_t bytes); /* private, anonymous, not touched; checked */
void fill(void* at, uint64_t bytes, unsigned seed);
int is_filled(const void* at, uint64_t bytes, unsigned seed);
uint64_t pinned_kib(void); /* VmPin of this process */
void limit_locked(uint64_t bytes);
void set_parameter(const char* name, const char* value);
int parameter(const char* name);
int unload_module(void);
int load_module(const char* parameters); /* /zerohop.ko */

/* ---- processes */

/* Two processes that take turns: the parent says(), the child hears(), and the other way round. */
struct Turns {
  int down[2], up[2];
  pid_t child;
};
pid_t with_child(struct Turns* t); /* as fork() */
void say(struct Turns* t, uint64_t what);
uint64_t hear(struct Turns* t);
void ends_well(pid_t child);
void become(unsigned user);

#endif
