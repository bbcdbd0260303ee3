// What the ranks of a crash test do, and how those that survive come to an end. Used by the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/rank.h"
#include "node/node.h"
#include "os/clock.h"
#include "os/yield.h"
#include "p2p/part.h"
#include "p2p/queues.h"
#include "shm/envelope_ring.h"
#include "support/fork_world.h"

namespace zh::test {

using engine::Rank;
using engine::RecvArgs;
using engine::Request;
using engine::SendArgs;

constexpr int kRanks = 3;
constexpr int kVictim = 1;
constexpr int kRounds = 5000;  // a point that the scheduler hides for long is reached in the end
constexpr uint64_t kSizes[] = {8, 4000, 120'000, 700'000};
constexpr uint64_t kLargest = 700'000;

struct Case {
  const char* point;
  bool cma;
  bool away = false;   ///< the peers compute a while in each round, so that their queues are turned for them
  uint32_t burst = 0;  ///< small messages in a row, to fill a ring
  int later_hit = 4;   ///< the point kills at its first hit, and in a second run at this one
  engine::WaitPolicy wait = engine::WaitPolicy::kAuto;
  uint32_t polled_senders = 8;  ///< see p2p::EndpointConfig
  p2p::Ablations ablations = {};
};

/// Has this rank join its node without measuring anything; false where that fails, which is told.
inline bool join(TestBootstrap& world, engine::Config config, std::unique_ptr<node::Node>* node,
                 std::unique_ptr<Rank>* rank) {
  node::JoinConfig nodes;
  nodes.measure_line = false;
  nodes.cma = config.cma;
  nodes.rank_bytes = 32 << 20;
  config.calibrate = false;
  Status status = node::Node::join(world, nodes, node);
  if (status.ok()) status = Rank::create(**node, world, config, rank);
  EXPECT_TRUE(status.ok()) << status.what();
  return status.ok();
}

/// Runs `act` on `n` ranks, which have joined their node; the victim may die.
template <typename Act>
void with_ranks(int n, const engine::Config& config, const Act& act) {
  run_ranks(World::kProcesses, n,
            [&](TestBootstrap& world) {
              std::unique_ptr<node::Node> node;
              std::unique_ptr<Rank> rank;
              ASSERT_TRUE(join(world, config, &node, &rank));
              act(world, *rank);
            },
            {.timeout_s = 30, .may_die = kVictim});
}

inline void compute(uint64_t ns) {
  const uint64_t end = os::now_ns() + ns;
  while (os::now_ns() < end) os::yield_cpu();
}

/// The lock of a rank's queues, for one that lives. False where a dead one holds it: then nobody enters any more.
inline bool lock_queues(node::Node& node, p2p::QueuesShm& queues) {
  while (!queues.lock.try_lock(node.self())) {
    const uint32_t holder = queues.lock.holder();
    if (queues.broken.load_relaxed() != 0 || (holder != 0 && !node.alive(holder - 1))) return false;
    os::yield_cpu();
  }
  return true;
}

/// What a dead rank has left is whole, and so is what the living go on with, at any moment. `coarse`: one lock is that
/// of all queues.
inline void expect_whole(node::Node& node, bool coarse = false) {
  const uint32_t n = node.size();
  for (uint32_t i = 0; i < n; ++i) {
    auto& part = *at<p2p::PartShm>(node.base(), node.part(i));
    EXPECT_STREQ(part.broken_invariant(n), nullptr) << "of rank " << i;
    if (i == node.self() || !node.alive(i)) {
      EXPECT_STREQ(part.account.broken_invariant(), nullptr) << "of rank " << i;
    }
    p2p::QueuesShm& guard = at<p2p::PartShm>(node.base(), node.part(coarse ? 0 : i))->queues;
    if (!lock_queues(node, guard)) continue;
    EXPECT_STREQ(p2p::Queues(node.base(), &part.queues, nullptr).broken_invariant(), nullptr) << "of rank " << i;
    for (uint32_t sender = 0; sender < n; ++sender) {
      const Offset ring = part.in()[sender].load_acquire();
      if (ring == kNoOffset) continue;
      EXPECT_STREQ(at<shm::EnvelopeRingShm>(node.base(), ring)->broken_invariant(), nullptr)
          << "from rank " << sender << " to rank " << i;
    }
    guard.lock.unlock();
  }
}

class Survivor {
 public:
  Survivor(Rank& rank, const Case& c) : rank_(rank), case_(c), self_(rank.node().self()) {
    in_.resize(kRanks * std::size(kSizes), std::vector<std::byte>(kLargest));
    out_.assign(kLargest, std::byte(self_ + 1));
  }

  /// Exchanges with every peer until a peer is dead or all rounds are over; true in the latter case.
  bool rounds() {
    for (int round = 0; round < kRounds; ++round) {
      start(round);
      if (case_.away && self_ != kVictim) compute(300'000);
      bool dead = false;
      while (!requests_.empty()) {
        Request* r = requests_.back();
        dead = !wait(r, dead) || dead;
        requests_.pop_back();
      }
      if (dead) return false;
    }
    return true;
  }

  /// The survivors find each other, or learn that they cannot; both are an end.
  void farewell() {
    expect_whole(rank_.node(), case_.ablations.coarse_lock);
    std::byte token{7}, got{};
    const auto other = static_cast<uint32_t>(kRanks - kVictim - static_cast<int>(self_));
    Request* in = rank_.irecv(recv_args(other, 99, &got, 1));
    Request* out = rank_.isend(send_args(other, 99, &token, 1));
    rank_.wait(in);
    rank_.wait(out);
    const Code code = rank_.result(in).code;
    EXPECT_TRUE(code == Code::kPeerDead || (code == Code::kOk && got == token)) << static_cast<int>(code);
    rank_.release(in);
    rank_.release(out);
    // What is started after the death ends as well.
    Request* late = rank_.irecv(recv_args(kVictim, 98, &got, 1));
    rank_.wait(late);
    EXPECT_EQ(rank_.result(late).code, Code::kPeerDead);
    rank_.release(late);
    std::vector<std::byte> big(kLargest);
    late = rank_.isend(send_args(kVictim, 98, big.data(), kLargest));
    rank_.wait(late);
    EXPECT_EQ(rank_.result(late).code, Code::kPeerDead);
    rank_.release(late);
    expect_whole(rank_.node(), case_.ablations.coarse_lock);
  }

 private:
  SendArgs send_args(uint32_t dest, int32_t tag, std::byte* data, uint64_t n) const {
    SendArgs a;
    a.dest = dest;
    a.source = static_cast<int32_t>(self_);
    a.tag = tag;
    a.context = 5;
    a.data = {data, n, nullptr};
    return a;
  }
  static RecvArgs recv_args(uint32_t source, int32_t tag, std::byte* data, uint64_t n) {
    RecvArgs a;
    a.peer = a.source = static_cast<int32_t>(source);
    a.tag = tag;
    a.context = 5;
    a.buffer = {data, n, nullptr};
    return a;
  }

  void start(int round) {
    const bool receives_first = (round + static_cast<int>(self_)) % 2 == 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (uint32_t p = 0; p < kRanks; ++p) {
        if (p == self_) continue;
        for (size_t i = 0; i < std::size(kSizes); ++i) {
          if ((pass == 0) == receives_first) {
            requests_.push_back(
                rank_.irecv(recv_args(p, static_cast<int32_t>(i), in_[p * std::size(kSizes) + i].data(), kSizes[i])));
          } else {
            requests_.push_back(rank_.isend(send_args(p, static_cast<int32_t>(i), out_.data(), kSizes[i])));
          }
        }
        for (uint32_t b = 0; b < case_.burst; ++b) {
          if ((pass == 0) == receives_first) {
            requests_.push_back(rank_.irecv(recv_args(p, 50, in_[p].data(), kLargest)));
          } else {
            requests_.push_back(rank_.isend(send_args(p, 50, out_.data(), 8)));
          }
        }
      }
    }
  }

  // Ends one request: by waiting, or, after a death, by cancelling what will not happen any more.
  bool wait(Request* r, bool dead) {
    if (!dead) {
      // All that concerns the victim may be over, while the other survivor has been told and has given up the rest.
      rank_.wait_until([&] { return rank_.done(r) || any_dead() || !rank_.node().alive(kVictim); });
    }
    if (!rank_.done(r) && !rank_.cancel(r)) rank_.wait(r);
    const engine::Result result = rank_.result(r);
    rank_.release(r);
    EXPECT_TRUE(result.cancelled || result.code == Code::kOk || result.code == Code::kPeerDead);
    return !result.cancelled && result.code == Code::kOk;
  }
  [[nodiscard]] bool any_dead() const {
    return std::any_of(requests_.begin(), requests_.end(),
                       [&](Request* r) { return rank_.done(r) && rank_.result(r).code == Code::kPeerDead; });
  }

  Rank& rank_;
  const Case& case_;
  uint32_t self_;
  std::vector<std::vector<std::byte>> in_;
  std::vector<std::byte> out_;
  std::vector<Request*> requests_;
};

inline std::set<std::string> shared_files() {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& e : std::filesystem::directory_iterator("/dev/shm", error)) {
    if (e.path().filename().string().find("zerohop") != std::string::npos) names.insert(e.path().string());
  }
  return names;
}

/// A run for each of `hits` at which the victim dies at `point`; then nothing is left.
template <typename Run>
void at_hits(const std::string& point, std::initializer_list<int> hits, const Run& run) {
  const auto before = shared_files();
  for (const int hit : hits) {
    SCOPED_TRACE(point + ", hit " + std::to_string(hit));
    run(hit);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(shared_files(), before);
}

}  // namespace zh::test
