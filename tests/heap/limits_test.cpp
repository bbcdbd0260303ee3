// Limits of the system and of the shell: with the heap a program must get as much, and be refused at the same point, as
// without. Each case runs a measuring entry of this program twice, as it is and without the preloaded library.
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "heap_test.h"

namespace zh::heap_test {
namespace {

long number(const Outcome& outcome) { return atol(outcome.said); }

/// Runs an entry under a limit; `bare` without the preloaded library.
template <class Prepare>
Outcome run_entry(const char* entry, bool bare, Prepare prepare) {
  return rerun(entry, [&] {
    if (bare) {
      unsetenv("LD_PRELOAD");
      setenv("ZH_HEAP_MODE", "bare", 1);
    }
    prepare();
  });
}

void limit(__rlimit_resource resource, rlim_t bytes) {
  const rlimit both = {bytes, bytes};
  CHECK(setrlimit(resource, &both) == 0);
}

/// Blocks of 16 MiB, touched at their ends, until malloc refuses or there are 80 of them (1.3 GB).
HEAP_ENTRY(take_all) {
  constexpr size_t kBlock = 16 * kMiB;
  static void* blocks[80];
  int count = 0;
  while (count < 80 && (blocks[count] = malloc(kBlock)) != nullptr) {
    stamp(blocks[count], kBlock, static_cast<uint64_t>(count), 4 * kMiB);
    ++count;
  }
  if (count < 80 && errno != ENOMEM) return 3;
  for (int i = 0; i < count; ++i) {
    verify_stamp(blocks[i], kBlock, static_cast<uint64_t>(i), "a block under a limit", 4 * kMiB);
    free(blocks[i]);
  }
  // What was freed can be had again.
  for (int i = 0; i < count * 3 / 4; ++i) {
    void* p = malloc(kBlock);
    if (p == nullptr) return 4;
    blocks[i] = p;
  }
  printf("%d\n", count);
  return 0;
}

HEAP_ENTRY(take_all_without_descriptors) {
  while (open("/dev/null", O_RDONLY) >= 0) {
  }
  return entry_take_all();
}

template <class Prepare>
void same_amount(Prepare prepare, const char* entry = "take_all") {
  const Outcome bare = run_entry(entry, true, prepare);
  const Outcome mine = run_entry(entry, false, prepare);
  CHECK(WIFEXITED(bare.status) && WEXITSTATUS(bare.status) == 0, "without zerohop: status %#x", bare.status);
  CHECK(WIFEXITED(mine.status) && WEXITSTATUS(mine.status) == 0, "status %#x", static_cast<unsigned>(mine.status));
  const long slack = number(bare) / 10 + 2;
  CHECK(labs(number(mine) - number(bare)) <= slack, "%ld blocks of 16 MiB, without zerohop %ld", number(mine),
        number(bare));
}

HEAP_TEST(AddressSpaceLimit) {  // long
  same_amount([] { limit(RLIMIT_AS, kGiB); });
  same_amount([] { limit(RLIMIT_AS, 200 * kMiB); });
}

HEAP_TEST(DataLimit) {  // long
  same_amount([] { limit(RLIMIT_DATA, 512 * kMiB); });
}

HEAP_TEST(FileSizeLimit) {  // long
  same_amount([] { limit(RLIMIT_FSIZE, kMiB); });
  same_amount([] { limit(RLIMIT_FSIZE, 0); });
}

HEAP_TEST(DescriptorLimit) {  // long
  same_amount([] { limit(RLIMIT_NOFILE, 100); }, "take_all_without_descriptors");
}

/// A program that limits itself after it has large blocks: small and large allocations and threads go on.
HEAP_ENTRY(limits_itself) {
  void* first = malloc(8 * kMiB);
  if (first == nullptr) return 3;
  stamp(first, 8 * kMiB, 1);
  limit(RLIMIT_AS, 2 * kGiB);
  int good = 0;
  for (int i = 0; i < 10000; ++i) good += malloc(10000) != nullptr;
  int large = 0;
  for (int i = 0; i < 20; ++i) large += malloc(16 * kMiB) != nullptr;
  int threads = 0;
  for (int i = 0; i < 8; ++i) {
    pthread_t thread;
    if (pthread_create(
            &thread, nullptr, [](void*) -> void* { return malloc(1000); }, nullptr) != 0)
      continue;
    pthread_join(thread, nullptr);
    ++threads;
  }
  printf("%d small, %d large, %d threads", good, large, threads);
  return 0;
}

HEAP_TEST(LimitSetByTheProgramItself) {
  const Outcome bare = run_entry("limits_itself", true, [] {});
  const Outcome mine = run_entry("limits_itself", false, [] {});
  CHECK(mine.status == bare.status, "status %#x", static_cast<unsigned>(mine.status));
  CHECK(strcmp(mine.said, bare.said) == 0, "'%s', without zerohop '%s'", mine.said, bare.said);
}

HEAP_ENTRY(locks_everything) {
  void* first = malloc(8 * kMiB);
  if (first == nullptr || mlockall(MCL_CURRENT | MCL_FUTURE) != 0) return 77;
  for (int i = 0; i < 8; ++i) {
    void* p = malloc(8 * kMiB);
    if (p == nullptr) return 3;
    stamp(p, 8 * kMiB, 1);
  }
  printf("%zu\n", resident_bytes() / kMiB);
  return 0;
}

HEAP_TEST(EverythingLocked) {
  const Outcome bare = run_entry("locks_everything", true, [] {});
  if (WEXITSTATUS(bare.status) == 77) skip("mlockall is not permitted");
  const Outcome mine = run_entry("locks_everything", false, [] {});
  CHECK(mine.status == 0 && bare.status == 0, "status %#x", static_cast<unsigned>(mine.status));
  CHECK(number(mine) < number(bare) + 100, "%ld MiB are resident, without zerohop %ld", number(mine), number(bare));
}

HEAP_TEST(DescriptorsClosedByTheProgram) {
  // A daemon closes everything that it does not know, and gets the same numbers again for files of its own.
  void* before = malloc(4 * kMiB);
  CHECK_SERVED(before);
  fill(before, 4 * kMiB, 1);
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  char path[] = "/tmp/zh-heap-test-XXXXXX";
  int files[8];
  char text[kPage];
  memset(text, 'f', sizeof text);
  for (int& fd : files) {
    strcpy(path, "/tmp/zh-heap-test-XXXXXX");
    fd = mkstemp(path);
    CHECK(fd >= 0);
    unlink(path);
    for (int i = 0; i < 64; ++i) CHECK(write(fd, text, sizeof text) == sizeof text);
  }
  verify(before, 4 * kMiB, 1, "a block from before");
  for (int round = 0; round < 3; ++round) {
    void* blocks[6];
    for (void*& p : blocks) {
      p = malloc(48 * kMiB);
      CHECK(p != nullptr);
      stamp(p, 48 * kMiB, 2, kPage);
    }
    for (void* p : blocks) {
      verify_stamp(p, 48 * kMiB, 2, "a block after everything was closed", kPage);
      free(p);
    }
  }
  join_child(fork_child([&] {
               verify(before, 4 * kMiB, 1, "a block from before, in the child");
               fill(before, 4 * kMiB, 3);
             }),
             "the child");
  verify(before, 4 * kMiB, 1, "a block from before, after the child wrote");
  free(before);
  malloc_trim(0);
  for (const int fd : files) {
    struct stat about {};
    CHECK(fstat(fd, &about) == 0 && about.st_size == 64 * static_cast<off_t>(kPage), "the program's file is changed");
    char again[kPage];
    for (int i = 0; i < 64; ++i) {
      CHECK(pread(fd, again, sizeof again, i * static_cast<off_t>(kPage)) == sizeof again);
      CHECK(memcmp(again, text, sizeof text) == 0, "the program's file has other contents at page %d", i);
    }
  }
}

/// A cgroup of this test with a limit of memory, version 1 or 2; skips where that is not permitted.
class MemoryGroup {
 public:
  explicit MemoryGroup(size_t bytes) {
    for (const char* root : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
      snprintf(path_, sizeof path_, "%s/zh-heap-test-%d", root, getpid());
      if (mkdir(path_, 0755) != 0) continue;
      char value[32];
      snprintf(value, sizeof value, "%zu", bytes);
      if (put("memory.limit_in_bytes", value) || put("memory.max", value)) return;
      rmdir(path_);
    }
    skip("no memory cgroup can be made here");
  }
  ~MemoryGroup() { rmdir(path_); }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  void enter() const {
    char pid[32];
    snprintf(pid, sizeof pid, "%d", getpid());
    CHECK(put("cgroup.procs", pid), "%s", path_);
  }

 private:
  bool put(const char* file, const char* value) const {
    char name[256];
    snprintf(name, sizeof name, "%s/%s", path_, file);
    const int fd = open(name, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool good = write(fd, value, strlen(value)) == static_cast<ssize_t>(strlen(value));
    close(fd);
    return good;
  }
  char path_[128];
};

/// Large blocks that come and go below the group's limit of 160 MiB, whatever is kept for reuse.
HEAP_ENTRY(comes_and_goes) {
  for (size_t round = 0; round < 8; ++round) {
    const size_t n = (40 + 17 * round % 80) * kMiB;
    void* p = malloc(n);
    if (p == nullptr) return 3;
    stamp(p, n, round, kPage);
    void* q = malloc(15 * kMiB);
    stamp(q, 15 * kMiB, round, kPage);
    verify_stamp(p, n, round, "a block in a cgroup", kPage);
    free(p);
    free(q);
    for (size_t i = 0; i < 30; ++i) {
      void* middle = malloc((1 + i) * kMiB);
      stamp(middle, (1 + i) * kMiB, i, kPage);
      free(middle);
    }
  }
  printf("lived\n");
  return 0;
}

HEAP_ENTRY(takes_too_much) {
  for (size_t i = 0; i < 100; ++i) {
    void* p = malloc(16 * kMiB);
    if (p == nullptr) return 3;
    stamp(p, 16 * kMiB, i, kPage);
  }
  return 0;
}

HEAP_TEST(CgroupLimit) {  // long
  const MemoryGroup group(160 * kMiB);
  for (const bool bare : {true, false}) {
    const Outcome lives = run_entry("comes_and_goes", bare, [&] { group.enter(); });
    CHECK(lives.status == 0, "%s: status %#x", bare ? "without zerohop" : "below the limit",
          static_cast<unsigned>(lives.status));
    const Outcome dies = run_entry("takes_too_much", bare, [&] { group.enter(); });
    CHECK(WIFSIGNALED(dies.status) && WTERMSIG(dies.status) == SIGKILL, "%s: status %#x",
          bare ? "without zerohop" : "above the limit", static_cast<unsigned>(dies.status));
  }
}

}  // namespace
}  // namespace zh::heap_test
