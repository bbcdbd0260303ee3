// The invariants of rings, blocks, locks and accesses as functions: they hold in use, and each way to break one by hand
// is found.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "shm/access.h"
#include "shm/bell.h"
#include "shm/envelope_ring.h"
#include "shm/owner_lock.h"
#include "shm/payload_ring.h"

namespace zh::shm {
namespace {

constexpr uint32_t kSlots = 4;

class RingInvariant : public ::testing::Test {
 protected:
  RingInvariant() {
    std::memset(static_cast<void*>(&memory_), 0, sizeof memory_);
    ring().capacity = kSlots;
    producer_.attach(&ring());
  }
  EnvelopeRingShm& ring() { return memory_.ring; }
  void send(bool followed = false) {
    EnvelopeShm* slot = producer_.claim_short(0);
    ASSERT_NE(slot, nullptr);
    slot->kind = 0;
    slot->inline_bytes = 0;
    producer_.publish(slot, followed);
  }
  void receive() {
    EnvelopeConsumer consumer(&ring());
    const EnvelopeShm* slot = consumer.front();
    ASSERT_NE(slot, nullptr);
    consumer.consume(slot);
  }
  void expect_whole() {
    EXPECT_STREQ(ring().broken_invariant(), nullptr);
    EXPECT_STREQ(producer_.broken_invariant(), nullptr);
  }

  struct {
    alignas(kPairBytes) EnvelopeRingShm ring;
    EnvelopeShm slots[kSlots];
  } memory_;
  EnvelopeProducer producer_;
};

TEST_F(RingInvariant, HoldsFromEmptyToFullAndOverLaps) {
  expect_whole();
  for (uint32_t round = 0; round < 20; ++round) {
    for (uint32_t i = 0; i < 1 + round % kSlots; ++i) {
      send(round % 3 == 0);
      expect_whole();
    }
    while (EnvelopeConsumer(&ring()).front() != nullptr) {
      receive();
      expect_whole();
    }
  }
}

TEST_F(RingInvariant, CapacityIsAPowerOfTwo) {
  ring().capacity = 3;
  EXPECT_STREQ(ring().broken_invariant(), "a ring's capacity is a power of two");
}

TEST_F(RingInvariant, NothingLiesBehindWhatIsNotPublished) {
  send();
  send();
  ring().slots()[0].seq.store_relaxed(0);
  EXPECT_STREQ(ring().broken_invariant(), "no envelope is published behind one that is not");
}

TEST_F(RingInvariant, NothingLiesBehindASecondHalfThatIsNotPublished) {
  send(true);
  send();
  send();
  expect_whole();
  EnvelopeRingShm::second_half(ring().slots())->seq.store_relaxed(0);
  EXPECT_STREQ(ring().broken_invariant(), "no envelope is published behind a second half that is not");
}

TEST_F(RingInvariant, SecondHalvesAreReadBehindFirstOnes) {
  send(true);
  send();
  receive();
  expect_whole();
  ring().slots()[0].followed = 0;
  EXPECT_STREQ(ring().broken_invariant(), "a second half is read only behind an envelope that says `followed`");
  ring().slots()[0].seq.store_relaxed(0);
  EXPECT_STREQ(ring().broken_invariant(), "a second half is read behind its first one");
}

TEST_F(RingInvariant, PositionsKeepTheirDistance) {
  send();
  ring().consumed.store_relaxed(4);
  EXPECT_STREQ(producer_.broken_invariant(), "consumed <= produced <= consumed + 2 x capacity");
  ring().consumed.store_relaxed(2 - 2 * kSlots - 2);
  EXPECT_STREQ(producer_.broken_invariant(), "consumed <= produced <= consumed + 2 x capacity");
}

TEST_F(RingInvariant, ConsumedNeverGoesBack) {
  send();
  receive();
  EXPECT_TRUE(producer_.empty());
  ring().consumed.store_relaxed(0);
  EXPECT_STREQ(producer_.broken_invariant(), "`consumed` never goes back");
}

TEST_F(RingInvariant, NothingIsPublishedAheadOfItsTurn) {
  send();
  ring().slots()[1].seq.store_relaxed(3);
  EXPECT_STREQ(producer_.broken_invariant(), "nothing is published ahead of its turn");
}

TEST_F(RingInvariant, ALapLooksAtTheSlots) {
  for (uint32_t i = 0; i < kSlots; ++i) send();
  ring().slots()[1].seq.store_relaxed(0);
  EXPECT_STREQ(producer_.broken_invariant(), "no envelope is published behind one that is not");
}

TEST_F(RingInvariant, WhatIsFollowedIsShort) {
  EnvelopeShm* slot = producer_.claim();
  slot->inline_bytes = kHalfLinePayload;
  slot->followed = 1;
  EXPECT_STREQ(slot->broken_invariant(), nullptr);
  slot->inline_bytes = kHalfLinePayload + 1;
  EXPECT_STREQ(slot->broken_invariant(), "an envelope that says `followed` fits into half a line");
}

class BlockInvariant : public ::testing::Test {
 protected:
  BlockInvariant() { EXPECT_TRUE(ring_.attach(memory_, 0, sizeof memory_)); }
  BlockShm take(uint64_t bytes = 1) {
    BlockShm block{};
    EXPECT_TRUE(ring_.allocate(bytes, &block));
    return block;
  }
  Atomic<uint32_t>& word(uint32_t number) {
    return reinterpret_cast<ReleasedShm*>(memory_)[(number - 1) % ReleasedShm::kLeastWords].freed;
  }

  alignas(kPairBytes) std::byte memory_[ReleasedShm::kLeastBytes + 8 * kLineBytes] = {};
  PayloadRing ring_;
};

TEST_F(BlockInvariant, HoldsOverLaps) {
  EXPECT_STREQ(PayloadRing().broken_invariant(), nullptr);
  for (uint32_t i = 0; i < 3 * ReleasedShm::kLeastWords; ++i) {
    const BlockShm first = take(1 + i % 100);
    const BlockShm second = take(64);
    EXPECT_STREQ(ring_.broken_invariant(), nullptr);
    for (const BlockShm& block : {second, first}) {
      EXPECT_STREQ(block.broken_invariant(memory_), nullptr);
      release_block(memory_, block);
      EXPECT_STREQ(ring_.broken_invariant(), nullptr);
    }
    take();
    ring_.undo_last();
    EXPECT_STREQ(ring_.broken_invariant(), nullptr);
  }
}

TEST_F(BlockInvariant, ABlockIsFreedOnce) {
  const BlockShm block = take();
  release_block(memory_, block);
  EXPECT_STREQ(block.broken_invariant(memory_), "a block is freed once, after the one that had its word before");
  BlockShm crooked = block;
  crooked.released += 1;
  EXPECT_STREQ(crooked.broken_invariant(memory_), "the word that frees a block is aligned");
}

TEST_F(BlockInvariant, WordsFreeTheirOwnBlocks) {
  const BlockShm block = take();
  word(block.number).store_relaxed(block.number + 1);
  EXPECT_STREQ(ring_.broken_invariant(), "a word frees no block but its own");
  word(block.number).store_relaxed(0);
  EXPECT_STREQ(ring_.broken_invariant(), nullptr);
  word(7).store_relaxed(8);
  EXPECT_STREQ(ring_.broken_invariant(), "a word frees only blocks of its own place");
}

TEST_F(BlockInvariant, APipedMessageIsFilledToItsEnd) {
  PipedShm head{};
  head.filled.store_relaxed(100);
  EXPECT_STREQ(head.broken_invariant(100), nullptr);
  EXPECT_STREQ(head.broken_invariant(99), "a piped message is filled at most to its end");
}

TEST(LockInvariant, NamesARank) {
  OwnerLockShm lock{};
  EXPECT_STREQ(lock.broken_invariant(2), nullptr);
  ASSERT_TRUE(lock.try_lock(1));
  EXPECT_STREQ(lock.broken_invariant(2), nullptr);
  EXPECT_STREQ(lock.broken_invariant(1), "a lock's word is 0 or its holder's index + 1");
}

TEST(AccessInvariant, NamesARank) {
  AccessShm word{};
  EXPECT_STREQ(word.broken_invariant(1), nullptr);
  word.accessing.store_relaxed(2);
  EXPECT_STREQ(word.broken_invariant(2), nullptr);
  EXPECT_STREQ(word.broken_invariant(1), "`accessing` is 0 or the index + 1 of a rank");
}

TEST(AccessInvariant, MemoryIsNotOpenedAnewMeanwhile) {
  AccessShm words[2] = {};
  open_access(words[1]);
  const uint32_t epoch = words[1].epoch.load_relaxed();
  const Access unannounced(words[0], words[1], 1, 0);
  EXPECT_STREQ(unannounced.broken_invariant(), nullptr);
  const Access access(words[0], words[1], 1, epoch);
  ASSERT_TRUE(access.granted());
  EXPECT_STREQ(access.broken_invariant(), nullptr);
  close_access(words[1]);
  EXPECT_STREQ(access.broken_invariant(), nullptr) << "its owner waits";
  open_access(words[1]);
  EXPECT_STREQ(access.broken_invariant(), "nobody opens memory anew while an access of before lasts");
  words[0].accessing.store_relaxed(0);
  EXPECT_STREQ(access.broken_invariant(), "an access is announced while it lasts, and only one at a time");
  words[0].accessing.store_relaxed(2);
  words[1].epoch.store_relaxed(epoch);
}

TEST(AccessInvariant, WhoReadThatMemoryIsClosedIsNotLetIn) {
  AccessShm words[2] = {};
  close_access(words[1]);
  const Access access(words[0], words[1], 1, words[1].epoch.load_relaxed());
  EXPECT_FALSE(access.granted());
}

TEST(Bells, EverySenderHasOne) {
  for (uint32_t ranks = 1; ranks <= 5 * BellShm::kSenders; ++ranks) {
    EXPECT_GT(BellShm::words(ranks) * BellShm::kSenders, ranks - 1) << ranks;
    EXPECT_LT(BellShm::words(ranks) * BellShm::kSenders, ranks + BellShm::kSenders) << ranks;
  }
}

}  // namespace
}  // namespace zh::shm
