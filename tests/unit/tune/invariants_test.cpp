// The invariants of what ranks share while they calibrate: each way to break one by hand is found. That they hold
// meanwhile is checked by the calibration itself, in builds with assertions.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "tune/calibration_shm.h"
#include "tune/kept_shm.h"
#include "tune/scratch_shm.h"

namespace zh::tune {
namespace {

class CalibrationInvariant : public ::testing::Test {
 protected:
  CalibrationInvariant() {
    shm_->n_pairs = 2;
    shm_->pairs[0] = {0, 1, 0};
    shm_->pairs[1] = {0, 2, 1};
  }
  [[nodiscard]] const char* broken() const { return shm_->broken_invariant(); }
  std::unique_ptr<CalibrationShm> shm_ = std::make_unique<CalibrationShm>();
};

TEST_F(CalibrationInvariant, HoldsOverAllTurns) {
  EXPECT_STREQ(CalibrationShm{}.broken_invariant(), nullptr);
  for (uint32_t turn = 0; turn < shm_->n_pairs; ++turn) {
    for (int side = 0; side < 2; ++side) {
      EXPECT_STREQ(broken(), nullptr);
      shm_->ended.fetch_add_relaxed(1);
    }
    EXPECT_STREQ(broken(), nullptr);
    shm_->turn.store_relaxed(turn + 1);
    EXPECT_STREQ(broken(), nullptr);
  }
}

TEST_F(CalibrationInvariant, IsFoundBroken) {
  shm_->turn.store_relaxed(1);
  EXPECT_STREQ(broken(), "pairs measure in their turns");
  shm_->turn.store_relaxed(0);
  shm_->ended.store_relaxed(3);
  EXPECT_STREQ(broken(), "pairs measure in their turns");
  shm_->turn.store_relaxed(3);
  EXPECT_STREQ(broken(), "turns end with the last pair");
  shm_->turn.store_relaxed(1);
  shm_->pairs[1] = {2, 2, 1};
  EXPECT_STREQ(broken(), "a pair is two ranks");
  shm_->n_pairs = kMaxPairs + 1;
  EXPECT_STREQ(broken(), "there is room for all pairs");
  shm_->phase.store_relaxed(5);
  EXPECT_STREQ(broken(), "a calibration has a phase");
}

class DirectionInvariant : public ::testing::Test {
 protected:
  static constexpr uint64_t kRing = 4;
  [[nodiscard]] const char* broken() const { return d_->broken_invariant(kRing); }
  std::unique_ptr<DirectionShm> d_ = std::make_unique<DirectionShm>();
};

TEST_F(DirectionInvariant, HoldsOverLaps) {
  EXPECT_STREQ(broken(), nullptr);
  EXPECT_STREQ(d_->broken_invariant(0), nullptr);
  for (uint64_t n = 0; n < 3 * kLines; ++n) {
    d_->lines[n % kLines].seq.store_relaxed(n + 1);
    d_->cells[n % kRing].value.store_relaxed(n + 1);
    EXPECT_STREQ(broken(), nullptr);
    d_->lines_read.value.store_relaxed(n + 1);
    if (n >= kRing - 1) d_->cells_read.value.store_relaxed(n + 2 - kRing);
    EXPECT_STREQ(broken(), nullptr);
  }
}

TEST_F(DirectionInvariant, IsFoundBroken) {
  d_->lines_read.value.store_relaxed(1);
  EXPECT_STREQ(broken(), "lines that were read were written");
  d_->lines[1].seq.store_relaxed(1);
  EXPECT_STREQ(broken(), "a message lies in the line of its number");
  d_->lines[1].seq.store_relaxed(2);
  EXPECT_STREQ(broken(), nullptr);
  d_->cells_read.value.store_relaxed(1);
  EXPECT_STREQ(broken(), "cells that were read were written");
  d_->cells[2].value.store_relaxed(2 * kRing + 3);
  EXPECT_STREQ(broken(), "the cells in use are at most the ring");
  d_->cells[2].value.store_relaxed(4);
  EXPECT_STREQ(broken(), "a piece lies in the cell of its number");
}

TEST(KeptInvariant, IsFoundBroken) {
  KeptShm kept{};
  EXPECT_STREQ(kept.broken_invariant(), nullptr);
  std::memset(kept.note, 'x', sizeof kept.note);
  EXPECT_STREQ(kept.broken_invariant(), "the note ends");
}

}  // namespace
}  // namespace zh::tune
