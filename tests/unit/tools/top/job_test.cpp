// A job's memory as it is seen from outside: what ranks have written there by hand, who they are, whether they live.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "mpi/entry/function_names.h"
#include "os/clock.h"
#include "support/fork_world.h"
#include "tools/top/look.h"
#include "unit/tools/top/made_looks.h"

namespace zh::tools::top {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): makes looks

class TopJob : public ::testing::Test {
 protected:
  static constexpr uint32_t kRanks = 3;
  void SetUp() override {
    zh::test::run_ranks(zh::test::World::kThreads, kRanks, [this](zh::test::TestBootstrap& world) {
      node::JoinConfig config;
      config.measure_line = false;
      config.rank_bytes = 1 << 20;
      ASSERT_TRUE(node::Node::join(world, config, &nodes_[world.rank()]).ok());
    });
    // The last rank has not come so far.
    for (uint32_t i = 0; i + 1 < kRanks; ++i) {
      ASSERT_TRUE(nodes_[i]->reserve(nodes_[i]->part(i), p2p::PartShm::size_bytes(kRanks)).ok());
      std::memset(static_cast<void*>(&part(i)), 0, sizeof(p2p::PartShm));  // room alone is no memory everywhere
    }
  }
  void TearDown() override {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  static std::unique_ptr<Job> found() {
    auto jobs = find_jobs(getpid());
    if (jobs.size() == 1) return std::move(jobs.front());
    ADD_FAILURE() << jobs.size() << " jobs";
    return nullptr;
  }
  static std::string problem() {
    const auto job = found();
    return job != nullptr ? job->look().problem : "";
  }
  [[nodiscard]] p2p::PartShm& part(uint32_t i) const {
    return *at<p2p::PartShm>(nodes_[i]->base(), nodes_[i]->part(i));
  }
  [[nodiscard]] node::HeaderShm& header() const { return *at<node::HeaderShm>(nodes_[0]->base(), 0); }
  /// From now on rank `i` is a process that holds the memory and does nothing.
  void become_process(uint32_t i) {
    child_ = fork();
    if (child_ == 0) {
      for (;;) pause();
    }
    at<node::SlotShm>(nodes_[0]->base(), header().slots)[i].pid.store_relaxed(static_cast<uint32_t>(child_));
  }

  std::unique_ptr<node::Node> nodes_[kRanks];
  pid_t child_ = 0;
};

TEST_F(TopJob, TellsWhatRanksHaveTold) {
  Activity wait;
  wait.waits = Activity::Waits::kForMessage;
  wait.call = mpi::function_number("Recv");
  wait.tag = 7;
  wait.began_ns = os::now_ns() - kSecond;
  wait.add_peer(1);
  wait.set_comm("a communicator");
  part(0).activity.tell(wait);
  part(0).account.counters.count_sent(p2p::Path::kEager, 1000);
  part(0).account.counters.count_sent(p2p::Path::kEager, 9);
  part(0).account.counters.count_received(p2p::Path::kModule, 5);
  part(0).queues.unexpected_count.store_relaxed(3);
  part(0).queues.unexpected_high.store_relaxed(5);
  part(0).queues.posted_total.store_relaxed(2);
  part(1).activity.host_call.store_relaxed(mpi::function_number("Win_fence"));
  part(1).activity.host_ticks.store_relaxed(os::ticks());

  const auto job = found();
  ASSERT_NE(job, nullptr);
  const JobLook look = job->look();
  EXPECT_EQ(look.problem, "");
  EXPECT_EQ(look.id, std::to_string(getpid()));
  ASSERT_EQ(look.ranks.size(), kRanks);
  EXPECT_EQ(look.world_size, kRanks);
  const RankLook& first = look.ranks[0];
  EXPECT_EQ(first.pid, getpid());
  EXPECT_EQ(first.state, RankState::kWaiting);
  EXPECT_EQ(first.call, "MPI_Recv");
  EXPECT_EQ(first.wait.peers[0], 1);
  EXPECT_EQ(first.wait.comm_name(), "a communicator");
  EXPECT_EQ(first.sent[static_cast<size_t>(p2p::Path::kEager)].messages, 2U);
  EXPECT_EQ(first.sent[static_cast<size_t>(p2p::Path::kEager)].bytes, 1009U);
  EXPECT_EQ(first.received[static_cast<size_t>(p2p::Path::kModule)].bytes, 5U);
  EXPECT_EQ(first.unexpected, 3U);
  EXPECT_EQ(first.unexpected_high, 5U);
  EXPECT_EQ(first.posted, 2U);
  EXPECT_GE(first.backed_bytes, sizeof(p2p::PartShm));
  EXPECT_EQ(look.ranks[1].state, RankState::kInHost);
  EXPECT_EQ(look.ranks[1].call, "MPI_Win_fence");
}

TEST_F(TopJob, MakesNoMemoryOfRanksThatHaveNone) {
  const auto job = found();
  ASSERT_NE(job, nullptr);
  for (int i = 0; i < 2; ++i) {
    const RankLook rank = job->look().ranks[kRanks - 1];
    EXPECT_EQ(rank.state, RankState::kComputing);
    EXPECT_EQ(rank.backed_bytes, 0U);
  }
}

TEST_F(TopJob, RefusesWhatItCannotRead) {
  header().layout_hash += 1;
  EXPECT_NE(problem().find("another build"), std::string::npos);
  header().layout_hash -= 1;
  header().ranks = 1000;
  EXPECT_NE(problem().find("broken"), std::string::npos);
  header().ranks = kRanks;
  header().magic += 1;
  EXPECT_NE(problem().find("none of zerohop's"), std::string::npos);
  header().magic = 0;
  EXPECT_TRUE(find_jobs(getpid()).empty()) << "still being made";
}

TEST_F(TopJob, StoppedAndDeadProcessesAreSeen) {
  become_process(1);
  const auto job = found();
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->look().ranks[1].state, RankState::kComputing);
  EXPECT_EQ(job->look().ranks[1].pid, child_);
  kill(child_, SIGSTOP);
  waitpid(child_, nullptr, WUNTRACED);
  EXPECT_EQ(job->look().ranks[1].state, RankState::kStopped);
  kill(child_, SIGKILL);
  siginfo_t ended{};
  waitid(P_PID, static_cast<id_t>(child_), &ended, WEXITED | WNOWAIT);
  EXPECT_EQ(job->look().ranks[1].state, RankState::kDead) << "as a zombie";
  waitpid(child_, nullptr, 0);
  EXPECT_EQ(job->look().ranks[1].state, RankState::kDead);
  child_ = 0;
}

TEST_F(TopJob, AnUnrelatedProcessHasNone) {
  become_process(1);
  EXPECT_EQ(find_jobs(child_).size(), 1U) << "it has inherited the memory";
  for (auto& node : nodes_) node.reset();
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
  child_ = 0;
  EXPECT_TRUE(find_jobs(getpid()).empty());
}

TEST_F(TopJob, EndsWhenItsRanksHoldItNoMore) {
  const auto job = found();
  ASSERT_NE(job, nullptr);
  EXPECT_FALSE(job->ended());
  for (auto& node : nodes_) node.reset();
  EXPECT_TRUE(job->ended()) << "this process looks at it, as another top may";
  EXPECT_TRUE(find_jobs(getpid()).empty());
  EXPECT_EQ(job->look().ranks[0].state, RankState::kLeft);
}

}  // namespace
}  // namespace zh::tools::top
