// Stress: many threads that allocate, reallocate and free each other's blocks, threads that come and go, and forks
// beside them. ZH_STRESS=<factor> makes all of it as many times longer.
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "heap_test.h"

namespace zh::heap_test {
namespace {

/// `n` times ZH_STRESS; a third where all large memory is shared, for a step takes a hundred times as long there.
size_t steps(size_t n) {
  const char* text = getenv("ZH_STRESS");
  const long factor = text == nullptr ? 1 : atol(text);
  if (factor > 0) n *= static_cast<size_t>(factor);
  return mode() == Mode::kShared ? (n + 2) / 3 : n;
}

int processors() {
  const long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n < 1 ? 1 : n > 16 ? 16 : static_cast<int>(n);
}

/// Runs body(i) in n threads, and meanwhile() in this one; joins them.
template <class Body, class Meanwhile>
void in_threads(int n, Body body, Meanwhile meanwhile) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back(body, i);
  meanwhile();
  for (std::thread& thread : threads) thread.join();
}
template <class Body>
void in_threads(int n, Body body) {
  in_threads(n, body, [] {});
}

struct Block {
  void* p = nullptr;
  size_t n = 0;
  uint64_t seed = 0;

  void check_and_free(const char* what) {
    if (p == nullptr) return;
    verify_stamp(p, n, seed, what, 4096);
    free(p);
    p = nullptr;
  }
};

/// Most blocks are small or of middle size, a few are very large.
size_t mixed_size(Random* random) {
  const size_t kind = random->below(100);
  if (kind < 45) return random->size(16, 16 * kKiB);
  if (kind < 90) return random->size(16 * kKiB, kMiB);
  if (kind < 99) return random->size(kMiB, 8 * kMiB);
  return random->size(8 * kMiB, 64 * kMiB);
}

void random_mix(int threads, size_t n_steps) {
  in_threads(threads, [=](int index) {
    constexpr size_t kSlots = 24;
    Block slots[kSlots];
    Random random(static_cast<uint64_t>(index) + 100);
    for (size_t step = 0; step < n_steps; ++step) {
      Block& b = slots[random.below(kSlots)];
      const size_t action = random.below(10);
      if (b.p != nullptr && action < 3) {
        const size_t n = mixed_size(&random);
        verify_stamp(b.p, b.n, b.seed, "before realloc", 4096);
        void* p = realloc(b.p, n);
        CHECK(p != nullptr);
        const size_t kept = n < b.n ? n : b.n;
        uint64_t first = 0;
        uint64_t wanted[4] = {};
        stamp(wanted, sizeof wanted, b.seed, 4096);
        memcpy(&first, p, 8);
        if (kept >= 16) CHECK(first == wanted[0], "realloc from %zu to %zu lost the start", b.n, n);
        b.p = p;
        b.n = n;
        stamp(b.p, b.n, b.seed, 4096);
        continue;
      }
      b.check_and_free("a block of its own thread");
      b.n = mixed_size(&random);
      b.seed = random.next();
      if (action == 3) {
        b.p = calloc(1, b.n);
        CHECK(b.p != nullptr);
        verify_zero(b.p, b.n < kMiB ? b.n : kMiB, "calloc beside other threads");
      } else if (action == 4) {
        b.p = memalign(size_t{32} << random.below(12), b.n);
      } else {
        b.p = malloc(b.n);
      }
      CHECK(b.p != nullptr);
      stamp(b.p, b.n, b.seed, 4096);
    }
    for (Block& b : slots) b.check_and_free("a block at the end");
  });
}

HEAP_TEST(RandomMixOneThread) { random_mix(1, steps(6000)); }
HEAP_TEST(RandomMixAThreadPerProcessor) { random_mix(processors(), steps(4000)); }
HEAP_TEST(RandomMixFourThreadsPerProcessor) { random_mix(4 * processors(), steps(2000)); }

HEAP_TEST(BlocksFreedByOtherThreads) {
  constexpr size_t kSlots = 64;
  static Block slots[kSlots];
  static std::mutex locks[kSlots];
  const size_t n_steps = steps(1500);
  in_threads(3 * processors(), [=](int index) {
    Random random(static_cast<uint64_t>(index) + 1);
    for (size_t step = 0; step < n_steps; ++step) {
      Block mine;
      mine.n = random.below(4) == 0 ? random.size(kMiB, 4 * kMiB) : random.size(16 * kKiB, 256 * kKiB);
      mine.seed = random.next();
      mine.p = malloc(mine.n);
      CHECK(mine.p != nullptr);
      stamp(mine.p, mine.n, mine.seed, 4096);
      const size_t slot = random.below(kSlots);
      {
        const std::lock_guard<std::mutex> guard(locks[slot]);
        const Block other = slots[slot];
        slots[slot] = mine;
        mine = other;
      }
      mine.check_and_free("a block of another thread");
    }
  });
  for (Block& b : slots) b.check_and_free("a block left over");
}

HEAP_TEST(ReallocStorm) {
  const size_t rounds = steps(30);
  in_threads(2 * processors(), [=](int index) {
    Random random(static_cast<uint64_t>(index) + 50);
    for (size_t round = 0; round < rounds; ++round) {
      size_t n = random.size(16, 4096);
      auto* p = static_cast<char*>(malloc(n));
      fill(p, n / 8 * 8, round);
      size_t known = n / 8 * 8;
      while (n < 6 * kMiB) {
        n += random.below(n) + 1;
        p = static_cast<char*>(realloc(p, n));
        CHECK(p != nullptr);
        verify(p, known, round, "growing beside other threads");
        if (n < 300000) {
          known = n / 8 * 8;
          fill(p, known, round);
        }
      }
      while (n > 64) {
        n -= random.below(n / 2) + 1;
        p = static_cast<char*>(realloc(p, n));
        CHECK(p != nullptr);
        known = known < n ? known : n / 8 * 8;
        verify(p, known, round, "shrinking beside other threads");
      }
      free(p);
    }
  });
}

HEAP_TEST(CallocIsZeroBesideDirtyFrees) {
  const size_t n_steps = steps(3000);
  in_threads(2 * processors(), [=](int index) {
    Random random(static_cast<uint64_t>(index) + 900);
    for (size_t step = 0; step < n_steps; ++step) {
      const size_t n = random.size(16 * kKiB, 512 * kKiB);
      void* p = calloc(n, 1);
      CHECK(p != nullptr);
      verify_zero(p, n, "calloc");
      memset(p, 0xEE, n);
      free(p);
    }
  });
}

HEAP_TEST(ThousandsOfThreads) {
  // Each thread takes the block of an earlier one and leaves one behind.
  static Block left[8];
  for (int round = 0; round < 500; ++round) {
    in_threads(8, [=](int index) {
      Block& mine = left[(index + round) % 8];
      mine.check_and_free("a block of a thread that has ended");
      mine.n = 40000 + static_cast<size_t>(index) * 30000;
      mine.seed = static_cast<uint64_t>(round * 8 + index);
      mine.p = malloc(mine.n);
      stamp(mine.p, mine.n, mine.seed, 4096);
      void* also = malloc(100);
      free(also);
    });
  }
  for (Block& b : left) b.check_and_free("a block of the last threads");
}

void child_uses_its_heap(uint64_t seed) {
  void* blocks[6];
  size_t n = 1000;
  for (void*& p : blocks) {
    p = malloc(n);
    CHECK(p != nullptr);
    fill(p, n, seed);
    n *= 5;
  }
  n = 1000;
  for (void* p : blocks) {
    verify(p, n, seed, "a block of the child");
    p = realloc(p, n + n / 2);
    verify(p, n / 8 * 8, seed, "a reallocated block of the child");
    free(p);
    n *= 5;
  }
}

HEAP_TEST(ForksBesideAllocatingThreads) {
  static volatile bool stop = false;
  const auto allocate = [](int index) {
    Random random(static_cast<uint64_t>(index) + 77);
    Block blocks[8];
    while (!stop) {
      Block& b = blocks[random.below(8)];
      b.check_and_free("a block of a thread beside forks");
      b.n = random.size(100, 512 * kKiB);
      b.seed = random.next();
      b.p = malloc(b.n);
      CHECK(b.p != nullptr);
      stamp(b.p, b.n, b.seed, 4096);
    }
    for (Block& b : blocks) b.check_and_free("a last block beside forks");
  };
  in_threads(2 * processors(), allocate, [] {
    auto* mine = static_cast<char*>(malloc(2 * kMiB));
    for (uint64_t round = 0; round < steps(60); ++round) {
      fill(mine, 2 * kMiB, round);
      const int child = fork_child([=] {
        verify(mine, 2 * kMiB, round, "the forking thread's block, in the child");
        fill(mine, 2 * kMiB, round + 1000);
        child_uses_its_heap(round);
        verify(mine, 2 * kMiB, round + 1000, "the child's own block");
        free(mine);
      });
      verify(mine, 2 * kMiB, round, "the parent's block");
      join_child(child, "a child beside allocating threads");
      verify(mine, 2 * kMiB, round, "the parent's block after the child");
    }
    stop = true;
    free(mine);
  });
}

}  // namespace
}  // namespace zh::heap_test
