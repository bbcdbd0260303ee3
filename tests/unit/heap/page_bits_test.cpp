#include "heap/page_bits.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

namespace {

using zh::Atomic;
using zh::heap::PageBits;

struct PageBitsTest : testing::Test {
  std::array<Atomic<uint64_t>, 8> words{};
  PageBits bits;
  PageBitsTest() { bits.open(words.data()); }
};

TEST_F(PageBitsTest, ASetRangeIsExact) {
  for (const auto& [first, n] :
       std::vector<std::pair<uint32_t, uint32_t>>{{0, 1}, {63, 2}, {5, 200}, {64, 64}, {511, 1}}) {
    EXPECT_TRUE(bits.none(0, 512));
    EXPECT_FALSE(bits.set(first, n));
    EXPECT_TRUE(bits.set(first, n)) << "set before";
    EXPECT_TRUE(bits.all(first, n));
    EXPECT_EQ(bits.count(0, 512), n);
    EXPECT_TRUE(bits.none(0, first));
    if (first + n < 512) {
      EXPECT_FALSE(bits.all(first, n + 1));
      EXPECT_TRUE(bits.none(first + n, 512 - first - n));
    }
    bits.clear(first, n);
  }
}

TEST_F(PageBitsTest, SetTellsWhetherAllWereSet) {
  bits.set(10, 10);
  EXPECT_FALSE(bits.set(15, 10));
  EXPECT_TRUE(bits.set(10, 15));
}

TEST_F(PageBitsTest, SingleBitsAreTold) {
  bits.set(63, 2);
  EXPECT_FALSE(bits.test(62));
  EXPECT_TRUE(bits.test(63));
  EXPECT_TRUE(bits.test(64));
  EXPECT_FALSE(bits.test(65));
  bits.clear(0, 64);
  EXPECT_FALSE(bits.test(63));
  EXPECT_TRUE(bits.test(64));
  EXPECT_TRUE(bits.all(5, 0)) << "of nothing, all";
  EXPECT_TRUE(bits.none(64, 0));
}

}  // namespace
