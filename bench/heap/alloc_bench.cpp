// How long allocation takes: one pattern, one size, one number of threads, one line of JSON.
//   alloc_bench --pattern touch|calloc|fifo|mix|grow|cross [--size 1M] [--threads 1] [--seconds 0.1]
// The value is nanoseconds per allocation (a thread's view: elapsed time x threads / operations). Memory is taken at
// the end with the pattern's live blocks still there.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "bench.h"

namespace zh::heap_bench {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kLiveBytes = 64 << 20;  // of all threads together

struct Setting {
  size_t size;
  int threads;
};

/// One thread's work: step() is one allocation and what belongs to it.
class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  virtual ~Worker() = default;
  virtual void step() = 0;
  [[nodiscard]] virtual const void* sample() const { return nullptr; }
};

void touch(void* p, size_t n) {
  auto* bytes = static_cast<volatile char*>(p);
  for (size_t i = 0; i < n; i += kPage) bytes[i] = 1;
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 99) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ >> 8;
  }

 private:
  uint64_t state_;
};

class Touch final : public Worker {
 public:
  Touch(const Setting& s, bool zeroed) : size_(s.size), zeroed_(zeroed) {}
  void step() override {
    void* p = zeroed_ ? calloc(1, size_) : malloc(size_);
    touch(p, size_);
    free(p);
  }

 private:
  size_t size_;
  bool zeroed_;
};

class Fifo final : public Worker {
 public:
  explicit Fifo(const Setting& s) : size_(s.size) {
    size_t live = kLiveBytes / static_cast<size_t>(s.threads) / s.size;
    live = live < 2 ? 2 : live > 1000 ? 1000 : live;
    blocks_.resize(live);
  }
  void step() override {
    void*& oldest = blocks_[at_++ % blocks_.size()];
    free(oldest);
    oldest = malloc(size_);
    touch(oldest, size_);
  }
  [[nodiscard]] const void* sample() const override { return blocks_[0]; }

 private:
  size_t size_;
  size_t at_ = 0;
  std::vector<void*> blocks_;
};

/// Sizes log-uniform from 16 bytes to `size`, freed in random order.
class Mix final : public Worker {
 public:
  Mix(const Setting& s, int thread) : random_(static_cast<uint64_t>(thread) + 5), blocks_(100) {
    while ((size_t{32} << octaves_) < s.size) ++octaves_;
  }
  void step() override {
    void*& block = blocks_[random_.next() % blocks_.size()];
    free(block);
    const size_t low = size_t{16} << random_.next() % (octaves_ + 1);
    const size_t n = low + random_.next() % low;
    block = malloc(n);
    touch(block, n);
  }
  [[nodiscard]] const void* sample() const override {
    for (const void* p : blocks_)
      if (in_heap(p)) return p;
    return nullptr;
  }

 private:
  Random random_;
  std::vector<void*> blocks_;
  size_t octaves_ = 0;
};

/// An array that grows by half again and again, from 1 KiB to `size`: one step is one realloc.
class Grow final : public Worker {
 public:
  explicit Grow(const Setting& s) : size_(s.size) {}
  void step() override {
    const size_t n = have_ == 0 ? 1024 : have_ + have_ / 2;
    if (n > size_) {
      free(p_);
      p_ = nullptr;
      have_ = 0;
      return;
    }
    p_ = static_cast<char*>(realloc(p_, n));
    touch(p_ + have_, n - have_);
    have_ = n;
  }
  [[nodiscard]] const void* sample() const override { return p_; }

 private:
  size_t size_;
  size_t have_ = 0;
  char* p_ = nullptr;
};

/// Blocks are freed by another thread than the one that allocated them.
class Cross final : public Worker {
 public:
  Cross(const Setting& s, int thread) : size_(s.size), random_(static_cast<uint64_t>(thread) + 9) {}
  void step() override {
    void* p = malloc(size_);
    touch(p, size_);
    Slot& slot = slots()[random_.next() % kSlots];
    {
      const std::lock_guard<std::mutex> guard(slot.lock);
      void* other = slot.p;
      slot.p = p;
      p = other;
    }
    free(p);
  }
  [[nodiscard]] const void* sample() const override { return slots()[0].p; }

 private:
  static constexpr size_t kSlots = 16;
  struct alignas(64) Slot {
    std::mutex lock;
    void* p = nullptr;
  };
  static Slot* slots() {
    static Slot all[kSlots];
    return all;
  }
  size_t size_;
  Random random_;
};

Worker* make(const std::string& pattern, const Setting& s, int thread) {
  if (pattern == "touch" || pattern == "calloc") return new Touch(s, pattern == "calloc");
  if (pattern == "fifo") return new Fifo(s);
  if (pattern == "mix") return new Mix(s, thread);
  if (pattern == "grow") return new Grow(s);
  if (pattern == "cross") return new Cross(s, thread);
  fprintf(stderr, "no pattern %s\n", pattern.c_str());
  exit(2);
}

}  // namespace
}  // namespace zh::heap_bench

int main(int argc, char** argv) {
  using namespace zh::heap_bench;
  const std::string pattern = option(argc, argv, "--pattern", "touch");
  const std::string size = option(argc, argv, "--size", "1M");
  const Setting setting{parse_size(size), atoi(option(argc, argv, "--threads", "1").c_str())};
  const double seconds = atof(option(argc, argv, "--seconds", "0.1").c_str());
  if (setting.threads < 1 || seconds <= 0) {
    fprintf(stderr,
            "alloc_bench --pattern touch|calloc|fifo|mix|grow|cross [--size 1M] [--threads 1] [--seconds 0.1]\n");
    return 2;
  }
  std::vector<Worker*> workers;
  for (int i = 0; i < setting.threads; ++i) workers.push_back(make(pattern, setting, i));
  std::vector<double> ns(static_cast<size_t>(setting.threads));
  in_threads(setting.threads, [&](int thread) {
    Worker& worker = *workers[static_cast<size_t>(thread)];
    // A fifth of the time is warming up. The clock is read once in a batch of about 20 microseconds.
    uint64_t batch = 1;
    const double warm_until = now_s() + 0.2 * seconds;
    double before = now_s();
    while (before < warm_until) {
      for (uint64_t i = 0; i < batch; ++i) worker.step();
      const double after = now_s();
      if (after - before < 20e-6 && batch < (1u << 16)) batch *= 2;
      before = after;
    }
    uint64_t steps = 0;
    const double begin = now_s();
    double end = begin;
    while (end < begin + 0.8 * seconds) {
      for (uint64_t i = 0; i < batch; ++i) worker.step();
      steps += batch;
      end = now_s();
    }
    ns[static_cast<size_t>(thread)] = 1e9 * (end - begin) / static_cast<double>(steps);
  });
  Result result;
  result.name = "alloc " + pattern + " " + size + " x" + std::to_string(setting.threads);
  for (const double each : ns) result.value += each / setting.threads;
  result.unit = "ns";
  result.memory_bytes = memory_bytes();
  const void* p = workers[0]->sample();
  void* q = p == nullptr ? malloc(setting.size) : nullptr;
  result.served = in_heap(p == nullptr ? q : p);
  print(result);
  return 0;
}
