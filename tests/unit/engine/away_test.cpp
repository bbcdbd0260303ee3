// A rank in a call of the host: what was asked for arrives, what was not stops no sender, its helper does what no peer
// can, and everything is in order when the rank is back.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/atomic.h"
#include "engine/collective_call.h"
#include "engine_support.h"
#include "os/clock.h"

namespace zh::test {
namespace {

using p2p::SendMode;

struct AwayCase {
  World world;
  bool cma;
};
std::string away_case_name(const ::testing::TestParamInfo<AwayCase>& info) {
  return std::string(to_string(info.param.world)) + (info.param.cma ? "" : "_no_cma");
}

class AwayRank : public ::testing::TestWithParam<AwayCase> {
 protected:
  /// Two ranks; the second one is in the host between the two steps of its part.
  template <typename Sender, typename Before, typename After>
  static void run(uint64_t rank_bytes, Sender sender, Before before, After after) {
    const AwayCase c = GetParam();
    const StormConfig config{.world = c.world, .cma = c.cma, .rank_bytes = rank_bytes};
    run_engine(2, config, [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
      ASSERT_EQ(static_cast<int>(self), world.rank());
      if (world.rank() == 1) {
        before(*r.rank);
        r.rank->enter_host();
        ASSERT_TRUE(world.barrier().ok());
        ASSERT_TRUE(world.barrier().ok());  // passed when the sender has ended
        r.rank->leave_host();
        after(*r.rank);
      } else {
        ASSERT_TRUE(world.barrier().ok());
        sender(*r.rank);
        ASSERT_TRUE(world.barrier().ok());
      }
      r.rank->quiesce();
    });
  }
  static constexpr uint64_t kRoom = 128 << 20;
};

TEST_P(AwayRank, PostedReceivesAreFilled) {
  static constexpr int kSmall = 4000;
  static constexpr uint64_t kSizes[] = {64 << 10, 3 << 20};
  std::vector<int> numbers(kSmall, -1);
  std::vector<std::vector<std::byte>> large;
  for (const uint64_t n : kSizes) large.emplace_back(n);
  std::vector<Request*> requests;
  run(
      kRoom,
      [&](Rank& rank) {
        for (int i = 0; i < kSmall; ++i) ASSERT_EQ(rank.send(to_other(1, 1, &i, sizeof i)).code, Code::kOk);
        for (const SendMode mode : {SendMode::kStandard, SendMode::kSynchronous}) {
          for (const uint64_t n : kSizes) {
            const std::vector<std::byte> data(n, std::byte(n >> 16));
            ASSERT_EQ(rank.send(to_other(1, mode == SendMode::kStandard ? 2 : 3, data.data(), n, mode)).code,
                      Code::kOk);
          }
        }
      },
      [&](Rank& rank) {
        for (int& n : numbers) requests.push_back(rank.irecv(message_from(0, 1, &n, sizeof n)));
        for (const int tag : {2, 3}) {
          for (auto& buffer : large) requests.push_back(rank.irecv(message_from(0, tag, buffer.data(), buffer.size())));
        }
      },
      [&](Rank& rank) {
        for (Request* r : requests) EXPECT_EQ(finish(rank, r).code, Code::kOk);
        for (int i = 0; i < kSmall; ++i) ASSERT_EQ(numbers[static_cast<size_t>(i)], i);
        for (const auto& buffer : large) EXPECT_EQ(buffer.back(), std::byte(buffer.size() >> 16));
      });
}

TEST_P(AwayRank, SmallMessagesThatNobodyWaitsForStopNoSender) {
  static constexpr int kSmall = 5000;
  static constexpr int kMedium = 4000;
  static constexpr uint64_t kBytes = 3000;
  run(
      kRoom,
      [](Rank& rank) {
        std::vector<std::byte> data(kBytes);
        for (int i = 0; i < kSmall; ++i) ASSERT_EQ(rank.send(to_other(1, 1, &i, sizeof i)).code, Code::kOk);
        for (int i = 0; i < kMedium; ++i) {
          std::memcpy(data.data(), &i, sizeof i);
          ASSERT_EQ(rank.send(to_other(1, 2, data.data(), kBytes)).code, Code::kOk);
        }
        EXPECT_GT(stat(rank, "entries_lent"), 0U);
        EXPECT_GT(stat(rank, "buffered_messages"), 0U);
      },
      [](Rank&) {},
      [](Rank& rank) {
        std::vector<std::byte> data(kBytes);
        for (int i = 0; i < kMedium; ++i) {
          ASSERT_EQ(rank.recv(message_from(0, 2, data.data(), kBytes)).code, Code::kOk);
          ASSERT_EQ(std::memcmp(data.data(), &i, sizeof i), 0) << i;
        }
        for (int i = 0; i < kSmall; ++i) {
          int in = -1;
          ASSERT_EQ(rank.recv(message_from(0, 1, &in, sizeof in)).code, Code::kOk);
          ASSERT_EQ(in, i);
        }
      });
}

// The receiver's entries are in private memory, where no peer can go.
TEST_P(AwayRank, ItsHelperTurnsQueuesThatHaveSpilled) {
  static constexpr int kSmall = 20000;
  const AwayCase c = GetParam();
  const StormConfig config{.world = c.world, .cma = c.cma, .rank_bytes = 6 << 20};
  run_engine(2, config, [&](TestBootstrap& world, EngineRank& r, uint32_t) {
    if (world.rank() == 1) {
      int token = 0;
      // Waits in the engine for a message that comes last: the others pile up.
      ASSERT_EQ(r.rank->recv(message_from(0, 9, &token, sizeof token)).code, Code::kOk);
      r.rank->enter_host();
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_TRUE(world.barrier().ok());
      r.rank->leave_host();
      for (int i = 0; i < 2 * kSmall; ++i) {
        int in = -1;
        ASSERT_EQ(r.rank->recv(message_from(0, 1, &in, sizeof in)).code, Code::kOk);
        ASSERT_EQ(in, i);
      }
      EXPECT_EQ(stat(*r.rank, "helper_started"), 1U);
    } else {
      for (int i = 0; i < kSmall; ++i) ASSERT_EQ(r.rank->send(to_other(1, 1, &i, sizeof i)).code, Code::kOk);
      int token = 1;
      ASSERT_EQ(r.rank->send(to_other(1, 9, &token, sizeof token)).code, Code::kOk);
      ASSERT_TRUE(world.barrier().ok());
      for (int i = kSmall; i < 2 * kSmall; ++i) ASSERT_EQ(r.rank->send(to_other(1, 1, &i, sizeof i)).code, Code::kOk);
      ASSERT_TRUE(world.barrier().ok());
    }
    r.rank->quiesce();
  });
}

// Sends that were on offer when the receiver went into the host; their buffers are used again afterwards.
TEST_P(AwayRank, OffersMadeBeforeAreCopied) {
  static constexpr int kMessages = 40;
  static constexpr uint64_t kBytes = 60 << 10;
  const AwayCase c = GetParam();
  StormConfig config = config_in(c.world, c.cma);
  config.single_copy_min = 32 << 10;  // so that each is an offer
  run_engine(2, config, [&](TestBootstrap& world, EngineRank& r, uint32_t) {
    std::vector<std::byte> data(kMessages * kBytes);
    if (world.rank() == 0) {
      std::vector<Request*> requests;
      for (int i = 0; i < kMessages; ++i) {
        std::byte* const one = data.data() + static_cast<uint64_t>(i) * kBytes;
        std::memset(one, i + 1, kBytes);
        requests.push_back(r.rank->isend(to_other(1, i, one, kBytes)));
      }
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_TRUE(world.barrier().ok());
      for (Request* request : requests) EXPECT_EQ(finish(*r.rank, request).code, Code::kOk);
      std::fill(data.begin(), data.end(), std::byte{0xff});
      ASSERT_TRUE(world.barrier().ok());
    } else {
      ASSERT_TRUE(world.barrier().ok());
      r.rank->enter_host();
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_TRUE(world.barrier().ok());
      r.rank->leave_host();
      for (int i = kMessages; i-- != 0;) {
        ASSERT_EQ(r.rank->recv(message_from(0, i, data.data(), kBytes)).code, Code::kOk);
        ASSERT_EQ(data[0], std::byte(i + 1));
        ASSERT_EQ(data[kBytes - 1], std::byte(i + 1));
      }
    }
    r.rank->quiesce();
  });
}

TEST_P(AwayRank, SynchronousSendsWaitForTheirReceive) {
  run_engine(2, config_in(GetParam().world, GetParam().cma), [&](TestBootstrap& world, EngineRank& r, uint32_t) {
    int word = 5;
    if (world.rank() == 0) {
      ASSERT_TRUE(world.barrier().ok());
      Request* request = r.rank->isend(to_other(1, 1, &word, sizeof word, SendMode::kSynchronous));
      const uint64_t stop = os::now_ns() + 20'000'000;
      r.rank->wait_until([&] { return os::now_ns() > stop; });
      EXPECT_FALSE(r.rank->done(request));
      ASSERT_TRUE(world.barrier().ok());
      EXPECT_EQ(finish(*r.rank, request).code, Code::kOk);
    } else {
      r.rank->enter_host();
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_TRUE(world.barrier().ok());
      r.rank->leave_host();
      word = 0;
      EXPECT_EQ(r.rank->recv(message_from(0, 1, &word, sizeof word)).code, Code::kOk);
      EXPECT_EQ(word, 5);
    }
  });
}

/// A nonblocking barrier that tells when it has ended.
class Barrier final : public engine::CollectiveCall {
 public:
  explicit Barrier(std::shared_ptr<engine::Collectives> of) : CollectiveCall(std::move(of), Kind::kNonblocking) {}
  [[nodiscard]] bool ended() const { return ended_.load_relaxed() != 0; }

 private:
  void end(Code code) override { ended_.store_relaxed(code == Code::kOk ? 1 : 0); }
  Atomic<uint32_t> ended_{0};
};

// Collectives that are under way go on, also when calls of the host nest and follow each other.
TEST_P(AwayRank, CollectivesGoOn) {
  run_engine(2, config_in(GetParam().world), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    const engine::CommRanks ranks{1, self, all_ranks(2), {}, coll::Layout::one_node(2)};
    const coll::Precedence precedence{};
    const auto of = std::make_shared<engine::Collectives>(*r.rank, ranks, precedence);
    for (uint32_t round = 0; round < 200; ++round) {
      Barrier barrier(of);
      barrier.problem.collective = coll::Collective::kBarrier;
      ASSERT_TRUE(barrier.ready().ok());
      const bool is_first = round % 2 == self;  // and in the host when the other one comes
      if (!is_first) {
        ASSERT_TRUE(world.barrier().ok());
      }
      barrier.start();
      r.rank->enter_host();
      r.rank->enter_host();
      r.rank->leave_host();
      if (is_first) {
        ASSERT_TRUE(world.barrier().ok());
      }
      const uint64_t stop = os::now_ns() + 10'000'000'000;
      while (!barrier.ended()) ASSERT_LT(os::now_ns(), stop) << "round " << round;
      r.rank->leave_host();
      r.rank->wait_until([&] { return barrier.look(); });
    }
    EXPECT_EQ(stat(*r.rank, "helper_started"), 1U);
    r.rank->quiesce();
  });
}

INSTANTIATE_TEST_SUITE_P(All, AwayRank,
                         ::testing::Values(AwayCase{World::kThreads, true}, AwayCase{World::kThreads, false},
                                           AwayCase{World::kProcesses, true}, AwayCase{World::kProcesses, false}),
                         away_case_name);

}  // namespace
}  // namespace zh::test
