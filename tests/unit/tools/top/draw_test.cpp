// A look as lines that fit, as JSON, and as the report of a job that does not move.
#include "tools/top/draw.h"

#include <gtest/gtest.h>

#include "tools/top/hang.h"
#include "tools/top/words.h"
#include "unit/tools/top/made_looks.h"

namespace zh::tools::top {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): makes looks

/// Ranks that do a bit of everything.
JobLook busy_job() {
  JobLook job = job_of({waiting(0, {1}), computing(1), waiting(2, {0, 1}, "MPI_Neighbor_alltoallw_init"),
                        in_state(3, RankState::kInHost), in_state(4, RankState::kDead)});
  job.ranks[1].cpu_ns = kSecond;
  job.ranks[1].away_ns = 3 * kSecond;
  job.ranks[1].backed_bytes = 3 << 20;
  job.ranks[1].unexpected = 2;
  job.ranks[1].unexpected_high = 9;
  job.ranks[1].sent[static_cast<size_t>(p2p::Path::kInline)] = {5000, 40'000};
  job.ranks[3].received[static_cast<size_t>(p2p::Path::kCma)] = {100, 400'000'000};
  job.ranks[3].call = "MPI_Win_fence";
  return job;
}

JobLook before_busy_job() {
  JobLook job = earlier(busy_job());
  for (RankLook& rank : job.ranks) {
    rank.cpu_ns = 0;
    rank.sent = {};
    rank.received = {};
  }
  return job;
}

std::vector<std::string> drawn(size_t columns, View view = {}) {
  view.columns = columns;
  return draw(before_busy_job(), busy_job(), view);
}

std::string whole(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

TEST(TopDraw, FitsIntoTheTerminal) {
  for (const size_t columns : {80, 120, 200}) {
    for (const std::string& line : drawn(columns)) EXPECT_LE(line.size(), columns) << line;
  }
}

TEST(TopDraw, WhatWeighsMostComesFirst) {
  EXPECT_EQ(whole(drawn(80)),
            "job 4711, 5 ranks here: app\n"
            "1 computing, 1 in host, 2 waiting, 1 dead; 200 MB/s, 2.5 Kmessages/s\n"
            "1 is late, computing for 3.0 s: 0,2 wait for it\n"
            "no room for communicator, size, pid, unexpected, memory, inline, cma\n"
            "rank  state        for  call                  with  tag         messages   CPU\n"
            "   0  waiting     15 s  MPI_Recv              1       7                     0%\n"
            "   1  computing  3.0 s                                   40 KB/s 5.0 K/s  100%\n"
            "   2  waiting     15 s  MPI_Neighbor_alltoa~  0,1     7                     0%\n"
            "   3  in host           MPI_Win_fence                    400 MB/s 100 /s    0%\n"
            "   4  dead                                                                  0%\n");
  const std::string medium = whole(drawn(120));
  for (const char* head : {"communicator", "size", "MPI_COMM_WORLD"}) EXPECT_NE(medium.find(head), std::string::npos);
  const std::string wide = whole(drawn(200));
  for (const char* head : {" pid", "unexpected", "memory", "inline", "cma", "3.0 MiB", "2 of 9"})
    EXPECT_NE(wide.find(head), std::string::npos) << head;
  EXPECT_EQ(wide.find("eager"), std::string::npos) << "nothing went that way";
  EXPECT_EQ(wide.find("no room"), std::string::npos);
}

TEST(TopDraw, SortsAndCutsAndColors) {
  View view;
  view.sort = Sort::kCpu;
  EXPECT_EQ(drawn(80, view)[5].substr(0, 15), "   1  computing");
  view.sort = Sort::kTraffic;
  EXPECT_EQ(drawn(80, view)[5].substr(0, 13), "   3  in host");
  view.lines = 7;
  ASSERT_EQ(drawn(80, view).size(), 7U);
  EXPECT_EQ(drawn(80, view).back(), "... 4 more ranks");
  EXPECT_EQ(whole(drawn(80)).find('\x1b'), std::string::npos);
  view.lines = 0;
  view.colors = true;
  EXPECT_NE(whole(drawn(80, view)).find("\x1b[31m   1  computing"), std::string::npos) << "the culprit";
}

TEST(TopDraw, NamesCannotCommandTheTerminal) {
  JobLook job = busy_job();
  job.program = "a\x1b[2Jb";
  job.ranks[0].wait.set_comm("c\x1b]0;title\a and much more behind it");
  View view;
  view.columns = 200;
  EXPECT_EQ(whole(draw(earlier(job), job, view)).find('\x1b'), std::string::npos);
}

TEST(TopDraw, AJobOfAnotherBuildSaysSo) {
  JobLook job = job_of({});
  job.problem = "it runs another build of zerohop";
  EXPECT_EQ(whole(draw(job, job, {})), "job 4711: app\nit runs another build of zerohop\n");
  EXPECT_EQ(to_json(job, job)["problem"], job.problem);
}

TEST(TopDraw, JsonHasItAll) {
  const nlohmann::json job = to_json(before_busy_job(), busy_job());
  EXPECT_EQ(job["id"], "4711");
  EXPECT_EQ(job["verdict"]["culprit"], 1);
  EXPECT_EQ(job["verdict"]["culprit_is"], "computing");
  EXPECT_EQ(job["verdict"]["waiters"], (std::vector<int>{0, 2}));
  const nlohmann::json& waits = job["ranks"][0];
  EXPECT_EQ(waits["state"], "waiting");
  EXPECT_EQ(waits["call"], "MPI_Recv");
  EXPECT_EQ(waits["waits"]["for"], "message");
  EXPECT_EQ(waits["waits"]["ranks"], std::vector<int>{1});
  EXPECT_EQ(waits["waits"]["tag"], 7);
  EXPECT_EQ(waits["waits"]["communicator"], "MPI_COMM_WORLD");
  EXPECT_DOUBLE_EQ(waits["waits"]["seconds"], 15.0);
  EXPECT_EQ(job["ranks"][1]["traffic"]["inline"]["messages_per_second"], 5000.0);
  EXPECT_EQ(job["ranks"][1]["cpu_percent"], 100.0);
}

TEST(TopWords, NumbersAsPeopleReadThem) {
  EXPECT_EQ(short_number(999, 1024), "999 ");
  EXPECT_EQ(short_number(4096, 1024), "4.0 Ki");
  EXPECT_EQ(short_number(12e9, 1000), "12 G");
  EXPECT_EQ(duration(400'000'000), "0.4 s");
  EXPECT_EQ(duration(90 * kSecond), "90 s");
  EXPECT_EQ(duration(600 * kSecond), "10 min");
  EXPECT_EQ(ranges({0, 1, 2, 4, 5, 9}), "0-2,4,5,9");
  EXPECT_EQ(ranges({1, 3, 5}, 2), "1,3,...");
}

TEST(TopHang, ReportsOnceForEachStandstill) {
  HangWatch watch(3 * kSecond);
  JobLook job = job_of({waiting(0, {1}), waiting(1, {0}), computing(2)});
  const auto after = [&](uint64_t seconds) {
    std::string reports;
    for (uint64_t i = 0; i < seconds; ++i) {
      job.seen_ns += kSecond;
      reports += watch.see(job);
    }
    return reports;
  };
  EXPECT_EQ(after(3), "");
  EXPECT_EQ(after(10),
            "zerohop: job 4711: nothing has moved for 3.0 s on this node\n"
            "zerohop:   rank 0: waiting in MPI_Recv for a message of 1 (tag 7, MPI_COMM_WORLD), for 19 s\n"
            "zerohop:   rank 1: waiting in MPI_Recv for a message of 0 (tag 7, MPI_COMM_WORLD), for 19 s\n"
            "zerohop:   rank 2: computing\n"
            "zerohop: deadlock: 0 waits in MPI_Recv for a message of 1 (tag 7, MPI_COMM_WORLD), 1 waits in MPI_Recv "
            "for a message of 0 (tag 7, MPI_COMM_WORLD), which closes it\n");
  job.ranks[2].sent[0].messages += 1;
  EXPECT_EQ(after(3), "") << "something has moved";
  EXPECT_NE(after(10), "");
  job.ranks[0] = job.ranks[1] = computing(0);
  job.ranks[1].rank = 1;
  EXPECT_EQ(after(10), "") << "nobody waits";
}

}  // namespace
}  // namespace zh::tools::top
