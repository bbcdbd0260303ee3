/* A program of 32 bits without a library, so that no other compiler is needed: its structures are those of 64 bits.
 * Exit code: the line of the check that failed, modulo 256, else 0. */
#include <asm/unistd_32.h>

#include "include/uapi/zerohop.h"

_Static_assert(sizeof(void*) == 4, "of 32 bits");
_Static_assert(sizeof(struct zerohop_join) == 48 && sizeof(struct zerohop_register) == 32, "as of 64 bits");
_Static_assert(sizeof(struct zerohop_unregister) == 16 && sizeof(struct zerohop_copy) == 64, "as of 64 bits");
_Static_assert(sizeof(struct zerohop_statistics) == 72 && sizeof(struct zerohop_segment) == 16, "as of 64 bits");

enum { kPage = 4096, kReadWrite = 2, kNoSuchMemory = -14 };

static long call(long number, long a, long b, long c) {
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
  return result;
}

static char memory[3 * kPage], here[2 * kPage];

static int failed_line(void) {
#define CHECK(condition) \
  if (!(condition)) return __LINE__
  const long fd = call(__NR_open, (long)"/dev/zerohop", kReadWrite, 0);
  CHECK(fd >= 0);
  static struct zerohop_join join = {.size = sizeof join, .abi = ZEROHOP_ABI, .secret = {140}};
  CHECK(call(__NR_ioctl, fd, (long)ZEROHOP_IOC_JOIN, (long)&join) == 0 && join.member == 1);
  static struct zerohop_register reg = {.size = sizeof reg, .flags = ZEROHOP_READ | ZEROHOP_WRITE};
  reg.address = (unsigned long)memory;
  reg.bytes = sizeof memory;
  CHECK(call(__NR_ioctl, fd, (long)ZEROHOP_IOC_REGISTER, (long)&reg) == 0 && reg.region == 1);
  for (int i = 0; i < 3 * kPage; i++) memory[i] = (char)(i * 7);
  static struct zerohop_segment to[] = {{0, 100}, {0, kPage}}, from[] = {{5, kPage + 100}};
  to[0].at = (unsigned long)here;
  to[1].at = (unsigned long)(here + 200);
  static struct zerohop_copy copy = {.size = sizeof copy, .here_count = 2, .there_count = 1};
  copy.region = reg.region;
  copy.here = (unsigned long)to;
  copy.there = (unsigned long)from;
  CHECK(call(__NR_ioctl, fd, (long)ZEROHOP_IOC_COPY, (long)&copy) == 0 && copy.copied == kPage + 100);
  CHECK(here[0] == memory[5] && here[99] == memory[104] && here[200] == memory[105]);
  copy.flags = ZEROHOP_OF_MEMBER | ZEROHOP_TO_REGION;
  copy.region = join.member;
  from[0].at += (unsigned long)memory;
  here[200] = 99;
  CHECK(call(__NR_ioctl, fd, (long)ZEROHOP_IOC_COPY, (long)&copy) == 0 && memory[105] == 99);
  reg.region = 0;
  reg.address = 0xfffff000;
  reg.bytes = 2 * kPage; /* beyond what it can address */
  CHECK(call(__NR_ioctl, fd, (long)ZEROHOP_IOC_REGISTER, (long)&reg) == kNoSuchMemory);
  static struct zerohop_unregister unregister = {.size = sizeof unregister, .region = 1};
  CHECK(call(__NR_ioctl, fd, (long)ZEROHOP_IOC_UNREGISTER, (long)&unregister) == 0);
  static struct zerohop_statistics statistics = {.size = sizeof statistics};
  CHECK(call(__NR_ioctl, fd, (long)ZEROHOP_IOC_STATISTICS, (long)&statistics) == 0);
  CHECK(statistics.copies == 2 && statistics.pages == 0 && statistics.registered == 1);
  return 0;
}

void _start(void) {
  const int line = failed_line();
  call(__NR_exit, line, 0, 0);
  __builtin_unreachable();
}
