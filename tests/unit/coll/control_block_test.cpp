// The invariants of a member's control block as functions: each way to break one by hand is found.
#include "coll/team/control_block.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "coll/team/control_block_pool.h"
#include "team_memory.h"

namespace zh::coll {
namespace {

constexpr uint64_t kBlockTeam = 7;
constexpr uint32_t kMembers = 3;

class ControlBlockInvariant : public ::testing::Test {
 protected:
  ControlBlockInvariant() { block_->context.store_relaxed(kBlockTeam); }
  [[nodiscard]] const char* broken() const { return block_->broken_invariant(kBlockTeam, kMembers, nullptr); }
  ContributionShm& slot(uint32_t seq) { return block_->slots[seq % kFirstSlots]; }

  std::unique_ptr<ControlBlockShm> block_ = std::make_unique<ControlBlockShm>();
};

// As docs/design/scale.md says.
TEST(ControlBlock, IsSmallUntilItGrows) {
  EXPECT_EQ(sizeof(ControlBlockShm), 25'728U);
  EXPECT_EQ(sizeof(LargerBlockShm), 192U << 10);
}

TEST_F(ControlBlockInvariant, HoldsOverManyCollectives) {
  EXPECT_STREQ(broken(), nullptr);
  for (uint32_t seq = 1; seq < 3 * kFirstSlots; ++seq) {
    slot(seq).stage.store_relaxed(uint64_t{seq} << 32);
    EXPECT_STREQ(broken(), nullptr);
    slot(seq).seq.store_relaxed(seq);
    EXPECT_STREQ(broken(), nullptr);
    block_->done.store_relaxed(seq);
    EXPECT_STREQ(broken(), nullptr);
  }
}

TEST_F(ControlBlockInvariant, HoldsWhereNumbersWrap) {
  for (uint32_t seq = 0U - kFirstSlots; seq != kFirstSlots; ++seq) {
    slot(seq).seq.store_relaxed(seq);
    block_->done.store_relaxed(seq - 1);
    EXPECT_STREQ(broken(), nullptr);
  }
}

TEST_F(ControlBlockInvariant, ACollectiveHasOneSlot) {
  block_->done.store_relaxed(5);
  block_->slots[0].seq.store_relaxed(5);
  EXPECT_STREQ(broken(), "a collective has one slot");
  block_->slots[0].seq.store_relaxed(0);
  block_->slots[0].stage.store_relaxed(uint64_t{5} << 32);
  EXPECT_STREQ(broken(), "a collective has one slot");
}

TEST_F(ControlBlockInvariant, NobodyIsAheadOfItself) {
  slot(2).seq.store_relaxed(2);
  EXPECT_STREQ(broken(), "nobody begins a collective before the last one ended");
  slot(2).seq.store_relaxed(0);
  slot(2).stage.store_relaxed(uint64_t{2} << 32);
  EXPECT_STREQ(broken(), "nobody begins a collective before the last one ended");
  block_->context.store_relaxed(kBlockTeam + 1);
  EXPECT_STREQ(broken(), nullptr) << "it serves another team";
}

TEST_F(ControlBlockInvariant, WordsNameMembers) {
  block_->fallback.word.store_relaxed(uint64_t{1} << 32 | kMembers);
  EXPECT_STREQ(broken(), "a fallback request names a member");
  EXPECT_STREQ(block_->fallback.broken_invariant(kMembers), "a fallback request names a member");
  EXPECT_STREQ(block_->fallback.broken_invariant(kMembers + 1), nullptr);
  block_->fallback.to_owner = 2;
  EXPECT_STREQ(block_->fallback.broken_invariant(kMembers + 1), "a fallback request has a direction");
  block_->fallback.word.store_relaxed(0);
  block_->throttle.inside.store_relaxed(kMembers + 1);
  EXPECT_STREQ(broken(), "at most as many are inside as the limit says");
}

TEST_F(ControlBlockInvariant, AResultIsThereOrNot) {
  block_->result.what = ResultShm::What::kAbove;
  EXPECT_STREQ(block_->result.broken_invariant(), nullptr);
  block_->result.what = static_cast<ResultShm::What>(3);
  EXPECT_STREQ(block_->result.broken_invariant(), "there is a result or there is none");
}

TEST_F(ControlBlockInvariant, AGrownOneHasItsSlotsElsewhere) {
  const auto larger = std::make_unique<LargerBlockShm>();
  block_->done.store_relaxed(kFirstSlots);
  slot(kFirstSlots).seq.store_relaxed(kFirstSlots);
  larger->slots[kFirstSlots + 1].seq.store_relaxed(kFirstSlots + 1);
  EXPECT_STREQ(block_->broken_invariant(kBlockTeam, kMembers, larger.get()), nullptr);
  larger->slots[1].seq.store_relaxed(kFirstSlots + 1);
  EXPECT_STREQ(block_->broken_invariant(kBlockTeam, kMembers, larger.get()), "a collective has one slot");
}

TEST_F(ControlBlockInvariant, AContributionFitsWhereItIs) {
  ContributionShm& c = block_->slots[0];
  c.way = ContributionWay::kInline;
  c.bytes = kInlineBytes;
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), nullptr);
  c.bytes = kInlineBytes + 1;
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), "a contribution beside its flag fits there");
  c.way = ContributionWay::kRing;
  c.ring_at = kFirstRingBytes - kBlockBytes;
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), nullptr);
  c.bytes = kBlockBytes + 1;
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), "a contribution does not leave its ring");
  c.ring_at = 1;
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), "a ring is used in whole blocks");
  c.ring_at = kFirstRingBytes;
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), "a ring is used in whole blocks");
  c.way = ContributionWay::kBlocks;
  c.ring_at = 0;
  c.stride = 1;
  c.bytes = sizeof(NeighborBlockShm);
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), nullptr);
  c.stride = 2;
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), "a table of blocks fits what it begins");
  c.bytes = kFirstRingBytes + 1;
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), "a contribution does not leave its ring");
  c.bytes = kFirstRingBytes;
  c.stride = kMostEdges + 1;
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), "a table of blocks fits what it begins");
  c.way = ContributionWay::kMemory;
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), nullptr);
  c.target.set_span(0, 1);
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), "what can be mapped of a target lies inside it");
  c.source.set_span(2, 1);
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), "what can be mapped of a source lies inside it");
  c.way = static_cast<ContributionWay>(static_cast<uint16_t>(ContributionWay::kNothing) + 1);
  EXPECT_STREQ(c.broken_invariant(kFirstRingBytes), "a contribution says where it is");
}

// Memory of the segment may have been a ring before.
TEST(ControlBlockPool, ANewBlockHasNothingOfWhatItsMemoryWas) {
  Memory memory;
  const Offset before = memory.allocate(sizeof(ControlBlockShm));
  std::memset(memory.base() + before, 0xa5, 2 * sizeof(ControlBlockShm));
  memory.free_last(sizeof(ControlBlockShm));
  ControlBlockPool pool(memory);
  const auto* block = at<ControlBlockShm>(memory.base(), pool.controls().take(kBlockTeam));
  EXPECT_EQ(block->larger.load_relaxed(), kNoOffset);
  EXPECT_EQ(block->context.load_relaxed(), kBlockTeam);
}

}  // namespace
}  // namespace zh::coll
