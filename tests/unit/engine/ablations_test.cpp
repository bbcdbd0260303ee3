// The designs that were rejected (p2p::Ablations), each told from the others by who copied what in which call, and by
// what a sender keeps. Nothing is told from times.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "coll/team/team.h"
#include "engine_support.h"
#include "support/fake_heap.h"

namespace zh::test {
namespace {

using p2p::Copier;

constexpr uint64_t kLongBytes = 1 << 20;  // more than a sender keeps for a receiver that stays away
constexpr int kTurnsInVain = 20'000;      // turns of one end alone

StormConfig copied_by(Copier copier, World world) {
  StormConfig config{.world = world, .single_copy_min = 2 << 10};
  config.ablations.copier = copier;
  return config;
}

class CopierTest : public ::testing::TestWithParam<World> {
 protected:
  /// Runs two ranks under a design: rank 0 sends 1 MiB of 0x5a, rank 1 receives. `body(world, rank, self, data)`.
  template <typename Body>
  void run(Copier copier, Body&& body) {
    run_engine(2, copied_by(copier, GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
      if (!r.node->cma(1 - self)) GTEST_SKIP() << "no single copy between these processes";
      std::vector<std::byte> data(kLongBytes, std::byte(self == 0 ? 0x5a : 0));
      const auto next = [&world] { ASSERT_TRUE(world.barrier().ok()); };
      body(next, *r.rank, self, data.data());
      if (self == 1) {
        EXPECT_EQ(data.front(), std::byte{0x5a});
        EXPECT_EQ(data.back(), std::byte{0x5a});
      }
    });
  }
  static uint64_t sent(const Rank& rank) { return stat(rank, "bytes_by_sender"); }
  static uint64_t fetched(const Rank& rank) { return stat(rank, "bytes_by_receiver"); }
  /// A ring to the peer is there, and both know each other.
  static void greet(Rank& rank, uint32_t self) {
    std::byte token{};
    if (self == 0) {
      ASSERT_EQ(rank.send(message_to(1, 0, 9, &token, 1)).code, Code::kOk);
    }
    if (self == 1) {
      ASSERT_EQ(rank.recv(message_from(0, 9, &token, 1)).code, Code::kOk);
    }
  }
};

// The paper's example: the receive is there first and its rank computes.
TEST_P(CopierTest, TheReceiverAloneKeepsItsSenderWaiting) {
  run(Copier::kReceive, [](auto next, Rank& rank, uint32_t self, std::byte* data) {
    greet(rank, self);
    if (self == 0) {
      next();  // the receive is posted
      Request* request = rank.isend(message_to(1, 0, 1, data, kLongBytes));
      for (int i = 0; i < kTurnsInVain; ++i) ASSERT_FALSE(rank.test(request));
      next();  // the receiver calls
      finish(rank, request);
      EXPECT_EQ(sent(rank), 0U);
    } else {
      Request* request = rank.irecv(message_from(0, 1, data, kLongBytes));
      next();
      next();
      EXPECT_EQ(data[0], std::byte{0});
      finish(rank, request);
      EXPECT_EQ(fetched(rank), kLongBytes);
    }
  });
}

TEST_P(CopierTest, TheReceiverAloneCopiesInItsReceiveWhatIsThere) {
  for (const Copier copier : {Copier::kReceive, Copier::kLater}) {
    run(copier, [](auto next, Rank& rank, uint32_t self, std::byte* data) {
      greet(rank, self);
      next();  // no end is in a call, and its queues are free
      Request* request = nullptr;
      if (self == 0) request = rank.isend(message_to(1, 0, 1, data, kLongBytes));
      next();  // the message is there, and its sender computes
      if (self == 1) {
        request = rank.irecv(message_from(0, 1, data, kLongBytes));
        EXPECT_TRUE(rank.done(request)) << "in the call, without a wait";
        EXPECT_EQ(fetched(rank), kLongBytes);
      }
      next();
      finish(rank, request);
      if (self == 0) {
        EXPECT_EQ(sent(rank), 0U);
      }
    });
  }
}

// The same while the sender waits for it, and could copy.
TEST_P(CopierTest, TheLaterArriverIsTheReceiverThoughItsSenderWaits) {
  run(Copier::kLater, [](auto, Rank& rank, uint32_t self, std::byte* data) {
    if (self == 0) {
      finish(rank, rank.isend(message_to(1, 0, 1, data, kLongBytes)));
      EXPECT_EQ(sent(rank), 0U);
    } else {
      Result seen;
      rank.wait_until([&] { return rank.iprobe(message_from(0, 1, nullptr, 0), &seen); });
      Request* request = rank.irecv(message_from(0, 1, data, kLongBytes));
      EXPECT_TRUE(rank.done(request));
      EXPECT_EQ(fetched(rank), kLongBytes);
      finish(rank, request);
    }
  });
}

TEST_P(CopierTest, TheLaterArriverIsTheSenderWhereTheReceiveIsThere) {
  run(Copier::kLater, [](auto next, Rank& rank, uint32_t self, std::byte* data) {
    greet(rank, self);
    Request* request = nullptr;
    if (self == 1) request = rank.irecv(message_from(0, 1, data, kLongBytes));
    next();  // the receive is posted, and its rank computes
    if (self == 0) {
      request = rank.isend(message_to(1, 0, 1, data, kLongBytes));
      EXPECT_TRUE(rank.done(request)) << "in the call, without a wait";
      EXPECT_EQ(sent(rank), kLongBytes);
    }
    next();
    finish(rank, request);
    if (self == 1) {
      EXPECT_EQ(fetched(rank), 0U);
    }
  });
}

// Whoever waits first copies, the sender or the receiver; the calls that start it copy nothing.
TEST_P(CopierTest, OnlyAWaitCopies) {
  for (const uint32_t first : {0U, 1U}) {
    for (const bool receive_first : {false, true}) {
      run(Copier::kWait, [&](auto next, Rank& rank, uint32_t self, std::byte* data) {
        greet(rank, self);
        Request* request = nullptr;
        if ((self == 1) == receive_first) {
          request = self == 0 ? rank.isend(message_to(1, 0, 1, data, kLongBytes))
                              : rank.irecv(message_from(0, 1, data, kLongBytes));
        }
        next();
        if (request == nullptr) {
          request = self == 0 ? rank.isend(message_to(1, 0, 1, data, kLongBytes))
                              : rank.irecv(message_from(0, 1, data, kLongBytes));
        }
        EXPECT_EQ(sent(rank) + fetched(rank), 0U) << "by a call that starts it";
        next();
        if (self == first) rank.wait(request);
        next();
        EXPECT_EQ(sent(rank), self == 0 && first == 0 ? kLongBytes : 0U);
        EXPECT_EQ(fetched(rank), self == 1 && first == 1 ? kLongBytes : 0U);
        finish(rank, request);
      });
    }
  }
}

// MPI standard 2.9: whatever call a rank blocks in, what it has asked for arrives.
TEST_P(CopierTest, AReceiverInACallOfTheHostHoldsNobodyUp) {
  for (const Copier copier : {Copier::kReceive, Copier::kWait, Copier::kLater}) {
    run(copier, [](auto next, Rank& rank, uint32_t self, std::byte* data) {
      if (self == 0) {
        next();
        ASSERT_EQ(rank.send(message_to(1, 0, 1, data, kLongBytes)).code, Code::kOk);
        next();
      } else {
        Request* request = rank.irecv(message_from(0, 1, data, kLongBytes));
        rank.enter_host();
        next();
        next();
        rank.leave_host();
        finish(rank, request);
      }
    });
  }
}

// Hybrid paper, section 3.4: a sender whose medium messages are copied once waits for its receiver; where the receiver
// is found to lag (section 4.2) it does not.
TEST_P(CopierTest, WithoutKeptCopiesASenderDependsOnItsReceiver) {
  constexpr uint64_t kMedium = 16 << 10;
  constexpr int kMany = 64;
  struct Arm {
    bool keeps;
    int skew;
  };
  for (const Arm arm : {Arm{true, 0}, Arm{false, 0}, Arm{false, 1}}) {
    StormConfig config = copied_by(Copier::kBoth, GetParam());
    config.skew = arm.skew;
    config.ablations.keep_copies = arm.keeps;
    run_engine(2, config, [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
      if (!r.node->cma(1 - self)) GTEST_SKIP() << "no single copy between these processes";
      Rank& rank = *r.rank;
      std::vector<std::byte> data(kMedium * kMany, std::byte{3});
      std::vector<Request*> requests;
      if (self == 0) {
        for (int i = 0; i < kMany; ++i) {
          requests.push_back(
              rank.isend(message_to(1, 0, i, data.data() + kMedium * static_cast<uint64_t>(i), kMedium)));
        }
        const bool free = arm.keeps || arm.skew != 0;
        if (free) rank.wait_until([&] { return rank.done(requests.back()); });
        for (int i = 0; i < kTurnsInVain && !free; ++i) rank.progress();
        int ended = 0;
        for (const Request* request : requests) ended += rank.done(request) ? 1 : 0;
        const uint64_t kept = stat(rank, "buffered_messages");
        const uint64_t switched = stat(rank, "messages_through_cells");
        if (!free) {
          EXPECT_EQ(ended, 0);
        }
        EXPECT_EQ(kept != 0, arm.keeps) << kept;
        EXPECT_EQ(switched != 0, arm.skew != 0) << switched;
      }
      ASSERT_TRUE(world.barrier().ok());
      for (int i = 0; i < kMany && self == 1; ++i) {
        ASSERT_EQ(rank.recv(message_from(0, i, data.data(), kMedium)).bytes, kMedium);
      }
      finish(rank, requests);
    });
  }
}

// Operands are hexadecimal digits, and an operation writes them one behind the other: an element's value tells in which
// order its slice was combined.
void append_digits(void*, void* in, void* inout, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t left = static_cast<uint64_t*>(in)[i];
    uint64_t& right = static_cast<uint64_t*>(inout)[i];
    uint64_t shifted = left;
    for (uint64_t rest = right; rest != 0; rest >>= 4) shifted <<= 4;
    right |= shifted;
  }
}

/// What that makes of digits 1 to `size`: in rank order, or as member `self` meets them who begins with itself.
uint64_t digits(uint32_t size, uint32_t self, bool cyclic) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < size; ++i) all = all << 4 | (cyclic ? (self + size - 1 - i) % size + 1 : i + 1);
  return all;
}

class StagingOrderTest : public ::testing::TestWithParam<World> {};

// Multicore collectives paper, section 4.2 and figure 4. Of mapped memory, which nothing else sends through staging
// areas.
TEST_P(StagingOrderTest, MembersTakeUpEachOthersPiecesInTheOrderAskedFor) {
  constexpr uint32_t kRanks = 3;
  constexpr uint64_t kElements = 30'000;  // several rounds through staging areas
  constexpr uint64_t kVector = kElements * sizeof(uint64_t);
  run_ranks(GetParam(), kRanks, [&](TestBootstrap& world) {
    FakeHeap heap(4 << 20);
    const StormConfig config{.world = GetParam(), .heap = &heap};
    EngineRank r = make_rank(world, config);
    ASSERT_NE(r.rank, nullptr);
    const uint32_t self = r.node->self();
    const auto team = r.rank->make_team(5, {0, 1, 2}, self);
    ASSERT_TRUE(team->ready());
    auto* const in = reinterpret_cast<uint64_t*>(heap.take(kVector));
    auto* const out = reinterpret_cast<uint64_t*>(heap.take(kVector));
    for (uint64_t* p : {in, out}) heap.use_twice(reinterpret_cast<std::byte*>(p), kVector);
    uint64_t staged = 0;
    for (const bool commutes : {true, false}) {
      for (const auto order : {coll::StagingOrder::kFree, coll::StagingOrder::kParallel, coll::StagingOrder::kCyclic}) {
        team->set_staging_order(order);
        const bool cyclic = commutes && order == coll::StagingOrder::kCyclic;
        const coll::Reduction how{sizeof(uint64_t), nullptr, append_digits, nullptr, commutes};
        for (uint64_t* const result : {out, in}) {  // and in place
          std::fill(in, in + kElements, self + 1);
          ASSERT_EQ(team->allreduce(in, result, kElements, how), Code::kOk);
          staged += order != coll::StagingOrder::kFree ? 1 : 0;
          EXPECT_EQ(stat(*r.rank, "staged_reductions"), staged);
          for (const uint32_t member : {0U, 1U, 2U}) {  // the one that combined it
            EXPECT_EQ(result[member * (kElements / kRanks) + 10], digits(kRanks, member, cyclic)) << member;
          }
          EXPECT_EQ(result[kElements - 1], digits(kRanks, kRanks - 1, cyclic));
        }
        std::fill(in, in + 1, self + 1);
        ASSERT_EQ(team->allreduce(in, out, 1, how), Code::kOk);
        EXPECT_EQ(out[0], digits(kRanks, 0, false)) << "small ones go as ever";
      }
    }
    ASSERT_TRUE(world.barrier().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, StagingOrderTest, ::testing::Values(World::kThreads, World::kProcesses), world_name);
INSTANTIATE_TEST_SUITE_P(Worlds, CopierTest, ::testing::Values(World::kThreads, World::kProcesses), world_name);

}  // namespace
}  // namespace zh::test
