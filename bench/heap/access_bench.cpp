// How fast memory is that malloc gave: one kernel over arrays of one size, one line of JSON.
//   access_bench --kernel first|triad|random|rows|fork [--size 16M] [--threads 1] [--seconds 0.2]
//
// first: the first write to each page of memory that was never used, 256 MiB in blocks of that size, ns per page.
// triad: STREAM's a = b + s c on three arrays of that size, ns per KiB moved.
// random: dependent reads of one word each, in random order, ns per read.
// rows: sums down the columns of 512 rows of that size, each allocated by itself, ns per element.
// fork: fork() and the end of a child that does nothing, with so much memory in use, us.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench.h"

namespace zh::heap_bench {
namespace {

constexpr size_t kPage = 4096;

/// Calls body until the time is up, after a first call that does not count; seconds per call.
template <class Body>
double repeat(double seconds, Body body) {
  body();
  const double begin = now_s();
  double end = begin;
  uint64_t calls = 0;
  do {
    body();
    ++calls;
    end = now_s();
  } while (end < begin + seconds);
  return (end - begin) / static_cast<double>(calls);
}

double first(size_t n, double, bool* served) {
  // Nothing is freed in between, for freed memory would be given out again.
  const size_t blocks = (size_t{256} << 20) / n + 1;
  double s = 0;
  for (size_t block = 0; block < blocks; ++block) {
    const double begin = now_s();
    auto* p = static_cast<volatile char*>(malloc(n));
    for (size_t i = 0; i < n; i += kPage) p[i] = 1;
    s += now_s() - begin;
    *served = in_heap(const_cast<char*>(p));
  }
  return 1e9 * s / static_cast<double>(blocks * ((n + kPage - 1) / kPage));
}

double triad(size_t n, double seconds, bool* served) {
  const size_t words = n / sizeof(double);
  auto* a = static_cast<double*>(malloc(n));
  auto* b = static_cast<double*>(malloc(n));
  auto* c = static_cast<double*>(malloc(n));
  for (size_t i = 0; i < words; ++i) {
    a[i] = 0;
    b[i] = 1.5;
    c[i] = static_cast<double>(i % 7);
  }
  *served = in_heap(a);
  const size_t passes = (size_t{4} << 20) / n + 1;
  const double s = repeat(seconds, [=] {
    for (size_t pass = 0; pass < passes; ++pass) {
      const double scalar = 3.0 + static_cast<double>(pass);
      for (size_t i = 0; i < words; ++i) a[i] = b[i] + scalar * c[i];
      __asm__ volatile("" : : "r"(a) : "memory");
    }
  });
  return 1e9 * s / (3.0 * static_cast<double>(n) / 1024.0 * static_cast<double>(passes));
}

double random_reads(size_t n, double seconds, bool* served) {
  // One cycle through all words (Sattolo), so that each read must wait for the one before.
  const size_t words = n / sizeof(uint32_t);
  auto* next = static_cast<uint32_t*>(malloc(n));
  for (size_t i = 0; i < words; ++i) next[i] = static_cast<uint32_t>(i);
  uint64_t state = 88172645463325252u;
  for (size_t i = words - 1; i > 0; --i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const size_t k = state % i;
    const uint32_t swap = next[i];
    next[i] = next[k];
    next[k] = swap;
  }
  *served = in_heap(next);
  uint32_t at = 0;
  constexpr int kReads = 100000;
  const double s = repeat(seconds, [&] {
    for (int i = 0; i < kReads; ++i) at = next[at];
    __asm__ volatile("" : "+r"(at));
  });
  return 1e9 * s / kReads;
}

double rows(size_t n, double seconds, bool* served) {
  constexpr size_t kRows = 512;
  static double* row[kRows];
  const size_t columns = n / sizeof(double);
  for (auto& each : row) {
    each = static_cast<double*>(malloc(n));
    for (size_t i = 0; i < columns; ++i) each[i] = static_cast<double>(i);
  }
  *served = in_heap(row[kRows / 2]);
  double total = 0;
  const double s = repeat(seconds, [&] {
    for (size_t column = 0; column < columns; ++column) {
      for (const double* each : row) total += each[column];
    }
    __asm__ volatile("" : : "r"(&total) : "memory");
  });
  return 1e9 * s / static_cast<double>(kRows * columns);
}

double forks(size_t n, double seconds, bool* served) {
  auto* p = static_cast<char*>(malloc(n));
  for (size_t i = 0; i < n; i += kPage) p[i] = 1;
  *served = in_heap(p);
  return 1e6 * repeat(seconds, [] {
           const pid_t child = fork();
           if (child == 0) _exit(0);
           waitpid(child, nullptr, 0);
         });
}

}  // namespace
}  // namespace zh::heap_bench

int main(int argc, char** argv) {
  using namespace zh::heap_bench;
  const std::string kernel = option(argc, argv, "--kernel", "triad");
  const std::string size = option(argc, argv, "--size", "16M");
  const int threads = atoi(option(argc, argv, "--threads", "1").c_str());
  const double seconds = atof(option(argc, argv, "--seconds", "0.2").c_str());
  const size_t n = parse_size(size);
  auto* run = kernel == "first"    ? first
              : kernel == "triad"  ? triad
              : kernel == "random" ? random_reads
              : kernel == "rows"   ? rows
              : kernel == "fork"   ? forks
                                   : nullptr;
  if (run == nullptr || threads < 1 || threads > 64 || seconds <= 0 || n < kPage) {
    fprintf(stderr, "access_bench --kernel first|triad|random|rows|fork [--size 16M] [--threads 1] [--seconds 0.2]\n");
    return 2;
  }
  std::vector<double> values(static_cast<size_t>(threads));
  bool served[64] = {};
  in_threads(threads, [&](int thread) { values[static_cast<size_t>(thread)] = run(n, seconds, &served[thread]); });
  Result result;
  result.name = kernel + " " + size + " x" + std::to_string(threads);
  for (const double each : values) result.value += each / threads;
  result.unit = kernel == "first" ? "ns/page" : kernel == "triad" ? "ns/KiB" : kernel == "fork" ? "us" : "ns";
  result.memory_bytes = memory_bytes();
  result.served = served[0];
  print(result);
  return 0;
}
