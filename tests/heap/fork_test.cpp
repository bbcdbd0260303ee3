// fork() keeps copy-on-write semantics: whoever writes, and whenever, parent and child each see only their own. Large
// blocks of malloc; global data is in globals_test.cpp, programs started from here in spawn_test.cpp.
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "heap_test.h"

namespace zh::heap_test {
namespace {

constexpr int kBlocks = 5;
const size_t kSizes[kBlocks] = {20 * kKiB, 64 * kKiB, kMiB, 3 * kMiB + 333, 12 * kMiB};

/// Blocks of several sizes, all with one seed.
struct Blocks {
  unsigned char* p[kBlocks];

  Blocks() {
    for (int i = 0; i < kBlocks; ++i) {
      p[i] = static_cast<unsigned char*>(malloc(kSizes[i]));
      CHECK(p[i] != nullptr);
    }
  }
  /// Blocks of the process that the test began in; a child of fork may have its own from libc.
  static Blocks served() {
    const Blocks blocks;
    for (int i = 1; i < kBlocks; ++i) CHECK_SERVED(blocks.p[i]);
    return blocks;
  }
  void write(uint64_t seed) {
    for (int i = 0; i < kBlocks; ++i) fill(p[i], kSizes[i], seed + static_cast<uint64_t>(i));
  }
  void check(uint64_t seed, const char* what) const {
    for (int i = 0; i < kBlocks; ++i) verify(p[i], kSizes[i], seed + static_cast<uint64_t>(i), what);
  }
  void release() {
    for (auto*& block : p) {
      free(block);
      block = nullptr;
    }
  }
};

void allocate_and_free(uint64_t seed) {
  Blocks others;
  others.write(seed);
  others.check(seed, "a block made after fork");
  others.p[1] = static_cast<unsigned char*>(realloc(others.p[1], 3 * kMiB));
  verify(others.p[1], kSizes[1], seed + 1, "a block reallocated after fork");
  others.release();
}

HEAP_TEST(ChildWritesFirst) {
  Blocks blocks = Blocks::served();
  blocks.write(100);
  const Gate written;
  const Gate checked;
  const int child = fork_child([&] {
    blocks.check(100, "the child's view of what it inherited");
    blocks.write(200);
    written.open();
    checked.wait();
    blocks.check(200, "the child's own");
    blocks.release();
    allocate_and_free(1);
  });
  written.wait();
  blocks.check(100, "the parent's, after the child wrote");
  blocks.write(300);
  checked.open();
  join_child(child, "the child");
  blocks.check(300, "the parent's own");
  blocks.release();
  allocate_and_free(2);
}

HEAP_TEST(ParentWritesFirst) {
  Blocks blocks = Blocks::served();
  blocks.write(100);
  const Gate written;
  const int child = fork_child([&] {
    written.wait();
    blocks.check(100, "the child's view, after the parent wrote");
    blocks.write(200);
    blocks.check(200, "the child's own");
    allocate_and_free(1);
    blocks.release();
  });
  blocks.write(300);
  allocate_and_free(2);
  written.open();
  join_child(child, "the child");
  blocks.check(300, "the parent's own");
  blocks.release();
}

HEAP_TEST(ParentFreesAndReusesFirst) {
  // What the parent frees and hands out again must not change under the child.
  Blocks blocks = Blocks::served();
  blocks.write(100);
  const Gate done;
  const int child = fork_child([&] {
    done.wait();
    blocks.check(100, "the child's view, after the parent freed and reused");
    blocks.release();
  });
  Blocks stale = blocks;
  blocks.release();
  for (int round = 0; round < 10; ++round) allocate_and_free(static_cast<uint64_t>(round) * 1000);
  void* zero = calloc(12, kMiB);
  CHECK(zero != nullptr);
  stamp(zero, 12 * kMiB, 5);
  done.open();
  join_child(child, "the child");
  verify_stamp(zero, 12 * kMiB, 5, "the parent's new block");
  free(zero);
  (void)stale;
}

HEAP_TEST(ChildFreesAndReusesFirst) {
  Blocks blocks = Blocks::served();
  blocks.write(100);
  const Gate done;
  const Gate end;
  const int child = fork_child([&] {
    blocks.release();
    for (int round = 0; round < 10; ++round) allocate_and_free(static_cast<uint64_t>(round) * 1000);
    done.open();
    end.wait();
    allocate_and_free(7);
  });
  done.wait();
  blocks.check(100, "the parent's, after the child freed and reused");
  blocks.write(400);
  end.open();
  join_child(child, "the child");
  blocks.check(400, "the parent's own");
  blocks.release();
}

HEAP_TEST(ManyLivingChildrenEachSeeTheirMoment) {
  constexpr int kChildren = 8;
  Blocks blocks = Blocks::served();
  const Gate look[kChildren];
  int children[kChildren];
  for (int i = 0; i < kChildren; ++i) {
    blocks.write(static_cast<uint64_t>(i) * 100);
    children[i] = fork_child([&] {
      look[i].wait();
      blocks.check(static_cast<uint64_t>(i) * 100, "the moment of this child's fork");
      blocks.write(static_cast<uint64_t>(i) * 100 + 50);
      allocate_and_free(static_cast<uint64_t>(i));
      blocks.check(static_cast<uint64_t>(i) * 100 + 50, "this child's own");
    });
  }
  blocks.write(5000);
  for (int i = kChildren - 1; i >= 0; --i) look[i].open();
  for (const int child : children) join_child(child, "one of many children");
  blocks.check(5000, "the parent's own");
  blocks.release();
}

void nest(Blocks* blocks, int depth) {
  const auto seed = static_cast<uint64_t>(depth) * 1000;
  blocks->write(seed);
  if (depth == 0) return;
  void* own = malloc(3 * kMiB);
  fill(own, 3 * kMiB, seed);
  const int child = fork_child([=] {
    blocks->check(seed, "a generation's inheritance");
    verify(own, 3 * kMiB, seed, "a block inherited from the last generation only");
    nest(blocks, depth - 1);
    fill(own, 3 * kMiB, seed + 1);
    free(own);
    blocks->release();
  });
  join_child(child, "the next generation");
  blocks->check(seed, "a generation's own, after its descendants wrote");
  verify(own, 3 * kMiB, seed, "a generation's own block");
  free(own);
}

HEAP_TEST(FiveGenerations) {
  Blocks blocks = Blocks::served();
  nest(&blocks, 5);
  blocks.release();
}

HEAP_TEST(FiftyForks) {  // long
  Blocks blocks = Blocks::served();
  const size_t before = resident_bytes();
  for (uint64_t i = 0; i < 50; ++i) {
    blocks.write(i * 10);
    const int child = fork_child([&] {
      blocks.check(i * 10, "one of fifty");
      blocks.p[3][7] ^= 1;
      allocate_and_free(i);
      blocks.release();
    });
    allocate_and_free(i + 1);
    join_child(child, "one of fifty");
    blocks.check(i * 10, "the parent of fifty");
  }
  CHECK(resident_bytes() < before + 400 * kMiB, "%zu MiB resident after fifty forks", resident_bytes() / kMiB);
  CHECK(zerohop_descriptors() < 20, "%d descriptors of the heap after fifty forks", zerohop_descriptors());
  blocks.release();
}

HEAP_TEST(TheHeapServesAgainAfterTheChildIsGone) {
  Blocks blocks = Blocks::served();
  blocks.write(1);
  join_child(fork_child([&] { blocks.check(1, "a short child"); }), "a short child");
  void* p = malloc(8 * kMiB);
  CHECK_SERVED(p);
  free(p);
  blocks.release();
}

HEAP_TEST(ForkInAThread) {
  static volatile bool stop = false;
  Blocks others = Blocks::served();
  std::thread writer([&] {
    for (uint64_t seed = 0; !stop; ++seed) {
      others.write(seed);
      others.check(seed, "a thread's own while another forks");
    }
  });
  for (int round = 0; round < 5; ++round) {
    std::thread([&] {
      Blocks blocks;
      blocks.write(10);
      const int child = fork_child([&] {
        blocks.check(10, "a child of a thread");
        blocks.write(20);
        others.write(30);
        others.check(30, "another thread's blocks, in the child");
        blocks.check(20, "the child's own");
        blocks.release();
      });
      blocks.check(10, "the forking thread's own");
      blocks.write(40);
      join_child(child, "a child of a thread");
      blocks.check(40, "the forking thread's own, later");
      blocks.release();
    }).join();
  }
  stop = true;
  writer.join();
}

HEAP_TEST(EveryKindOfEnd) {
  Blocks blocks = Blocks::served();
  blocks.write(1);
  const int by_exit = fork();
  CHECK(by_exit >= 0);
  if (by_exit == 0) {
    blocks.write(2);
    exit(0);
  }
  join_child(by_exit, "a child that calls exit");
  blocks.check(1, "after exit of the child");
  for (const int signal : {SIGKILL, SIGTERM}) {
    const Gate ready;
    const int child = fork_child([&] {
      blocks.write(3);
      ready.open();
      for (;;) pause();
    });
    ready.wait();
    kill(child, signal);
    join_killed(child, signal, "a child that is killed");
    blocks.check(1, "after a signal to the child");
  }
  join_child(fork_child([&] { blocks.check(1, "a child after killed ones"); }), "the last child");
  blocks.release();
}

/// As a daemon does: the grandchild works on while those before it free everything and exit.
HEAP_TEST(ChildOfAChildOutlivesItsParent) {
  Blocks blocks = Blocks::served();
  blocks.write(21);
  const Gate gone;
  const Gate verdict;
  const int child = fork_child([&] {
    Blocks own;  // made by the process between
    own.write(11);
    blocks.write(22);
    const int grandchild = fork();
    CHECK(grandchild >= 0);
    if (grandchild == 0) {
      setsid();
      gone.wait();
      own.check(11, "the daemon's view of its parent's");
      blocks.check(22, "the daemon's view");
      own.write(12);
      allocate_and_free(13);
      own.check(12, "the daemon's own");
      verdict.open();
      _exit(0);
    }
    own.write(14);
    own.release();
    exit(0);
  });
  join_child(child, "the process between");
  blocks.check(21, "the first process's own");
  blocks.write(23);
  gone.open();
  verdict.wait();
  blocks.check(23, "the first process's own, later");
}

HEAP_TEST(SharedMemoryOfTheProgramStaysShared) {
  auto* shared =
      static_cast<unsigned char*>(mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  CHECK(shared != MAP_FAILED);
  void* block = malloc(kMiB);
  fill(block, kMiB, 1);
  join_child(fork_child([&] {
               fill(shared, kMiB, 2);
               fill(block, kMiB, 2);
             }),
             "the writer");
  verify(shared, kMiB, 2, "memory that the program shares");
  verify(block, kMiB, 1, "memory that it does not share");
}

volatile sig_atomic_t g_forks_in_handler = 0;

void fork_in_handler(int) {
  const int before = errno;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) _exit(3);
  g_forks_in_handler = g_forks_in_handler + 1;
  errno = before;
}

HEAP_TEST(ForkInASignalHandler) {
  // A crash reporter or a profiler; the signal comes in the middle of an allocation as well.
  struct sigaction action = {};
  action.sa_handler = fork_in_handler;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGALRM, &action, nullptr) == 0);
  Random random(5);
  void* blocks[16] = {};
  for (int forks = 0; forks < 300; ++forks) {
    const itimerval once = {{0, 0}, {0, 20 + static_cast<suseconds_t>(random.below(200))}};
    CHECK(setitimer(ITIMER_REAL, &once, nullptr) == 0);
    while (g_forks_in_handler == forks) {
      void*& p = blocks[random.below(16)];
      free(p);
      p = malloc(random.size(32 * kKiB, 4 * kMiB));
      CHECK(p != nullptr);
      *static_cast<volatile char*>(p) = 1;
    }
  }
  for (void* p : blocks) free(p);
}

ucontext_t g_back;
ucontext_t g_forker;
unsigned char* g_of_the_forker = nullptr;

void fork_on_this_stack() {
  unsigned char local[1000];
  fill(local, sizeof local, 5);
  join_child(fork_child([&] {
               verify(local, sizeof local, 5, "a stack in the heap, in the child");
               fill(g_of_the_forker, kMiB, 7);
             }),
             "a child that was forked on a stack in the heap");
  verify(local, sizeof local, 5, "a stack in the heap");
}

HEAP_TEST(ForkOnAStackInTheHeap) {
  constexpr size_t kStack = 256 * kKiB;
  void* stack = malloc(kStack);
  CHECK_SERVED(stack);
  g_of_the_forker = static_cast<unsigned char*>(malloc(kMiB));
  fill(g_of_the_forker, kMiB, 6);
  CHECK(getcontext(&g_forker) == 0);
  g_forker.uc_stack.ss_sp = stack;
  g_forker.uc_stack.ss_size = kStack;
  g_forker.uc_link = &g_back;
  makecontext(&g_forker, &fork_on_this_stack, 0);
  CHECK(swapcontext(&g_back, &g_forker) == 0);
  verify(g_of_the_forker, kMiB, 6, "the parent's block");
  free(g_of_the_forker);
  free(stack);
}

HEAP_TEST(ForksOfLibcWithoutHandlers) {
  // _Fork runs no pthread_atfork handlers; what becomes of shared memory is looked after all the same.
  Blocks blocks = Blocks::served();
  blocks.write(31);
  const pid_t child = _Fork();
  CHECK(child >= 0);
  if (child == 0) {
    blocks.check(31, "in a child of _Fork");
    for (int i = 2; i < kBlocks; ++i) stamp(blocks.p[i], kSizes[i], 32);
    _exit(0);
  }
  join_child(child, "a child of _Fork");
  blocks.check(31, "the parent's, after a child of _Fork wrote");
}

HEAP_TEST(ForksBySystemCall) {
  // As runtimes with a libc of their own do.
  Blocks blocks = Blocks::served();
  blocks.write(41);
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  CHECK(child >= 0);
  if (child == 0) {
    for (int i = 2; i < kBlocks; ++i) stamp(blocks.p[i], kSizes[i], 42);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  blocks.check(41, "the parent's, after a child of clone wrote");
  // A heap cannot see such a fork coming. Its memory may be missing in the child, which then dies, but never shared.
  const bool died = WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
  CHECK(status == 0 || (mode() == Mode::kShared && died), "the child ended with status %#x",
        static_cast<unsigned>(status));
}

}  // namespace
}  // namespace zh::heap_test
