// What a wait tells to whoever looks at the job from outside: for whom, for which message, in which call.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <thread>

#include "os/clock.h"
#include "p2p/part.h"
#include "team_support.h"

namespace zh::test {
namespace {

using p2p::Activity;
using Waits = p2p::Activity::Waits;

constexpr uint64_t kContext = 77;
constexpr uint16_t kCall = 9;

const p2p::ActivityShm& activity_of(const node::Node& node, uint32_t rank) {
  return at<p2p::PartShm>(node.base(), node.part(rank))->activity;
}

/// What a rank tells, once `is` is true of it; what it told last if that takes too long.
Activity told(const node::Node& node, uint32_t rank, const std::function<bool(const Activity&)>& is) {
  Activity seen;
  for (const uint64_t from = os::now_ns(); os::now_ns() - from < 20'000'000'000;) {
    if (activity_of(node, rank).read(&seen) && is(seen)) break;
    std::this_thread::yield();
  }
  return seen;
}
Activity told_wait(const node::Node& node, uint32_t rank) {
  return told(node, rank, [](const Activity& a) { return a.waits != Waits::kNot; });
}

class Waiting : public ::testing::TestWithParam<World> {};

TEST_P(Waiting, TellsOfTheMessageThatAReceiveWaitsFor) {
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    r.rank->name_context(kContext, "a communicator with a long name");
    std::array<std::byte, 100> data{};
    if (self == 1) {
      r.rank->called(kCall);
      RecvArgs args = message_from(0, 5, data.data(), data.size());
      args.context = kContext;
      EXPECT_EQ(r.rank->recv(args).code, Code::kOk);
    } else {
      const uint64_t before = os::now_ns();
      const Activity seen = told_wait(*r.node, 1);
      EXPECT_EQ(seen.waits, Waits::kForMessage);
      EXPECT_EQ(seen.call, kCall);
      EXPECT_EQ(seen.requests, 1U);
      EXPECT_EQ(seen.tag, 5);
      EXPECT_EQ(seen.bytes, data.size());
      EXPECT_EQ(seen.context, kContext);
      EXPECT_EQ(seen.comm_name(), "a communicator with a lo");
      ASSERT_EQ(seen.peers_told, 1U);
      EXPECT_EQ(seen.peers[0], 0);
      EXPECT_FALSE(seen.any);
      EXPECT_LE(seen.began_ns, seen.still_ns);
      EXPECT_LT(seen.still_ns, os::now_ns());
      EXPECT_GT(seen.began_ns + 10'000'000'000, before);
      SendArgs args = message_to(1, 0, 5, data.data(), data.size());
      args.context = kContext;
      EXPECT_EQ(r.rank->send(args).code, Code::kOk);
      const Activity after = told(*r.node, 1, [](const Activity& a) { return a.waits == Waits::kNot; });
      EXPECT_EQ(after.waits, Waits::kNot) << "a wait that is over is told no longer";
    }
    ASSERT_TRUE(world.barrier().ok());
  });
}

TEST_P(Waiting, TellsOfTheReceiverThatASendWaitsFor) {
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::byte data{};
    if (self == 1) {
      EXPECT_EQ(r.rank->send(message_to(0, 1, 6, &data, 1, p2p::SendMode::kSynchronous)).code, Code::kOk);
    } else {
      const Activity seen = told_wait(*r.node, 1);
      EXPECT_EQ(seen.waits, Waits::kForReceive);
      EXPECT_EQ(seen.tag, 6);
      EXPECT_EQ(seen.bytes, 1U);
      ASSERT_EQ(seen.peers_told, 1U);
      EXPECT_EQ(seen.peers[0], 0);
      EXPECT_EQ(r.rank->recv(message_from(1, 6, &data, 1)).code, Code::kOk);
    }
    ASSERT_TRUE(world.barrier().ok());
  });
}

TEST_P(Waiting, TellsNothingOfASendThatWasCompleteAtOnce) {
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::byte data{};
    if (self == 0) {
      Request* sent = r.rank->isend(message_to(1, 0, 6, &data, 1));
      ASSERT_TRUE(r.rank->done(sent));
      Activity told;
      r.rank->tell(sent, &told);
      EXPECT_EQ(told.waits, Waits::kNot);
      r.rank->release(sent);
    } else {
      EXPECT_EQ(r.rank->recv(message_from(0, 6, &data, 1)).code, Code::kOk);
    }
    ASSERT_TRUE(world.barrier().ok());
  });
}

TEST_P(Waiting, TellsThatAnyoneMayEndIt) {
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::byte data{};
    if (self == 1) {
      RecvArgs args = message_from(p2p::kAnySource, p2p::kAnyTag, &data, 1);
      args.peer = p2p::kAnyPeer;
      Request* request = r.rank->irecv(args);
      r.rank->wait(request);
      r.rank->release(request);
    } else {
      const Activity seen = told_wait(*r.node, 1);
      EXPECT_EQ(seen.waits, Waits::kForMessage);
      EXPECT_TRUE(seen.any);
      EXPECT_EQ(seen.peers_told, 0U);
      EXPECT_EQ(seen.tag, p2p::kAnyTag);
      EXPECT_EQ(r.rank->send(message_to(1, 0, 6, &data, 1)).code, Code::kOk);
    }
    ASSERT_TRUE(world.barrier().ok());
  });
}

// Ranks 0 and 1 are there; only for rank 2 anybody waits.
TEST_P(Waiting, TellsOfTheMemberThatHasNotCome) {
  run_engine(3, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    const std::unique_ptr<Team> team = r.rank->make_team(11, {0, 1, 2}, self);
    ASSERT_TRUE(team->ready());
    r.rank->called(kCall, kContext);
    if (self == 2) {
      for (const uint32_t rank : {0U, 1U}) {
        const Activity seen =
            told(*r.node, rank, [](const Activity& a) { return a.peers_told == 1 && a.peers[0] == 2; });
        EXPECT_EQ(seen.waits, Waits::kForMembers);
        EXPECT_EQ(seen.call, kCall);
        EXPECT_EQ(seen.context, kContext);
        ASSERT_EQ(seen.peers_told, 1U) << rank;
        EXPECT_EQ(seen.peers[0], 2) << rank;
      }
    }
    EXPECT_EQ(team->barrier(), Code::kOk);
    ASSERT_TRUE(world.barrier().ok());
  });
}

TEST_P(Waiting, TellsOfTheCallOfTheHost) {
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    if (self == 1) {
      r.rank->enter_host(kCall);
      r.rank->enter_host(kCall + 1);
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_TRUE(world.barrier().ok());
      r.rank->leave_host();
      r.rank->leave_host();
      ASSERT_TRUE(world.barrier().ok());
    } else {
      ASSERT_TRUE(world.barrier().ok());
      uint64_t since = 0;
      EXPECT_EQ(activity_of(*r.node, 1).host_function(&since), kCall) << "the outer one";
      EXPECT_LE(since, os::ticks());
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_TRUE(world.barrier().ok());
      EXPECT_EQ(activity_of(*r.node, 1).host_function(&since), 0U);
    }
    ASSERT_TRUE(world.barrier().ok());
  });
}

TEST_P(Waiting, IsTimedIfAskedFor) {
  constexpr uint64_t kLateNs = 20'000'000;
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::byte data{};
    r.rank->time_waits();
    ASSERT_TRUE(world.barrier().ok());
    if (self == 0) {
      compute(kLateNs);
      EXPECT_EQ(r.rank->send(message_to(1, 0, 6, &data, 1)).code, Code::kOk);
    } else {
      EXPECT_EQ(r.rank->recv(message_from(0, 6, &data, 1)).code, Code::kOk);
      const p2p::TimedCount& waits = r.rank->account().waits[static_cast<size_t>(Waits::kForMessage)];
      EXPECT_EQ(waits.times, 1U);
      EXPECT_GT(waits.ticks, os::ticks_in_us(kLateNs / 2000.0));
    }
    ASSERT_TRUE(world.barrier().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, Waiting, ::testing::Values(World::kThreads, World::kProcesses), world_name);

// One writes, one reads: what is read is one of those that were written.
TEST(ActivityShm, IsReadAsAWhole) {
  constexpr int kTimes = 100'000;
  const auto shm = std::make_unique<p2p::ActivityShm>();
  Atomic<uint32_t> over{0};
  std::thread writer([&] {
    for (int32_t i = 1; i <= kTimes; ++i) {
      Activity a;
      a.tag = i;
      a.bytes = a.context = a.began_ns = a.still_ns = static_cast<uint64_t>(i);
      a.peers.fill(i);
      shm->tell(a);
    }
    over.store_relaxed(1);
  });
  uint64_t read = 0;
  while (over.load_relaxed() == 0 || read == 0) {
    Activity a;
    if (!shm->read(&a) || a.bytes == 0) continue;
    ++read;
    const auto i = static_cast<int32_t>(a.bytes);
    const bool whole = a.tag == i && a.context == a.bytes && a.still_ns == a.bytes && a.peers.back() == i;
    ASSERT_TRUE(whole) << a.tag << " and " << i;
  }
  writer.join();
}

}  // namespace
}  // namespace zh::test
