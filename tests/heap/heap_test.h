// The harness of the heap's tests: cases that are a process each, checks that allocate nothing (the allocator is what
// is under test), and what a case needs to know of its own process. Every case runs three ways, told apart by
// ZH_HEAP_MODE: `bare` without zerohop, `on` with it, where nothing is shared as nothing is sent, and `shared` behind a
// library that shares large blocks before the case sees them. Knows nothing of how the heap works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace zh::heap_test {

enum class Mode { kBare, kOn, kShared };
Mode mode();

/// zh_share() of the library in this process: 0 when the whole pages inside are shared now. ENOSYS in the mode `bare`.
int share(const void* p, size_t n);

/// A case; the macro HEAP_TEST(Name) makes one, and ctest finds them by that macro in the source.
struct Case {
  const char* name;
  void (*body)();
  Case* next;
  Case(const char* case_name, void (*case_body)());
};

/// Ends the process with exit code 1 after saying why. Safe in a forked child and in a signal handler.
[[noreturn]] void fail(const char* file, int line, const char* what, const char* format, ...)
    __attribute__((format(printf, 4, 5)));
/// Ends the process as skipped (exit code 77), which ctest counts and shows.
[[noreturn]] void skip(const char* format, ...) __attribute__((format(printf, 1, 2)));
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// The line of /proc/self/maps that holds `p`.
struct Mapping {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  char protection[8] = {};
  char name[256] = {};
};
bool mapping_of(const void* p, Mapping* out);
/// Is `p` shared now: in a writable mapping of zerohop's memory file that is no private copy of it?
bool in_heap(const void* p);
/// The same of the page after a block's first one: the first and the last may have neighbours.
bool block_in_heap(const void* block);
/// How many mappings (or, of descriptors, open files) of this process are memfds of zerohop.
int zerohop_mappings();
int zerohop_descriptors();
/// Resident memory of this process, shared memory included.
size_t resident_bytes();
/// The same, pages that several processes have counted by their part of it; and the most that there ever was.
size_t proportional_bytes();
size_t peak_resident_bytes();

constexpr size_t kKiB = size_t{1} << 10;
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kGiB = size_t{1} << 30;
constexpr size_t kPage = 4096;

/// Bytes that depend on place and seed; verify() says where they differ, and ends all. `from`: the place of these
/// bytes in what was filled, a multiple of 8.
void fill(void* p, size_t n, uint64_t seed);
void verify(const void* p, size_t n, uint64_t seed, const char* what, size_t from = 0);
void verify_zero(const void* p, size_t n, const char* what);
/// The same for long blocks: one word in every `step` bytes and the last one.
void stamp(void* p, size_t n, uint64_t seed, size_t step = 512);
void verify_stamp(const void* p, size_t n, uint64_t seed, const char* what, size_t step = 512);

/// A deterministic random number generator, the same run for the same seed.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567) {}
  uint64_t next();
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(next() % n); }
  /// Log-uniform between the two.
  size_t size(size_t least, size_t most);

 private:
  uint64_t state_;
};

/// Runs `body` in a forked child that then ends by _exit(0).
int fork_child(const std::function<void()>& body);
/// The child must have ended with exit code 0 (or, where given, by that signal).
void join_child(int child, const char* what);
void join_killed(int child, int signal, const char* what);
/// What this program did when it was run again: its wait status, and the beginning of its standard output.
struct Outcome {
  int status = 0;
  char said[256] = {};
};
/// Runs this program again as `name` (a case or an Entry); `prepare` runs before that in the new process.
Outcome rerun(
    const char* name, const std::function<void()>& prepare = [] {});
/// A program's other entries, chosen by the first argument, e.g. what a re-run is to do. Same macro shape as a case.
struct Entry {
  const char* name;
  int (*body)();
  Entry* next;
  Entry(const char* entry_name, int (*entry_body)());
};

/// Lets one process wait for another.
class Gate {
 public:
  Gate();
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() const;
  /// Fails when nothing comes for a long time: the other side has failed.
  void wait() const;

 private:
  int ends_[2];
};

/// Hides a value from the optimiser, so that calls with absurd arguments reach the allocator.
template <class T>
T hidden(T value) {
  __asm__ volatile("" : "+r"(value));
  return value;
}

}  // namespace zh::heap_test

#define HEAP_TEST(name)                                         \
  static void test_##name();                                    \
  static ::zh::heap_test::Case case_##name(#name, test_##name); \
  static void test_##name()

#define HEAP_ENTRY(name)                                              \
  static int entry_##name();                                          \
  static ::zh::heap_test::Entry entry_of_##name(#name, entry_##name); \
  static int entry_##name()

#define CHECK(condition, ...)                                                                 \
  do {                                                                                        \
    if (!(condition)) ::zh::heap_test::fail(__FILE__, __LINE__, #condition, " " __VA_ARGS__); \
  } while (0)

/// In the mode `shared` the block must be in zerohop's memory file, in the others it must not be.
#define CHECK_SERVED(p)                                                                                     \
  do {                                                                                                      \
    const bool wanted_ = ::zh::heap_test::mode() == ::zh::heap_test::Mode::kShared;                         \
    if (::zh::heap_test::block_in_heap(p) != wanted_)                                                       \
      ::zh::heap_test::fail(__FILE__, __LINE__, wanted_ ? "in_heap(" #p ")" : "!in_heap(" #p ")", " at %p", \
                            static_cast<const void*>(p));                                                   \
  } while (0)
