// ScratchPool: what is kept and what is not, and runs that take turns with its memory.
#include "coll/schedule/scratch_pool.h"

#include <gtest/gtest.h>

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

TEST(ScratchPool, ARunTakesItsMemoryAgain) {
  coll::Problem problem{.collective = coll::Collective::kAllreduce, .count = 1000, .element_bytes = 4};
  problem.layout = coll::Layout::one_node(3);
  std::vector<ScratchPool> pools(3);
  Ranks ranks(coll::for_all_ranks(problem), *coll::algorithm(problem.collective, "reduce-scatter-allgather"), int_sum(),
              5, &pools);
  const auto call = [&](int32_t first_tag) {
    ranks.start(false, first_tag);
    ASSERT_TRUE(ranks.finish());
    for (const auto& run : ranks.runs) EXPECT_EQ(run->code(), Code::kOk);
    ranks.expect_right_or_told(3, "a call");
  };
  const auto idle_bytes = [&] {
    uint64_t bytes = 0;
    for (const ScratchPool& pool : pools) bytes += pool.idle_bytes();
    return bytes;
  };
  EXPECT_EQ(idle_bytes(), 0u);
  call(0);
  for (auto& run : ranks.runs) run->release_scratch();
  const uint64_t given = idle_bytes();
  EXPECT_GT(given, 0u);
  for (auto& run : ranks.runs) run->take_scratch();
  EXPECT_EQ(idle_bytes(), 0u);
  call(coll::kTags);
  ranks.runs.clear();
  EXPECT_EQ(idle_bytes(), given);
}

}  // namespace
}  // namespace zh::test
