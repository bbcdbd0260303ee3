// See heap_test.h. Everything here works on stack buffers and system calls.
#include "heap_test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" char** environ;

namespace zh::heap_test {
namespace {

constexpr int kSkipped = 77;

Case* g_cases = nullptr;
Entry* g_entries = nullptr;

void write_all(int fd, const char* text, size_t n) {
  while (n > 0) {
    const ssize_t done = write(fd, text, n);
    if (done <= 0) return;
    text += done;
    n -= static_cast<size_t>(done);
  }
}

/// The lines of a file of /proc, one after the other, through a stack buffer.
class Lines {
 public:
  explicit Lines(const char* path) : fd_(open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Lines() {
    if (fd_ >= 0) close(fd_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  const char* next() {
    size_t n = 0;
    for (;;) {
      if (at_ == filled_) {
        const ssize_t got = fd_ < 0 ? 0 : read(fd_, buffer_, sizeof buffer_);
        if (got <= 0) break;
        at_ = 0;
        filled_ = static_cast<size_t>(got);
      }
      const char c = buffer_[at_++];
      if (c == '\n') {
        line_[n] = 0;
        return line_;
      }
      if (n + 1 < sizeof line_) line_[n++] = c;
    }
    line_[n] = 0;
    return n > 0 ? line_ : nullptr;
  }

 private:
  int fd_;
  size_t at_ = 0;
  size_t filled_ = 0;
  char buffer_[4096];
  char line_[1024];
};

bool parse(const char* line, Mapping* out) {
  unsigned long begin = 0;
  unsigned long end = 0;
  int name_at = 0;
  if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %n", &begin, &end, out->protection, &name_at) < 3) return false;
  out->begin = begin;
  out->end = end;
  snprintf(out->name, sizeof out->name, "%s", name_at > 0 ? line + name_at : "");
  return true;
}

bool is_zerohop_memfd(const char* name) {
  const char* memfd = strstr(name, "memfd:");
  return memfd != nullptr && strstr(memfd, "zerohop") != nullptr;
}

bool library_is_loaded() {
  Lines lines("/proc/self/maps");
  while (const char* line = lines.next()) {
    if (strstr(line, "/libzerohop.so") != nullptr) return true;
  }
  return false;
}

uint64_t word(uint64_t seed, size_t index) { return (seed + 1) * 0x9E3779B97F4A7C15u + index * 0xD1B54A32D192ED03u; }

int run(const Case& one) {
  const bool loaded = library_is_loaded();
  CHECK(loaded == (mode() != Mode::kBare), "libzerohop.so is %sin this process", loaded ? "" : "not ");
  one.body();
  return 0;
}

}  // namespace

Case::Case(const char* case_name, void (*case_body)()) : name(case_name), body(case_body), next(g_cases) {
  g_cases = this;
}
Entry::Entry(const char* entry_name, int (*entry_body)()) : name(entry_name), body(entry_body), next(g_entries) {
  g_entries = this;
}

Mode mode() {
  const char* name = getenv("ZH_HEAP_MODE");
  if (name == nullptr || strcmp(name, "bare") == 0) return Mode::kBare;
  return strcmp(name, "on") == 0 ? Mode::kOn : Mode::kShared;
}

int share(const void* p, size_t n) {
  using Share = int (*)(const void*, size_t);
  const auto call = reinterpret_cast<Share>(dlsym(RTLD_DEFAULT, "zh_share"));
  return call == nullptr ? ENOSYS : call(p, n);
}

void say(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  const int n = vsnprintf(text, sizeof text - 1, format, arguments);
  va_end(arguments);
  const size_t length =
      n < 0 ? 0 : (static_cast<size_t>(n) < sizeof text - 1 ? static_cast<size_t>(n) : sizeof text - 2);
  text[length] = '\n';
  write_all(STDERR_FILENO, text, length + 1);
}

void fail(const char* file, int line, const char* what, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const char* base = strrchr(file, '/');
  say("FAILED %s:%d: %s%s%s (errno %d)", base == nullptr ? file : base + 1, line, what, text[0] == 0 ? "" : ":", text,
      errno);
  _exit(1);
}

void skip(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  say("SKIPPED: %s", text);
  _exit(kSkipped);
}

bool mapping_of(const void* p, Mapping* out) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  Lines lines("/proc/self/maps");
  while (const char* line = lines.next()) {
    if (parse(line, out) && address >= out->begin && address < out->end) return true;
  }
  return false;
}

bool in_heap(const void* p) {
  Mapping mapping;
  return mapping_of(p, &mapping) && is_zerohop_memfd(mapping.name) && mapping.protection[3] == 's';
}

bool block_in_heap(const void* block) { return in_heap(static_cast<const char*>(block) + kPage); }

int zerohop_mappings() {
  int count = 0;
  Lines lines("/proc/self/maps");
  Mapping mapping;
  while (const char* line = lines.next()) count += parse(line, &mapping) && is_zerohop_memfd(mapping.name);
  return count;
}

int zerohop_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    char path[64];
    char name[256];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(path, name, sizeof name - 1);
    if (n <= 0) continue;
    name[n] = 0;
    count += is_zerohop_memfd(name);
  }
  return count;
}

size_t resident_bytes() {
  Lines lines("/proc/self/statm");
  const char* line = lines.next();
  unsigned long pages = 0;
  CHECK(line != nullptr && sscanf(line, "%*s %lu", &pages) == 1);
  return pages * kPage;
}

namespace {
/// The number of kilobytes in the line that begins so.
size_t bytes_in_line(const char* path, const char* name) {
  Lines lines(path);
  while (const char* line = lines.next()) {
    if (strncmp(line, name, strlen(name)) == 0) return strtoul(line + strlen(name), nullptr, 10) * kKiB;
  }
  return 0;
}
}  // namespace

size_t proportional_bytes() { return bytes_in_line("/proc/self/smaps_rollup", "Pss:"); }
size_t peak_resident_bytes() { return bytes_in_line("/proc/self/status", "VmHWM:"); }

void fill(void* p, size_t n, uint64_t seed) {
  auto* bytes = static_cast<unsigned char*>(p);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const uint64_t value = word(seed, i);
    memcpy(bytes + i, &value, 8);
  }
  for (; i < n; ++i) bytes[i] = static_cast<unsigned char>(word(seed, i) >> 56);
}

void verify(const void* p, size_t n, uint64_t seed, const char* what, size_t from) {
  const auto* bytes = static_cast<const unsigned char*>(p);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t value = 0;
    memcpy(&value, bytes + i, 8);
    const uint64_t wanted = word(seed, from + i);
    if (value != wanted)
      fail("heap_test.cpp", __LINE__, what, " byte %zu of %zu at %p holds %#lx, not %#lx", i, n, p, value, wanted);
  }
  for (; i < n; ++i)
    if (bytes[i] != static_cast<unsigned char>(word(seed, from + i) >> 56))
      fail("heap_test.cpp", __LINE__, what, " byte %zu of %zu at %p holds %#x", i, n, p, bytes[i]);
}

void verify_zero(const void* p, size_t n, const char* what) {
  const auto* bytes = static_cast<const unsigned char*>(p);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t value = 0;
    memcpy(&value, bytes + i, 8);
    if (value != 0) break;
  }
  for (; i < n; ++i)
    if (bytes[i] != 0) fail("heap_test.cpp", __LINE__, what, " byte %zu of %zu is %#x, not 0", i, n, bytes[i]);
}

void stamp(void* p, size_t n, uint64_t seed, size_t step) {
  auto* bytes = static_cast<unsigned char*>(p);
  if (n < 8) return fill(p, n, seed);
  for (size_t i = 0; i + 8 <= n; i += step) {
    const uint64_t value = word(seed, i);
    memcpy(bytes + i, &value, 8);
  }
  const uint64_t last = word(seed, 1);
  memcpy(bytes + n - 8, &last, 8);
}

void verify_stamp(const void* p, size_t n, uint64_t seed, const char* what, size_t step) {
  const auto* bytes = static_cast<const unsigned char*>(p);
  if (n < 8) return verify(p, n, seed, what);
  uint64_t value = 0;
  memcpy(&value, bytes + n - 8, 8);
  if (value != word(seed, 1)) fail("heap_test.cpp", __LINE__, what, " last word of %zu holds %#lx", n, value);
  for (size_t i = 0; i + 8 <= n; i += step) {
    if (i + 16 > n) break;  // overlaps the last word
    memcpy(&value, bytes + i, 8);
    if (value != word(seed, i))
      fail("heap_test.cpp", __LINE__, what, " byte %zu of %zu at %p holds %#lx, not %#lx", i, n, p, value,
           word(seed, i));
  }
}

uint64_t Random::next() {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_ * 0x2545F4914F6CDD1Du >> 11;
}

size_t Random::size(size_t least, size_t most) {
  size_t octaves = 0;
  while ((least << octaves) < most) ++octaves;
  const size_t low = least << below(octaves);
  const size_t n = low + below(low);
  return n < most ? n : most;
}

int fork_child(const std::function<void()>& body) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    body();
    _exit(0);
  }
  return child;
}

void join_child(int child, const char* what) {
  int status = 0;
  pid_t got = 0;
  do got = waitpid(child, &status, 0);
  while (got < 0 && errno == EINTR);
  CHECK(got == child, "%s", what);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: wait status %#x", what, static_cast<unsigned>(status));
}

void join_killed(int child, int signal, const char* what) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child, "%s", what);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal, "%s: wait status %#x", what, static_cast<unsigned>(status));
}

Outcome rerun(const char* name, const std::function<void()>& prepare) {
  Outcome outcome;
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    prepare();
    execl("/proc/self/exe", "heap_test", name, static_cast<char*>(nullptr));
    _exit(126);
  }
  close(ends[1]);
  size_t n = 0;
  for (ssize_t got = 1; got > 0 && n + 1 < sizeof outcome.said; n += got > 0 ? static_cast<size_t>(got) : 0) {
    got = read(ends[0], outcome.said + n, sizeof outcome.said - 1 - n);
  }
  close(ends[0]);
  CHECK(waitpid(child, &outcome.status, 0) == child);
  if (outcome.status != 0) say("the run of %s ended with wait status %#x", name, static_cast<unsigned>(outcome.status));
  return outcome;
}

Gate::Gate() { CHECK(pipe2(ends_, O_CLOEXEC) == 0); }
Gate::~Gate() {
  close(ends_[0]);
  close(ends_[1]);
}
void Gate::open() const { CHECK(write(ends_[1], "x", 1) == 1); }
void Gate::wait() const {
  pollfd readable = {ends_[0], POLLIN, 0};
  CHECK(poll(&readable, 1, 30000) == 1, "the other process does not come");
  char what = 0;
  CHECK(read(ends_[0], &what, 1) == 1);
}

}  // namespace zh::heap_test

// main: one case or entry by name; without arguments every case in a process of its own.
int main(int argc, char** argv) {
  using namespace zh::heap_test;
  if (argc >= 2) {
    for (const Entry* e = g_entries; e != nullptr; e = e->next)
      if (strcmp(e->name, argv[1]) == 0) return e->body();
    for (const Case* c = g_cases; c != nullptr; c = c->next)
      if (strcmp(c->name, argv[1]) == 0) return run(*c);
    say("no case %s", argv[1]);
    return 2;
  }
  int failed = 0;
  for (const Case* c = g_cases; c != nullptr; c = c->next) failed += rerun(c->name).status != 0;
  return failed > 0 ? 1 : 0;
}
