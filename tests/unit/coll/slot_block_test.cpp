// The invariants of a member's block of started collectives as functions: each way to break one by hand is found.
#include "coll/team/slot_block.h"

#include <gtest/gtest.h>

#include <memory>

namespace zh::coll {
namespace {

constexpr uint64_t kTeam = 7;

class StartedBlockInvariant : public ::testing::Test {
 protected:
  StartedBlockInvariant() { block_->context.store_relaxed(kTeam); }
  [[nodiscard]] const char* broken() const { return block_->broken_invariant(kTeam); }
  CallSlotShm& slot(uint64_t seq) { return block_->slots[seq % kNonblockingSlots]; }

  std::unique_ptr<SlotBlockShm> block_ = std::make_unique<SlotBlockShm>();
};

TEST_F(StartedBlockInvariant, HoldsOverManyCollectives) {
  EXPECT_STREQ(broken(), nullptr);
  for (uint64_t seq = 1; seq < 3 * kNonblockingSlots; ++seq) {
    slot(seq).seq.store_relaxed(seq);
    EXPECT_STREQ(broken(), nullptr);
  }
  block_->reset();
  EXPECT_STREQ(broken(), nullptr);
  EXPECT_EQ(slot(2 * kNonblockingSlots).seq.load_relaxed(), 0U);
}

TEST_F(StartedBlockInvariant, ACollectiveHasOneSlot) {
  block_->slots[0].seq.store_relaxed(5);
  EXPECT_STREQ(broken(), "a started collective has one slot");
  block_->context.store_relaxed(kTeam + 1);
  EXPECT_STREQ(broken(), nullptr) << "it serves another team";
}

TEST_F(StartedBlockInvariant, AContributionFits) {
  slot(1).bytes = kSlotBytes;
  EXPECT_STREQ(slot(1).broken_invariant(), nullptr);
  slot(1).bytes = kSlotBytes + 1;
  EXPECT_STREQ(slot(1).broken_invariant(), "a contribution to a started collective fits its slot");
}

}  // namespace
}  // namespace zh::coll
