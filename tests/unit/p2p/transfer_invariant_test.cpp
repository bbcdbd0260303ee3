// The invariant of a transfer as a function: it holds while bytes are claimed and moved, and each way to break it by
// hand is found.
#include <gtest/gtest.h>

#include "p2p/transfer.h"

namespace zh::p2p {
namespace {

class TransferInvariant : public ::testing::Test {
 protected:
  static constexpr uint64_t kBytes = 10'000;
  static constexpr uint64_t kFrom = 100;
  static constexpr uint64_t kEnd = 9'000;

  TransferInvariant() {
    t_.source.bytes = t_.target.bytes = kBytes;
    t_.source.set_span(kFrom, kEnd);
    t_.target.set_span(0, kBytes);
    t_.window = kShortWindow;
    t_.claim.reset(kFrom);
  }
  void claim(uint64_t bytes) {
    uint64_t from = 0;
    ASSERT_NE(t_.claim.claim(bytes, kEnd, &from), 0u);
  }
  [[nodiscard]] const char* broken() const { return t_.broken_invariant(); }

  TransferShm t_{};
};

TEST_F(TransferInvariant, HoldsToTheEnd) {
  EXPECT_STREQ(broken(), nullptr);
  EXPECT_STREQ(t_.broken_match(), nullptr);
  t_.cells[0].spans[0] = {0, kFrom};
  t_.cells[0].spans[1] = {kEnd, kBytes - kEnd};
  t_.published.store_relaxed(1);
  EXPECT_STREQ(broken(), nullptr);
  t_.store_matched();
  claim(5'000);
  t_.pulled.store_relaxed(5'000);
  EXPECT_STREQ(broken(), nullptr);
  claim(5'000);  // beyond the end
  t_.pushed.store_relaxed(kEnd - kFrom - 5'000);
  t_.consumed.store_relaxed(1);
  EXPECT_STREQ(broken(), nullptr);
  t_.released.store_relaxed(1);
  EXPECT_STREQ(broken(), nullptr);
}

TEST_F(TransferInvariant, FieldsHaveTheirValues) {
  t_.window = 0;
  EXPECT_STREQ(broken(), "a window is a power of two of cells");
  t_.window = 2 * kCellWindow;
  EXPECT_STREQ(broken(), "a window is a power of two of cells");
  t_.window = kCellWindow - 1;
  EXPECT_STREQ(broken(), "a window is a power of two of cells");
  t_.window = kCellWindow;
  t_.direct = static_cast<uint8_t>(Direct::kLater) + 1;
  EXPECT_STREQ(broken(), "a transfer says who copies it");
  t_.direct = 0;
  t_.parked = 2;
  EXPECT_STREQ(broken(), "a transfer says who copies it");
  t_.parked = 0;
  t_.state.store_relaxed(static_cast<uint32_t>(TransferState::kFound) + 1);
  EXPECT_STREQ(broken(), "a transfer is offered or matched");
  t_.state.store_relaxed(0);
  t_.returned.store_relaxed(3);
  EXPECT_STREQ(broken(), "a range is handed back once");
  t_.returned.store_relaxed(0);
  t_.source.set_span(kFrom, kBytes + 1);
  EXPECT_STREQ(broken(), "what can be mapped of a source lies inside it");
  t_.source.set_span(kFrom, kFrom - 1);
  EXPECT_STREQ(broken(), "what can be mapped of a source lies inside it");
}

TEST_F(TransferInvariant, WhatIsMovedWasClaimed) {
  t_.claim.reset(kFrom - 1);
  EXPECT_STREQ(t_.claim.broken_invariant(kFrom), "bytes are claimed from the first one on");
  EXPECT_STREQ(broken(), "bytes are claimed from the first one on");
  t_.claim.reset(kFrom);
  claim(1'000);
  EXPECT_EQ(t_.claim.claimed(kFrom, kEnd), 1'000u);
  t_.pushed.store_relaxed(600);
  t_.pulled.store_relaxed(401);
  EXPECT_STREQ(broken(), "pushed + pulled bytes were claimed");
}

TEST_F(TransferInvariant, CellsKeepTheWindow) {
  t_.published.store_relaxed(kShortWindow);
  EXPECT_STREQ(broken(), nullptr);
  t_.published.store_relaxed(kShortWindow + 1);
  EXPECT_STREQ(broken(), "consumed <= published <= consumed + window");
  t_.consumed.store_relaxed(kShortWindow + 2);
  EXPECT_STREQ(broken(), "consumed <= published <= consumed + window");
  t_.consumed.store_relaxed(kShortWindow);
  EXPECT_STREQ(broken(), nullptr);
  t_.cells[0].spans[1] = {kBytes, 1};
  EXPECT_STREQ(broken(), "a cell holds bytes of its message");
  t_.cells[0].spans[1] = {kBytes + 1, 0};
  EXPECT_STREQ(broken(), "a cell holds bytes of its message");
}

TEST_F(TransferInvariant, AReleasedOneIsComplete) {
  t_.released.store_relaxed(1);
  EXPECT_STREQ(broken(), "a message is complete when its transfer is released");
  claim(kBytes);
  EXPECT_STREQ(broken(), nullptr);
  t_.published.store_relaxed(1);
  EXPECT_STREQ(broken(), "all cells are empty when a transfer is released");
}

TEST_F(TransferInvariant, AMatchIsWholeAndTheFirst) {
  t_.target.set_span(1, kBytes + 1);
  EXPECT_STREQ(t_.broken_match(), "what can be mapped of a target lies inside it");
  t_.target.set_span(0, kBytes);
  t_.parked = 2;
  EXPECT_STREQ(t_.broken_match(), "a transfer says who copies it");
  t_.parked = 0;
  t_.store_matched();
  EXPECT_STREQ(t_.broken_match(), "a transfer is matched once");
}

}  // namespace
}  // namespace zh::p2p
