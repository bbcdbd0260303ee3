// What the engine promises beyond delivery: large receives that end while their rank computes, queues of ten thousand,
// the skew switch in both directions, senders that have left.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "engine_support.h"

namespace zh::test {
namespace {

/// Whoever has not been seen for 50 us computes; before that it may be between two calls.
void let_it_compute() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

class Behaviour : public ::testing::TestWithParam<World> {};

TEST_P(Behaviour, LargeReceiveEndsWhileItsRankComputes) {
  constexpr uint64_t kBytes = 3 << 20;
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    if (!r.node->cma(1 - self)) GTEST_SKIP() << "no single copy between these processes";
    std::vector<std::byte> data(kBytes, std::byte(self == 0 ? 0x5a : 0));
    std::byte token{};
    if (self == 1) {
      Request* request = r.rank->irecv(message_from(0, 1, data.data(), kBytes));
      ASSERT_EQ(r.rank->send(message_to(0, 1, 2, &token, 1)).code, Code::kOk);
      // Away: nothing here calls the engine. The barrier is passed only when the sender's wait has ended.
      ASSERT_TRUE(world.barrier().ok());
      EXPECT_EQ(data[0], std::byte{0x5a});
      EXPECT_EQ(data[kBytes - 1], std::byte{0x5a});
      EXPECT_TRUE(r.rank->test(request));
      EXPECT_EQ(stat(*r.rank, "bytes_by_receiver"), 0u);
      EXPECT_EQ(finish(*r.rank, request).bytes, kBytes);
    } else {
      r.rank->recv(message_from(1, 2, &token, 1));
      let_it_compute();
      finish(*r.rank, r.rank->isend(message_to(1, 0, 1, data.data(), kBytes)));
      EXPECT_EQ(stat(*r.rank, "bytes_by_sender"), kBytes);
      ASSERT_TRUE(world.barrier().ok());
    }
  });
}

TEST_P(Behaviour, StartingALargeSendLeavesTheCopyToItsReceiver) {
  constexpr uint64_t kBytes = 3 << 20;
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    if (!r.node->cma(1 - self)) GTEST_SKIP() << "no single copy between these processes";
    std::vector<std::byte> data(kBytes, std::byte(self == 0 ? 0x5a : 0));
    std::byte token{};
    if (self == 1) {
      Request* request = r.rank->irecv(message_from(0, 1, data.data(), kBytes));
      ASSERT_EQ(r.rank->send(message_to(0, 1, 2, &token, 1)).code, Code::kOk);
      ASSERT_TRUE(world.barrier().ok());  // the send has been started, and its rank computes
      finish(*r.rank, request);
      EXPECT_EQ(std::count(data.begin(), data.end(), std::byte{0x5a}), static_cast<ptrdiff_t>(kBytes));
      EXPECT_EQ(stat(*r.rank, "bytes_by_receiver"), kBytes);
      ASSERT_TRUE(world.barrier().ok());
    } else {
      r.rank->recv(message_from(1, 2, &token, 1));
      let_it_compute();
      Request* request = r.rank->isend(message_to(1, 0, 1, data.data(), kBytes));
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_TRUE(world.barrier().ok());  // only now is this rank in the engine again
      finish(*r.rank, request);
      EXPECT_EQ(stat(*r.rank, "bytes_by_sender"), 0U);
    }
  });
}

// CMA would take a hundred times as long for each block by itself.
TEST_P(Behaviour, ShortBlocksArePackedByTheirOwner) {
  constexpr uint64_t kBytes = 1 << 20;
  constexpr int kTimes = 20;
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    const copy::OwnedLayout layout = copy::make_layout({{0, 8}}, 16);
    std::vector<std::byte> out(kBytes, std::byte(self + 1));
    std::vector<std::byte> in(2 * kBytes);
    const int32_t other = 1 - static_cast<int32_t>(self);
    for (int i = 0; i < kTimes; ++i) {
      engine::RecvArgs recv = message_from(other, i, in.data(), kBytes);
      recv.buffer.layout = layout.get();
      Request* const incoming = r.rank->irecv(recv);
      finish(*r.rank, r.rank->isend(message_to(1 - self, static_cast<int32_t>(self), i, out.data(), kBytes)));
      ASSERT_EQ(finish(*r.rank, incoming).bytes, kBytes);
      ASSERT_EQ(in[2 * kBytes - 9], std::byte(other + 1));
    }
    ASSERT_TRUE(world.barrier().ok());
  });
}

// ... also of a sender that sits in a call of the host, and cannot fill cells.
TEST_P(Behaviour, ShortBlocksComeFromARankInTheHost) {
  constexpr uint64_t kBytes = 100'000;
  StormConfig config = config_in(GetParam());
  config.single_copy_min = 32 << 10;
  run_engine(2, config, [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    const copy::OwnedLayout layout = copy::make_layout({{0, 8}}, 16);
    std::vector<std::byte> data(2 * kBytes);
    if (self == 0) {
      for (uint64_t i = 0; i < kBytes; ++i) data[i] = std::byte(i % 251);
      Request* const outgoing = r.rank->isend(to_other(1, 1, data.data(), kBytes));
      r.rank->enter_host();
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_TRUE(world.barrier().ok());
      r.rank->leave_host();
      ASSERT_EQ(finish(*r.rank, outgoing).code, Code::kOk);
    } else {
      ASSERT_TRUE(world.barrier().ok());
      engine::RecvArgs recv = message_from(0, 1, data.data(), kBytes);
      recv.buffer.layout = layout.get();
      ASSERT_EQ(r.rank->recv(recv).bytes, kBytes);
      for (uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(data[i / 8 * 16 + i % 8], std::byte(i % 251)) << i;
      ASSERT_TRUE(world.barrier().ok());
    }
  });
}

TEST_P(Behaviour, TenThousandPostedReceives) {
  constexpr int32_t kMany = 10'000;
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::vector<int32_t> data(kMany);
    std::vector<Request*> requests;
    if (self == 1) {
      for (int32_t i = 0; i < kMany; ++i) {
        const int32_t source = i % 3 == 0 ? p2p::kAnySource : 0;
        requests.push_back(r.rank->irecv(message_from(source, i, &data[static_cast<size_t>(i)], 4)));
        ASSERT_NE(requests.back(), nullptr);
      }
      ASSERT_TRUE(world.barrier().ok());
      for (int32_t i = 0; i < kMany; ++i) {
        EXPECT_EQ(finish(*r.rank, requests[static_cast<size_t>(i)]).tag, i);
        ASSERT_EQ(data[static_cast<size_t>(i)], i * 3);
      }
    } else {
      ASSERT_TRUE(world.barrier().ok());
      for (int32_t i = kMany; i-- != 0;) {  // the other way round
        int32_t value = i * 3;
        ASSERT_EQ(r.rank->send(message_to(1, 0, i, reinterpret_cast<std::byte*>(&value), 4)).code, Code::kOk);
      }
    }
  });
}

// Whichever of many is wanted next, its sender is told: it does not look at all of them for each.
TEST_P(Behaviour, ManyLargeSendsAreTakenInAnyOrder) {
  constexpr int32_t kMany = 3000;
  constexpr uint64_t kBytes = 20'000;
  for (const bool cma : {true, false}) {
    StormConfig config{.world = GetParam(), .cma = cma};
    config.skew = 0;  // or the messages go before anyone wants them
    run_engine(2, config, [&](TestBootstrap&, EngineRank& r, uint32_t self) {
      std::vector<std::byte> data(kBytes);
      if (self == 0) {
        std::vector<std::vector<std::byte>> sent;
        std::vector<Request*> requests;
        for (int32_t i = 0; i < kMany; ++i) {
          sent.emplace_back(kBytes, std::byte(i * 7));
          requests.push_back(r.rank->isend(message_to(1, 0, i, sent.back().data(), kBytes)));
          ASSERT_NE(requests.back(), nullptr);
        }
        finish(*r.rank, requests);
        EXPECT_GT(stat(*r.rank, "sends_parked"), uint64_t{kMany} / 2);
        EXPECT_GT(stat(*r.rank, "sends_told_of"), 0U);
      } else {
        for (int32_t k = 0; k < kMany; ++k) {
          const int32_t i = (kMany - 1 - k) * 7 % kMany;
          ASSERT_EQ(r.rank->recv(message_from(0, i, data.data(), kBytes)).code, Code::kOk);
          ASSERT_EQ(data.front(), std::byte(i * 7)) << i;
          ASSERT_EQ(data.back(), std::byte(i * 7)) << i;
        }
      }
      r.rank->quiesce();
    });
  }
}

TEST_P(Behaviour, ManyLargeSendsAreCancelled) {
  constexpr int32_t kMany = 200;
  constexpr uint64_t kBytes = 100'000;
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::vector<std::byte> data(kBytes);
    if (self == 0) {
      std::vector<Request*> requests;
      for (int32_t i = 0; i < kMany; ++i) {
        // None ends before it is matched.
        requests.push_back(r.rank->isend(message_to(1, 0, i, data.data(), kBytes, p2p::SendMode::kSynchronous)));
      }
      while (stat(*r.rank, "sends_parked") == 0) r.rank->progress();
      for (int32_t i = kMany - 1; i > 0; --i) {
        Request* request = requests[static_cast<size_t>(i)];
        // An attempt looks behind so many messages only.
        for (int attempt = 0; attempt < kMany && !r.rank->cancel(request); ++attempt) {
        }
        EXPECT_TRUE(finish(*r.rank, request).cancelled) << i;
      }
      ASSERT_TRUE(world.barrier().ok());
      finish(*r.rank, requests[0]);
    } else {
      ASSERT_TRUE(world.barrier().ok());
      const Result result = r.rank->recv(message_from(0, p2p::kAnyTag, data.data(), kBytes));
      EXPECT_EQ(result.tag, 0);
    }
    r.rank->quiesce();
  });
}

TEST_P(Behaviour, TenThousandUnexpectedMessages) {
  constexpr int32_t kMany = 10'000;
  run_engine(2, config_in(GetParam()), [&](TestBootstrap&, EngineRank& r, uint32_t self) {
    if (self == 0) {
      std::vector<int32_t> values(kMany);
      std::vector<Request*> requests;
      for (int32_t i = 0; i < kMany; ++i) {
        values[static_cast<size_t>(i)] = i;
        requests.push_back(r.rank->isend(
            message_to(1, 0, i % 5000, reinterpret_cast<std::byte*>(&values[static_cast<size_t>(i)]), 4)));
      }
      finish(*r.rank, requests);
    } else {
      Result seen;
      r.rank->wait_until([&] { return r.rank->iprobe(message_from(0, 4999, nullptr, 0), &seen); });
      // Each tag twice: the earlier first, by any receive.
      for (int32_t i = 4999; i >= 0; --i) {
        for (int32_t lap = 0; lap < 2; ++lap) {
          int32_t value = -1;
          const Result result = r.rank->recv(message_from(0, i, reinterpret_cast<std::byte*>(&value), 4));
          ASSERT_EQ(result.code, Code::kOk);
          ASSERT_EQ(value, i + 5000 * lap);
        }
      }
      EXPECT_GE(stat(*r.rank, "high_water"), 4999u);
    }
  });
}

// Far more sends than the budget of shared memory has room for, and the receiver wants the last one first.
TEST_P(Behaviour, SendsBeyondTheBudgetAreTakenInAnyOrder) {
  constexpr uint64_t kBytes = 20 << 10;
  constexpr int kSends = 1200;  // four times as many; on busy processors a few of them take a turn of the scheduler
  for (const bool cma : {true, false}) {
    const StormConfig config{.world = GetParam(), .cma = cma, .rank_bytes = 6 << 20};
    run_engine(2, config, [&](TestBootstrap&, EngineRank& r, uint32_t self) {
      std::vector<std::byte> data(kBytes, std::byte{5});
      if (self == 0) {
        std::vector<Request*> requests;
        for (int i = 0; i < kSends; ++i) requests.push_back(r.rank->isend(message_to(1, 0, 1, data.data(), kBytes)));
        r.rank->send(message_to(1, 0, 2, data.data(), 1));
        finish(*r.rank, requests);
      } else {
        ASSERT_EQ(r.rank->recv(message_from(0, 2, data.data(), kBytes)).bytes, 1u);
        for (int i = 0; i < kSends; ++i) {
          data[kBytes - 1] = std::byte{0};
          ASSERT_EQ(r.rank->recv(message_from(0, 1, data.data(), kBytes)).bytes, kBytes);
          ASSERT_EQ(data[kBytes - 1], std::byte{5});
        }
      }
    });
  }
}

// Memory is used up by the sends of one communicator: another one goes on, and so does a first message to a third rank.
TEST_P(Behaviour, SendsBeyondAllMemoryHoldUpNobodyElse) {
  constexpr uint64_t kBytes = 20 << 10;
  constexpr int kSends = 6000;
  const StormConfig config{.world = GetParam(), .rank_bytes = 4 << 20, .skew = 0};
  run_engine(3, config, [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::vector<std::byte> data(kBytes);
    const auto other_context = [](auto args, int32_t tag) {
      args.context = 8;
      args.tag = tag;
      return args;
    };
    if (self == 0) {
      std::vector<std::byte> sent(kSends + kBytes);
      for (size_t i = 0; i < sent.size(); ++i) sent[i] = std::byte(i % 251);
      std::vector<Request*> requests;
      for (int i = 0; i < kSends; ++i)
        requests.push_back(r.rank->isend(message_to(1, 0, 1, &sent[static_cast<size_t>(i)], kBytes)));
      for (int i = 0; i < 300; ++i) {
        ASSERT_EQ(r.rank->send(other_context(message_to(1, 0, 1, &sent[static_cast<size_t>(i)], 8), i % 2)).code,
                  Code::kOk);
      }
      ASSERT_EQ(r.rank->send(message_to(2, 0, 1, sent.data(), 8)).code, Code::kOk);
      ASSERT_TRUE(world.barrier().ok());
      finish(*r.rank, requests);
    } else if (self == 1) {
      for (int i = 0; i < 300; ++i) {
        ASSERT_EQ(r.rank->recv(other_context(message_from(0, 1, data.data(), kBytes), p2p::kAnyTag)).bytes, 8U);
        ASSERT_EQ(data[0], std::byte(i % 251));
      }
      ASSERT_TRUE(world.barrier().ok());
      for (int i = 0; i < kSends; ++i) {
        ASSERT_EQ(r.rank->recv(message_from(0, 1, data.data(), kBytes)).bytes, kBytes);
        ASSERT_EQ(data[0], std::byte(i % 251)) << i;
      }
    } else {
      ASSERT_EQ(r.rank->recv(message_from(0, 1, data.data(), kBytes)).bytes, 8U);
      ASSERT_TRUE(world.barrier().ok());
    }
    r.rank->quiesce();
  });
}

// The annex describes what the reserve cannot: larger messages go on as well, of any communicator and to any rank, and
// the last of all is taken first.
TEST_P(Behaviour, SendsBeyondTheReserveUseTheAnnex) {
  constexpr uint64_t kBytes = 20 << 10;
  constexpr int kSends = 6000;
  const StormConfig config{.world = GetParam(), .rank_bytes = 4 << 20, .annex_bytes = 64 << 20, .skew = 0};
  run_engine(3, config, [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::vector<std::byte> data(kBytes, std::byte{3});
    const uint64_t before = stat(*r.rank, "memory_bytes");
    if (self == 0) {
      std::vector<Request*> requests;
      for (int i = 0; i < kSends; ++i) requests.push_back(r.rank->isend(message_to(1, 0, 1, data.data(), kBytes)));
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_EQ(r.rank->send(message_to(2, 0, 1, data.data(), kBytes)).code, Code::kOk);
      SendArgs last = message_to(1, 0, 2, data.data(), kBytes);
      last.mode = p2p::SendMode::kSynchronous;  // it is matched behind all of them, which are described then
      ASSERT_EQ(r.rank->send(last).code, Code::kOk);
      EXPECT_GT(stat(*r.rank, "memory_bytes"), before + (4 << 20));
      finish(*r.rank, requests);
    } else if (self == 1) {
      // Not in a call while they are sent: what it took out of the rings would need no room in its sender's memory.
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_EQ(r.rank->recv(message_from(0, 2, data.data(), kBytes)).bytes, kBytes);
      for (int i = 0; i < kSends; ++i) {
        data.back() = std::byte{0};
        ASSERT_EQ(r.rank->recv(message_from(0, 1, data.data(), kBytes)).bytes, kBytes);
        ASSERT_EQ(data.back(), std::byte{3}) << i;
      }
    } else {
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_EQ(r.rank->recv(message_from(0, 1, data.data(), kBytes)).bytes, kBytes);
    }
    r.rank->quiesce();
  });
}

TEST_P(Behaviour, SkewSwitchesOnAndOffAgain) {
  constexpr uint64_t kBytes = 16 << 10;
  constexpr int kLate = 40;
  for (const int skew : {0, 1}) {
    const StormConfig config{.world = GetParam(), .single_copy_min = 2 << 10, .skew = skew};
    run_engine(2, config, [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
      if (!r.node->cma(1 - self)) GTEST_SKIP() << "no single copy between these processes";
      std::vector<std::byte> data(kBytes, std::byte{9});
      if (self == 0) {
        std::vector<Request*> requests;
        for (int i = 0; i < kLate; ++i) requests.push_back(r.rank->isend(message_to(1, 0, 1, data.data(), kBytes)));
        if (skew == 1) {
          // Released although the receiver has matched nothing: its lag is seen in its queue.
          r.rank->wait(requests.back());
          EXPECT_GT(stat(*r.rank, "messages_through_cells"), 0u);
        }
        ASSERT_TRUE(world.barrier().ok());
        finish(*r.rank, requests);
        if (skew == 0) {
          EXPECT_EQ(stat(*r.rank, "messages_through_cells"), 0u);
        }
      } else {
        ASSERT_TRUE(world.barrier().ok());
        for (int i = 0; i < kLate; ++i) {
          ASSERT_EQ(r.rank->recv(message_from(0, 1, data.data(), kBytes)).bytes, kBytes);
        }
      }
      // Kept up with from here on: back to the single copy.
      std::byte token{};
      for (int i = 0; i < 200; ++i) {
        if (self == 0) {
          r.rank->send(message_to(1, 0, 2, data.data(), kBytes));
          r.rank->recv(message_from(1, 3, &token, 1));
        } else {
          r.rank->recv(message_from(0, 2, data.data(), kBytes));
          r.rank->send(message_to(0, 1, 3, &token, 1));
        }
      }
      ASSERT_TRUE(world.barrier().ok());
      // Whoever turned the queues counted it.
      struct Switches {
        uint64_t on, off;
      };
      const Switches mine{stat(*r.rank, "switched_on"), stat(*r.rank, "switched_off")};
      Switches all[2];
      ASSERT_TRUE(world.allgather(&mine, sizeof mine, all).ok());
      if (skew == 1) {
        EXPECT_GE(all[0].on + all[1].on, 1u);
        EXPECT_EQ(all[0].on + all[1].on, all[0].off + all[1].off);
      }
    });
    if (::testing::Test::IsSkipped()) return;
  }
}

// Nothing of the message before stays in a request that is used again.
TEST_P(Behaviour, ARequestThatIsUsedAgainTellsOfItsOwnMessage) {
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::vector<std::byte> data(1000);
    constexpr uint64_t kSizes[] = {8, 1000};  // beside the envelope, and in a block
    for (const uint64_t bytes : kSizes) {
      for (int i = 0; i < 2 && self == 0; ++i) {
        ASSERT_EQ(r.rank->send(message_to(1, 0, 1, data.data(), bytes)).code, Code::kOk);
      }
      ASSERT_TRUE(world.barrier().ok());  // both wait in the ring
      for (const uint64_t room : {bytes / 2, bytes}) {
        if (self == 0) continue;
        Request* request = r.rank->irecv(message_from(0, 1, data.data(), room));
        ASSERT_TRUE(r.rank->done(request));
        const Result result = r.rank->result(request);
        r.rank->release(request);
        EXPECT_EQ(result.code, room < bytes ? Code::kTruncated : Code::kOk);
        EXPECT_EQ(result.bytes, room);
      }
    }
  });
}

TEST_P(Behaviour, DetachedRequestsEndByThemselves) {
  constexpr uint64_t kBytes = 300'000;
  run_engine(2, config_in(GetParam()), [&](TestBootstrap&, EngineRank& r, uint32_t self) {
    std::vector<std::byte> out(kBytes, std::byte{3}), in(kBytes);
    r.rank->detach(r.rank->irecv(message_from(static_cast<int32_t>(1 - self), 1, in.data(), kBytes)));
    r.rank->detach(r.rank->isend(message_to(1 - self, self, 1, out.data(), kBytes)));
    r.rank->detach(r.rank->isend(message_to(1 - self, self, 2, out.data(), 8)));
    r.rank->quiesce();
    EXPECT_EQ(r.rank->pending_sends(), 0u);
    r.rank->recv(message_from(static_cast<int32_t>(1 - self), 2, in.data(), 8));
    r.rank->wait_until([&] { return in[kBytes - 1] == std::byte{3} && in[8] == std::byte{3}; });
  });
}

TEST_P(Behaviour, BlockingPairsAndRingOfNeighbours) {
  run_engine(5, config_in(GetParam()), [&](TestBootstrap&, EngineRank& r, uint32_t self) {
    const uint32_t n = r.node->size();
    for (const uint64_t bytes :
         {uint64_t{0}, uint64_t{8}, uint64_t{193}, uint64_t{5000}, uint64_t{20'000}, uint64_t{2'100'000}}) {
      std::vector<std::byte> out(bytes, std::byte(self)), in(bytes);
      for (int lap = 0; lap < 5; ++lap) {
        const uint32_t right = (self + 1) % n, left = (self + n - 1) % n;
        Request* request = r.rank->isend(message_to(right, self, 1, out.data(), bytes));
        const Result result = r.rank->recv(lap % 2 == 0 ? message_from(static_cast<int32_t>(left), 1, in.data(), bytes)
                                                        : message_from(-1, 1, in.data(), bytes));
        ASSERT_EQ(result.source, static_cast<int32_t>(left));
        ASSERT_EQ(result.bytes, bytes);
        if (bytes != 0) {
          ASSERT_EQ(in[bytes - 1], std::byte(left));
        }
        finish(*r.rank, request);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Behaviour, ::testing::Values(World::kThreads, World::kProcesses), world_name);

}  // namespace
}  // namespace zh::test
