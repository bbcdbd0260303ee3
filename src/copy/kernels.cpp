// The copy loops behind copy_bytes(). Each SIMD width has a temporal and a streaming (non-temporal) loop; the widest
// that the CPU runs without lowering its clock is chosen at the first call. Knows nothing of who reads the bytes.
#include "copy/kernels.h"

#include "base/atomic.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace zh::copy {
namespace {

void generic_temporal(void* dst, const void* src, size_t n) { std::memcpy(dst, src, n); }

/// Bytes from `p` up to the next line of the destination.
size_t head_bytes(const void* p) { return (64 - (reinterpret_cast<uintptr_t>(p) & 63)) & 63; }

#if defined(__x86_64__)

// The loops move four vectors a turn, from the start of a line of the destination on: a store that crosses lines takes
// twice as long, and libc's blocks begin 16 bytes behind one; a streaming store has to fill its write-combining buffer.
// The ragged ends are ordinary stores. n > kSmallBytes in the temporal ones, n >= kLeastStreamedBytes in the others.

__attribute__((target("avx512f"))) void avx512_temporal(void* dst, const void* src, size_t n) {
  auto* d = static_cast<char*>(dst);
  const auto* s = static_cast<const char*>(src);
  size_t i = head_bytes(dst);
  copy_small(d, s, i);
  for (; i + 256 <= n; i += 256) {
    const __m512i a = _mm512_loadu_si512(s + i);
    const __m512i b = _mm512_loadu_si512(s + i + 64);
    const __m512i c = _mm512_loadu_si512(s + i + 128);
    const __m512i e = _mm512_loadu_si512(s + i + 192);
    _mm512_storeu_si512(d + i, a);
    _mm512_storeu_si512(d + i + 64, b);
    _mm512_storeu_si512(d + i + 128, c);
    _mm512_storeu_si512(d + i + 192, e);
  }
  copy_small(d + i, s + i, n - i);
}

__attribute__((target("avx512f"))) void avx512_streaming(void* dst, const void* src, size_t n) {
  auto* d = static_cast<char*>(dst);
  const auto* s = static_cast<const char*>(src);
  size_t i = head_bytes(dst);
  copy_small(d, s, i);
  for (; i + 256 <= n; i += 256) {
    const __m512i a = _mm512_loadu_si512(s + i);
    const __m512i b = _mm512_loadu_si512(s + i + 64);
    const __m512i c = _mm512_loadu_si512(s + i + 128);
    const __m512i e = _mm512_loadu_si512(s + i + 192);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(d + i), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(d + i + 64), b);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(d + i + 128), c);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(d + i + 192), e);
  }
  for (; i + 64 <= n; i += 64) _mm512_stream_si512(reinterpret_cast<__m512i*>(d + i), _mm512_loadu_si512(s + i));
  copy_small(d + i, s + i, n - i);
  _mm_sfence();
}

__attribute__((target("avx2"))) void avx2_temporal(void* dst, const void* src, size_t n) {
  auto* d = static_cast<char*>(dst);
  const auto* s = static_cast<const char*>(src);
  size_t i = head_bytes(dst);
  copy_small(d, s, i);
  for (; i + 128 <= n; i += 128) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s + i));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s + i + 32));
    const __m256i c = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s + i + 64));
    const __m256i e = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s + i + 96));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + i), a);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + i + 32), b);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + i + 64), c);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + i + 96), e);
  }
  copy_small(d + i, s + i, n - i);
}

__attribute__((target("avx2"))) void avx2_streaming(void* dst, const void* src, size_t n) {
  auto* d = static_cast<char*>(dst);
  const auto* s = static_cast<const char*>(src);
  size_t i = head_bytes(dst);
  copy_small(d, s, i);
  for (; i + 64 <= n; i += 64) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s + i));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s + i + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(d + i), a);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(d + i + 32), b);
  }
  copy_small(d + i, s + i, n - i);
  _mm_sfence();
}

void generic_streaming(void* dst, const void* src, size_t n) {
  auto* d = static_cast<char*>(dst);
  const auto* s = static_cast<const char*>(src);
  size_t i = head_bytes(dst);
  copy_small(d, s, i);
  for (; i + 64 <= n; i += 64) {
    for (size_t k = 0; k < 64; k += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(d + i + k),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + i + k)));
    }
  }
  copy_small(d + i, s + i, n - i);
  _mm_sfence();
}

#elif defined(__aarch64__)

void generic_streaming(void* dst, const void* src, size_t n) {
  auto* d = static_cast<char*>(dst);
  const auto* s = static_cast<const char*>(src);
  size_t i = head_bytes(dst);
  copy_small(d, s, i);
  for (; i + 64 <= n; i += 64) {
    asm volatile(
        "ldp q0, q1, [%[s]]\n ldp q2, q3, [%[s], #32]\n"
        "stnp q0, q1, [%[d]]\n stnp q2, q3, [%[d], #32]\n"
        :
        : [s] "r"(s + i), [d] "r"(d + i)
        : "v0", "v1", "v2", "v3", "memory");
  }
  copy_small(d + i, s + i, n - i);
  asm volatile("dmb ishst" ::: "memory");
}

#else

void generic_streaming(void* dst, const void* src, size_t n) { std::memcpy(dst, src, n); }

#endif

struct KernelList {
  CopyKernel kernels[3];
  size_t count = 0;
};

KernelList detect() {
  KernelList list;
#if defined(__x86_64__)
  __builtin_cpu_init();
  // VBMI2 came with the cores that no longer lower their clock for 512-bit vectors (Ice Lake, Zen 4).
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vbmi2")) {
    list.kernels[list.count++] = {"avx512", avx512_temporal, avx512_streaming};
  }
  if (__builtin_cpu_supports("avx2")) list.kernels[list.count++] = {"avx2", avx2_temporal, avx2_streaming};
#endif
  list.kernels[list.count++] = {"generic", generic_temporal, generic_streaming};
  return list;
}

const KernelList& kernel_list() {
  static const KernelList list = detect();
  return list;
}

// The pointers start at functions that choose; every thread that races here chooses the same.
using CopyFunction = void (*)(void*, const void*, size_t);
void choose_temporal(void* dst, const void* src, size_t n);
void choose_streaming(void* dst, const void* src, size_t n);
constinit Atomic<CopyFunction> chosen_temporal{&choose_temporal};
constinit Atomic<CopyFunction> chosen_streaming{&choose_streaming};

void choose_temporal(void* dst, const void* src, size_t n) {
  chosen_temporal.store_relaxed(kernel_list().kernels[0].temporal);
  kernel_list().kernels[0].temporal(dst, src, n);
}

void choose_streaming(void* dst, const void* src, size_t n) {
  chosen_streaming.store_relaxed(kernel_list().kernels[0].streaming);
  kernel_list().kernels[0].streaming(dst, src, n);
}

}  // namespace

namespace detail {

void copy_large(void* dst, const void* src, size_t n) { chosen_temporal.load_relaxed()(dst, src, n); }
void copy_streaming(void* dst, const void* src, size_t n) { chosen_streaming.load_relaxed()(dst, src, n); }

}  // namespace detail

const char* kernel_name() { return kernel_list().kernels[0].name; }

const CopyKernel* usable_kernels(size_t* count) {
  *count = kernel_list().count;
  return kernel_list().kernels;
}

}  // namespace zh::copy
