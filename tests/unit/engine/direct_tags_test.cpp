// The host's tags of direct messages between nodes: ranges that never meet, and what has passed in them.
#include "engine/direct_tags.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cstdint>

namespace zh::test {
namespace {

using engine::DirectTags;
constexpr int32_t kTagCall = static_cast<int32_t>(coll::kTags);

TEST(DirectTags, RangesAreApartAndWithinTheHostsTags) {
  for (const int32_t tag_ub : {20, 32766, 32767, (1 << 20) - 1, 1 << 28, INT_MAX}) {
    DirectTags tags(tag_ub);
    int64_t end = int64_t{tags.announced_ub()} + 1;
    int ranges = 0;
    for (uint64_t context = 0; context < 20'000; ++context) {
      const int32_t first = tags.next(3);
      DirectTags::Range* range = tags.open(3, context, first);
      ASSERT_EQ(range, tags.to(3, context));
      ASSERT_EQ(range->open(), first != 0);
      if (first == 0) continue;
      ++ranges;
      ASSERT_EQ(first, end) << "behind the one before";
      for (const int32_t tag : {0, 1, 15 * kTagCall + 3, 0x3fffffff}) {
        ASSERT_GE(range->data_tag(tag), first);
        ASSERT_LE(range->data_tag(tag), tag_ub);
        end = std::max(end, int64_t{range->data_tag(tag)} + 1);
      }
    }
    EXPECT_EQ(ranges > 0, tag_ub >= 32767);
    EXPECT_GE(ranges, tag_ub >= (1 << 20) - 1 ? 63 : 0);
    EXPECT_LE(end, int64_t{tag_ub} + 1);
    EXPECT_EQ(tags.next(4) != 0, tag_ub >= 32767) << "each rank has its own";
  }
}

TEST(DirectTags, NeighboursInACallAndInCallsThatFollowHaveDifferentTags) {
  DirectTags tags(32767);
  const DirectTags::Range& range = *tags.open(0, 0, tags.next(0));
  for (int32_t tag = 0; tag < 16 * kTagCall; ++tag) EXPECT_EQ(range.data_tag(tag), range.first() + tag);
  EXPECT_EQ(range.data_tag(16 * kTagCall), range.first());
}

TEST(DirectTags, KnowsWhatHasPassedInTheNewestCall) {
  DirectTags tags(32767);
  DirectTags::Range& range = *tags.learn(0, 0, 1 << 14);
  constexpr int32_t kLast = 0x3fffffff - kTagCall + 1;  // then first tags begin again
  int32_t before = kLast - 2 * kTagCall;
  for (const int32_t call : {kLast - kTagCall, kLast, 0, kTagCall}) {
    EXPECT_FALSE(range.used(call + 7));
    EXPECT_FALSE(range.is_past(call + 7));
    for (const int32_t tag : {call + 7, call + 9}) range.make_room(tag);
    range.pass_direct(call + 7);
    range.pass_framed(call + 7);
    range.pass_framed(call + 9);
    EXPECT_TRUE(range.passed(call + 7));
    EXPECT_TRUE(range.is_past(call + 7));
    EXPECT_TRUE(range.used(call + 9));
    EXPECT_FALSE(range.passed(call + 9));
    EXPECT_FALSE(range.used(call + 8));
    EXPECT_TRUE(range.is_past(before + 8)) << "the call is over";
    EXPECT_FALSE(range.is_past(call + kTagCall));
    before = call;
  }
}

}  // namespace
}  // namespace zh::test
