// Thresholds: built-in ones, the papers', and those that curves imply.
#include "tune/choice.h"

#include <gtest/gtest.h>

#include "node/node.h"
#include "tune/profile.h"

namespace zh::tune {
namespace {

constexpr int kL2 = static_cast<int>(node::Level::kSharedL2);
constexpr int kL3 = static_cast<int>(node::Level::kSharedL3);
constexpr int kSocket = static_cast<int>(node::Level::kSameSocket);
constexpr int kOther = static_cast<int>(node::Level::kOtherSocket);

/// A curve of fixed cost and bandwidth.
Curve straight_line(float fixed_us, float us_per_kib) {
  Curve c;
  for (const uint64_t n : {1U << 10, 4U << 10, 16U << 10, 64U << 10, 256U << 10}) {
    c.add(n, fixed_us + us_per_kib * static_cast<float>(n >> 10), 0.1F);
  }
  return c;
}

DistanceClass far_class() {
  DistanceClass c;
  c.level = kL3;
  c.jobs = kConfirmed;
  c.line_ns = 250;
  c.ring_bytes = 1 << 20;
  c.cells = straight_line(0.3F, 0.4F);
  c.cells_nt = straight_line(0.6F, 0.1F);
  c.cma_read = straight_line(3.0F, 0.10F);
  c.cma_write = straight_line(3.0F, 0.08F);
  c.cma_both = straight_line(3.0F, 0.05F);
  c.mapped_one = straight_line(0.3F, 0.07F);
  c.mapped_both = straight_line(0.5F, 0.04F);
  return c;
}

Profile one_class(const DistanceClass& c) {
  Profile p;
  p.n_classes = 1;
  p.classes[0] = c;
  return p;
}

TEST(Choice, FarIsWithoutACacheInCommon) {
  EXPECT_GT(choose(kL2, nullptr).nontemporal_min, 1U << 20);
  EXPECT_LE(choose(kL3, nullptr).nontemporal_min, 4U << 10);
}

TEST(Choice, SizesAreOrdered) {
  for (int level = 0; level <= kOther; ++level) {
    const PairChoice c = choose(level, nullptr);
    EXPECT_LE(c.inline_max, c.eager_max);
    EXPECT_LE(c.eager_max, c.single_copy_min);
    EXPECT_LE(c.chunk_both, 64U << 10);
    EXPECT_GE(c.ring_bytes_max, 4 * c.chunk_cells);
  }
}

TEST(Choice, ThePapersThresholdsComeByLevel) {
  Profile papers;
  ASSERT_TRUE(named_profile("papers", &papers));
  EXPECT_EQ(choose(kL2, &papers).single_copy_min, 32U << 10);
  EXPECT_EQ(choose(kSocket, &papers).single_copy_min, 2U << 10);
  EXPECT_EQ(choose(kOther, &papers).single_copy_min, 1U << 10);
  EXPECT_FALSE(named_profile("fastest", &papers));
}

TEST(Choice, CrossoversFollowTheCurves) {
  DistanceClass k = far_class();
  k.cells_nt = straight_line(1.2F, 0.1F);
  k.mapped_one = straight_line(2, 0.07F);
  k.mapped_both = straight_line(2, 0.04F);
  const Profile p = one_class(k);
  const PairChoice c = choose(kL3, &p);
  // 1.2 + 0.1 k < 0.95 (0.3 + 0.4 k) from k = 3.3 KiB on.
  EXPECT_EQ(c.nontemporal_min, 4U << 10);
  // Both ends: 3 + 0.05 k < 0.95 (3 + 0.08 k) at every size; with nine lines for the agreement
  // 5.2 + 0.05 k < 0.95 (1.2 + 0.1 k) from k = 91 KiB on.
  EXPECT_EQ(c.both_ends_min, 16U << 10);
  EXPECT_EQ(c.single_copy_min, 128U << 10);
  EXPECT_EQ(c.single_copy_min_cold, choose(kL3, nullptr).single_copy_min);
  EXPECT_EQ(c.ring_bytes_max, choose(kL3, nullptr).ring_bytes_max);  // that of the curves is for ordinary stores
  EXPECT_TRUE(c.sender_copies);
}

TEST(Choice, AThresholdDoesNotMoveForALittle) {
  DistanceClass k = far_class();
  k.cells_nt = straight_line(0.2F, 0.1F);
  k.cma_both = straight_line(0.2F, 0.07F);
  // 2.45 + 0.07 k < 0.95 (0.2 + 0.1 k) from k = 90 KiB on.
  Profile p = one_class(k);
  EXPECT_EQ(choose(kL3, &p).single_copy_min, 128U << 10);
  p.classes[0].cma_both = straight_line(0.2F, 0.09F);
  EXPECT_EQ(choose(kL3, &p).single_copy_min, choose(kL3, nullptr).single_copy_min);
}

// What is measured is data that nobody has just written, and that nobody reads next.
TEST(Choice, CurvesDoNotMakeSmallerMessagesMapped) {
  DistanceClass k = far_class();
  k.level = kL2;
  k.mapped_one = k.mapped_both = straight_line(0.01F, 0.001F);
  const Profile p = one_class(k);
  const PairChoice c = choose(kL2, &p);
  EXPECT_EQ(c.mapped.least, choose(kL2, nullptr).mapped.least);
  EXPECT_EQ(c.mapped.saves_ns(c.mapped.least - 1), 0U);
  // 1.51 + 0.001 k us instead of 4 + 0.08 k, at two ends.
  const double kib = static_cast<double>(c.mapped.least >> 10);
  EXPECT_NEAR(static_cast<double>(c.mapped.saves_ns(c.mapped.least)), (3.74 + 0.079 * kib) / 2 * 1000, 10);
}

TEST(Choice, EveryLevelCountsForItself) {
  const Profile p = one_class(far_class());
  EXPECT_TRUE(covers(p, kL3));
  EXPECT_FALSE(covers(p, kSocket));
  EXPECT_EQ(choose(kOther, &p).single_copy_min, choose(kOther, nullptr).single_copy_min);
  EXPECT_NE(choose(kL3, &p).single_copy_min, choose(kL3, nullptr).single_copy_min);
}

TEST(Choice, StreamsThatWinWhereverMeasuredWinForLessAsBuiltIn) {
  DistanceClass k = far_class();
  k.cells_nt = straight_line(0.1F, 0.1F);
  const PairChoice c = choose(kL3, nullptr);
  const Profile p = one_class(k);
  EXPECT_EQ(choose(kL3, &p).nontemporal_min, std::min(512U, c.nontemporal_min));
  EXPECT_GE(c.nontemporal_min, copy::kLeastStreamedBytes);
}

TEST(Choice, AWayThatIsNeverBetterIsNeverChosen) {
  DistanceClass k = far_class();
  k.cells_nt = straight_line(0.3F, 0.5F);
  k.cma_read = k.cma_write = straight_line(3.0F, 0.5F);
  k.cma_both = straight_line(4.0F, 0.7F);
  k.mapped_one = straight_line(3.0F, 0.5F);
  k.mapped_both = straight_line(3.0F, 0.5F);
  const Profile p = one_class(k);
  const PairChoice c = choose(kL3, &p);
  EXPECT_GE(c.nontemporal_min, 1U << 30);
  EXPECT_GE(c.single_copy_min, uint64_t{1} << 30);
  EXPECT_GE(c.mapped.least, 1U << 30);
  EXPECT_GE(c.both_ends_min, uint64_t{1} << 30);
}

TEST(Choice, OnSharedCpusMessagesNeedFewerAnswers) {
  for (const int level : {kL2, kL3}) {
    const PairChoice alone = choose(level, nullptr);
    const PairChoice c = on_shared_cpus(alone, is_far(level));
    EXPECT_GT(c.eager_max, alone.eager_max);
    EXPECT_LT(c.eager_max, c.single_copy_min);
    EXPECT_GE(c.piped_min, c.eager_max) << "nobody reads while it is written";
    EXPECT_GT(c.mapped.least, c.eager_max);
    EXPECT_GE(c.ring_bytes_max, 2 * c.eager_max);
    EXPECT_EQ(c.nontemporal_min, alone.nontemporal_min);
  }
  PairChoice early = choose(kL3, nullptr);
  early.single_copy_min = 8 << 10;
  EXPECT_LT(on_shared_cpus(early, true).eager_max, early.single_copy_min);
}

TEST(Choice, AProfileOfTheOtherDistanceIsNotUsed) {
  const Profile p = one_class(far_class());
  const PairChoice near = choose(kL2, &p);
  const PairChoice built_in = choose(kL2, nullptr);
  EXPECT_EQ(near.nontemporal_min, built_in.nontemporal_min);
  EXPECT_EQ(near.single_copy_min, built_in.single_copy_min);
  EXPECT_TRUE(covers(p, kL3));
  EXPECT_FALSE(covers(p, kL2));
}

TEST(Choice, WhatOneJobAloneHasFoundIsNotUsed) {
  DistanceClass k = far_class();
  k.jobs = 1;
  Profile p = one_class(k);
  EXPECT_EQ(choose(kL3, &p).single_copy_min, choose(kL3, nullptr).single_copy_min);
  EXPECT_EQ(choose(kL3, &p).mapped.least, choose(kL3, nullptr).mapped.least);
  EXPECT_FALSE(covers(p, kL3)) << "the next job measures again";
  p.classes[0].attempts = kMostAttempts;
  EXPECT_TRUE(covers(p, kL3)) << "a machine that is never quiet";
  EXPECT_EQ(choose(kL3, &p).mapped.least, choose(kL3, nullptr).mapped.least);
}

TEST(Choice, WithoutCmaItsThresholdStaysBuiltIn) {
  DistanceClass k = far_class();
  k.cma_read = k.cma_write = k.cma_both = Curve{};
  const Profile p = one_class(k);
  EXPECT_EQ(choose(kL3, &p).single_copy_min, choose(kL3, nullptr).single_copy_min);
}

TEST(Choice, CrossoversAreThoseOfTheCurvesAlone) {
  DistanceClass c = far_class();
  Crossovers x = crossovers_of(c);
  // 0.6 + 0.1 n against 0.3 + 0.4 n (µs, n in KiB): a gain of 5 % from 1.1 KiB on.
  EXPECT_EQ(x.nontemporal, 2U << 10);
  // The writer alone takes 3 + 0.08 n, both 3 + 0.05 n: a gain of 5 % from 5.8 KiB on.
  EXPECT_EQ(x.kernel_both, 8U << 10);
  // 0.3 + 0.07 n against 0.5 + 0.04 n: a gain of 5 % from 8.1 KiB on.
  EXPECT_EQ(x.mapped_both, 16U << 10);
  c.cells_nt = straight_line(0.6F, 0.4F);
  c.mapped_both = Curve{};
  c.cma_read = Curve{};
  x = crossovers_of(c);
  EXPECT_EQ(x.nontemporal, kNever);
  EXPECT_EQ(x.mapped_both, std::nullopt);
  EXPECT_EQ(x.kernel_both, 8U << 10) << "the writer's curve is there";
  c.cma_write = Curve{};
  EXPECT_EQ(crossovers_of(c).kernel_both, std::nullopt);
  EXPECT_EQ(crossovers_of(DistanceClass{}).nontemporal, std::nullopt);
}

TEST(Curve, IsLinearBetweenAndBeyondItsPoints) {
  Curve c;
  c.add(100, 1, 0);
  c.add(200, 2, 0);
  c.add(400, 3, 0);
  EXPECT_FLOAT_EQ(c.us_at(10), 1);
  EXPECT_FLOAT_EQ(c.us_at(150), 1.5F);
  EXPECT_FLOAT_EQ(c.us_at(300), 2.5F);
  EXPECT_FLOAT_EQ(c.us_at(600), 4);
}

}  // namespace
}  // namespace zh::tune
