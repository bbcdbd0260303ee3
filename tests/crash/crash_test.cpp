// A rank is killed between a claim and its publication, at every such point of the protocols. Its peers must end every
// operation - done, or with kPeerDead - within a bounded time, must still reach each other or be told that they cannot,
// and nothing may be left in /dev/shm.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "coll/team/team.h"
#include "engine/nonblocking_on_node.h"
#include "engine/rank.h"
#include "fatal_point.h"
#include "node/node.h"
#include "os/clock.h"
#include "os/yield.h"
#include "p2p/part.h"
#include "support/fake_heap.h"
#include "survivor.h"

namespace zh::test {
namespace {

class Crash : public ::testing::TestWithParam<Case> {};

TEST_P(Crash, PeersEndAndNothingIsLeft) {
  const Case c = GetParam();
  at_hits(c.point, {1, c.later_hit}, [&](int hit) {
    engine::Config config;
    config.cma = c.cma;
    config.single_copy_min = 64 << 10;
    config.wait = c.wait;
    config.polled_senders = c.polled_senders;
    config.ablations = c.ablations;
    with_ranks(kRanks, config, [&](TestBootstrap& world, Rank& rank) {
      Survivor me(rank, c);
      if (world.rank() == kVictim) {
        die_at(c.point, hit);
        me.rounds();
        ADD_FAILURE() << "the point was never reached";
        return;
      }
      EXPECT_FALSE(me.rounds()) << "the victim lived";
      me.farewell();
    });
  });
}

struct TeamCase {
  const char* point;
  bool cma;
  bool mapped = false;
};

class CrashTeam : public ::testing::TestWithParam<TeamCase> {};

// Collectives small and large: whoever is in one with the victim is told so, also in the next one.
TEST_P(CrashTeam, OthersAreTold) {
  const TeamCase c = GetParam();
  at_hits(c.point, {1, 4}, [&](int hit) {
    run_ranks(World::kProcesses, kRanks,
              [&](TestBootstrap& world) {
                engine::Config config;
                config.cma = c.cma;
                config.copiers = 1;
                test::FakeHeap heap(16 << 20);
                if (c.mapped) config.heap = &heap;
                std::unique_ptr<node::Node> node;
                std::unique_ptr<Rank> rank;
                ASSERT_TRUE(join(world, config, &node, &rank));
                const auto team = rank->make_team(5, {0, 1, 2}, node->self());
                ASSERT_TRUE(team->ready());
                const coll::Reduction sum{8, simd::kernel(simd::Op::kSum, simd::Type::kInt64), nullptr, nullptr, true};
                constexpr size_t kElements = 20'000;
                std::vector<int64_t> own(2 * kElements);
                int64_t* const in =
                    c.mapped ? reinterpret_cast<int64_t*>(heap.take(2 * kElements * sizeof(int64_t))) : own.data();
                int64_t* const out = in + kElements;
                std::fill_n(in, kElements, 1);
                const bool victim = world.rank() == kVictim;
                if (victim) die_at(c.point, hit);
                Code code = Code::kOk;
                for (int round = 0; round < kRounds && code == Code::kOk; ++round) {
                  // Everybody is the last to arrive at times.
                  if (victim == (round % 2 == 0)) compute(200'000);
                  code = team->allreduce(in, out, 1, sum);
                  if (code == Code::kOk) code = team->allreduce(in, out, kElements, sum);
                  EXPECT_TRUE(code != Code::kOk || out[kElements - 1] == kRanks);
                  const copy::Buffer all{reinterpret_cast<std::byte*>(out), kElements * sizeof(int64_t), nullptr};
                  if (code == Code::kOk) code = team->bcast(all, static_cast<uint32_t>(round % kRanks));
                  if (code == Code::kOk) code = team->reduce(in, out, 1, sum, static_cast<uint32_t>(round % kRanks));
                }
                EXPECT_FALSE(victim) << "the point was never reached";
                EXPECT_EQ(code, Code::kPeerDead);
                EXPECT_EQ(team->barrier(), Code::kPeerDead);
                expect_whole(*node);
              },
              {.timeout_s = 30, .may_die = kVictim});
  });
}

class CrashStarted : public ::testing::TestWithParam<const char*> {};

/// Two calls under way at once, again and again, until one has an error; the last code.
Code start_until_error(Rank& rank, engine::NonblockingOnNode& small, uint64_t* number) {
  const coll::Reduction sum{8, simd::kernel(simd::Op::kSum, simd::Type::kInt64), nullptr, nullptr, true};
  coll::Problem problem;
  problem.self = rank.node().self();
  problem.count = 1;
  problem.element_bytes = 8;
  problem.layout = coll::Layout::one_node(kRanks);
  for (int round = 0; round < kRounds; ++round) {
    int64_t in = 1;
    int64_t out[2] = {};
    coll::NonblockingCall calls[2];
    for (int i = 0; i < 2; ++i) {
      problem.collective = i == 0 ? coll::Collective::kAllreduce : coll::Collective::kBcast;
      problem.root = static_cast<uint32_t>(round % kRanks);
      coll::Call buffers;
      buffers.input = &in;
      buffers.output = &out[i];
      buffers.how = sum;
      small.begin(problem, (*number)++, coll::digest(problem), buffers, &calls[i]);
    }
    rank.wait_until([&] {
      for (coll::NonblockingCall& call : calls)
        EXPECT_NE(small.advance(&call), engine::NonblockingOnNode::Progress::kUnserved);
      return calls[0].ended && calls[1].ended;
    });
    EXPECT_TRUE(calls[0].code != Code::kOk || out[0] == kRanks);
    for (const coll::NonblockingCall& call : calls) {
      if (call.code != Code::kOk) return call.code;
    }
  }
  return Code::kOk;
}

class CrashStaged : public ::testing::TestWithParam<const char*> {};

/// Allreduces of several rounds, until one has an error; the last code.
Code stage_until_error(Rank& rank, engine::NonblockingOnNode& large, uint64_t* number) {
  constexpr uint64_t kCount = 100'000;
  coll::Problem problem;
  problem.collective = coll::Collective::kAllreduce;
  problem.self = rank.node().self();
  problem.count = kCount;
  problem.element_bytes = 8;
  problem.layout = coll::Layout::one_node(kRanks);
  const std::vector<int64_t> in(kCount, 1);
  std::vector<int64_t> out(kCount, 0);
  for (int round = 0; round < kRounds; ++round) {
    coll::NonblockingCall call;
    coll::Call buffers;
    buffers.input = in.data();
    buffers.output = out.data();
    buffers.how = {8, simd::kernel(simd::Op::kSum, simd::Type::kInt64), nullptr, nullptr, true};
    large.begin(problem, (*number)++, coll::digest(problem), buffers, &call);
    rank.wait_until([&] {
      large.advance(&call);
      return call.ended;
    });
    EXPECT_FALSE(call.unserved);
    if (call.code != Code::kOk) return call.code;
    EXPECT_EQ(out.front() + out.back(), 2 * kRanks);
  }
  return Code::kOk;
}

using Kind = engine::NonblockingOnNode::Kind;
using UntilError = Code(Rank&, engine::NonblockingOnNode&, uint64_t*);

/// Without a point the victim dies before its first call.
void run_nonblocking(Kind kind, UntilError* until_error, const char* point, int hit) {
  with_ranks(kRanks, {}, [&](TestBootstrap& world, Rank& rank) {
    const auto members = std::make_shared<const std::vector<int32_t>>(std::vector<int32_t>{0, 1, 2});
    engine::NonblockingOnNode calls(rank, kind, 5, {*members, members}, rank.node().self());
    if (world.rank() == kVictim) {
      if (point == nullptr) kill(getpid(), SIGKILL);
      die_at(point, hit);
    }
    uint64_t number = 0;
    EXPECT_EQ(until_error(rank, calls, &number), Code::kPeerDead);
    EXPECT_NE(world.rank(), kVictim) << "the point was never reached";
    EXPECT_EQ(until_error(rank, calls, &number), Code::kPeerDead);
    expect_whole(rank.node());
  });
}

TEST_P(CrashStaged, OthersAreTold) {
  at_hits(GetParam(), {1, 4, 20},
          [&](int hit) { run_nonblocking(Kind::kStagedAnywhere, stage_until_error, GetParam(), hit); });
}

TEST_P(CrashStarted, OthersAreTold) {
  at_hits(GetParam(), {1, 50}, [&](int hit) { run_nonblocking(Kind::kSlots, start_until_error, GetParam(), hit); });
}

TEST(CrashStartedEarly, OthersAreToldWhoWaitToKnowEachOther) {
  run_nonblocking(Kind::kSlots, start_until_error, nullptr, 0);
}

// A receive from anybody, posted and blocking, does not wait for ever for a peer that is gone; nor does one that is
// started afterwards, or a probe. Where others are left, they are told once and can go on.
TEST(CrashWildcard, EndsWhenAPeerDies) {
  with_ranks(kRanks, {}, [&](TestBootstrap& world, Rank& rank) {
    constexpr uint64_t kAll = 5, kPair = 6, kOthers = 7, kKnown = 8;
    const auto self = static_cast<int32_t>(world.rank());
    const int32_t other = kRanks - kVictim - self;
    const int32_t pair[] = {self, kVictim};
    const int32_t others[] = {self, other};
    rank.name_members(kPair, pair);
    rank.name_members(kOthers, others);
    if (self == kVictim) {
      compute(20'000'000);
      kill(getpid(), SIGKILL);
    }
    std::byte got{};
    RecvArgs any;
    any.buffer = {&got, 1, nullptr};
    any.context = kOthers;
    Request* between_the_living = rank.irecv(any);
    any.context = kAll;
    if (self == 0) {
      EXPECT_EQ(rank.recv(any).code, Code::kPeerDead);
    } else {
      Request* posted = rank.irecv(any);
      rank.wait(posted);
      EXPECT_EQ(rank.result(posted).code, Code::kPeerDead);
      rank.release(posted);
    }
    // The death is known now. Who is left may still send, once both know that it is.
    engine::Result seen;
    EXPECT_FALSE(rank.iprobe(any, &seen));
    Request* again = rank.irecv(any);
    EXPECT_FALSE(rank.test(between_the_living));
    EXPECT_FALSE(rank.test(again));
    std::byte token{7};
    SendArgs send;
    send.dest = static_cast<uint32_t>(other);
    send.source = self;
    send.data = {&token, 1, nullptr};
    RecvArgs named = any;
    named.peer = named.source = other;
    for (const uint64_t context : {kKnown, kAll, kOthers}) {
      send.context = named.context = context;
      EXPECT_EQ(rank.send(send).code, Code::kOk);
      if (context != kKnown) continue;
      EXPECT_EQ(rank.recv(named).code, Code::kOk);
    }
    for (Request* r : {between_the_living, again}) {
      rank.wait(r);
      EXPECT_EQ(rank.result(r).code, Code::kOk);
      EXPECT_EQ(rank.result(r).source, other);
      rank.release(r);
    }
    // Nobody is left here.
    any.context = kPair;
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(rank.iprobe(any, &seen));
      EXPECT_EQ(seen.code, Code::kPeerDead);
      EXPECT_EQ(rank.improbe(any, &seen), nullptr);
      EXPECT_EQ(seen.code, Code::kPeerDead);
      EXPECT_EQ(rank.recv(any).code, Code::kPeerDead);
    }
    any.peer = any.source = kVictim;
    any.context = kAll;
    EXPECT_TRUE(rank.iprobe(any, &seen));
    EXPECT_EQ(seen.code, Code::kPeerDead);
  });
}

// What a sender published is received, though it died before its bell.
TEST(CrashWildcard, AMessageWithoutBellIsReceived) {
  for (const bool posted : {false, true}) {
    engine::Config config;
    config.polled_senders = 0;
    with_ranks(2, config, [&](TestBootstrap& world, Rank& rank) {
      std::byte token{7};
      if (world.rank() == kVictim) {
        SendArgs send;
        send.source = kVictim;
        send.context = 5;
        send.data = {&token, 1, nullptr};
        die_at("publish: not rung", 2);
        for (int i = 0; i < 2; ++i) EXPECT_EQ(rank.send(send).code, Code::kOk);
        ADD_FAILURE() << "the point was never reached";
        return;
      }
      // The death is seen before the rings are looked at.
      while (!rank.node().ended(kVictim)) os::yield_cpu();
      for (const Code expected : {Code::kOk, Code::kOk, Code::kPeerDead}) {
        std::byte got{};
        RecvArgs any;
        any.context = 5;
        any.buffer = {&got, 1, nullptr};
        if (posted) {
          Request* r = rank.irecv(any);
          rank.wait(r);
          EXPECT_EQ(rank.result(r).code, expected);
          rank.release(r);
        } else {
          EXPECT_EQ(rank.recv(any).code, expected);
        }
      }
    });
  }
}

// As a program that does nothing else: the probe itself finds out.
TEST(CrashWildcard, AProbeEndsWhenAPeerDies) {
  with_ranks(2, {}, [&](TestBootstrap& world, Rank& rank) {
    if (world.rank() == kVictim) {
      compute(20'000'000);
      kill(getpid(), SIGKILL);
    }
    RecvArgs any;
    any.context = 5;
    engine::Result seen;
    rank.wait_until([&] { return rank.iprobe(any, &seen); });
    EXPECT_EQ(seen.code, Code::kPeerDead);
  });
}

// A sender dies in the middle of what it does for a receiver that sits in the host. The receiver, when it is back, and
// the third rank end everything that they start.
TEST(CrashAway, TheReceiverComesBackToAnEnd) {
  for (const char* point : {"lend: entries given", "buffer: offer changed", "peer: matched, not consumed"}) {
    SCOPED_TRACE(point);
    with_ranks(kRanks, {}, [&](TestBootstrap& world, Rank& rank) {
      std::vector<std::byte> data(3000);
      SendArgs send;
      send.context = 5;
      send.source = static_cast<int32_t>(rank.node().self());
      RecvArgs receive;
      receive.context = 5;
      receive.buffer = {data.data(), data.size(), nullptr};
      if (world.rank() == kVictim) {
        die_at(point, 1);
        for (int i = 0; i < 20'000; ++i) {
          send.data = {data.data(), i % 2 == 0 ? 8U : data.size(), nullptr};
          EXPECT_EQ(rank.send(send).code, Code::kOk);
        }
        ADD_FAILURE() << "the point was never reached";
        return;
      }
      rank.enter_host();
      while (rank.node().alive(kVictim)) compute(1'000'000);
      rank.leave_host();
      if (world.rank() == 0) {
        receive.peer = receive.source = kVictim;
        Code code = Code::kOk;
        for (int i = 0; i < 20'000 && code == Code::kOk; ++i) code = rank.recv(receive).code;
        EXPECT_EQ(code, Code::kPeerDead);
        receive.peer = receive.source = 2;
        code = rank.recv(receive).code;
        EXPECT_TRUE(code == Code::kOk || code == Code::kPeerDead);
      } else {
        send.data = {data.data(), 8, nullptr};
        const Code code = rank.send(send).code;
        EXPECT_TRUE(code == Code::kOk || code == Code::kPeerDead);
      }
      expect_whole(rank.node());
    });
    if (HasFailure()) return;
  }
}

// A rank that dies while it copies from or to its peer's memory does not hold up that peer's fork.
TEST(CrashAccess, TheOwnerForksAllTheSame) {
  for (const char* point : {"pull: claimed", "push: claimed"}) {
    SCOPED_TRACE(point);
    run_ranks(World::kProcesses, 2,
              [&](TestBootstrap& world) {
                FakeHeap heap(16 << 20);
                engine::Config config;
                config.heap = &heap;
                std::unique_ptr<node::Node> node;
                std::unique_ptr<Rank> rank;
                ASSERT_TRUE(join(world, config, &node, &rank));
                constexpr uint64_t kBytes = 1 << 20;
                std::byte* data = heap.take(kBytes);
                heap.use_twice(data, kBytes);
                const bool victim = world.rank() == kVictim;
                const bool victim_sends = std::string(point) == "push: claimed";
                const auto start = [&] {
                  SendArgs out;
                  out.dest = static_cast<uint32_t>(1 - world.rank());
                  out.context = 5;
                  out.data = {data, kBytes, nullptr};
                  RecvArgs in;
                  in.source = in.tag = 0;
                  in.peer = 1 - world.rank();
                  in.context = 5;
                  in.buffer = out.data;
                  return victim == victim_sends ? rank->isend(out) : rank->irecv(in);
                };
                // The owner comes first and is away then, so that the victim copies.
                Request* request = victim ? nullptr : start();
                ASSERT_TRUE(world.barrier().ok());
                if (victim) {
                  die_at(point, 1);
                  rank->wait(start());
                  ADD_FAILURE() << "the point was never reached";
                  return;
                }
                while (!node->ended(kVictim)) os::yield_cpu();
                const auto* part = at<p2p::PartShm>(node->base(), node->part(kVictim));
                EXPECT_EQ(part->access.accessing.load_relaxed(), 1u) << "it died inside";
                heap.pretend_fork([] {});
                rank->wait(request);
                EXPECT_EQ(rank->result(request).code, Code::kPeerDead);
                rank->release(request);
                expect_whole(*node);
              },
              {.timeout_s = 30, .may_die = kVictim});
  }
}

template <typename C>
std::string point_name(const ::testing::TestParamInfo<C>& instance) {
  std::string name = instance.param.point;
  std::replace_if(
      name.begin(), name.end(), [](char ch) { return std::isalnum(ch) == 0; }, '_');
  return name + "_" + std::to_string(instance.index);
}

INSTANTIATE_TEST_SUITE_P(Points, CrashTeam,
                         ::testing::Values(TeamCase{"team: contributed", true}, TeamCase{"team: published", true},
                                           TeamCase{"team: last to arrive", true}, TeamCase{"team: not yet done", true},
                                           TeamCase{"team: slice combined", true, true},
                                           TeamCase{"team: step of a staged reduction", true},
                                           TeamCase{"team: step of a staged reduction", false},
                                           TeamCase{"team: copying", true},
                                           TeamCase{"team: fallback requested", false}),
                         point_name<TeamCase>);

INSTANTIATE_TEST_SUITE_P(Points, CrashStaged,
                         ::testing::Values("staged: contributed", "staged: put", "staged: step taken",
                                           "staged: step told"));
INSTANTIATE_TEST_SUITE_P(Points, CrashStarted,
                         ::testing::Values("started: contributed", "started: published", "started: not yet done"));

INSTANTIATE_TEST_SUITE_P(
    Points, Crash,
    ::testing::Values(Case{"connect: ring made", true, false, 0, 2}, Case{"connect: ring named", true, false, 0, 2},
                      Case{"inline: slot filled", true},
                      Case{"inline: slot filled", true, false, 0, 4, engine::WaitPolicy::kPassive},
                      Case{"publish: not rung", true, false, 0, 4, engine::WaitPolicy::kAuto, 0},
                      Case{"publish: not rung", true, true, 0, 4, engine::WaitPolicy::kAuto, 0},
                      Case{"eager: slot and block filled", true}, Case{"transfer: slot filled", true},
                      Case{"transfer: offered", true}, Case{"grow: marker filled", true, true, 2000, 1},
                      Case{"drain: matched, not consumed", true}, Case{"peer: entry filled", true, true},
                      Case{"peer: unposted", true, true}, Case{"peer: matched, not consumed", true, true},
                      Case{"eager: copied, not released", true}, Case{"transfer: target described", true},
                      Case{"pull: claimed", true}, Case{"pull: copied", true}, Case{"push: claimed", true, true},
                      Case{"push: copied", true, true}, Case{"cell: claimed", false}, Case{"cell: filled", false},
                      Case{"cell: copied, not released", false}, Case{"transfer: not yet left", true},
                      Case{"transfer: not yet left", false}),
    point_name<Case>);

INSTANTIATE_TEST_SUITE_P(
    OneLock, Crash,
    ::testing::Values(Case{.point = "drain: matched, not consumed", .cma = true, .ablations = {.coarse_lock = true}},
                      Case{.point = "peer: unposted", .cma = true, .away = true, .ablations = {.coarse_lock = true}},
                      Case{.point = "pull: claimed", .cma = true, .ablations = {.coarse_lock = true}}),
    point_name<Case>);
INSTANTIATE_TEST_SUITE_P(
    Copiers, Crash,
    ::testing::Values(Case{.point = "pull: claimed", .cma = true, .ablations = {p2p::Copier::kReceive}},
                      Case{.point = "push: claimed", .cma = true, .away = true, .ablations = {p2p::Copier::kLater}},
                      Case{.point = "pull: copied", .cma = true, .ablations = {p2p::Copier::kLater}},
                      Case{.point = "pull: claimed", .cma = true, .ablations = {p2p::Copier::kWait}}),
    point_name<Case>);

}  // namespace
}  // namespace zh::test
