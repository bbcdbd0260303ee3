// Programs started from a process with large blocks: exec, vfork, posix_spawn, system and popen. What the starter holds
// stays as it was, and nothing of its heap reaches the new program.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "heap_test.h"

extern "C" char** environ;

namespace zh::heap_test {
namespace {

constexpr size_t kSize = 6 * kMiB;

struct Held {
  void* p = malloc(kSize);
  Held() {
    CHECK(p != nullptr);
    CHECK_SERVED(p);
    fill(p, kSize, 1);
  }
  void check(const char* what) const { verify(p, kSize, 1, what); }
};

// The program that is started: a working allocator, and of zerohop's descriptors only those that it made itself.
HEAP_ENTRY(fresh_program) {
  const int inherited = zerohop_descriptors();
  const int before = zerohop_mappings();
  void* p = malloc(kSize);
  CHECK(p != nullptr);
  CHECK_SERVED(p);
  fill(p, kSize, 5);
  verify(p, kSize, 5, "the new program's own");
  free(p);
  // A descriptor of another process's heap would have come through the exec; a fresh heap keeps at most two itself.
  CHECK(inherited <= 2, "%d descriptors of zerohop at the start, %d mappings", inherited, before);
  return 0;
}
const char* const kFresh = "fresh_program";

HEAP_TEST(ForkAndExec) {
  const Held held;
  for (int i = 0; i < 10; ++i) CHECK(rerun(kFresh).status == 0);
  held.check("after fork and exec");
}

HEAP_TEST(DescriptorsDoNotPassExec) {
  const Held held;
  // A program without zerohop sees what came through the exec.
  setenv("LD_PRELOAD", "", 1);
  FILE* list = popen("ls -l /proc/self/fd", "r");
  CHECK(list != nullptr);
  char line[512];
  while (fgets(line, sizeof line, list) != nullptr) CHECK(strstr(line, "memfd:") == nullptr, "passed on: %s", line);
  CHECK(pclose(list) == 0);
  held.check("after ls");
}

HEAP_TEST(Vfork) {
  const Held held;
  for (int i = 0; i < 10; ++i) {
    const pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
      execl("/proc/self/exe", "heap_test", kFresh, static_cast<char*>(nullptr));
      _exit(126);
    }
    held.check("after vfork");
    join_child(child, "a program after vfork");
  }
  // exec that fails leaves the parent running.
  const pid_t child = vfork();
  if (child == 0) {
    execl("/nonexistent", "nonexistent", static_cast<char*>(nullptr));
    _exit(0);
  }
  join_child(child, "vfork without exec");
  held.check("after a vfork without exec");
}

HEAP_TEST(PosixSpawn) {
  const Held held;
  for (int i = 0; i < 10; ++i) {
    pid_t child = 0;
    char name[] = "heap_test";
    char entry[] = "fresh_program";
    char* arguments[] = {name, entry, nullptr};
    posix_spawn_file_actions_t actions;
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0);
    CHECK(posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    held.check("after posix_spawn");
    join_child(child, "a spawned program");
  }
}

HEAP_TEST(SystemAndPopen) {
  const Held held;
  for (int i = 0; i < 10; ++i) {
    CHECK(system("exit 3") == 3 << 8);
    held.check("after system");
    FILE* stream = popen("echo some words", "r");
    CHECK(stream != nullptr);
    char line[64] = {};
    CHECK(fgets(line, sizeof line, stream) != nullptr && strcmp(line, "some words\n") == 0);
    CHECK(pclose(stream) == 0);
    stream = popen("cat >/dev/null", "w");
    CHECK(stream != nullptr && fwrite(held.p, 1, kSize, stream) == kSize);
    CHECK(pclose(stream) == 0);
    held.check("after popen");
  }
}

HEAP_ENTRY(exec_self_to_depth) {
  const char* text = getenv("ZH_TEST_DEPTH");
  const int depth = text == nullptr ? 0 : atoi(text);
  entry_fresh_program();
  void* p = malloc(kSize);
  fill(p, kSize, 3);
  if (depth == 0) return 0;
  char next[16];
  snprintf(next, sizeof next, "%d", depth - 1);
  setenv("ZH_TEST_DEPTH", next, 1);
  execl("/proc/self/exe", "heap_test", "exec_self_to_depth", static_cast<char*>(nullptr));
  return 126;
}

HEAP_TEST(ExecOfItself) {
  CHECK(rerun("exec_self_to_depth", [] { setenv("ZH_TEST_DEPTH", "20", 1); }).status == 0);
}

HEAP_TEST(ChildrenReadAndWriteThroughPipes) {
  // The kernel reads and writes the blocks, on both sides of a fork.
  const Held held;
  int ends[2];
  CHECK(pipe(ends) == 0);
  const int child = fork_child([&] {
    close(ends[0]);
    fill(held.p, kSize, 9);
    size_t done = 0;
    while (done < kSize) {
      const ssize_t n = write(ends[1], static_cast<char*>(held.p) + done, kSize - done);
      CHECK(n > 0);
      done += static_cast<size_t>(n);
    }
  });
  close(ends[1]);
  void* got = malloc(kSize);
  size_t done = 0;
  while (done < kSize) {
    const ssize_t n = read(ends[0], static_cast<char*>(got) + done, kSize - done);
    CHECK(n > 0);
    done += static_cast<size_t>(n);
  }
  join_child(child, "the writer");
  verify(got, kSize, 9, "what the child wrote");
  held.check("the parent's own");
}

}  // namespace
}  // namespace zh::heap_test
