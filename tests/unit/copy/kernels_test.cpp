// Every copy kernel that this CPU has, at every small length and at odd alignments, against memcpy, with guard bytes.
// label one-thread: [.]Kernels[.]
#include "copy/kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace zh::copy {
namespace {

using KernelBytes = std::vector<unsigned char>;
constexpr size_t kGuard = 128;

KernelBytes kernel_noise(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  KernelBytes out(n);
  for (auto& b : out) b = static_cast<unsigned char>(random());
  return out;
}

template <typename Copy>
void check(Copy&& copy, size_t n, size_t dst_shift, size_t src_shift) {
  const KernelBytes source = kernel_noise(n + 2 * kGuard, n + src_shift);
  KernelBytes got(n + 3 * kGuard, 0x5a);
  // Lines start at multiples of 64 of the address, so shifts are relative to one.
  const size_t to = kGuard + (64 - (reinterpret_cast<uintptr_t>(got.data()) & 63)) % 64 + dst_shift;
  KernelBytes want = got;
  if (n > 0) std::memcpy(want.data() + to, source.data() + src_shift, n);
  copy(got.data() + to, source.data() + src_shift, n);
  ASSERT_EQ(got, want) << "n " << n << " dst shift " << dst_shift << " src shift " << src_shift;
}

TEST(Kernels, CopySmallIsExactAtEveryLength) {
  for (size_t n = 0; n <= kSmallBytes; ++n) {
    for (size_t shift = 0; shift < 17; shift += 4) {
      check([](void* d, const void* s, size_t k) { copy_small(d, s, k); }, n, shift, 16 - shift);
    }
  }
}

TEST(Kernels, EachKernelIsExactAtEveryLengthNearItsSteps) {
  size_t count = 0;
  const CopyKernel* kernels = usable_kernels(&count);
  ASSERT_GT(count, 0U);
  EXPECT_STREQ(kernels[0].name, kernel_name());
  EXPECT_STREQ(kernels[count - 1].name, "generic");
  for (size_t k = 0; k < count; ++k) {
    SCOPED_TRACE(kernels[k].name);
    for (size_t n = kSmallBytes + 1; n < 1100; ++n) {
      check(kernels[k].temporal, n, n % 67, n % 31);
      check(kernels[k].streaming, n, n % 67, n % 31);
    }
    for (size_t n = kLeastStreamedBytes; n <= kSmallBytes; ++n) check(kernels[k].streaming, n, n % 67, n % 31);
    for (const size_t n : {4096U, 65535U, 65536U, 1000003U}) {
      check(kernels[k].temporal, n, 3, 0);
      check(kernels[k].streaming, n, 3, 5);
      check(kernels[k].streaming, n, 0, 0);
    }
  }
}

TEST(Kernels, CopyBytesServesBothStores) {
  for (const Store store : {Store::kTemporal, Store::kNonTemporal}) {
    for (const size_t n : {0U, 1U, 127U, 128U, 255U, 256U, 257U, 5000U, 300000U}) {
      check([store](void* d, const void* s, size_t k) { copy_bytes(d, s, k, store); }, n, 1, 2);
    }
  }
}

}  // namespace
}  // namespace zh::copy
