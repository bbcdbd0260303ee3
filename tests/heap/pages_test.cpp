// Games that programs play with the pages of their large blocks: advice, protection, locks, holes. The rule is the same
// for all: it works, or fails, as on anonymous private memory, which is what the program believes to have.
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "heap_test.h"

namespace zh::heap_test {
namespace {

constexpr size_t kSize = 8 * kMiB;

unsigned char* page_up(void* p) {
  return reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(p) + kPage - 1) / kPage * kPage);
}

/// A large block of malloc, filled, with a window of whole pages in its middle.
struct Block {
  static constexpr size_t kWindow = 2 * kMiB;
  unsigned char* p = static_cast<unsigned char*>(malloc(kSize));
  unsigned char* window = page_up(p + 3 * kMiB + 12345);
  Block() {
    CHECK(p != nullptr);
    CHECK_SERVED(p);
    fill(p, kSize, 1);
  }
  [[nodiscard]] size_t before() const { return static_cast<size_t>(window - p); }
  /// What is outside of the window is as it was.
  void check_outside(const char* what) const {
    const size_t after = before() + kWindow;
    verify(p, before(), 1, what);
    verify(p + after, kSize - after, 1, what, after);
  }
};

void* anonymous(size_t n) {
  void* p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  return p;
}

/// Memory to compare with. What cannot be accessed when it is mapped, nobody has made shared.
void* control_of(size_t n) {
  void* p = mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED && mprotect(p, n, PROT_READ | PROT_WRITE) == 0);
  return p;
}

/// Many blocks come and go; a heap that lost track of its pages would hand some of them out.
void churn() {
  void* blocks[40];
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 40; ++i) {
      blocks[i] = malloc(100000 + i * 50000);
      CHECK(blocks[i] != nullptr);
      fill(blocks[i], 100000 + i * 50000, i);
    }
    for (size_t i = 0; i < 40; ++i) {
      verify(blocks[i], 100000 + i * 50000, i, "a block beside page games");
      free(blocks[i]);
    }
    void* zero = calloc(1, 10 * kMiB);
    verify_zero(zero, 10 * kMiB, "calloc beside page games");
    free(zero);
  }
}

HEAP_TEST(DontneedZeroes) {
  for (int round = 0; round < 3; ++round) {
    const Block b;
    CHECK(madvise(b.window, Block::kWindow, MADV_DONTNEED) == 0);
    verify_zero(b.window, Block::kWindow, "after MADV_DONTNEED");
    b.check_outside("MADV_DONTNEED");
    fill(b.window, Block::kWindow, 7);
    verify(b.window, Block::kWindow, 7, "written again");
    // Twice over the same pages, the second time partly touched.
    CHECK(madvise(b.window, Block::kWindow, MADV_DONTNEED) == 0);
    b.window[kPage] = 1;
    CHECK(madvise(b.window, Block::kWindow / 2, MADV_DONTNEED) == 0);
    verify_zero(b.window, Block::kWindow, "after MADV_DONTNEED once more");
    free(b.p);
    churn();
  }
}

HEAP_TEST(DontneedGivesMemoryBack) {
  const size_t n = 256 * kMiB;
  void* p = malloc(n);
  stamp(p, n, 1);
  const size_t full = resident_bytes();
  CHECK(madvise(page_up(p), n - 2 * kPage, MADV_DONTNEED) == 0);
  CHECK(resident_bytes() + 200 * kMiB < full, "%zu MiB remain of %zu", resident_bytes() / kMiB, full / kMiB);
  free(p);
}

HEAP_TEST(DontneedOfGlobals) {
  static unsigned char array[kSize];
  fill(array, kSize, 3);
  unsigned char* inner = page_up(array + 100);
  CHECK(madvise(inner, 4 * kMiB, MADV_DONTNEED) == 0);
  verify_zero(inner, 4 * kMiB, "bss after MADV_DONTNEED");
}

HEAP_TEST(EveryAdviceIsAnsweredAlike) {
  struct Advice {
    const char* name;
    int value;
    bool keeps;
  };
  const Advice all[] = {{"NORMAL", MADV_NORMAL, true},
                        {"RANDOM", MADV_RANDOM, true},
                        {"SEQUENTIAL", MADV_SEQUENTIAL, true},
                        {"WILLNEED", MADV_WILLNEED, true},
                        {"FREE", MADV_FREE, false},
                        {"DONTFORK", MADV_DONTFORK, true},
                        {"DOFORK", MADV_DOFORK, true},
                        {"MERGEABLE", MADV_MERGEABLE, true},
                        {"UNMERGEABLE", MADV_UNMERGEABLE, true},
                        {"HUGEPAGE", MADV_HUGEPAGE, true},
                        {"NOHUGEPAGE", MADV_NOHUGEPAGE, true},
                        {"DONTDUMP", MADV_DONTDUMP, true},
                        {"DODUMP", MADV_DODUMP, true},
                        {"WIPEONFORK", MADV_WIPEONFORK, true},
                        {"KEEPONFORK", MADV_KEEPONFORK, true},
                        {"COLD", MADV_COLD, true},
                        {"PAGEOUT", MADV_PAGEOUT, true},
                        {"POPULATE_READ", 22, true},
                        {"POPULATE_WRITE", 23, true},
                        {"COLLAPSE", 25, true},
                        {"nonsense", 12345, true}};
  for (const Advice& advice : all) {
    void* control = control_of(Block::kWindow);
    fill(control, Block::kWindow, 1);
    errno = 0;
    const int wanted = madvise(control, Block::kWindow, advice.value);
    const int wanted_errno = errno;
    CHECK(!in_heap(control));
    const Block b;
    errno = 0;
    const int got = madvise(b.window, Block::kWindow, advice.value);
    // MADV_COLLAPSE depends on what huge pages are free at the moment.
    if (advice.value != 25)
      CHECK(got == wanted && errno == wanted_errno, "%s: %d (errno %d), on anonymous memory %d (errno %d)", advice.name,
            got, errno, wanted, wanted_errno);
    b.check_outside(advice.name);
    if (advice.keeps) verify(b.p, kSize, 1, advice.name);
    fill(b.p, kSize, 2);
    verify(b.p, kSize, 2, advice.name);
    // Neither is given back: where memory had attributes that shared memory would not keep, none becomes shared later.
  }
  // Addresses inside of a page and lengths of zero are judged by the kernel.
  const Block b;
  CHECK(madvise(b.window + 1, kPage, MADV_DONTNEED) == -1 && errno == EINVAL);
  CHECK(madvise(b.window, 0, MADV_DONTNEED) == 0);
  CHECK(posix_madvise(b.window, Block::kWindow, POSIX_MADV_DONTNEED) == 0);
  CHECK(posix_madvise(b.window, Block::kWindow, POSIX_MADV_WILLNEED) == 0);
  verify(b.p, kSize, 1, "posix_madvise");  // libc does nothing for POSIX_MADV_DONTNEED
  free(b.p);
}

HEAP_TEST(FreedPagesReadAsOldOrZero) {
  const Block b;
  CHECK(madvise(b.window, Block::kWindow, MADV_FREE) == 0);
  unsigned char* copy = static_cast<unsigned char*>(malloc(kSize));
  fill(copy, kSize, 1);
  for (size_t i = 0; i < Block::kWindow; i += kPage) {
    const bool old = memcmp(b.window + i, copy + b.before() + i, kPage) == 0;
    if (!old) verify_zero(b.window + i, kPage, "a page after MADV_FREE");
  }
  fill(b.window, Block::kWindow, 4);
  verify(b.window, Block::kWindow, 4, "written after MADV_FREE");
  free(copy);
  free(b.p);
}

HEAP_TEST(WipeOnFork) {
  const Block b;
  CHECK(madvise(b.window, Block::kWindow, MADV_WIPEONFORK) == 0);
  join_child(fork_child([&] { verify_zero(b.window, Block::kWindow, "wiped on fork"); }), "the child");
  verify(b.p, kSize, 1, "the parent's");
  free(b.p);
  churn();
}

volatile sig_atomic_t g_faults = 0;
unsigned char* g_guarded = nullptr;
size_t g_guarded_bytes = 0;

void open_the_page(int, siginfo_t* info, void*) {
  auto* at = static_cast<unsigned char*>(info->si_addr);
  CHECK(at >= g_guarded && at < g_guarded + g_guarded_bytes, "fault at %p", info->si_addr);
  g_faults = g_faults + 1;
  auto* page = reinterpret_cast<unsigned char*>(reinterpret_cast<uintptr_t>(at) / kPage * kPage);
  CHECK(mprotect(page, kPage, PROT_READ | PROT_WRITE) == 0);
}

void catch_faults(void* p, size_t n) {
  g_guarded = static_cast<unsigned char*>(p);
  g_guarded_bytes = n;
  g_faults = 0;
  struct sigaction action = {};
  action.sa_sigaction = open_the_page;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  CHECK(sigaction(SIGSEGV, &action, nullptr) == 0);
}

HEAP_TEST(ProtectionAndFaults) {
  // A garbage collector's write barrier.
  const Block b;
  volatile unsigned char* const window = b.window;  // what is not volatile may be accessed after g_faults is read
  catch_faults(b.window, Block::kWindow);
  CHECK(mprotect(b.window, Block::kWindow, PROT_READ) == 0);
  verify(b.p, kSize, 1, "read-only");
  CHECK(g_faults == 0);
  for (size_t i = 0; i < Block::kWindow; i += 4 * kPage) window[i] = 0xEE;
  CHECK(static_cast<size_t>(g_faults) == Block::kWindow / (4 * kPage), "%d faults", static_cast<int>(g_faults));
  CHECK(mprotect(b.window, Block::kWindow, PROT_NONE) == 0);
  g_faults = 0;
  unsigned sum = 0;
  for (size_t i = 0; i < Block::kWindow; i += 4 * kPage) sum += window[i];
  CHECK(sum == 0xEE * Block::kWindow / (4 * kPage));
  CHECK(static_cast<size_t>(g_faults) == Block::kWindow / (4 * kPage));
  // The child inherits the protection as well.
  const int child = fork_child([&] {
    g_faults = 0;
    window[kPage] = 5;
    CHECK(g_faults == 1, "%d faults in the child", static_cast<int>(g_faults));
  });
  join_child(child, "the child");
  g_faults = 0;
  window[kPage] = 6;
  CHECK(g_faults == 1, "%d faults in the parent", static_cast<int>(g_faults));
  b.check_outside("protection");
  CHECK(mprotect(b.window, Block::kWindow, PROT_READ | PROT_WRITE) == 0);
  free(b.p);
  churn();
}

HEAP_TEST(TheKernelObeysProtection) {
  const Block b;
  CHECK(mprotect(b.window, Block::kWindow, PROT_NONE) == 0);
  int ends[2];
  CHECK(pipe(ends) == 0);
  CHECK(write(ends[1], b.window, 100) == -1 && errno == EFAULT);
  CHECK(write(ends[1], b.p, 100) == 100);
  CHECK(read(ends[0], b.window, 100) == -1 && errno == EFAULT);
  CHECK(mprotect(b.window, Block::kWindow, PROT_READ | PROT_WRITE) == 0);
  free(b.p);
}

HEAP_TEST(FreedWhileProtected) {
  // libc unmaps such a block; whoever gets its pages next must be able to write them.
  for (const int protection : {PROT_READ, PROT_NONE}) {
    void* p = malloc(64 * kMiB);
    CHECK(p != nullptr);
    CHECK(mprotect(page_up(p) + kPage, 10 * kMiB, protection) == 0);
    free(p);
    for (int round = 0; round < 3; ++round) {
      void* q = malloc(64 * kMiB);
      stamp(q, 64 * kMiB, 2, 1024);
      void* r = calloc(1, 20 * kMiB);
      verify_zero(r, 20 * kMiB, "calloc after a protected block was freed");
      free(q);
      free(r);
    }
  }
  churn();
}

// What was protected and freed, and then used again, holds the last user's data: calloc must not take it for fresh.
HEAP_TEST(CallocIsZeroAfterProtectedBlocksAreReused) {
  for (const size_t n : {64 * kKiB, kMiB}) {
    void* p = malloc(n);
    CHECK(p != nullptr);
    fill(p, n, 1);
    unsigned char* inner = page_up(p);
    CHECK(mprotect(inner, n / 2, PROT_READ) == 0 && mprotect(inner, n / 2, PROT_READ | PROT_WRITE) == 0);
    free(p);
    p = malloc(n);
    fill(p, n, 2);
    free(p);
    malloc_trim(0);
    p = calloc(1, n);
    verify_zero(p, n, "calloc after a block that was protected");
    free(p);
  }
}

HEAP_TEST(LocksAreAnsweredAlike) {
  const Block b;
  const size_t n = kMiB / 2;
  void* control = control_of(n);
  CHECK(mlock(b.window, n) == mlock(control, n));
  CHECK(mlock2(b.window, n, MLOCK_ONFAULT) == mlock2(control, n, MLOCK_ONFAULT));
  verify(b.p, kSize, 1, "locked");
  CHECK(munlock(b.window, n) == munlock(control, n));
  CHECK(msync(b.window, n, MS_SYNC) == msync(control, n, MS_SYNC));
  unsigned char resident[kMiB / 2 / kPage];
  CHECK(mincore(b.window, n, resident) == 0);
  for (const unsigned char page : resident) CHECK((page & 1) != 0, "a written page is not resident");
  free(b.p);
}

HEAP_TEST(PlacementIsAnsweredAlike) {
  constexpr unsigned long kPreferred = 1;
  const unsigned long nodes = 1;
  const Block b;
  void* control = control_of(Block::kWindow);
  auto bind = [&](void* p) {
    errno = 0;
    const long result = syscall(SYS_mbind, p, Block::kWindow, kPreferred, &nodes, 64ul, 0u);
    return result == 0 ? 0 : errno;
  };
  const int wanted = bind(control);
  const int got = bind(b.window);
  CHECK(got == wanted, "mbind: errno %d, on anonymous memory %d", got, wanted);
  verify(b.p, kSize, 1, "placed");
  fill(b.p, kSize, 2);
  int mode = -1;
  (void)syscall(SYS_get_mempolicy, &mode, nullptr, 0ul, b.window, 2ul);
  void* pages[1] = {b.window};
  int status[1] = {-1};
  (void)syscall(SYS_move_pages, 0, 1ul, pages, nullptr, status, 0);
  verify(b.p, kSize, 2, "asked where it is");
  free(b.p);
}

HEAP_TEST(AnotherMappingInAHole) {
  char path[] = "/tmp/zh-heap-test-XXXXXX";
  const int fd = mkstemp(path);
  CHECK(fd >= 0);
  unlink(path);
  unsigned char* content = static_cast<unsigned char*>(malloc(Block::kWindow));
  fill(content, Block::kWindow, 9);
  CHECK(write(fd, content, Block::kWindow) == static_cast<ssize_t>(Block::kWindow));
  {
    const Block b;
    CHECK(munmap(b.window, Block::kWindow) == 0);
    CHECK(mmap(b.window, Block::kWindow, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == b.window);
    verify(b.window, Block::kWindow, 9, "a file in a hole");
    b.check_outside("a file in a hole");
    churn();
    verify(b.window, Block::kWindow, 9, "a file in a hole, after others came and went");
    join_child(fork_child([&] {
                 verify(b.window, Block::kWindow, 9, "a file in a hole, in the child");
                 b.check_outside("a file in a hole, in the child");
                 fill(b.p, 4096, 3);
               }),
               "the child");
    b.check_outside("a file in a hole, after a fork");
    free(b.p);  // libc unmaps the block with all that is in it
    churn();
  }
  {
    // Without munmap first, and private memory this time.
    const Block b;
    CHECK(mmap(b.window, Block::kWindow, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
          b.window);
    verify_zero(b.window, Block::kWindow, "fresh memory in a hole");
    fill(b.window, Block::kWindow, 4);
    churn();
    verify(b.window, Block::kWindow, 4, "fresh memory in a hole, later");
    b.check_outside("fresh memory in a hole");
    free(b.p);
    churn();
  }
  close(fd);
  free(content);
}

HEAP_TEST(AHoleStaysAHole) {
  const Block b;
  CHECK(munmap(b.window, Block::kWindow) == 0);
  churn();
  // Nothing may have come back there, except a mapping that somebody asked for: then it is not the program's to see.
  unsigned char resident[1];
  const bool mapped = mincore(b.window, kPage, resident) == 0;
  if (mapped) CHECK(!in_heap(b.window), "the heap put something into a hole");
  b.check_outside("a hole");
}

HEAP_TEST(PagesThatMove) {
  // Moved out of the block to another place, as a program does that grows an array by remapping it.
  auto* target = static_cast<unsigned char*>(anonymous(2 * Block::kWindow));
  const Block b;
  CHECK(mremap(b.window, Block::kWindow, Block::kWindow, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target);
  verify(target, Block::kWindow, 1, "moved pages", b.before());
  b.check_outside("pages that moved");
  fill(target, Block::kWindow, 6);
  churn();
  verify(target, Block::kWindow, 6, "moved pages, later");
  join_child(fork_child([&] { fill(target, Block::kWindow, 8); }), "the child");
  verify(target, Block::kWindow, 6, "moved pages, after the child wrote its own");
}

HEAP_TEST(PagesThatGrow) {
  const Block b;
  void* grown = mremap(b.window, Block::kWindow, 2 * Block::kWindow, MREMAP_MAYMOVE);
  CHECK(grown != MAP_FAILED);
  verify(grown, Block::kWindow, 1, "grown pages", b.before());
  verify_zero(static_cast<unsigned char*>(grown) + Block::kWindow, Block::kWindow, "the new half");
  fill(grown, 2 * Block::kWindow, 3);
  b.check_outside("pages that grew");
  churn();
  verify(grown, 2 * Block::kWindow, 3, "grown pages, later");
  munmap(grown, 2 * Block::kWindow);
}

/// A mapping of 4 MiB of which messages have used the middle.
unsigned char* shared_in_the_middle() {
  auto* p = static_cast<unsigned char*>(anonymous(4 * kMiB));
  fill(p, 4 * kMiB, 5);
  if (mode() != Mode::kBare) CHECK(share(p + kMiB, 2 * kMiB) == 0);
  return p;
}

HEAP_TEST(ProtectedPagesThatGrowAndShrink) {
  for (const bool shrinks : {false, true}) {
    unsigned char* p = shared_in_the_middle();
    CHECK(mprotect(p, 4 * kMiB, PROT_READ) == 0);
    const size_t bytes = shrinks ? 2 * kMiB : 8 * kMiB;
    auto* target = shrinks ? static_cast<unsigned char*>(anonymous(bytes)) : nullptr;
    const int flags = shrinks ? MREMAP_MAYMOVE | MREMAP_FIXED : MREMAP_MAYMOVE;
    void* const moved = mremap(p, 4 * kMiB, bytes, flags, target);
    CHECK(moved != MAP_FAILED, "errno %d", errno);
    auto* q = static_cast<unsigned char*>(moved);
    CHECK(mprotect(q, bytes, PROT_READ | PROT_WRITE) == 0);
    fill(q + (shrinks ? bytes : 4 * kMiB) - kMiB, kMiB, 6);  // may be written now
    verify(q, (shrinks ? bytes : 4 * kMiB) - kMiB, 5, "protected pages");
    if (!shrinks) verify_zero(q + 4 * kMiB, 4 * kMiB, "the new half");
    CHECK(munmap(q, bytes) == 0);
  }
}

HEAP_TEST(PrivateMemoryHasNoSecondMapping) {
  unsigned char* p = shared_in_the_middle();
  CHECK(mremap(p + kMiB, 0, kMiB, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL, "errno %d", errno);
}

HEAP_TEST(ProtectedPagesThatGrowAfterAFork) {
  for (const int protection : {PROT_READ, PROT_NONE}) {
    unsigned char* p = shared_in_the_middle();
    join_child(fork_child([&] { verify(p, 4 * kMiB, 5, "a child's view"); }), "the child");
    CHECK(mprotect(p, 4 * kMiB, protection) == 0);
    void* const moved = mremap(p, 4 * kMiB, 8 * kMiB, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED, "errno %d", errno);
    auto* q = static_cast<unsigned char*>(moved);
    int pipe_ends[2];
    CHECK(pipe(pipe_ends) == 0);
    CHECK(write(pipe_ends[1], "x", 1) == 1);
    CHECK(read(pipe_ends[0], q + 2 * kMiB, 1) == -1 && errno == EFAULT, "what was protected can be written");
    CHECK(mprotect(q, 8 * kMiB, PROT_READ | PROT_WRITE) == 0);
    verify(q, 4 * kMiB, 5, "protected pages after a fork");
    CHECK(munmap(q, 8 * kMiB) == 0);
  }
}

HEAP_TEST(HugePagesByForce) {
  unsigned char* plain = static_cast<unsigned char*>(control_of(4 * kMiB));
  fill(plain, 4 * kMiB, 5);
  constexpr int kCollapse = 25;
  const int expected = madvise(plain, 4 * kMiB, kCollapse) == 0 ? 0 : errno;
  unsigned char* p = shared_in_the_middle();
  const int got = madvise(p, 4 * kMiB, kCollapse) == 0 ? 0 : errno;
  CHECK(got == expected || got == EAGAIN, "errno %d, not %d", got, expected);
  verify(p, 4 * kMiB, 5, "after MADV_COLLAPSE");
}

HEAP_TEST(ShrunkByMremap) {
  const Block b;
  CHECK(mremap(b.window, Block::kWindow, Block::kWindow / 2, 0) == b.window);
  b.check_outside("pages cut off");
  churn();
  b.check_outside("pages cut off, later");
}

HEAP_TEST(CodeInABlock) {
  // A just-in-time compiler with memory of malloc.
#if defined(__x86_64__)
  const unsigned char code[] = {0xB8, 0x2A, 0x00, 0x00, 0x00, 0xC3};  // mov eax, 42; ret
#elif defined(__aarch64__)
  const unsigned char code[] = {0x40, 0x05, 0x80, 0x52, 0xC0, 0x03, 0x5F, 0xD6};  // mov w0, 42; ret
#else
  skip("no machine code for this processor");
#endif
  const Block b;
  memcpy(b.window, code, sizeof code);
  if (mprotect(b.window, kPage, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    void* control = control_of(kPage);
    CHECK(mprotect(control, kPage, PROT_READ | PROT_WRITE | PROT_EXEC) != 0,
          "code is allowed in anonymous memory only");
    skip("this system allows no writable code");
  }
  __builtin___clear_cache(reinterpret_cast<char*>(b.window), reinterpret_cast<char*>(b.window + sizeof code));
  CHECK(reinterpret_cast<int (*)()>(b.window)() == 42);
  memcpy(b.window, "changed", 7);
  CHECK(mprotect(b.window, kPage, PROT_READ | PROT_WRITE) == 0);
  free(b.p);
  churn();
}

HEAP_TEST(CopiesBetweenProcessesWork) {
  const Block b;
  unsigned char* got = static_cast<unsigned char*>(malloc(kSize));
  iovec local = {got, kSize};
  iovec remote = {b.p, kSize};
  CHECK(process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(kSize));
  verify(got, kSize, 1, "process_vm_readv");
  free(got);
  free(b.p);
}

/// A mapping that is shared whole, where there is something to share it.
unsigned char* shared_whole() {
  auto* p = static_cast<unsigned char*>(anonymous(kSize));
  fill(p, kSize, 1);
  (void)share(p, kSize);
  return p;
}

HEAP_TEST(AdviceOverAHoleWorksBesideIt) {
  // The system does what it can, and then says that something was missing.
  unsigned char* p = shared_whole();
  CHECK(munmap(p + 4 * kMiB, kPage) == 0);
  errno = 0;
  CHECK(madvise(p, kSize, MADV_DONTNEED) == -1 && errno == ENOMEM, "errno %d", errno);
  verify_zero(p, 4 * kMiB, "in front of the hole");
  verify_zero(p + 4 * kMiB + kPage, kSize - 4 * kMiB - kPage, "behind the hole");
  CHECK(munmap(p, kSize) == 0);
}

HEAP_TEST(SegmentsOverABlock) {
  unsigned char* p = shared_whole();
  const int id = shmget(IPC_PRIVATE, kMiB, IPC_CREAT | 0600);
  if (id < 0) skip("no System V segments here");
  void* at = shmat(id, p + kMiB, SHM_REMAP);
  CHECK(shmctl(id, IPC_RMID, nullptr) == 0);
  CHECK(at == p + kMiB, "shmat gave %p", at);
  verify_zero(p + kMiB, kMiB, "the segment");
  fill(p + kMiB, kMiB, 2);
  CHECK(shmdt(at) == 0);
  CHECK(munmap(p, kSize) == 0);
}

HEAP_TEST(ClonedChildren) {
  unsigned char* p = shared_whole();
  auto* stack = static_cast<unsigned char*>(anonymous(kMiB));
  const int child = clone(
      [](void* data) -> int {
        auto* bytes = static_cast<unsigned char*>(data);
        verify(bytes, kSize, 1, "the child's");
        fill(bytes, kSize, 2);
        return 0;
      },
      stack + kMiB, SIGCHLD, p);
  CHECK(child > 0, "clone gave %d", child);
  join_child(child, "a child of clone()");
  verify(p, kSize, 1, "the parent's");
  CHECK(munmap(stack, kMiB) == 0);
  CHECK(munmap(p, kSize) == 0);
}

}  // namespace
}  // namespace zh::heap_test
