// Near and far, found from envelopes while a job runs, and what a sender makes of it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "os/affinity.h"
#include "p2p/line_watch.h"
#include "team_support.h"

namespace zh::test {
namespace {

using p2p::Distance;
using p2p::LineWatch;

constexpr int kRoundsPerLook = 1000;
constexpr int kMostAgreeing = 2'000'000;  // on a machine that is busy for seconds

constexpr p2p::LineLimits kLimits{100, 150, 1000};

/// Two ends whose clocks differ: what is 0 on this one's is `ahead` on the other's.
struct Ends {
  LineWatch mine;
  LineWatch theirs;
  int32_t ahead = 0;

  /// Envelopes go to and fro, seen at these ages by a common clock; true if this end's verdict has changed.
  bool exchange(const std::vector<int32_t>& ages, uint32_t judgements) {
    bool changed = false;
    for (uint32_t i = 0; i < judgements * LineWatch::kAges; ++i) {
      const int32_t age = ages[i % ages.size()];
      theirs.add(age + ahead, kLimits);
      if (mine.add(age - ahead, kLimits)) changed = mine.judge(theirs.word(), kLimits) || changed;
    }
    return changed;
  }
};

TEST(LineWatch, BelievesWhatIsSeenForAWhile) {
  for (const int32_t ahead : {0, 75, -75, 400}) {
    SCOPED_TRACE(ahead);
    Ends ends;
    ends.ahead = ahead;
    EXPECT_FALSE(ends.exchange({60}, LineWatch::kJudgements - 1));
    EXPECT_EQ(ends.mine.verdict(), Distance::kUnknown);
    EXPECT_TRUE(ends.exchange({60}, 1));
    EXPECT_EQ(ends.mine.verdict(), Distance::kNear);
    EXPECT_FALSE(ends.exchange({60}, 10));
    EXPECT_TRUE(ends.exchange({220}, LineWatch::kJudgements));
    EXPECT_EQ(ends.mine.verdict(), Distance::kFar);
  }
}

TEST(LineWatch, OneSmallAgeProvesThatAPairIsNear) {
  Ends ends;
  std::vector<int32_t> ages(LineWatch::kAges, 400);
  ages[5] = 70;
  EXPECT_TRUE(ends.exchange(ages, LineWatch::kJudgements));
  EXPECT_EQ(ends.mine.verdict(), Distance::kNear);
}

TEST(LineWatch, WhatItCannotTellChangesNothing) {
  Ends ends;
  ends.exchange({60}, LineWatch::kJudgements);
  EXPECT_FALSE(ends.exchange({120}, 30)) << "between near and far";
  EXPECT_FALSE(ends.exchange({5000, INT32_MAX, INT32_MIN}, 30)) << "the receiver was not there";
  std::vector<int32_t> flips(LineWatch::kAges, 220);
  flips.resize(2 * LineWatch::kAges, 60);
  EXPECT_FALSE(ends.exchange(flips, 30)) << "never twice the same";
  EXPECT_EQ(ends.mine.verdict(), Distance::kNear);
}

TEST(LineWatch, NothingIsJudgedTwice) {
  Ends ends;
  ends.exchange({60}, 1);
  const uint32_t word = ends.theirs.word();
  EXPECT_NE(word, 0U);
  for (uint32_t i = 0; i < 10 * LineWatch::kAges; ++i) {
    if (ends.mine.add(60, kLimits)) {
      EXPECT_FALSE(ends.mine.judge(word, kLimits)) << "the peer has been told nothing new";
      EXPECT_FALSE(ends.mine.judge(0, kLimits)) << "the peer has told nothing";
    }
  }
  EXPECT_EQ(ends.mine.verdict(), Distance::kUnknown);
}

/// Whether rank 0 sends to rank 1 as to a far one: near and far differ by the stores into cells.
bool sends_far(const engine::Rank& rank) {
  return rank.choice_text(1).find(", non-temporal from never,") == std::string::npos;
}

class AgreedDistances : public ::testing::TestWithParam<World> {};

// Whatever the line needs here is taken for near, then for far; whatever the ranks began with, one of them is a change.
TEST_P(AgreedDistances, ChangeWhatASenderDoes) {
  if (os::allowed_cpus().count() < 2) GTEST_SKIP() << "needs two CPUs";
  for (const bool far : {false, true}) {
    SCOPED_TRACE(far ? "far" : "near");
    StormConfig config = config_in(GetParam());
    // A sanitizer's build, or a machine with other work, may need more than the usual microsecond for each envelope.
    config.lines = far ? node::LineBounds{-200'000, -200'000, 100'000} : node::LineBounds{200'000, 300'000, 100'000};
    run_engine(2, config, [far](TestBootstrap&, EngineRank& r, uint32_t self) {
      stay_on(self);
      const bool other_at_first = self == 0 && sends_far(*r.rank) != far;
      std::byte token{1};
      const engine::SendArgs send = to_other(1 - self, 0, &token, 1);
      const engine::RecvArgs recv = message_from(static_cast<int32_t>(1 - self), 0, &token, 1);
      // Rank 0 says with each message whether it wants another; how many of them tell something depends on the machine.
      for (int i = 1; token == std::byte{1}; ++i) {
        if (self == 0) {
          const bool looks = i % kRoundsPerLook == 0;  // which takes long: the answer is there when it comes back
          const bool over = looks && (i > kMostAgreeing || sends_far(*r.rank) == far);
          token = over ? std::byte{0} : std::byte{1};
          ASSERT_EQ(r.rank->send(send).code, Code::kOk);
          const std::byte said = token;
          ASSERT_EQ(r.rank->recv(recv).code, Code::kOk);
          token = said;
        } else {
          ASSERT_EQ(r.rank->recv(recv).code, Code::kOk);
          ASSERT_EQ(r.rank->send(send).code, Code::kOk);
        }
      }
      if (self == 0) {
        EXPECT_EQ(sends_far(*r.rank), far);
        EXPECT_EQ(stat(*r.rank, "distance_changes"), other_at_first ? 1U : 0U);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, AgreedDistances, ::testing::Values(World::kProcesses, World::kThreads),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

}  // namespace
}  // namespace zh::test
