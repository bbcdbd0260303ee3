// Standard sends whose receiver waits for something else: hosts take any number of small ones, so programs count on it
// (MPI standard 3.5 calls them unsafe, not wrong).
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>

#include <vector>

#include "engine_support.h"
#include "os/clock.h"
#include "support/fake_heap.h"

namespace zh::test {
namespace {

struct BufferingCase {
  uint64_t bytes;
  int count;
};

using Bytes = std::span<std::byte>;

void fill(Bytes data, uint32_t sender, int i) {
  std::fill(data.begin(), data.end(), static_cast<std::byte>(i * 7 + static_cast<int>(sender) + 1));
}

void receive(engine::Rank& rank, uint32_t sender, int i, Bytes data) {
  std::fill(data.begin(), data.end(), std::byte{0});
  ASSERT_EQ(rank.recv(message_from(static_cast<int32_t>(sender), i, data.data(), data.size())).code, Code::kOk);
  std::vector<std::byte> wanted(data.size());
  fill(wanted, sender, i);
  ASSERT_TRUE(std::equal(data.begin(), data.end(), wanted.begin())) << "message " << i << " of rank " << sender;
}

class Buffering : public ::testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Worlds, Buffering, ::testing::Values(World::kThreads, World::kProcesses), world_name);

TEST_P(Buffering, HeadToHead) {
  for (const bool mapped : {false, true}) {
    for (const BufferingCase& c : {BufferingCase{1000, 2000}, BufferingCase{16'000, 600}, BufferingCase{100'000, 60},
                                   BufferingCase{200'000, 40}}) {
      if (mapped && c.bytes < 4096) continue;
      run_ranks(GetParam(), 2, [&](TestBootstrap& world) {
        std::unique_ptr<FakeHeap> heap;
        StormConfig config = config_in(GetParam());
        if (mapped) {
          heap = std::make_unique<FakeHeap>(uint64_t{8} << 20);
          config.heap = heap.get();
        }
        EngineRank r = make_rank(world, config);
        ASSERT_NE(r.rank, nullptr);
        const uint32_t self = r.node->self();
        std::vector<std::byte> own(c.bytes);
        const Bytes data = mapped ? Bytes(heap->take(c.bytes), c.bytes) : Bytes(own);
        if (mapped) heap->use_twice(data.data(), data.size());
        for (int i = 0; i < c.count; ++i) {
          fill(data, self, i);
          ASSERT_EQ(r.rank->send(message_to(1 - self, self, i, data.data(), data.size())).code, Code::kOk);
        }
        for (int i = 0; i < c.count; ++i) receive(*r.rank, 1 - self, i, data);
        if (::testing::Test::HasFatalFailure()) return;
        ASSERT_TRUE(world.barrier().ok());
        while (r.rank->pending_sends() != 0) r.rank->progress();
        ASSERT_TRUE(world.barrier().ok());
      });
    }
  }
}

// The address sanitizer's build finds what is left.
TEST_P(Buffering, CopiesThatNobodyTookGoWithTheirRank) {
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::vector<std::byte> data(200'000);
    for (int i = 0; i < 400 && r.rank->pending_sends() == 0; ++i) {  // until cells hold no more
      fill(data, self, i);
      ASSERT_EQ(r.rank->send(message_to(1 - self, self, i, data.data(), data.size())).code, Code::kOk);
    }
    ASSERT_TRUE(world.barrier().ok());
    EXPECT_GT(r.rank->pending_sends(), 0U);
  });
}

TEST_P(Buffering, AReceiverThatWaitsForAThirdRank) {
  run_engine(3, config_in(GetParam()), [&](TestBootstrap&, EngineRank& r, uint32_t self) {
    constexpr int kMessages = 1500;
    constexpr int kGo = kMessages;
    std::vector<std::byte> data(8000);
    std::vector<std::byte> go(1);
    if (self == 0) {
      for (int i = 0; i < kMessages; ++i) {
        fill(data, 0, i);
        ASSERT_EQ(r.rank->send(message_to(1, 0, i, data.data(), data.size())).code, Code::kOk);
      }
      fill(go, 0, kGo);
      ASSERT_EQ(r.rank->send(message_to(2, 0, kGo, go.data(), go.size())).code, Code::kOk);
    } else if (self == 2) {
      receive(*r.rank, 0, kGo, go);
      fill(go, 2, kGo);
      ASSERT_EQ(r.rank->send(message_to(1, 2, kGo, go.data(), go.size())).code, Code::kOk);
    } else {
      receive(*r.rank, 2, kGo, go);
      for (int i = 0; i < kMessages; ++i) receive(*r.rank, 0, i, data);
    }
    if (::testing::Test::HasFatalFailure()) return;
    while (r.rank->pending_sends() != 0) r.rank->progress();
  });
}

// The copies are still with the sender when it stops calling the library; its helper brings them.
TEST_P(Buffering, ASenderThatGoesAwayAfterwards) {
  StormConfig config = config_in(GetParam());
  config.cma = false;  // or the receiver fetches them
  run_engine(2, config, [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    constexpr int kMessages = 3000;
    std::vector<std::byte> data(4000);
    if (self == 0) {
      for (int i = 0; i < kMessages; ++i) {
        fill(data, 0, i);
        ASSERT_EQ(r.rank->send(message_to(1, 0, i, data.data(), data.size())).code, Code::kOk);
      }
      EXPECT_GT(stat(*r.rank, "buffered_messages"), 0U);
      ASSERT_TRUE(world.barrier().ok());  // the receiver begins
      ASSERT_TRUE(world.barrier().ok());  // and has them all
    } else {
      ASSERT_TRUE(world.barrier().ok());
      for (int i = 0; i < kMessages; ++i) receive(*r.rank, 0, i, data);
      ASSERT_TRUE(world.barrier().ok());
    }
    r.rank->quiesce();
  });
}

TEST_P(Buffering, ASynchronousSendWaitsForItsReceive) {
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::vector<std::byte> data(1000);
    if (self == 0) {
      fill(data, 0, 0);
      engine::Request* request =
          r.rank->isend(message_to(1, 0, 0, data.data(), data.size(), p2p::SendMode::kSynchronous));
      const uint64_t end = os::now_ns() + 20'000'000;
      while (os::now_ns() < end) ASSERT_FALSE(r.rank->test(request));
      ASSERT_TRUE(world.barrier().ok());
      finish(*r.rank, request);
    } else {
      ASSERT_TRUE(world.barrier().ok());
      receive(*r.rank, 0, 0, data);
    }
  });
}

}  // namespace
}  // namespace zh::test
