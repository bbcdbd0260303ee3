// The sizes of the heap's span.
#include "heap/limits.h"

#include <gtest/gtest.h>

namespace {

using zh::heap::kFileAlignment;
using zh::heap::kMaxSpan;
using zh::heap::kMinSpan;
using zh::heap::span_bytes;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kNoLimit = ~uint64_t{0};

TEST(Span, IsFourTimesTheMemoryWithinBounds) {
  EXPECT_EQ(span_bytes(kMaxSpan / 8, kNoLimit), kMaxSpan / 2);
  EXPECT_EQ(span_bytes(kMaxSpan / 8 + 4097, kNoLimit) % kFileAlignment, 0U);
  EXPECT_EQ(span_bytes(kMaxSpan, kNoLimit), kMaxSpan);
  EXPECT_EQ(span_bytes(~uint64_t{0}, kNoLimit), kMaxSpan) << "no overflow";
}

TEST(Span, TakesAQuarterOfTheAddressSpaceAtMost) {
  EXPECT_EQ(span_bytes(16 * kGiB, 8 * kGiB), 2 * kGiB);
  EXPECT_EQ(span_bytes(16 * kGiB, 4 * kMinSpan), kMinSpan);
  EXPECT_EQ(span_bytes(16 * kGiB, 4 * kMinSpan - 1), 0U) << "too little to begin with";
  EXPECT_EQ(span_bytes(kMinSpan / 8, kNoLimit), 0U);
}

}  // namespace
