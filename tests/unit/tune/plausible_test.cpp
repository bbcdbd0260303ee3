// Bad luck of one job, in any curve at any point, does not reach a choice; neither does a disagreement of two.
#include "tune/plausible.h"

#include <gtest/gtest.h>

#include "node/node.h"
#include "tune/choice.h"

namespace zh::tune {
namespace {

constexpr int kNear = static_cast<int>(node::Level::kSameCore);
constexpr int kFar = static_cast<int>(node::Level::kSharedL3);
constexpr uint64_t kSizes[] = {1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20};
constexpr Curve DistanceClass::*kCurves[] = {
    &DistanceClass::cells,    &DistanceClass::cells_nt,   &DistanceClass::cma_read,    &DistanceClass::cma_write,
    &DistanceClass::cma_both, &DistanceClass::mapped_one, &DistanceClass::mapped_both,
};

Curve line(float fixed_us, float gb_per_s) {
  Curve c;
  for (const uint64_t n : kSizes) c.add(n, fixed_us + static_cast<float>(n) / gb_per_s / 1000, 0.1F);
  return c;
}

/// As found on a cloud machine with two cores: a line takes 0.13 us.
DistanceClass quiet() {
  DistanceClass c;
  c.level = kFar;
  c.jobs = 1;
  c.line_ns = 130;
  c.ring_bytes = 4 << 20;
  c.cells = line(0.4F, 6);
  c.cells_nt = line(0.6F, 9);
  c.cma_read = line(2.5F, 10);
  c.cma_write = line(2.2F, 11);
  c.cma_both = line(3.5F, 16);
  c.mapped_one = line(0.4F, 12);
  c.mapped_both = line(0.8F, 22);
  return c;
}

TEST(Plausible, AQuietRunIsLeftAsItIs) {
  DistanceClass c = quiet();
  EXPECT_EQ(drop_impossible(&c), "");
  for (Curve& curve : {std::ref(c.cells), std::ref(c.mapped_one)}) EXPECT_EQ(curve.n, std::size(kSizes));
  DistanceClass near = quiet();
  near.level = kNear;
  near.line_ns = 40;
  for (Curve DistanceClass::*curve : kCurves) near.*curve = line(0.3F, 25);
  EXPECT_EQ(drop_impossible(&near), "");
}

TEST(Plausible, CurvesOfAnotherDistanceCountForNone) {
  for (const bool far : {true, false}) {
    DistanceClass c = quiet();
    c.level = far ? kFar : kNear;
    c.line_ns = far ? 55 : 210;
    EXPECT_EQ(drop_impossible(&c, {}), "") << "where nothing hides the topology";
    EXPECT_EQ(drop_impossible(&c, node::kVirtualLines), "all");
    for (Curve DistanceClass::*curve : kCurves) EXPECT_TRUE((c.*curve).empty());
  }
}

TEST(Plausible, ALineOfATimeSliceIsForgottenWithAllThatItExplains) {
  DistanceClass c = quiet();
  c.line_ns = 50'815;
  c.cells = line(900, 6);
  EXPECT_EQ(drop_impossible(&c), "all");
  EXPECT_EQ(c.line_ns, 0);
  for (Curve DistanceClass::*curve : kCurves) EXPECT_TRUE((c.*curve).empty());
  EXPECT_NE(standing(c).find("nothing that can be true"), std::string::npos) << standing(c);
  EXPECT_EQ(standing(quiet()).find("nothing that can be true"), std::string::npos);
  // What a later job finds replaces it.
  EXPECT_EQ(joined(c, quiet()).line_ns, 130);
}

TEST(Plausible, ATimeSliceOfAnotherProcessIsSeenWhereverItFalls) {
  for (Curve DistanceClass::*curve : kCurves) {
    for (uint32_t i = 0; i < std::size(kSizes); ++i) {
      DistanceClass c = quiet();
      (c.*curve).points[i].us += 3000;
      EXPECT_NE(drop_impossible(&c), "") << i;
      EXPECT_TRUE((c.*curve).empty()) << i;
    }
  }
}

TEST(Plausible, AConstantOffsetIsSeen) {
  for (Curve DistanceClass::*curve : kCurves) {
    DistanceClass c = quiet();
    for (Curve::Point& p : (c.*curve).points) p.us += 58;
    (void)drop_impossible(&c);
    EXPECT_TRUE((c.*curve).empty());
  }
}

TEST(Plausible, OneCopyIsNotMuchSlowerThanTwo) {
  DistanceClass c = quiet();
  c.mapped_one = line(1, 1.5F);
  EXPECT_EQ(drop_impossible(&c), "mapped_one");
}

DistanceClass kept_class() {
  DistanceClass c = quiet();
  c.jobs = kConfirmed;
  return c;
}

Look look_at(const DistanceClass& c, float factor) {
  return {.line_ns = c.line_ns,
          .mapped_both_us = factor * c.mapped_both.us_at(Look::kBytes),
          .cma_write_us = factor * c.cma_write.us_at(Look::kBytes)};
}

TEST(Judge, ALookSaysWhetherTheCurvesStillHold) {
  const DistanceClass c = kept_class();
  EXPECT_EQ(judge(c, look_at(c, 1.2F)), LookVerdict::kHolds);
  EXPECT_EQ(judge(c, look_at(c, 0.5F)), LookVerdict::kContradicts);
  EXPECT_EQ(judge(c, look_at(c, 2)), LookVerdict::kContradicts);
  Look one = look_at(c, 1);
  one.cma_write_us *= 3;
  EXPECT_EQ(judge(c, one), LookVerdict::kContradicts);
}

TEST(Judge, NothingIsKnownOfAnotherDistanceOrABusyMoment) {
  const DistanceClass c = kept_class();
  Look elsewhere = look_at(c, 3);
  elsewhere.line_ns = c.line_ns / 3;
  EXPECT_EQ(judge(c, elsewhere), LookVerdict::kUnknown);
  EXPECT_EQ(judge(c, Look{.line_ns = c.line_ns}), LookVerdict::kUnknown);
  EXPECT_EQ(judge(c, Look{}), LookVerdict::kUnknown);
  DistanceClass bare = c;
  bare.mapped_both = bare.cma_write = Curve{};
  EXPECT_EQ(judge(bare, look_at(c, 9)), LookVerdict::kUnknown);
}

TEST(Judge, TwoContradictionsInARowTakeAClassOutOfForce) {
  constexpr int64_t kNow = 1'700'000'000;
  DistanceClass c = kept_class();
  EXPECT_TRUE(wants_look(c, kNow));
  note_look(&c, LookVerdict::kHolds, kNow);
  EXPECT_FALSE(wants_look(c, kNow + kLookEveryS - 1));
  EXPECT_TRUE(wants_look(c, kNow + kLookEveryS));
  EXPECT_TRUE(wants_look(c, kNow - 1)) << "the clock was set back";
  note_look(&c, LookVerdict::kContradicts, kNow);
  EXPECT_TRUE(in_force(c));
  EXPECT_TRUE(wants_look(c, kNow)) << "the next job looks at once";
  note_look(&c, LookVerdict::kUnknown, kNow);
  EXPECT_EQ(c.doubts, 1U);
  note_look(&c, LookVerdict::kHolds, kNow);
  EXPECT_EQ(c.doubts, 0U);
  c.attempts = 3;
  note_look(&c, LookVerdict::kContradicts, kNow);
  note_look(&c, LookVerdict::kContradicts, kNow);
  EXPECT_FALSE(in_force(c));
  EXPECT_FALSE(wants_look(c, kNow));
  EXPECT_EQ(c.attempts, 0U);
}

TEST(Joined, TwoJobsThatAgreeConfirmEachOther) {
  DistanceClass again = quiet();
  for (Curve DistanceClass::*curve : kCurves) {
    for (Curve::Point& p : (again.*curve).points) p.us *= 1.3F;
  }
  DistanceClass kept = quiet();
  kept.attempts = 2;
  const DistanceClass both = joined(kept, again);
  EXPECT_EQ(both.jobs, kConfirmed);
  EXPECT_EQ(both.attempts, 3U);
  EXPECT_GT(both.cells.points[0].us, kept.cells.points[0].us);
  EXPECT_LT(both.cells.points[0].us, again.cells.points[0].us);
}

TEST(Joined, EveryJobThatAgreesIsCounted) {
  DistanceClass kept = joined(quiet(), quiet());
  EXPECT_EQ(kept.jobs, 2U);
  kept = joined(kept, quiet());
  EXPECT_EQ(kept.jobs, 3U);
}

TEST(Joined, AWayOnWhichTheyDisagreeKeepsItsBuiltInChoice) {
  DistanceClass other = quiet();
  other.mapped_one = other.mapped_both = line(3, 2);
  Profile p;
  p.n_classes = 1;
  p.classes[0] = joined(quiet(), other);
  EXPECT_EQ(p.classes[0].jobs, kConfirmed);
  EXPECT_EQ(choose(kFar, &p).mapped.least, choose(kFar, nullptr).mapped.least);
}

TEST(Joined, CellsOnWhichTheyDisagreeBeginAnew) {
  DistanceClass other = quiet();
  other.cells = line(2, 2);
  other.ring_bytes = 64 << 10;
  const DistanceClass both = joined(quiet(), other);
  EXPECT_EQ(both.jobs, 1U);
  EXPECT_EQ(both.ring_bytes, other.ring_bytes);
}

TEST(Joined, AJobThatFoundNothingChangesNothing) {
  DistanceClass kept = quiet();
  kept.jobs = 5;
  DistanceClass nothing;
  nothing.level = kFar;
  const DistanceClass both = joined(kept, nothing);
  EXPECT_EQ(both.jobs, 5U);
  EXPECT_EQ(both.attempts, 1U);
  EXPECT_EQ(both.cells.n, kept.cells.n);
}

}  // namespace
}  // namespace zh::tune
