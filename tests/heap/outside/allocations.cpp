// Programs that mostly allocate, in the manner of the well-known allocator benchmarks, except that every block is
// checked:
//     heap_allocations larson|scratch|sizes|growing|producers|pages|forks [rounds]
// The last line is a checksum that depends on the contents alone.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kThreads = 3;
constexpr size_t kKiB = 1024;

struct Random {
  uint64_t state;
  uint64_t next() {
    state += 0x9e3779b97f4a7c15u;
    uint64_t x = state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  size_t below(size_t n) { return next() % n; }
};

struct Block {
  uint64_t* words = nullptr;
  size_t n = 0;  // bytes, a multiple of a word
  uint64_t seed = 0;
};

[[noreturn]] void wrong(const char* what, const Block& block, size_t at) {
  std::printf("wrong %s at word %zu of %zu bytes\n", what, at, block.n);
  std::fflush(stdout);
  std::_Exit(1);
}

void fill(const Block& block, size_t from = 0) {
  for (size_t i = from / 8; i < block.n / 8; ++i) block.words[i] = block.seed + i * 0x9e3779b9u;
}

/// The sum of the block's words, each of which must be as it was written.
uint64_t sum(const Block& block, const char* what) {
  uint64_t total = 0;
  for (size_t i = 0; i < block.n / 8; ++i) {
    if (block.words[i] != block.seed + i * 0x9e3779b9u) wrong(what, block, i);
    total += block.words[i];
  }
  return total;
}

/// Mostly small, some large, few very large ones.
size_t some_bytes(Random& random) {
  const size_t kind = random.below(100);
  const size_t most = kind < 60 ? kKiB : kind < 85 ? 64 * kKiB : kind < 98 ? 512 * kKiB : 4096 * kKiB;
  return (8 + random.below(most)) & ~size_t{7};
}

Block allocate(size_t n, Random& random) {
  Block block{nullptr, n, random.next()};
  const size_t way = random.below(4);
  void* p = nullptr;
  if (way == 0) {
    p = std::calloc(n / 8, 8);
    for (size_t i = 0; p != nullptr && i < n / 8; ++i) {
      if (static_cast<uint64_t*>(p)[i] != 0) wrong("zero", block, i);
    }
  } else if (way == 1) {
    const size_t alignment = size_t{64} << random.below(11);
    if (posix_memalign(&p, alignment, n) != 0) p = nullptr;
    if (reinterpret_cast<uintptr_t>(p) % alignment != 0) wrong("alignment", block, alignment);
  } else {
    p = std::malloc(n);
  }
  if (p == nullptr) wrong("null", block, 0);
  block.words = static_cast<uint64_t*>(p);
  fill(block);
  return block;
}

/// The sum of run(thread) over threads that run at once.
template <typename Run>
uint64_t in_threads(Run run) {
  std::vector<uint64_t> sums(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { sums[i] = run(i); });
  for (std::thread& thread : threads) thread.join();
  return std::accumulate(sums.begin(), sums.end(), uint64_t{0});
}

/// As a server does: each thread replaces blocks at random, and hands all of them to its successor now and then.
uint64_t larson(size_t rounds) {
  std::vector<std::vector<Block>> held(kThreads, std::vector<Block>(40));
  uint64_t total = 0;
  for (size_t generation = 0; generation < 3; ++generation) {
    total += in_threads([&](size_t thread) {
      Random random{generation * 100 + thread};
      std::vector<Block>& blocks = held[(thread + generation) % kThreads];
      uint64_t mine = 0;
      for (size_t i = 0; i < 60 * rounds; ++i) {
        Block& block = blocks[random.below(blocks.size())];
        if (block.words != nullptr) mine += sum(block, "larson");
        std::free(block.words);
        block = allocate(some_bytes(random), random);
      }
      return mine;
    });
  }
  for (const std::vector<Block>& blocks : held) {
    for (const Block& block : blocks) std::free(block.words);
  }
  return total;
}

/// Threads free what another one allocated and write their own in its place.
uint64_t scratch(size_t rounds) {
  Random random{7};
  std::vector<Block> given;
  for (size_t i = 0; i < kThreads; ++i) given.push_back(allocate(96 * kKiB, random));
  return in_threads([&](size_t thread) {
    Random own{thread};
    uint64_t total = sum(given[thread], "given");
    std::free(given[thread].words);
    for (size_t i = 0; i < 30 * rounds; ++i) {
      const Block block = allocate(96 * kKiB, own);
      total += sum(block, "scratch");
      std::free(block.words);
    }
    return total;
  });
}

/// Every size once, freed in another order.
uint64_t sizes(size_t rounds) {
  Random random{11};
  uint64_t total = 0;
  for (size_t round = 0; round < rounds; ++round) {
    std::vector<Block> blocks;
    for (size_t n = 8; n < 3000 * kKiB; n += n / 8 + 8) blocks.push_back(allocate(n & ~size_t{7}, random));
    while (!blocks.empty()) {
      std::swap(blocks[random.below(blocks.size())], blocks.back());
      total += sum(blocks.back(), "sizes");
      std::free(blocks.back().words);
      blocks.pop_back();
    }
  }
  return total;
}

/// realloc() up and down.
uint64_t growing(size_t rounds) {
  return in_threads([&](size_t thread) {
    Random random{thread + 20};
    uint64_t total = 0;
    for (size_t i = 0; i < 4 * rounds; ++i) {
      Block block = allocate(64, random);
      while (block.n < 3000 * kKiB) {
        const size_t had = block.n;
        const size_t n = random.below(4) == 0 ? had / 2 + 8 : had + had / 2 + random.below(8 * kKiB);
        block.n = n & ~size_t{7};
        block.words = static_cast<uint64_t*>(std::realloc(block.words, block.n));
        if (block.words == nullptr) wrong("null", block, 0);
        if (block.n > had) fill(block, had);
        total += sum(block, "growing");
      }
      std::free(block.words);
    }
    return total;
  });
}

/// One side allocates, the other one checks and frees.
uint64_t producers(size_t rounds) {
  std::mutex lock;
  std::condition_variable changed;
  std::deque<Block> queue;
  size_t ready = 0;
  uint64_t total = 0;
  (void)in_threads([&](size_t thread) {
    Random random{thread + 30};
    if (thread != 0) {
      for (size_t i = 0; i < 60 * rounds; ++i) {
        const Block block = allocate(some_bytes(random), random);
        std::unique_lock hold(lock);
        changed.wait(hold, [&] { return queue.size() < 16; });
        queue.push_back(block);
        changed.notify_all();
      }
      const std::lock_guard hold(lock);
      ++ready;
      changed.notify_all();
      return uint64_t{0};
    }
    for (;;) {
      std::unique_lock hold(lock);
      changed.wait(hold, [&] { return !queue.empty() || ready == kThreads - 1; });
      if (queue.empty()) return uint64_t{0};
      const Block block = queue.front();
      queue.pop_front();
      changed.notify_all();
      hold.unlock();
      total += sum(block, "producers");
      std::free(block.words);
    }
  });
  return total;
}

/// The calls by which a program manages pages itself, over parts of mappings and of allocations.
uint64_t pages(size_t rounds) {
  constexpr size_t kPage = 4096;
  constexpr size_t kBytes = 256 * kPage;
  Random random{40};
  uint64_t total = 0;
  for (size_t i = 0; i < 4 * rounds; ++i) {
    void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 0;
    Block block{static_cast<uint64_t*>(p), kBytes, random.next()};
    fill(block);
    const size_t first = random.below(128);
    const size_t n = (1 + random.below(100)) * kPage;
    unsigned char* part = static_cast<unsigned char*>(p) + first * kPage;
    const Block inner{reinterpret_cast<uint64_t*>(part), n, block.seed + first * kPage / 8 * 0x9e3779b9u};
    switch (i % 5) {
      case 0:  // reads as zero afterwards
        if (madvise(part, n, MADV_DONTNEED) != 0) wrong("madvise", inner, 0);
        for (size_t at = 0; at < n / 8; ++at) {
          if (inner.words[at] != 0) wrong("dropped page", inner, at);
        }
        fill(inner);
        break;
      case 1:
        if (mprotect(part, n, PROT_READ) != 0) wrong("mprotect", inner, 0);
        total += sum(inner, "read-only page");
        if (mprotect(part, n, PROT_READ | PROT_WRITE) != 0) wrong("mprotect", inner, 0);
        fill(inner);
        break;
      case 2:  // a hole, filled again with new pages
        if (munmap(part, n) != 0 ||
            mmap(part, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != part)
          wrong("munmap", inner, 0);
        for (size_t at = 0; at < n / 8; ++at) {
          if (inner.words[at] != 0) wrong("new page", inner, at);
        }
        fill(inner);
        break;
      case 3: {  // the whole moves and grows
        void* moved = mremap(p, kBytes, 2 * kBytes, MREMAP_MAYMOVE);
        if (moved == MAP_FAILED) wrong("mremap", block, 0);
        block.words = static_cast<uint64_t*>(moved);
        total += sum(block, "moved page");
        if (munmap(static_cast<unsigned char*>(moved) + kBytes, kBytes) != 0) wrong("munmap", block, 0);
        break;
      }
      default: {  // a message through a pipe, as the kernel reads and writes the pages
        int ends[2];
        if (pipe(ends) != 0) wrong("pipe", block, 0);
        if (write(ends[1], part, 4 * kPage) != 4 * kPage) wrong("write", inner, 0);
        std::memset(part, 0, 4 * kPage);
        for (size_t have = 0; have < 4 * kPage;) {
          const ssize_t got = read(ends[0], part + have, 4 * kPage - have);
          if (got <= 0) wrong("read", inner, have);
          have += static_cast<size_t>(got);
        }
        close(ends[0]);
        close(ends[1]);
      }
    }
    total += sum(block, "pages");
    munmap(block.words, kBytes);
  }
  return total;
}

/// Parent and child each see their own writes from the fork on, whoever writes first, also the child's child.
uint64_t forks(size_t rounds) {
  Random random{50};
  uint64_t total = 0;
  for (size_t i = 0; i < rounds; ++i) {
    std::vector<Block> blocks;
    for (size_t k = 0; k < 12; ++k) blocks.push_back(allocate(some_bytes(random) + 128 * kKiB, random));
    std::fflush(stdout);
    const pid_t child = fork();
    if (child < 0) wrong("fork", blocks[0], 0);
    for (Block& block : blocks) {
      total += sum(block, child == 0 ? "child before" : "parent before");
      if (child != 0) total += block.seed;
      block.seed += child == 0 ? 1 : 2;
      fill(block);
    }
    if (child == 0) {
      const pid_t grandchild = fork();
      for (const Block& block : blocks) (void)sum(block, "generations");
      for (const Block& block : blocks) std::free(block.words);
      if (grandchild > 0) {
        int status = 0;
        waitpid(grandchild, &status, 0);
        std::_Exit(status != 0);
      }
      std::_Exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) wrong("child", blocks[0], 0);
    for (const Block& block : blocks) {
      total += sum(block, "parent after");
      std::free(block.words);
    }
  }
  return total;
}

struct Program {
  const char* name;
  uint64_t (*run)(size_t);
};
constexpr Program kPrograms[] = {{"larson", larson},       {"scratch", scratch}, {"sizes", sizes}, {"growing", growing},
                                 {"producers", producers}, {"pages", pages},     {"forks", forks}};

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const size_t rounds = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10;
  for (const Program& program : kPrograms) {
    if (name != program.name) continue;
    const uint64_t total = program.run(rounds);
    std::printf("%s %016llx\n", program.name, static_cast<unsigned long long>(total));
    return 0;
  }
  std::fprintf(stderr, "usage: heap_allocations larson|scratch|sizes|growing|producers|pages|forks [rounds]\n");
  return 2;
}
