// Who waits for whom: circles are found, and only those that last; else the rank that is waited for.
#include "tools/top/waits.h"

#include <gtest/gtest.h>

#include "tools/top/words.h"
#include "unit/tools/top/made_looks.h"

namespace zh::tools::top {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): makes looks
using Ranks = std::vector<int>;

Verdict judged(const JobLook& job) { return judge(earlier(job), job); }
std::string said(const JobLook& job) { return verdict_text(job, judged(job)); }

TEST(TopWaits, TwoRanksWaitForEachOther) {
  const JobLook job = job_of({waiting(0, {1}), waiting(1, {0}), computing(2)});
  EXPECT_EQ(judged(job).cycle, (Ranks{0, 1}));
  EXPECT_EQ(judged(job).blocked, (Ranks{0, 1}));
  EXPECT_EQ(judged(job).culprit, -1);
  EXPECT_EQ(said(job),
            "deadlock: 0 waits in MPI_Recv for a message of 1 (tag 7, MPI_COMM_WORLD), 1 waits in MPI_Recv for a "
            "message of 0 (tag 7, MPI_COMM_WORLD), which closes it");
}

TEST(TopWaits, ThreeRanksAndOneBehind) {
  const JobLook job = job_of(
      {waiting(0, {3}), waiting(1, {2}), waiting(2, {3}, "MPI_Send", Activity::Waits::kForReceive), waiting(3, {1})});
  EXPECT_EQ(judged(job).cycle, (Ranks{1, 2, 3}));
  EXPECT_EQ(judged(job).blocked, (Ranks{0, 1, 2, 3}));
  EXPECT_NE(said(job).find("2 waits in MPI_Send for 3 to receive (4.0 KiB, tag 7, MPI_COMM_WORLD)"), std::string::npos);
  EXPECT_TRUE(said(job).ends_with("; 1 more waits behind")) << said(job);
}

TEST(TopWaits, ARankForItself) { EXPECT_EQ(judged(job_of({waiting(0, {0}), computing(1)})).cycle, Ranks{0}); }

TEST(TopWaits, OneOfAllPeersIsEnoughToBlock) {
  const JobLook job = job_of({waiting(0, {1, 2}), computing(1), waiting(2, {0})});
  EXPECT_EQ(judged(job).cycle, (Ranks{0, 2}));
}

TEST(TopWaits, WhereAnyPeerIsEnoughAllMustBeBlocked) {
  EXPECT_EQ(judged(job_of({any_of(waiting(0, {1, 2})), waiting(1, {0}), waiting(2, {0})})).blocked, (Ranks{0, 1, 2}));
  const Verdict open = judged(job_of({any_of(waiting(0, {1, 2})), waiting(1, {0}), computing(2)}));
  EXPECT_TRUE(open.blocked.empty());
  EXPECT_EQ(open.culprit, 2);
  EXPECT_EQ(open.waiters, (Ranks{0, 1}));
}

TEST(TopWaits, AReceiveFromAnySourceIsForAllRanks) {
  JobLook job = job_of({any_of(waiting(0, {})), any_of(waiting(1, {})), any_of(waiting(2, {}))});
  EXPECT_EQ(judged(job).blocked, (Ranks{0, 1, 2}));
  job.nodes = 2;
  EXPECT_TRUE(judged(job).blocked.empty()) << "a rank of another node may send";
  job.nodes = 1;
  job.ranks[2] = computing(2);
  EXPECT_TRUE(judged(job).blocked.empty());
  EXPECT_EQ(judged(job).culprit, 2);
}

// More peers than can be told: any rank may be one of them.
TEST(TopWaits, AFullListOfAnyIsNotTheWholeList) {
  std::vector<RankLook> ranks{any_of(waiting(0, {1, 2, 3, 4, 5, 6}))};
  for (int i = 1; i < 7; ++i) ranks.push_back(waiting(i, {0}));
  EXPECT_EQ(judged(job_of(ranks)).blocked.size(), 7U);
  ranks.push_back(computing(7));
  EXPECT_TRUE(judged(job_of(ranks)).blocked.empty());
}

TEST(TopWaits, ALateSenderAtTheEndOfAChain) {
  JobLook job = job_of({waiting(0, {1}), waiting(1, {2}), waiting(2, {3}), computing(3)});
  EXPECT_TRUE(judged(job).blocked.empty());
  EXPECT_EQ(judged(job).culprit, 3);
  EXPECT_EQ(judged(job).waiters, (Ranks{0, 1, 2}));
  job.ranks[3].away_ns = 12 * kSecond;
  EXPECT_EQ(said(job), "3 is late, computing for 12 s: 0-2 wait for it");
}

TEST(TopWaits, ARankIsMissingInACollective) {
  constexpr auto kMembers = Activity::Waits::kForMembers;
  const JobLook job = job_of({waiting(0, {2}, "MPI_Barrier", kMembers), waiting(1, {2}, "MPI_Barrier", kMembers),
                              in_state(2, RankState::kInHost), waiting(3, {0}, "MPI_Recv")});
  EXPECT_EQ(judged(job).culprit, 2);
  EXPECT_EQ(said(job), "2 is late, in the MPI library: 0,1,3 wait for it");
}

TEST(TopWaits, DeadAndStoppedRanksAreToBlame) {
  JobLook job = job_of({waiting(0, {1}), waiting(1, {0}), computing(2)});
  job.ranks[1].state = RankState::kStopped;
  EXPECT_EQ(said(job), "1 is stopped by a signal or a debugger: 0 waits for it");
  job.ranks[1].state = RankState::kDead;
  EXPECT_EQ(said(job), "1 is dead: 0 waits for it");
  job.ranks[1].state = RankState::kLeft;
  EXPECT_EQ(said(job), "1 is no longer in the job: 0 waits for it");
}

TEST(TopWaits, TheRankThatMostWaitForIsNamed) {
  JobLook job = job_of({waiting(0, {4}), waiting(1, {5}), waiting(2, {5}), computing(3), computing(4), computing(5)});
  EXPECT_EQ(judged(job).culprit, 5);
  job.ranks[2] = computing(2);
  job.ranks[4].state = RankState::kDead;
  EXPECT_EQ(judged(job).culprit, 4) << "of two that are waited for alike, the one that will not come";
}

TEST(TopWaits, RanksOfOtherNodesAreFree) {
  const JobLook job = job_of({waiting(0, {9}), waiting(1, {0})});
  EXPECT_TRUE(judged(job).blocked.empty());
  EXPECT_EQ(said(job), "9 is on another node: 0,1 wait for it");
}

TEST(TopWaits, UntoldWaitsAreFree) {
  JobLook job = job_of({waiting(0, {1}), waiting(1, {0})});
  job.ranks[1].wait.waits = Activity::Waits::kUntold;
  EXPECT_TRUE(judged(job).blocked.empty());
  EXPECT_EQ(said(job), "1 is waiting in MPI_Recv for 15 s: 0 waits for it");
}

// One look sees the ranks one after the other: their waits may never have been at the same time.
TEST(TopWaits, OnlyWaitsThatLastAreACircle) {
  const JobLook now = job_of({waiting(0, {1}), waiting(1, {0})});
  JobLook before = earlier(now);
  EXPECT_FALSE(judge(before, now).blocked.empty());
  before.ranks[1].wait.began_ns -= 1;
  EXPECT_TRUE(judge(before, now).blocked.empty()) << "another wait";
  before = earlier(now);
  before.ranks[0].wait.still_ns -= 1;
  EXPECT_TRUE(judge(before, now).blocked.empty()) << "something has moved";
  before = earlier(now);
  before.ranks[0] = computing(0);
  EXPECT_TRUE(judge(before, now).blocked.empty());
  before = earlier(now);
  before.seen_ns = now.seen_ns - kLastsNs + 1;
  EXPECT_TRUE(judge(before, now).blocked.empty()) << "two looks at one moment";
  EXPECT_EQ(judge(now, now).culprit, -1);
}

TEST(TopWaits, RanksInMotionAreNotToBlame) {
  const JobLook now = job_of({waiting(0, {1}), waiting(1, {0})});
  JobLook before = earlier(now);
  before.ranks[1].wait.began_ns -= 1;
  EXPECT_EQ(judge(before, now).culprit, -1);
}

}  // namespace
}  // namespace zh::tools::top
