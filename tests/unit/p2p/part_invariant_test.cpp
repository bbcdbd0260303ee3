// The invariants of a rank's part beside its queues: each way to break one by hand is found.
#include <gtest/gtest.h>

#include <memory>

#include "p2p/part.h"

namespace zh::p2p {
namespace {

constexpr uint32_t kPartRanks = 3;

struct Whole {
  PartShm part;
  Atomic<uint64_t> in[kPartRanks];
  alignas(kPairBytes) shm::BellShm bells;
};

class PartInvariant : public ::testing::Test {
 protected:
  PartShm& part() { return whole_->part; }
  [[nodiscard]] const char* broken() const { return whole_->part.broken_invariant(kPartRanks); }

  std::unique_ptr<Whole> whole_ = std::make_unique<Whole>();
};

TEST_F(PartInvariant, FreshMemoryIsWhole) { EXPECT_STREQ(broken(), nullptr); }

TEST_F(PartInvariant, HintsHaveTheirValues) {
  part().state.skewed.store_relaxed(2);
  EXPECT_STREQ(broken(), "`skewed` is 0 or 1");
  part().state.helper.store_relaxed(static_cast<uint32_t>(Helper::kCalled) + 1);
  EXPECT_STREQ(broken(), "`helper` is one of Helper");
}

TEST_F(PartInvariant, WordsNameRanks) {
  part().access.accessing.store_relaxed(kPartRanks + 1);
  EXPECT_STREQ(broken(), "`accessing` is 0 or the index + 1 of a rank");
  part().access.accessing.store_relaxed(kPartRanks);
  EXPECT_STREQ(broken(), nullptr);
  ASSERT_TRUE(part().queues.lock.try_lock(kPartRanks));
  EXPECT_STREQ(broken(), "a lock's word is 0 or its holder's index + 1");
}

TEST_F(PartInvariant, RingsAndQueuesAreNamedOrNot) {
  part().queues.broken.store_relaxed(2);
  EXPECT_STREQ(broken(), "queues are broken or not");
  part().queues.broken.store_relaxed(1);
  EXPECT_STREQ(broken(), nullptr);
  part().in()[kPartRanks - 1].store_relaxed(1);
  EXPECT_STREQ(broken(), "`in` holds offsets of rings");
}

TEST_F(PartInvariant, BellsAreOfRanks) {
  ASSERT_EQ(part().bells(kPartRanks), &whole_->bells);
  part().bells(kPartRanks)->ring(kPartRanks - 1);
  EXPECT_STREQ(broken(), nullptr);
  part().bells(kPartRanks)->ring(kPartRanks);
  EXPECT_STREQ(broken(), "a bell is a rank's");
}

TEST_F(PartInvariant, AnEntryOfCallsLiesWhereItsNumbersSay) {
  CallsShm& calls = part().calls;
  for (uint64_t number = 0; number < 200; ++number) {
    calls.announce(3 + number % 5, number << 33 | number, 7);
    ASSERT_STREQ(broken(), nullptr);
  }
  calls.entries[4].context.store_relaxed(4);
  calls.entries[4].call.store_relaxed(uint64_t{1} << CallsShm::kDigestBits);
  EXPECT_STREQ(broken(), "an entry's context and number choose its place");
}

TEST_F(PartInvariant, HintsOfMatchesNameRequests) {
  MatchedShm& matched = part().state.matched;
  EXPECT_STREQ(matched.broken_invariant(0), nullptr);
  matched.slots[MatchedShm::kSlots - 1].store_relaxed(8);
  EXPECT_STREQ(matched.broken_invariant(8), nullptr);
  EXPECT_STREQ(matched.broken_invariant(7), "a hint of a match is 0 or the index + 1 of a request");
}

TEST_F(PartInvariant, AKeyOfCallsHasOneRow) {
  AccountShm& account = part().account;
  for (uint64_t key = 1; key < 2 * CallCounts::kRows; ++key) account.calls.add(key, 8);
  EXPECT_STREQ(account.broken_invariant(), nullptr);
  CallCounts::Row& row = account.calls.rows[3];
  const uint64_t key = row.key;
  row.key.set(0);
  EXPECT_STREQ(account.broken_invariant(), "a row without key counts nothing");
  row.key.set(account.calls.rows[4].key);
  EXPECT_STREQ(account.broken_invariant(), "a key has one row");
  row.key.set(key);
  account.calls.rows[CallCounts::kRows].key.set(9999);
  EXPECT_STREQ(account.broken_invariant(), "the last row counts what has none of its own");
}

}  // namespace
}  // namespace zh::p2p
