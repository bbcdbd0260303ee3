// The table that a model makes: by rising sizes, in tiles of the caches, and the fastest by the walk.
#include "tools/model/choose.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "model/profiles.h"
#include "tools/model/case.h"

namespace zh::tools {
namespace {

using coll::Collective;
using coll::Selection;
using coll::Tiles;

constexpr Tiles kTiles = {8 << 10, 1 << 20};  // the paper's

const model::Parameters& profile() { return model::built_in_profiles().front(); }

Predicted predicted(Collective collective, uint32_t ranks, uint32_t nodes, const Tiles& tiles) {
  return predicted_table(collective, {ranks, nodes, 1, false}, tiles, profile());
}

double chosen_us(Collective collective, std::string_view algorithm, uint64_t bytes, uint64_t chunk) {
  ModelCase c;
  c.collective = collective;
  c.algorithm = algorithm;
  c.cluster = {8, 2, 1, false};
  c.blocks = true;
  c.bytes = bytes;
  c.chunk = chunk;
  std::string problem;
  return walk_us(c, schedules_of(c, kManyWalks, &problem), kComparisonModel, profile());
}

TEST(PredictedTable, HasTheFastestAtEachSize) {
  for (const Collective collective : {Collective::kBcast, Collective::kAllreduce, Collective::kAllgather}) {
    const Predicted table = predicted(collective, 8, 2, kTiles);
    ASSERT_FALSE(table.entries.empty());
    EXPECT_TRUE(table.left_out.empty());
    uint64_t next = 0;
    for (const auto& [entry, us, beyond] : table.entries) {
      EXPECT_EQ(entry.ranks, 8U);
      EXPECT_TRUE(entry.several_nodes);
      EXPECT_GE(entry.from_bytes, next);
      next = entry.from_bytes + 1;
      const uint64_t bytes = std::max<uint64_t>(entry.from_bytes, kComparedFrom);
      const uint64_t chunk = kTiles.chunk_of(bytes);
      EXPECT_DOUBLE_EQ(us, chosen_us(collective, entry.algorithm->name, bytes, chunk)) << entry.algorithm->name;
    }
    // Between the sizes that are compared a third one may be ahead by a little.
    for (uint64_t bytes = kComparedFrom; bytes <= kComparedTo; bytes *= 2) {
      std::string_view chosen;
      for (const auto& [entry, us, beyond] : table.entries)
        chosen = entry.from_bytes <= bytes ? entry.algorithm->name : chosen;
      const double us = chosen_us(collective, chosen, bytes, kTiles.chunk_of(bytes));
      for (const coll::Algorithm& other : coll::algorithms(collective)) {
        const double others = chosen_us(collective, other.name, bytes, kTiles.chunk_of(bytes));
        EXPECT_LE(us, others * (1 + 1e-9)) << other.name << " " << bytes;
      }
    }
    EXPECT_EQ(table.entries.front().entry.from_bytes, 0U);
  }
}

TEST(PredictedTable, AlgorithmsThatCutHaveTheTileOfTheirSizes) {
  size_t whole = 0, small = 0, large = 0;
  for (const auto& [collective, ranks, nodes] :
       {std::tuple(Collective::kBcast, 8U, 2U), std::tuple(Collective::kReduce, 8U, 2U),
        std::tuple(Collective::kAllreduce, 8U, 2U), std::tuple(Collective::kReduce, 2U, 1U)}) {
    for (const auto& [entry, us, beyond] : predicted(collective, ranks, nodes, kTiles).entries) {
      if (!entry.chunk_bytes) continue;
      EXPECT_EQ(*entry.chunk_bytes, kTiles.chunk_of(std::max<uint64_t>(entry.from_bytes, kComparedFrom)));
      whole += static_cast<size_t>(*entry.chunk_bytes == 0);
      small += static_cast<size_t>(*entry.chunk_bytes == kTiles.small);
      large += static_cast<size_t>(*entry.chunk_bytes == kTiles.large);
    }
  }
  EXPECT_GT(whole, 0U);
  EXPECT_GT(small, 0U);
  EXPECT_GT(large, 0U);
}

TEST(PredictedTable, WhereNoCacheIsKnownNoEntryHasAChunk) {
  for (const auto& [entry, us, beyond] : predicted(Collective::kBcast, 8, 2, {}).entries) {
    EXPECT_FALSE(entry.chunk_bytes);
    const uint64_t bytes = std::max<uint64_t>(entry.from_bytes, kComparedFrom);
    EXPECT_DOUBLE_EQ(us, chosen_us(Collective::kBcast, entry.algorithm->name, bytes, kUsualChunkBytes));
  }
}

TEST(PredictedTable, ABarrierHasOneEntryForAllSizes) {
  const Predicted table = predicted(Collective::kBarrier, 4, 1, kTiles);
  ASSERT_EQ(table.entries.size(), 1U);
  EXPECT_FALSE(table.entries.front().entry.several_nodes);
  EXPECT_FALSE(table.entries.front().entry.chunk_bytes);
}

TEST(PredictedTable, WhatIsTooLargeIsLeftOutByName) {
  const Predicted table = predicted(Collective::kAlltoall, 8192, 8, kTiles);
  EXPECT_TRUE(table.entries.empty());
  EXPECT_NE(table.left_out.at("linear").find("4096 ranks at most, not 8192"), std::string::npos);
}

TEST(PredictedTable, TheHeadingIsCommentsWhateverTheProfileIsCalled) {
  model::Parameters odd = profile();
  odd.name = "two\nallreduce 2 one 0 ring\n";
  odd.about = "lines\rand\tmore\n";
  const std::string heading = predicted_heading(odd, "he\nre.json", "2026-01-31");
  EXPECT_NE(heading.find("2026-01-31"), std::string::npos);
  EXPECT_NE(heading.find("mlog_nP+links"), std::string::npos);
  Selection written;
  for (const auto& [entry, us, beyond] : predicted(Collective::kBcast, 4, 2, kTiles).entries) written.add(entry);
  Selection read;
  std::string why;
  ASSERT_TRUE(read.parse(written.text(heading), &why).ok()) << why;
  EXPECT_EQ(read.text(""), written.text(""));
}

}  // namespace
}  // namespace zh::tools
