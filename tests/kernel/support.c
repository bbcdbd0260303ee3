/* See test.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "test.h"

int open_device(void) {
  const int fd = open("/dev/zerohop", O_RDWR | O_CLOEXEC);
  CHECK(fd >= 0);
  return fd;
}

int join(int fd, unsigned char secret) {
  struct zerohop_join call = {.size = sizeof call, .abi = ZEROHOP_ABI};
  memset(call.secret, secret, sizeof call.secret);
  return ioctl(fd, ZEROHOP_IOC_JOIN, &call);
}

int joined(unsigned char secret) {
  const int fd = open_device();
  CHECK(join(fd, secret) == 0);
  return fd;
}

int make_region(int fd, const void* at, uint64_t bytes, uint32_t flags, uint64_t* region) {
  struct zerohop_register call = {.size = sizeof call, .flags = flags, .address = (uintptr_t)at, .bytes = bytes};
  const int rc = ioctl(fd, ZEROHOP_IOC_REGISTER, &call);
  if (region) *region = call.region;
  return rc;
}

uint64_t region_of(int fd, const void* at, uint64_t bytes) {
  uint64_t region = 0;
  CHECK(make_region(fd, at, bytes, ZEROHOP_READ | ZEROHOP_WRITE, &region) == 0);
  CHECK(region > 0);
  return region;
}

int drop_region(int fd, uint64_t region) {
  struct zerohop_unregister call = {.size = sizeof call, .region = region};
  return ioctl(fd, ZEROHOP_IOC_UNREGISTER, &call);
}

int copy_lists(int fd, struct zerohop_copy* call, const struct zerohop_segment* here, uint32_t here_count,
               const struct zerohop_segment* there, uint32_t there_count) {
  call->size = sizeof *call;
  call->here = (uintptr_t)here;
  call->here_count = here_count;
  call->there = (uintptr_t)there;
  call->there_count = there_count;
  return ioctl(fd, ZEROHOP_IOC_COPY, call);
}

static int copy(int fd, uint32_t flags, uint64_t region, uint64_t offset, uint64_t address, uint64_t bytes,
                uint64_t* copied) {
  struct zerohop_copy call = {.flags = flags, .region = region};
  const struct zerohop_segment here = {address, bytes}, there = {offset, bytes};
  const int rc = copy_lists(fd, &call, &here, 1, &there, 1);
  if (copied) *copied = call.copied;
  return rc;
}

int copy_from(int fd, uint64_t region, uint64_t offset, void* to, uint64_t bytes, uint64_t* copied) {
  return copy(fd, 0, region, offset, (uintptr_t)to, bytes, copied);
}

int copy_to(int fd, uint64_t region, uint64_t offset, const void* from, uint64_t bytes, uint64_t* copied) {
  return copy(fd, ZEROHOP_TO_REGION, region, offset, (uintptr_t)from, bytes, copied);
}

struct zerohop_statistics statistics(int fd) {
  struct zerohop_statistics call = {.size = sizeof call};
  CHECK(ioctl(fd, ZEROHOP_IOC_STATISTICS, &call) == 0);
  return call;
}

void unpinned(int fd) {
  for (int i = 0; i < 1000 && statistics(fd).pages > 0; i++) usleep(10000);
  CHECK(statistics(fd).pages == 0);
}

void* pages(uint64_t bytes) {
  void* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(at != MAP_FAILED);
  return at;
}

static unsigned char byte_of(uint64_t i, unsigned seed) { return (unsigned char)(i * 31 + (i >> 12) * 7 + seed * 101); }

void fill(void* at, uint64_t bytes, unsigned seed) {
  for (uint64_t i = 0; i < bytes; i++) ((unsigned char*)at)[i] = byte_of(i, seed);
}

int is_filled(const void* at, uint64_t bytes, unsigned seed) {
  for (uint64_t i = 0; i < bytes; i++)
    if (((const unsigned char*)at)[i] != byte_of(i, seed)) return 0;
  return 1;
}

uint64_t pinned_kib(void) {
  char line[256];
  uint64_t kib = 0;
  FILE* file = fopen("/proc/self/status", "r");
  CHECK(file);
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "VmPin: %lu", &kib) == 1) break;
  fclose(file);
  return kib;
}

void limit_locked(uint64_t bytes) {
  const struct rlimit limit = {bytes, bytes};
  CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
}

void set_parameter(const char* name, const char* value) {
  char path[128];
  snprintf(path, sizeof path, "/sys/module/zerohop/parameters/%s", name);
  FILE* file = fopen(path, "w");
  CHECK(file);
  CHECK(fputs(value, file) >= 0);
  CHECK(fclose(file) == 0);
}

int parameter(const char* name) {
  char path[128];
  int value = 0;
  snprintf(path, sizeof path, "/sys/module/zerohop/parameters/%s", name);
  FILE* file = fopen(path, "r");
  CHECK(file);
  CHECK(fscanf(file, "%d", &value) == 1);
  fclose(file);
  return value;
}

int unload_module(void) { return (int)syscall(SYS_delete_module, "zerohop", O_NONBLOCK); }

int load_module(const char* parameters) {
  const int file = open("/zerohop.ko", O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0);
  const int rc = (int)syscall(SYS_finit_module, file, parameters, 0);
  close(file);
  return rc;
}

pid_t with_child(struct Turns* t) {
  CHECK(pipe(t->down) == 0 && pipe(t->up) == 0);
  t->child = fork();
  CHECK(t->child >= 0);
  if (t->child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  close(t->child ? t->down[0] : t->down[1]); /* so whoever hears sees the other's end */
  close(t->child ? t->up[1] : t->up[0]);
  return t->child;
}

void say(struct Turns* t, uint64_t what) {
  CHECK(write(t->child ? t->down[1] : t->up[1], &what, sizeof what) == sizeof what);
}

uint64_t hear(struct Turns* t) {
  uint64_t what = 0;
  CHECK(read(t->child ? t->up[0] : t->down[0], &what, sizeof what) == sizeof what);
  return what;
}

void ends_well(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

void become(unsigned user) { CHECK(setgid(user) == 0 && setuid(user) == 0); }
