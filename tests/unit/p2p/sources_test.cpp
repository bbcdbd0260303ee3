// Whose rings a rank looks at: few of many, and no message is missed.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "os/yield.h"
#include "p2p/endpoint.h"
#include "support/fork_world.h"

namespace zh::p2p {
namespace {

using test::TestBootstrap;
using test::World;

constexpr uint64_t kContext = 5;

struct Peer {
  std::unique_ptr<node::Node> node;
  std::unique_ptr<Endpoint> endpoint;

  [[nodiscard]] bool open(TestBootstrap& world, uint32_t polled_senders) {
    node::JoinConfig nodes;
    nodes.measure_line = false;
    nodes.rank_bytes = 8 << 20;
    EndpointConfig config;
    config.polled_senders = polled_senders;
    return node::Node::join(world, nodes, &node).ok() && Endpoint::open(*node, config, &endpoint).ok() &&
           world.barrier().ok();
  }
  void send(uint32_t dest) {
    uint64_t token = node->self();
    SendArgs args;
    args.dest = dest;
    args.source = static_cast<int32_t>(node->self());
    args.context = kContext;
    args.data = {reinterpret_cast<std::byte*>(&token), sizeof token, nullptr};
    Request* request = endpoint->sends().isend(args);
    ASSERT_NE(request, nullptr);
    while (request->done.load_acquire() == 0) turn();
    endpoint->release(request);
  }
  /// Whose message came.
  uint32_t receive() {
    uint64_t token = ~uint64_t{0};
    RecvArgs args;
    args.context = kContext;
    args.buffer = {reinterpret_cast<std::byte*>(&token), sizeof token, nullptr};
    Request* request = endpoint->receives().irecv(args);
    EXPECT_NE(request, nullptr);
    while (request->done.load_acquire() == 0) turn();
    EXPECT_EQ(static_cast<uint32_t>(request->result.source), token);
    endpoint->release(request);
    return static_cast<uint32_t>(token);
  }
  void turn() {
    if (!endpoint->turn()) os::yield_cpu();
  }
};

TEST(Sources, ATurnLooksAtFewRingsOfMany) {
  constexpr int kRanks = 20;
  constexpr uint32_t kPolled = 4;
  constexpr int kRounds = 20;
  test::run_ranks(World::kThreads, kRanks, [&](TestBootstrap& world) {
    Peer me;
    ASSERT_TRUE(me.open(world, kPolled));
    for (int round = 0; round < kRounds; ++round) {
      if (world.rank() != 0) {
        me.send(0);
      } else {
        std::vector<int> heard(kRanks);
        for (int i = 1; i < kRanks; ++i) ++heard[me.receive()];
        for (int i = 1; i < kRanks; ++i) EXPECT_EQ(heard[static_cast<size_t>(i)], 1) << "of rank " << i;
        // A late bell opens its ring for one more turn.
        for (int i = 0; i < 3; ++i) EXPECT_FALSE(me.endpoint->turn());
        EXPECT_EQ(me.endpoint->open_rings(), kPolled) << "after round " << round;
      }
      ASSERT_TRUE(world.barrier().ok());
    }
  });
}

// As of senders that were stopped between a message and its bell: each turn looks at one ring that is silent.
TEST(Sources, SilentRingsAreLookedAtInTurn) {
  constexpr int kRanks = 5;
  test::run_ranks(World::kThreads, kRanks, [&](TestBootstrap& world) {
    Peer me;
    ASSERT_TRUE(me.open(world, 0));
    for (int round = 0; round < 3; ++round) {
      if (world.rank() != 0) me.send(0);
      ASSERT_TRUE(world.barrier().ok());
      if (world.rank() == 0) {
        EXPECT_NE(me.endpoint->part().bells(kRanks)->take(), 0u);
        int turns = 0;
        while (turns < kRanks && me.endpoint->turn()) ++turns;
        EXPECT_EQ(turns, kRanks - 1);
        for (int i = 1; i < kRanks; ++i) me.receive();
      }
      ASSERT_TRUE(world.barrier().ok());
    }
  });
}

}  // namespace
}  // namespace zh::p2p
