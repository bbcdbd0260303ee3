// fork() beside other threads: none of their writes is lost, and who waits on a futex in shared memory is woken.
// label not-emulated: [.]ForkBeside
#include <linux/futex.h>
#include <sys/syscall.h>

#include <memory>
#include <thread>
#include <vector>

#include "heap_support.h"

namespace zh::heap::test {
namespace {

constexpr size_t kBesideMuch = 16 << 20;

/// A word on each page, counted up by one thread.
struct Counters {
  std::byte* p;
  size_t n;
  uint64_t rounds = 0;
  static void count(void* argument) {
    auto& c = *static_cast<Counters*>(argument);
    for (size_t at = 0; at < c.n; at += kPage) {
      reinterpret_cast<Atomic<uint64_t>*>(c.p + at)->fetch_add_relaxed(1);
    }
    ++c.rounds;
  }
  [[nodiscard]] uint64_t at(size_t i) const {
    return reinterpret_cast<Atomic<uint64_t>*>(p + i * kPage)->load_relaxed();
  }
};

TEST(ForkBesideWriters, NoIncrementIsLostAndTheChildIsFrozen) {
  Heap& heap = fresh_heap();
  Counters a{shared(heap, kBesideMuch, 0), kBesideMuch / 2};
  Counters b{a.p + kBesideMuch / 2, kBesideMuch / 2};
  {
    Beside first(&Counters::count, &a);
    Beside second(&Counters::count, &b);
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(in_fork(heap, [&] {
        std::vector<uint64_t> seen;
        for (size_t k = 0; k < kBesideMuch / kPage; ++k) seen.push_back(a.at(k));
        usleep(5000);
        bool same = true;
        for (size_t k = 0; k < kBesideMuch / kPage; ++k) same = same && a.at(k) == seen[k];
        // A moment of the parent: pages are counted one after the other.
        for (size_t k = 1; k < kBesideMuch / 2 / kPage; ++k) {
          same = same && (seen[k] == seen[0] || seen[k] + 1 == seen[0]) && seen[k] <= seen[k - 1];
        }
        return same;
      }));
      usleep(2000);
    }
  }
  for (size_t k = 0; k < kBesideMuch / 2 / kPage; ++k) {
    ASSERT_EQ(a.at(k), a.rounds) << k;
    ASSERT_EQ(b.at(k), b.rounds) << k;
  }
}

TEST(ForkBesideWriters, NoIncrementIsLostWherePagesAreProtectedBesideThem) {
  Heap& heap = fresh_heap();
  Counters a{shared(heap, kBesideMuch, 0), kBesideMuch / 2};
  std::byte* other = a.p + kBesideMuch / 2;
  {
    Beside first(&Counters::count, &a);
    heap.protect(other, 5 * kPage, Heap::Protection::kRead);
    ASSERT_EQ(mprotect(other, 5 * kPage, PROT_READ), 0);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(in_fork(heap, [&] { return holds(other, kPage, 0); }));
  }
  for (size_t k = 0; k < kBesideMuch / 2 / kPage; ++k) ASSERT_EQ(a.at(k), a.rounds) << k;
}

/// Waits for a futex that processes may share until the word changes.
struct Waiter {
  Atomic<uint32_t>* word;
  Atomic<uint32_t> waits{0};
  bool woken = false;
  std::thread thread;

  explicit Waiter(std::byte* at) : word(reinterpret_cast<Atomic<uint32_t>*>(at)), thread([this] { run(); }) {
    while (waits.load_relaxed() == 0) std::this_thread::yield();
    usleep(20'000);  // it sleeps now
  }
  void run() {
    const timespec limit{20, 0};
    woken = true;
    while (word->load_relaxed() == 0 && woken) {
      waits.fetch_add_relaxed(1);
      const long n = syscall(SYS_futex, word, FUTEX_WAIT, 0, &limit, nullptr, 0);
      woken = n == 0 || errno != ETIMEDOUT;
    }
  }
  bool wake() {
    word->store_relaxed(1);
    syscall(SYS_futex, word, FUTEX_WAKE, 100, nullptr, nullptr, 0);
    thread.join();
    return woken;
  }
};

TEST(ForkBesideWaiters, FutexesAreWokenOnPagesThatBecamePrivate) {
  Heap& heap = fresh_heap();
  std::byte* p = shared(heap, kBesideMuch, 0);
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (size_t i = 0; i < 6; ++i) waiters.push_back(std::make_unique<Waiter>(p + i * kBesideMuch / 6 / 8 * 8));
  EXPECT_TRUE(in_fork(heap, [] { return true; }));
  EXPECT_EQ(heap.stats().shared_bytes, 0U);
  for (auto& waiter : waiters) EXPECT_TRUE(waiter->wake());
}

}  // namespace
}  // namespace zh::heap::test
