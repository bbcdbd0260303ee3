// The short ways of messages by themselves: what they take, and what they leave to the general way. Whatever they do,
// messages come in MPI's order (standard 3.5).
#include <gtest/gtest.h>

#include <vector>

#include "engine_support.h"

namespace zh::test {
namespace {

/// Rank 0 sends, rank 1 receives, each at its turn.
class ShortPath : public ::testing::TestWithParam<World> {
 protected:
  using Step = std::function<void()>;
  /// `sends` and `receives` by turns, in pairs.
  static void play(const std::function<std::vector<std::pair<Step, Step>>(Rank&)>& steps) {
    run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
      if (!r.node->cma(1 - self)) GTEST_SKIP() << "without single copy a helper calls as well: the general way";
      int first = 0;  // makes the ring, and tells the time
      if (self == 0) put(*r.rank, 1, first);
      const bool came = self == 0 || r.rank->recv(message_from(0, 1, &first, sizeof first)).code == Code::kOk;
      ASSERT_TRUE(came && world.barrier().ok());  // without the barrier it would find the next message as well
      for (const auto& [send, receive] : steps(*r.rank)) {
        if (self == 0) send();
        ASSERT_TRUE(world.barrier().ok());
        if (self == 1) receive();
        ASSERT_TRUE(world.barrier().ok());
      }
    });
  }
  static void put(Rank& rank, int32_t tag, int value) {
    ASSERT_EQ(rank.send(to_other(1, tag, &value, sizeof value)).code, Code::kOk);
  }
  /// The value taken, or -1.
  static int take(Rank& rank, int32_t tag) {
    int value = 0;
    Result result;
    return rank.recv_short(message_from(0, tag, &value, sizeof value), &result) ? value : -1;
  }
};

TEST_P(ShortPath, TakesWhatNothingElseCouldMatch) {
  play([](Rank& rank) {
    auto data = std::make_shared<int>(0);
    return std::vector<std::pair<Step, Step>>{
        {[&rank] { put(rank, 5, 1); },
         [&rank, data] {
           EXPECT_EQ(take(rank, 6), -1) << "another tag";
           Request* before = rank.irecv(message_from(p2p::kAnySource, 9, data.get(), sizeof(int)));
           EXPECT_EQ(take(rank, 5), -1) << "a receive that was posted before might want it";
           EXPECT_TRUE(rank.cancel(before));
           rank.release(before);
           EXPECT_EQ(take(rank, 5), 1);
         }},
        {[&rank] {
           put(rank, 5, 2);
           put(rank, 7, 3);
         },
         [&rank, data] {
           EXPECT_EQ(take(rank, p2p::kAnyTag), 2);
           EXPECT_EQ(take(rank, 7), 3);
           EXPECT_EQ(take(rank, 7), -1) << "nothing is left";
         }},
        {[&rank] { put(rank, 5, 4); }, [&rank] { rank.progress(); }},
        {[&rank] { put(rank, 5, 5); },
         [&rank, data] {
           EXPECT_EQ(take(rank, 5), -1) << "it would overtake what has arrived";
           EXPECT_EQ(rank.irecv_short(message_from(0, 5, data.get(), sizeof(int))), nullptr) << "likewise";
           for (const int value : {4, 5}) {
             EXPECT_EQ(rank.recv(message_from(0, 5, data.get(), sizeof(int))).code, Code::kOk);
             EXPECT_EQ(*data, value);
           }
         }},
    };
  });
}

TEST_P(ShortPath, PostsInTheOrderOfTheCalls) {
  play([](Rank& rank) {
    auto data = std::make_shared<std::vector<int>>(3000, -1);
    auto requests = std::make_shared<std::vector<Request*>>();
    return std::vector<std::pair<Step, Step>>{
        {[] {},
         [&rank, data, requests] {
           for (size_t i = 0; i < data->size(); ++i) {
             const int32_t source = i % 3 == 0 ? p2p::kAnySource : 0;
             const RecvArgs args = message_from(source, i % 5 == 0 ? p2p::kAnyTag : 1, &(*data)[i], sizeof(int));
             Request* r = i % 7 == 0 ? nullptr : rank.irecv_short(args);
             requests->push_back(r != nullptr ? r : rank.irecv(args));
           }
         }},
        {[&rank] {
           for (int i = 0; i < 3000; ++i) {
             int value = i;
             Request* r = rank.isend(to_other(1, 1, &value, sizeof value));
             while (!rank.done(r)) rank.progress();
             rank.release(r);
           }
         },
         [&rank, data, requests] {
           for (size_t i = 0; i < data->size(); ++i) {
             EXPECT_EQ(finish(rank, (*requests)[i]).tag, 1);
             EXPECT_EQ((*data)[i], static_cast<int>(i));
           }
         }},
    };
  });
}

TEST_P(ShortPath, LeavesTheUnusualToTheGeneralWay) {
  play([](Rank& rank) {
    auto data = std::make_shared<std::vector<std::byte>>(100'000);
    return std::vector<std::pair<Step, Step>>{
        {[&rank, data] {
           EXPECT_FALSE(rank.send_short(to_other(1, 1, data->data(), data->size()))) << "a long message";
           EXPECT_FALSE(rank.send_short(to_other(1, 1, data->data(), 8, p2p::SendMode::kSynchronous)));
           put(rank, 3, 1);
           EXPECT_TRUE(rank.send_short(to_other(1, 2, data->data(), 8)));
           EXPECT_EQ(rank.send(to_other(1, 2, data->data(), 5000)).code, Code::kOk);
         },
         [&rank, data] {
           EXPECT_EQ(take(rank, 3), 1);
           Result result;
           EXPECT_TRUE(rank.recv_short(message_from(0, 2, data->data(), 4), &result));
           EXPECT_EQ(result.code, Code::kTruncated);
           EXPECT_EQ(result.bytes, 4U);
           EXPECT_FALSE(rank.recv_short(message_from(0, 2, data->data(), 5000), &result)) << "a block";
           EXPECT_EQ(rank.recv(message_from(0, 2, data->data(), 5000)).bytes, 5000U);
         }},
    };
  });
}

INSTANTIATE_TEST_SUITE_P(All, ShortPath, ::testing::Values(World::kProcesses, World::kThreads));

}  // namespace
}  // namespace zh::test
