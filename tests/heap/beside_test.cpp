// What other threads do while one forks or gives advice: no write of theirs is lost, and whoever waits is woken.
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "heap_test.h"

namespace zh::heap_test {
namespace {

constexpr size_t kSize = 12 * kMiB;  // more than a forked child copies

/// A block that is shared whole, where there is something to share it.
unsigned char* block() {
  auto* p = static_cast<unsigned char*>(calloc(1, kSize));
  CHECK(p != nullptr);
  for (size_t i = 0; i < kSize; i += kPage) p[i] = 0;
  if (mode() != Mode::kBare) CHECK(share(p, kSize) == 0);
  return p;
}

unsigned char* first_page(unsigned char* p) {
  return reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(p) + kPage) / kPage * kPage);
}

/// Counts on every page of a block up, until it is told to end; then checks that nothing is lost.
class Counting {
 public:
  explicit Counting(unsigned char* p) : p_(first_page(p)), thread_([this] { run(); }) {
    while (__atomic_load_n(&rounds_, __ATOMIC_RELAXED) == 0) sched_yield();
  }
  void end(const char* what) {
    __atomic_store_n(&stop_, true, __ATOMIC_RELAXED);
    thread_.join();
    for (size_t i = 0; i < kPages; ++i)
      CHECK(*word(i) == rounds_, "%s: page %zu has %lu of %lu", what, i, *word(i), rounds_);
  }

 private:
  static constexpr size_t kPages = kSize / kPage - 2;
  [[nodiscard]] uint64_t* word(size_t i) const { return reinterpret_cast<uint64_t*>(p_ + i * kPage + 64); }
  void run() {
    while (!__atomic_load_n(&stop_, __ATOMIC_RELAXED)) {
      for (size_t i = 0; i < kPages; ++i) *const_cast<volatile uint64_t*>(word(i)) = *word(i) + 1;
      __atomic_fetch_add(&rounds_, 1, __ATOMIC_RELAXED);
    }
  }
  unsigned char* p_;
  bool stop_ = false;
  uint64_t rounds_ = 0;
  std::thread thread_;
};

template <typename Act>
void counts_beside(const char* what, Act act) {
  unsigned char* p = block();
  Counting counting(p);
  for (int i = 0; i < 5; ++i) {
    act(first_page(p), kSize - 2 * kPage);
    usleep(3000);
  }
  counting.end(what);
  // Not freed: where memory had attributes that shared memory would not keep, none becomes shared later.
}

HEAP_TEST(IncrementsBesideAdvice) {
  const struct {
    const char* name;
    int advice;
    int back;
  } all[] = {{"DONTFORK", MADV_DONTFORK, MADV_DOFORK},         {"HUGEPAGE", MADV_HUGEPAGE, MADV_NOHUGEPAGE},
             {"WIPEONFORK", MADV_WIPEONFORK, MADV_KEEPONFORK}, {"MERGEABLE", MADV_MERGEABLE, MADV_UNMERGEABLE},
             {"DONTDUMP", MADV_DONTDUMP, MADV_DODUMP},         {"WILLNEED", MADV_WILLNEED, MADV_NORMAL}};
  for (const auto& advice : all) {
    counts_beside(advice.name, [&](unsigned char* p, size_t n) {
      (void)madvise(p, n, advice.advice);  // some systems do not know it
      (void)madvise(p, n, advice.back);
    });
  }
}

HEAP_TEST(IncrementsBesideProtection) {
  counts_beside("PROT_EXEC and back", [](unsigned char* p, size_t n) {
    (void)mprotect(p, n, PROT_READ | PROT_WRITE | PROT_EXEC);
    CHECK(mprotect(p, n, PROT_READ | PROT_WRITE) == 0);
  });
}

HEAP_TEST(IncrementsBesideForks) {
  counts_beside("fork", [](unsigned char*, size_t) { join_child(fork_child([] {}), "the child"); });
}

HEAP_TEST(AdviceAfterAFork) {
  // Memory that a fork has made private again hears advice as any other.
  unsigned char* p = block();
  Counting counting(p);
  join_child(fork_child([] {}), "the child");
  counting.end("fork");
  fill(p, kSize, 1);
  for (const int advice : {MADV_WIPEONFORK, MADV_KEEPONFORK, MADV_DONTFORK, MADV_DOFORK, MADV_DONTDUMP, MADV_DODUMP}) {
    CHECK(madvise(first_page(p), kMiB, advice) == 0, "advice %d", advice);
  }
  verify(p, kSize, 1, "after advice");
  CHECK(madvise(first_page(p), kMiB, MADV_WIPEONFORK) == 0);
  join_child(fork_child([&] { verify_zero(first_page(p), kMiB, "wiped on fork"); }), "the child");
  verify(p, kSize, 1, "the parent's");
  CHECK(madvise(first_page(p), kMiB, MADV_DONTNEED) == 0);
  verify_zero(first_page(p), kMiB, "after MADV_DONTNEED");
  free(p);
}

/// Six times: a thread runs wait() on what make() puts into a block, the process forks meanwhile, and wake() ends it. A
/// wake-up that is lost shows as a timeout of the test.
template <typename Make, typename Wait, typename Wake>
void woken(Make make, Wait wait, Wake wake) {
  alarm(40);
  for (int round = 0; round < 6; ++round) {
    unsigned char* p = block();
    auto* const object = make(p);
    std::thread waiter([=] { wait(object); });
    usleep(30'000);
    for (int i = 0; i < 3; ++i) join_child(fork_child([] {}), "the child");
    wake(object);
    waiter.join();
    free(p);
  }
}

HEAP_TEST(SemaphoresOfProcesses) {
  for (const unsigned posted : {0U, 1U}) {
    woken(
        [=](unsigned char* p) {
          auto* const semaphore = reinterpret_cast<sem_t*>(p + 5 * kMiB);
          CHECK(sem_init(semaphore, 1, posted) == 0);
          return semaphore;
        },
        [](sem_t* semaphore) {
          for (int i = 0; i < 2; ++i) {
            while (sem_wait(semaphore) != 0) CHECK(errno == EINTR);
          }
        },
        [](sem_t* semaphore) {
          sem_post(semaphore);
          sem_post(semaphore);
        });
  }
}

struct Condition {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int value = 0;

  Condition() {
    pthread_mutexattr_t of_mutex;
    pthread_condattr_t of_condition;
    pthread_mutexattr_init(&of_mutex);
    pthread_condattr_init(&of_condition);
    pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED);
    pthread_condattr_setpshared(&of_condition, PTHREAD_PROCESS_SHARED);
    CHECK(pthread_mutex_init(&mutex, &of_mutex) == 0 && pthread_cond_init(&changed, &of_condition) == 0);
  }
};

HEAP_TEST(ConditionsOfProcesses) {
  woken([](unsigned char* p) { return new (p + 5 * kMiB) Condition; },
        [](Condition* c) {
          pthread_mutex_lock(&c->mutex);
          while (c->value == 0) pthread_cond_wait(&c->changed, &c->mutex);
          pthread_mutex_unlock(&c->mutex);
        },
        [](Condition* c) {
          pthread_mutex_lock(&c->mutex);
          c->value = 1;
          pthread_cond_broadcast(&c->changed);
          pthread_mutex_unlock(&c->mutex);
        });
}

HEAP_TEST(RawFutexes) {
  woken([](unsigned char* p) { return reinterpret_cast<uint32_t*>(p + 7 * kMiB); },
        [](uint32_t* word) {
          while (__atomic_load_n(word, __ATOMIC_RELAXED) == 0) {
            (void)syscall(SYS_futex, word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
          }
        },
        [](uint32_t* word) {
          __atomic_store_n(word, 1, __ATOMIC_RELAXED);
          (void)syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
        });
}

/// A thread on a stack in a block: its end is told by a futex there.
HEAP_TEST(ThreadsOnStacksInBlocks) {
  static uint32_t go;
  const auto work = [](void*) -> void* {
    unsigned char local[64 * kKiB];
    fill(local, sizeof local, 3);
    while (__atomic_load_n(&go, __ATOMIC_RELAXED) == 0) usleep(1000);
    verify(local, sizeof local, 3, "a stack in a block");
    return nullptr;
  };
  woken(
      [](unsigned char* p) {
        __atomic_store_n(&go, 0, __ATOMIC_RELAXED);
        return first_page(p);
      },
      [=](unsigned char* stack) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_t worker;
        CHECK(pthread_attr_setstack(&attributes, stack, 4 * kMiB) == 0);
        CHECK(pthread_create(&worker, &attributes, work, nullptr) == 0);
        CHECK(pthread_join(worker, nullptr) == 0);
        pthread_attr_destroy(&attributes);
      },
      [](unsigned char*) { __atomic_store_n(&go, 1, __ATOMIC_RELAXED); });
}

/// The child's first thread ends; another one of the child goes on with the data.
HEAP_TEST(AChildWhoseFirstThreadEnds) {
  unsigned char* p = block();
  fill(p, kSize, 5);
  const int child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    std::thread([p] {
      usleep(100'000);
      verify(p, kSize, 5, "a child whose first thread has ended");
      fill(p, kSize, 6);
      verify(p, kSize, 6, "a child whose first thread has ended");
      _exit(0);
    }).detach();
    pthread_exit(nullptr);
  }
  fill(p, kSize, 9);
  (void)share(p, kSize);  // again, after a fork
  fill(p, kSize, 10);
  join_child(child, "the child");
  verify(p, kSize, 10, "the parent's");
  free(p);
}

}  // namespace
}  // namespace zh::heap_test
