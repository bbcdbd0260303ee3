// When a receiver lags: what counts are arrivals, and then matches, in a row.
#include "p2p/skew.h"

#include <gtest/gtest.h>

#include <memory>

namespace zh::p2p {
namespace {

class Skew : public ::testing::Test {
 protected:
  bool arrives_at(uint32_t length) {
    part_->queues.unexpected_count.store_relaxed(length);
    return note_unexpected(*part_);
  }
  bool matches_at(uint32_t length) {
    part_->queues.unexpected_count.store_relaxed(length);
    return note_match(*part_);
  }

  std::unique_ptr<PartShm> part_ = std::make_unique<PartShm>();
};

TEST_F(Skew, BeginsWithArrivalsInARowAtALongQueue) {
  for (const bool in_a_row : {false, true}) {
    for (uint32_t i = 1; i < kSkewArrivals; ++i) EXPECT_FALSE(arrives_at(kSkewLength));
    if (!in_a_row) {
      EXPECT_FALSE(arrives_at(kSkewLength - 1));
    }
  }
  EXPECT_TRUE(arrives_at(kSkewLength));
  EXPECT_FALSE(arrives_at(kSkewLength)) << "it was known";
}

TEST_F(Skew, EndsWithMatchesInARowAtAShortQueue) {
  EXPECT_FALSE(matches_at(0)) << "nothing has begun";
  part_->state.skewed.store_relaxed(1);
  for (const bool in_a_row : {false, true}) {
    for (uint32_t i = 1; i < kSkewMatches; ++i) EXPECT_FALSE(matches_at(kSkewShort));
    if (!in_a_row) {
      EXPECT_FALSE(matches_at(kSkewShort + 1));
    }
  }
  EXPECT_TRUE(matches_at(kSkewShort));
  EXPECT_EQ(part_->state.skewed.load_relaxed(), 0U);
}

}  // namespace
}  // namespace zh::p2p
