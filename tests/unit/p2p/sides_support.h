// The parts of an Endpoint, each for itself, of two ranks that one thread plays: nothing happens but what a test calls.
// A rank is away, so that its peer may turn its queues, until a test says that it is there. There is no kernel's copy.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "os/clock.h"
#include "p2p/eager.h"
#include "p2p/matcher.h"
#include "p2p/receiver.h"
#include "p2p/rendezvous.h"
#include "p2p/sender.h"
#include "support/fork_world.h"

namespace zh::p2p::test {

constexpr uint64_t kContext = 5;

inline copy::Buffer buffer(std::vector<int>& data) {
  return {reinterpret_cast<std::byte*>(data.data()), data.size() * sizeof(int), nullptr};
}

inline EndpointConfig without_kernel() {
  EndpointConfig config;
  config.cma = false;
  config.skew = 0;
  return config;
}

/// One rank; the other one is its peer.
struct Side final : copy::MemoryObserver {
  Side(node::Node& node, const EndpointConfig& config)
      : channels(node, config),
        memory(node, {false, nullptr, nullptr}, *this),
        requests(channels.arena()),
        matcher(channels, requests),
        eager(channels),
        rendezvous(channels, requests, memory),
        receiver(channels, requests, matcher, eager, rendezvous),
        sender(channels, requests, memory, matcher, eager, rendezvous) {}
  void first_use() override {}
  void kernel_copy_ended(uint32_t, const Status&, uint64_t, uint64_t) override {}
  void cannot_map(uint32_t) override {}
  void accessed(copy::Reach, uint32_t, uint64_t) override {}

  [[nodiscard]] uint32_t peer() const { return 1 - channels.self(); }
  [[nodiscard]] Channel& to_peer() { return channels[peer()]; }
  void is_there() {
    channels.part().state.inside.store_relaxed(1);
    channels.part().state.stamp.store_relaxed(os::ticks() + (uint64_t{1} << 50));
  }

  [[nodiscard]] SendArgs to(int32_t tag, std::vector<int>& data, SendMode mode = SendMode::kStandard,
                            uint64_t context = kContext) const {
    return {peer(), static_cast<int32_t>(channels.self()), tag, context, buffer(data), mode};
  }
  [[nodiscard]] RecvArgs from(int32_t source, int32_t tag, std::vector<int>& data, uint64_t context = kContext) const {
    return {source, source, tag, context, buffer(data)};
  }
  /// A small message, which has to find room.
  void put(int32_t tag, int value, uint64_t context = kContext) {
    std::vector<int> data{value};
    ASSERT_TRUE(eager.send(to_peer(), to(tag, data, SendMode::kStandard, context), 64));
  }
  /// All that has arrived becomes unexpected, or goes to receives that were posted.
  void drain() {
    bool moved = true;
    while (moved) ASSERT_TRUE(matcher.drain(peer(), &moved));
  }
  /// One turn of this rank.
  void turn() {
    receiver.collect();
    rendezvous.advance_receives();
    rendezvous.advance_sends();
    sender.advance_queued();
  }

  Channels channels;
  copy::PeerMemory memory;
  Requests requests;
  Matcher matcher;
  Eager eager;
  Rendezvous rendezvous;
  Receiver receiver;
  Sender sender;
};

/// Two ranks of one process.
class Sides : public ::testing::Test {
 protected:
  void SetUp() override {
    zh::test::run_ranks(zh::test::World::kThreads, 2, [this](zh::test::TestBootstrap& world) {
      node::JoinConfig config;
      config.measure_line = false;
      config.rank_bytes = 8 << 20;
      ASSERT_TRUE(node::Node::join(world, config, &nodes_[world.rank()]).ok());
    });
    for (int i = 0; i < 2; ++i) {
      sides_[i] = std::make_unique<Side>(*nodes_[i], config_);
      ASSERT_TRUE(sides_[i]->channels.open().ok());
    }
    for (const auto& side : sides_) {
      std::vector<shm::AccessShm*> words;
      for (const Channel& peer : side->channels) words.push_back(&peer.part->access);
      side->memory.attach(std::move(words));
      ASSERT_TRUE(side->matcher.open().ok());
    }
  }
  /// Rank 0 sends, rank 1 receives.
  Side& sends() { return *sides_[0]; }
  Side& receives() { return *sides_[1]; }
  EndpointConfig config_ = without_kernel();  ///< to be changed before SetUp()

 private:
  std::unique_ptr<node::Node> nodes_[2];
  std::unique_ptr<Side> sides_[2];
};

}  // namespace zh::p2p::test
