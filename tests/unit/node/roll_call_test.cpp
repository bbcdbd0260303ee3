// Roll calls of all shapes: every rank that takes part gets the right answer, and nobody waits for one that does not.
#include "node/roll_call.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace zh::node {
namespace {

/// Marks and messages of one job whose ranks are threads. A mark is a letter: equal letters are one build, ' ' is none.
class Job {
 public:
  explicit Job(std::string marks) : marks_(std::move(marks)) {}
  [[nodiscard]] int size() const { return static_cast<int>(marks_.size()); }
  [[nodiscard]] char mark(int rank) const { return marks_[static_cast<size_t>(rank)]; }
  void send(int from, int to, bool all) {
    const std::lock_guard lock(mutex_);
    messages_[{from, to}].push_back(all);
    arrived_.notify_all();
  }
  bool receive(int from, int to) {
    std::unique_lock lock(mutex_);
    auto& queue = messages_[{from, to}];
    arrived_.wait(lock, [&] { return !queue.empty(); });
    const bool all = queue.front();
    queue.pop_front();
    return all;
  }
  /// Messages that nobody received.
  [[nodiscard]] size_t left() const {
    size_t n = 0;
    for (const auto& [pair, queue] : messages_) n += queue.size();
    return n;
  }

 private:
  const std::string marks_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, std::deque<bool>> messages_;
};

class Member final : public Roll {
 public:
  Member(Job& job, int rank) : job_(job), rank_(rank) {}
  Presence look(int rank) override {
    ++looks;
    if (job_.mark(rank) == ' ') return Presence::kAbsent;
    return job_.mark(rank) == job_.mark(rank_) ? Presence::kSame : Presence::kOther;
  }
  void tell(int rank, bool all) override {
    EXPECT_EQ(job_.mark(rank), job_.mark(rank_)) << "a message to a rank that does not expect one";
    job_.send(rank_, rank, all);
  }
  bool hear(int rank) override { return job_.receive(rank, rank_); }
  int looks = 0;

 private:
  Job& job_;
  int rank_;
};

/// Runs the roll call of all ranks that have a mark; the lines that they say.
std::vector<std::string> call(const std::string& marks) {
  Job job(marks);
  const bool expected = marks == std::string(marks.size(), marks[0]) && marks[0] != ' ';
  std::vector<std::string> lines(marks.size());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < job.size(); ++rank) {
    if (job.mark(rank) == ' ') continue;
    ranks.emplace_back([&, rank] {
      Member member(job, rank);
      EXPECT_EQ(all_take_part(member, rank, job.size()), expected) << "rank " << rank << " of '" << marks << "'";
      EXPECT_LE(member.looks, 9);
      if (!expected) lines[static_cast<size_t>(rank)] = who_is_missing(member, rank, job.size());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(job.left(), 0u) << "'" << marks << "'";
  std::vector<std::string> said;
  for (const std::string& line : lines) {
    if (!line.empty()) said.push_back(line);
  }
  return said;
}

using Lines = std::vector<std::string>;

TEST(RollCall, AllThere) {
  for (const size_t n : {1, 2, 8, 9, 10, 73, 74, 100}) EXPECT_EQ(call(std::string(n, 'a')), Lines{});
}

TEST(RollCall, TheLowestRankNamesTheOthers) {
  EXPECT_EQ(call(" aa"), Lines{"rank 0 runs without zerohop"});
  EXPECT_EQ(call("aa "), Lines{"rank 2 runs without zerohop"});
  EXPECT_EQ(call("a a   a  "), Lines{"ranks 1, 3-5, 7, 8 run without zerohop"});
  EXPECT_EQ(call("aba"), Lines{"rank 1 runs another build of it"});
  EXPECT_EQ(call("abb "), Lines{"rank 3 runs without zerohop, ranks 1, 2 run another build of it"});
}

TEST(RollCall, ALongListEnds) {
  std::string marks;
  for (int i = 0; i < 20; ++i) marks += "a ";
  EXPECT_EQ(call(marks), Lines{"ranks 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31 and 4 more run without "
                               "zerohop"});
}

TEST(RollCall, AnyoneMayBeMissing) {
  for (size_t missing = 0; missing < 80; ++missing) {
    std::string marks(80, 'a');
    marks[missing] = ' ';
    EXPECT_EQ(call(marks), Lines{"rank " + std::to_string(missing) + " runs without zerohop"});
  }
}

TEST(RollCall, AnyMixture) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string marks(1 + random() % 90, 'a');
    const size_t share = 1 + random() % 20;
    for (char& mark : marks) {
      if (random() % share == 0) mark = "ab  "[random() % 4];
    }
    EXPECT_LE(call(marks).size(), 1u);
  }
}

}  // namespace
}  // namespace zh::node
