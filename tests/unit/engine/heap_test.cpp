// The engine over a shared heap: which messages are mapped, that each asks once, and forks around messages.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "engine_support.h"
#include "support/fake_heap.h"

namespace zh::test {
namespace {

constexpr uint64_t kLarge = 1 << 20;

bool all_are(const std::byte* p, uint64_t n, std::byte value) {
  return std::all_of(p, p + n, [value](std::byte b) { return b == value; });
}
/// Memory that peers may map from the first message on.
std::byte* mapped_memory(FakeHeap& heap, uint64_t n) {
  std::byte* const p = heap.take(n);
  heap.use_twice(p, n);
  return p;
}
uint64_t mapped_messages(const Rank& rank) { return stat(rank, "by_one_end") + stat(rank, "by_both_ends"); }

/// Two ranks, each with a heap of its own.
class Heap : public ::testing::TestWithParam<World> {
 protected:
  using Body = std::function<void(TestBootstrap& world, Rank& rank, FakeHeap& heap, uint32_t self)>;
  static void run(const Body& body, bool cma = true, size_t clients = 4) {
    run_ranks(GetParam(), 2, [&](TestBootstrap& world) {
      FakeHeap heap(64 << 20);
      heap.max_clients = clients;
      const StormConfig config{.world = GetParam(), .cma = cma, .single_copy_min = kLarge, .heap = &heap};
      EngineRank r = make_rank(world, config);
      ASSERT_NE(r.rank, nullptr);
      body(world, *r.rank, heap, r.node->self());
      ASSERT_TRUE(world.barrier().ok());
    });
  }
};

// A receiver that has not posted in time is sent to eagerly, one that has lost its CPU is written to through the
// kernel: on a busy machine any number of messages. So as many are sent as it takes.
TEST_P(Heap, ABufferIsMappedFromItsSecondMessageOn) {
  run([](TestBootstrap& world, Rank& rank, FakeHeap& heap, uint32_t self) {
    constexpr uint64_t kMapped = 5;
    constexpr int kMostMessages = 2'000;
    constexpr auto kLast = std::byte{255};
    for (const uint64_t bytes : {kLarge, 2 * kLarge}) {
      std::byte* data = heap.take(bytes);
      const uint64_t before = stat(rank, "first_uses");
      const uint64_t mapped = mapped_messages(rank);
      for (int i = 0; i < kMostMessages; ++i) {
        const auto value = static_cast<std::byte>(i % 250 + 1);
        if (self == 0) {
          ASSERT_TRUE(world.barrier().ok());
          const bool last = i + 1 >= 20 && mapped_messages(rank) - mapped >= kMapped;
          std::memset(data, std::to_integer<int>(last ? kLast : value), bytes);
          ASSERT_EQ(rank.send(to_other(1, 1, data, bytes)).code, Code::kOk);
          EXPECT_LE(mapped_messages(rank) - mapped, static_cast<uint64_t>(i)) << bytes;
        } else {
          Request* posted = rank.irecv(message_from(0, 1, data, bytes));
          ASSERT_TRUE(world.barrier().ok());
          ASSERT_EQ(finish(rank, posted).bytes, bytes);
          EXPECT_TRUE(all_are(data, bytes, data[0] == kLast ? kLast : value));
        }
        if (data[0] == kLast) break;
      }
      EXPECT_EQ(data[0], kLast) << "fewer than " << kMapped << " of " << kMostMessages << " messages were mapped";
      // A receiver whose sender has mapped its own buffer first is never asked.
      const uint64_t asked = stat(rank, "first_uses") - before;
      EXPECT_TRUE(asked == 1 || (self == 1 && asked == 0)) << asked;
    }
  });
}

TEST_P(Heap, AMessageAsksOnceOnEitherSide) {
  run([](TestBootstrap& world, Rank& rank, FakeHeap& heap, uint32_t self) {
    for (const uint64_t bytes : {uint64_t{64}, kLarge - 1, kLarge, 2 * kLarge}) {
      std::byte* data = heap.take(bytes);
      if (bytes > 4096) heap.use_twice(data, bytes);
      constexpr int kMessages = 5;
      const uint64_t before = heap.publications;
      for (int i = 0; i < kMessages; ++i) {
        const bool posted_first = i % 2 == 0;
        if (self == 0) {
          if (posted_first) {
            ASSERT_TRUE(world.barrier().ok());
          }
          if (i < 3) {
            finish(rank, rank.isend(to_other(1, 1, data, bytes)));
          } else {
            ASSERT_EQ(rank.send(to_other(1, 1, data, bytes)).code, Code::kOk);
          }
        } else {
          Request* r = rank.irecv(message_from(0, 1, data, bytes));
          if (posted_first) {
            ASSERT_TRUE(world.barrier().ok());
          }
          finish(rank, r);
        }
      }
      const uint64_t asked = heap.publications - before;
      const uint64_t expected = bytes < kLarge ? 0 : kMessages;
      if (self == 1 && bytes > kLarge) {
        // A large posted receive asks when its message is known, if it is not the sender that joins them.
        EXPECT_LE(asked, expected);
      } else {
        EXPECT_EQ(asked, expected) << bytes;
      }
      ASSERT_TRUE(world.barrier().ok());
    }
  });
}

// Both a receive and a send are told of, the process forks, and only then the peer comes.
void fork_between(TestBootstrap& world, Rank& rank, FakeHeap& heap, uint32_t self, uint64_t bytes) {
  std::byte* in = mapped_memory(heap, bytes);
  std::byte* out = mapped_memory(heap, bytes);
  std::memset(in, 0, bytes);
  std::memset(out, static_cast<int>(self) + 1, bytes);
  if (self == 0) {
    Request* r = rank.irecv(message_from(1, 1, in, bytes));
    Request* s = rank.isend(to_other(1, 2, out, bytes));
    heap.pretend_fork_and_scribble();
    ASSERT_TRUE(world.barrier().ok());
    finish(rank, r);
    finish(rank, s);
  } else {
    ASSERT_TRUE(world.barrier().ok());
    Request* s = rank.isend(to_other(0, 1, out, bytes));
    ASSERT_EQ(rank.recv(message_from(0, 2, in, bytes)).bytes, bytes);
    finish(rank, s);
  }
  EXPECT_TRUE(all_are(in, bytes, static_cast<std::byte>(2 - self)));
  ASSERT_TRUE(world.barrier().ok());
  heap.give_back(in);
  heap.give_back(out);
}

TEST_P(Heap, WhatWasToldBeforeAForkGoesAnotherWay) {
  for (const bool cma : {true, false}) {
    run(
        [](TestBootstrap& world, Rank& rank, FakeHeap& heap, uint32_t self) {
          for (const uint64_t bytes : {kLarge / 2, kLarge, 5 * kLarge}) {
            fork_between(world, rank, heap, self, bytes);
            if (::testing::Test::HasFatalFailure()) return;
          }
          // What is told afterwards is mapped again.
          std::byte* data = mapped_memory(heap, kLarge);
          const uint64_t mapped = mapped_messages(rank);
          if (self == 0) {
            ASSERT_EQ(rank.send(to_other(1, 3, data, kLarge)).code, Code::kOk);
            EXPECT_EQ(mapped_messages(rank), mapped + 1);
          } else {
            ASSERT_EQ(rank.recv(message_from(0, 3, data, kLarge)).bytes, kLarge);
          }
        },
        cma);
  }
}

// The rank that forked computes on, calling nothing: its peer must be able to end both transfers alone.
TEST_P(Heap, APeerEndsTransfersWhileTheRankThatForkedIsAway) {
  run([](TestBootstrap& world, Rank& rank, FakeHeap& heap, uint32_t self) {
    if (!rank.node().cma(1 - self)) GTEST_SKIP() << "no single copy between these processes";
    std::byte* in = mapped_memory(heap, kLarge);
    std::byte* out = mapped_memory(heap, kLarge);
    std::memset(out, static_cast<int>(self) + 1, kLarge);
    if (self == 0) {
      Request* r = rank.irecv(message_from(1, 1, in, kLarge));
      Request* s = rank.isend(to_other(1, 2, out, kLarge));
      heap.pretend_fork_and_scribble();
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_TRUE(world.barrier().ok());  // passed when the peer has ended both
      EXPECT_TRUE(all_are(in, kLarge, std::byte{2}));
      finish(rank, r);
      finish(rank, s);
    } else {
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_EQ(rank.send(to_other(0, 1, out, kLarge)).code, Code::kOk);
      ASSERT_EQ(rank.recv(message_from(0, 2, in, kLarge)).bytes, kLarge);
      EXPECT_TRUE(all_are(in, kLarge, std::byte{1}));
      ASSERT_TRUE(world.barrier().ok());
    }
  });
}

TEST_P(Heap, WithoutAPlaceAmongTheForksClientsItIsNotUsed) {
  run(
      [](TestBootstrap&, Rank& rank, FakeHeap& heap, uint32_t self) {
        std::byte* data = mapped_memory(heap, kLarge);
        if (self == 0) {
          ASSERT_EQ(rank.send(to_other(1, 1, data, kLarge)).code, Code::kOk);
        } else {
          ASSERT_EQ(rank.recv(message_from(0, 1, data, kLarge)).bytes, kLarge);
        }
        EXPECT_EQ(mapped_messages(rank), 0U);
        EXPECT_EQ(heap.publications, 0U);
      },
      true, 0);
}

TEST(HeapChild, DoesNothingWhenItEnds) {
  run_ranks(World::kProcesses, 2, [](TestBootstrap& world) {
    FakeHeap heap(64 << 20);
    const StormConfig config{.world = World::kProcesses, .heap = &heap};
    EngineRank r = make_rank(world, config);
    ASSERT_NE(r.rank, nullptr);
    const uint32_t self = r.node->self();
    std::byte* data = mapped_memory(heap, kLarge);
    std::memset(data, static_cast<int>(self), kLarge);
    Request* send = r.rank->isend(to_other(1 - self, 1, data, kLarge));
    pid_t child = 0;
    heap.pretend_fork([&] { child = ::fork(); });
    if (child == 0) {
      const bool inert = r.rank->inert();
      r.rank.reset();  // must not end the parent's sends, nor unmap or close anything that the parent still has
      _exit(inert ? 0 : 1);
    }
    EXPECT_FALSE(r.rank->inert());
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    std::byte* in = heap.take(kLarge);
    ASSERT_EQ(r.rank->recv(message_from(static_cast<int32_t>(1 - self), 1, in, kLarge)).bytes, kLarge);
    EXPECT_TRUE(all_are(in, kLarge, static_cast<std::byte>(1 - self)));
    finish(*r.rank, send);
    ASSERT_TRUE(world.barrier().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(All, Heap, ::testing::Values(World::kThreads, World::kProcesses), world_name);

}  // namespace
}  // namespace zh::test
