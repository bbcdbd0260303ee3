// ScratchPool: what is kept and what is not, and runs that take turns with its memory.
#include "coll/schedule/scratch_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "run_support.h"

namespace zh::test {
namespace {

using coll::ScratchPool;

constexpr uint64_t kScratchMiB = 1 << 20;

/// Takes `n` blocks at once and gives them back.
void use(ScratchPool& pool, size_t n, uint64_t bytes) {
  std::vector<std::pair<std::byte*, uint64_t>> blocks(n);
  for (auto& [memory, size] : blocks) {
    memory = pool.take(bytes, &size);
    ASSERT_NE(memory, nullptr);
    ASSERT_GE(size, bytes);
    memory[0] = memory[bytes - 1] = std::byte{1};
  }
  for (auto& [memory, size] : blocks) pool.give(memory, size);
}

TEST(ScratchPool, WhatIsIdleHasABound) {
  ScratchPool pool;
  for (const uint64_t bytes : {kScratchMiB, 3 * kScratchMiB, kScratchMiB / 2, 5 * kScratchMiB, kScratchMiB}) {
    use(pool, 20, bytes);
    EXPECT_LE(pool.idle_bytes(), ScratchPool::kMostIdleBytes) << bytes;
    EXPECT_GE(pool.idle_bytes(), ScratchPool::kMostIdleBytes / 2) << bytes;
  }
  use(pool, 1000, 64);
  EXPECT_EQ(pool.idle_bytes(), ScratchPool::kMostIdleBlocks * 64);
}

TEST(ScratchPool, WhatIsLargerIsNotKept) {
  ScratchPool pool;
  use(pool, 1, 1000);
  use(pool, 1, ScratchPool::kMostIdleBytes + 1);
  EXPECT_EQ(pool.idle_bytes(), 1000u);
}

TEST(ScratchPool, ABlockIsUsedAgainWhereItFits) {
  ScratchPool pool;
  uint64_t size = 0;
  std::byte* const large = pool.take(kScratchMiB, &size);
  pool.give(large, size);
  uint64_t other_size = 0;
  std::byte* const small = pool.take(kScratchMiB / 4, &other_size);
  EXPECT_NE(small, large) << "it would hold four times what it needs";
  EXPECT_EQ(pool.take(kScratchMiB - 1, &size), large);
  EXPECT_EQ(size, kScratchMiB);
  EXPECT_EQ(pool.idle_bytes(), 0u);
  pool.give(large, size);
  pool.give(small, other_size);
  EXPECT_EQ(pool.take(kScratchMiB / 5, &size), small);
  pool.give(small, size);
}

coll::Problem pooled_allreduce(uint32_t rank) {
  coll::Problem problem;
  problem.collective = coll::Collective::kAllreduce;
  problem.self = rank;
  problem.element_bytes = 4;
  problem.count = 1000;
  problem.layout = coll::Layout::one_node(3);
  return problem;
}

/// Three ranks, each with a pool, that make one call again and again.
class PooledRanks {
 public:
  PooledRanks() : network_(3, 5), pools_(3) {
    for (uint32_t r = 0; r < 3; ++r) {
      coll::Schedule schedule;
      EXPECT_TRUE(coll::build(pooled_allreduce(r), "reduce-scatter-allgather", &schedule).ok());
      const auto plan = std::make_shared<coll::Plan>(std::move(schedule));
      EXPECT_TRUE(coll::Run::create(plan, network_.of(r), &runs_.emplace_back(), &pools_[r]).ok());
    }
  }

  void call(int32_t first_tag) {
    const std::vector<uint32_t> in(1000, static_cast<uint32_t>(first_tag) + 1);
    std::vector<std::vector<uint32_t>> out(3, std::vector<uint32_t>(1000));
    for (uint32_t r = 0; r < 3; ++r) {
      coll::Call call;
      call.input = in.data();
      call.output = out[r].data();
      call.how = int_sum();
      call.first_tag = first_tag;
      runs_[r]->start(call);
    }
    bool ended = false;
    for (int turn = 0; turn < 10'000 && !ended; ++turn) {
      network_.deliver();
      ended = true;
      for (auto& run : runs_) ended = run->advance() && ended;
    }
    ASSERT_TRUE(ended);
    for (uint32_t r = 0; r < 3; ++r) {
      EXPECT_EQ(runs_[r]->code(), Code::kOk);
      EXPECT_EQ(out[r], std::vector<uint32_t>(1000, 3 * in[0])) << r;
    }
  }

  [[nodiscard]] uint64_t idle_bytes() const {
    uint64_t bytes = 0;
    for (const ScratchPool& pool : pools_) bytes += pool.idle_bytes();
    return bytes;
  }
  std::vector<std::unique_ptr<coll::Run>>& runs() { return runs_; }

 private:
  Network network_;
  std::vector<ScratchPool> pools_;
  std::vector<std::unique_ptr<coll::Run>> runs_;
};

TEST(ScratchPool, ARunTakesItsMemoryAgain) {
  PooledRanks ranks;
  EXPECT_EQ(ranks.idle_bytes(), 0u);
  ranks.call(0);
  for (auto& run : ranks.runs()) run->release_scratch();
  const uint64_t given = ranks.idle_bytes();
  EXPECT_GT(given, 0u);
  for (auto& run : ranks.runs()) run->take_scratch();
  EXPECT_EQ(ranks.idle_bytes(), 0u);
  ranks.call(coll::kTags);
  ranks.runs().clear();
  EXPECT_EQ(ranks.idle_bytes(), given);
}

}  // namespace
}  // namespace zh::test
