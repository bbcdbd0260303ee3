// The byte map of a segment: what is made is whole, and a change of any field is found.
#include "node/segment_map.h"

#include <gtest/gtest.h>

namespace zh::node {
namespace {

constexpr uint64_t kPageBytes = 4096;

TEST(SegmentMap, HeaderIsWhatItsSizesMakeOfIt) {
  const HeaderShm whole = make_header({3, 100}, 64 * kPageBytes, 2 * kPageBytes, kPageBytes);
  EXPECT_STREQ(whole.broken_invariant(), nullptr);
  const auto* const made = "the header is what make_header() makes of its sizes";
  for (uint64_t HeaderShm::*field :
       {&HeaderShm::magic, &HeaderShm::layout_hash, &HeaderShm::segment_bytes, &HeaderShm::slots, &HeaderShm::levels,
        &HeaderShm::lines, &HeaderShm::node_of, &HeaderShm::local_of, &HeaderShm::every_rank, &HeaderShm::parts,
        &HeaderShm::annexes}) {
    HeaderShm header = whole;
    header.*field += kPageBytes;
    EXPECT_STREQ(header.broken_invariant(), made);
  }
  HeaderShm header = whole;
  header.rank_bytes += 1;
  EXPECT_STREQ(header.broken_invariant(), "parts and annexes are whole pages");
  header.rank_bytes += kPageBytes - 1;
  EXPECT_STREQ(header.broken_invariant(), made) << "parts that do not fit between their offsets";
  EXPECT_STREQ(HeaderShm{}.broken_invariant(), "a segment has ranks and pages");
}

// What is known of ranks elsewhere is there once for the node, and not in each of its ranks.
TEST(SegmentMap, ARankOfTheWorldTakesTwelveBytesOfANode) {
  const HeaderShm alone = make_header({192, 192}, kPageBytes, 0, kPageBytes);
  const HeaderShm large = make_header({192, 192'000}, kPageBytes, 0, kPageBytes);
  const uint64_t more = large.segment_bytes - alone.segment_bytes;
  EXPECT_NEAR(static_cast<double>(more), 12.0 * (192'000 - 192), 2.0 * kPageBytes);
}

TEST(SegmentMap, ASlotIsMeasuredOnce) {
  SlotShm slot{};
  EXPECT_STREQ(slot.broken_invariant(), nullptr);
  slot.measured.store_relaxed(1);
  EXPECT_STREQ(slot.broken_invariant(), nullptr);
  slot.measured.store_relaxed(2);
  EXPECT_STREQ(slot.broken_invariant(), "`measured` is 0, then 1");
}

}  // namespace
}  // namespace zh::node
