// A rank's numbers as the other ranks of its node read them, and the counts of calls.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "p2p/counters.h"
#include "team_support.h"

namespace zh::test {
namespace {

using p2p::CallCounts;

uint64_t calls_of(const CallCounts& counts, uint64_t key) {
  for (const CallCounts::Row& row : counts.rows) {
    if (row.key == key) return row.calls;
  }
  return 0;
}

TEST(CallCounts, EachKeyHasARowUntilThereAreNone) {
  const auto counts = std::make_unique<CallCounts>();
  // As the shim makes them: most of a key is the same.
  const auto key = [](uint64_t i) { return uint64_t{5} << 48 | uint64_t{1} << 32 | i; };
  for (uint64_t i = 0; i < CallCounts::kRows; ++i) {
    for (uint64_t n = 0; n <= i % 3; ++n) counts->add(key(i), 10);
  }
  for (uint64_t i = 0; i < CallCounts::kRows; ++i) EXPECT_EQ(calls_of(*counts, key(i)), i % 3 + 1) << i;
  EXPECT_EQ(calls_of(*counts, CallCounts::kOther), 0U);
  counts->add(key(CallCounts::kRows), 7);
  counts->add(key(CallCounts::kRows + 1), 8);
  counts->add(key(0), 10);
  EXPECT_EQ(calls_of(*counts, CallCounts::kOther), 2U);
  EXPECT_EQ(counts->rows[CallCounts::kRows].bytes, 15U);
  EXPECT_EQ(calls_of(*counts, key(0)), 2U) << "rows that are there go on";
}

class Account : public ::testing::TestWithParam<World> {};

// One rank counts while the other reads, and then reads all of it.
TEST_P(Account, IsReadByOthers) {
  constexpr uint64_t kCalls = 2000;
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    if (self == 1) {
      std::byte byte{1};
      const engine::SendArgs send = message_to(1, 1, 0, &byte, 1);
      const engine::RecvArgs recv = message_from(1, 0, &byte, 1);
      for (uint64_t i = 0; i < kCalls; ++i) {
        r.rank->count_call(3, 8);
        engine::Request* request = r.rank->irecv(recv);
        ASSERT_EQ(r.rank->send(send).code, Code::kOk);
        finish(*r.rank, request);
      }
    } else {
      uint64_t before = 0;
      for (uint64_t now = 0; now < kCalls; before = now) {
        now = calls_of(r.rank->account(1).calls, 3);
        ASSERT_GE(now, before);
        ASSERT_FALSE(r.rank->told_json(1).empty());
      }
    }
    ASSERT_TRUE(world.barrier().ok());
    const std::string told = r.rank->told_json(1);
    EXPECT_EQ(told.find(R"({"rank":1,"node_index":1,"node_ranks":2,"node":0,"socket":0,"sent":)"), 0U) << told;
    EXPECT_NE(told.find(R"("messages":2000,"bytes":2000)"), std::string::npos) << told;
    EXPECT_EQ(r.rank->account(1).calls.rows[CallCounts::kRows].calls, 0U);
  });
}

// Both ends are busy while a block is read as it is written: only a caller that would wait anyway sends a long one so.
TEST_P(Account, OnlyAWaitingSenderWritesALongBlock) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "ranks that share a processor send no such blocks";
  constexpr uint64_t kBytes = 64 << 10;
  run_engine(2, config_in(GetParam()), [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    std::vector<std::byte> bytes(kBytes);
    const auto blocks = [&] {
      uint64_t n = 0;
      for (const p2p::Tally& t : r.rank->account(0).counters.sent[static_cast<uint32_t>(p2p::Path::kEager)]) {
        n += static_cast<uint64_t>(t.messages);
      }
      return n;
    };
    for (const bool waits : {true, false}) {
      if (self == 0) {
        const engine::SendArgs send = to_other(1, 0, bytes.data(), kBytes);
        const uint64_t before = blocks();
        if (waits) {
          ASSERT_EQ(r.rank->send(send).code, Code::kOk);
        } else {
          engine::Request* request = r.rank->isend(send);
          finish(*r.rank, request);
        }
        EXPECT_EQ(blocks() - before, waits ? 1U : 0U);
      } else {
        EXPECT_EQ(r.rank->recv(message_from(0, 0, bytes.data(), kBytes)).bytes, kBytes);
      }
      ASSERT_TRUE(world.barrier().ok());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Account, ::testing::Values(World::kProcesses, World::kThreads));

}  // namespace
}  // namespace zh::test
