// Pieces of vectors: that each algorithm makes those that it says it makes, or says that it makes none.
// label one-thread: [.]Chunks[.]
#include <gtest/gtest.h>

#include <algorithm>

#include "coll/algorithms/algorithms.h"
#include "coll/schedule/parts.h"
#include "model/closed_forms.h"
#include "schedule_support.h"
#include "unit/model/model_support.h"

namespace zh::test {
namespace {

using coll::Algorithm;
using coll::Collective;
using coll::kMostChunks;
using coll::Problem;
using coll::Schedule;
using coll::Step;
using coll::StepKind;

constexpr uint64_t kPieceKiB = 1024;
constexpr uint64_t kPieceMiB = 1024 * kPieceKiB;

Problem chunked(Collective collective, uint64_t bytes, uint64_t chunk) {
  Problem p{.collective = collective, .count = bytes, .chunk_bytes = chunk, .blocks = true, .layout = blocks_of(8, 2)};
  return p;
}

std::vector<Schedule> schedules_for(const Problem& p, std::string_view algorithm) {
  std::vector<Schedule> out;
  EXPECT_TRUE(coll::build(coll::for_all_ranks(p), algorithm, &out).ok()) << algorithm;
  return out;
}

size_t number_of_steps(const std::vector<Schedule>& schedules) {
  size_t n = 0;
  for (const Schedule& s : schedules) n += s.steps.size();
  return n;
}

/// Bytes of the longest message of all ranks.
uint64_t longest_message(const std::vector<Schedule>& schedules) {
  uint64_t most = 0;
  for (const Schedule& s : schedules) {
    for (const Step& step : s.steps) most = std::max(most, step.message() ? step.bytes : 0);
  }
  return most;
}

TEST(Chunks, AnAlgorithmCutsAsItSays) {
  size_t cutting = 0;
  for (const Collective collective : all_collectives()) {
    const Problem whole = chunked(collective, 64 * kPieceKiB, 0);
    const Problem cut = chunked(collective, 64 * kPieceKiB, 4 * kPieceKiB);
    for (const Algorithm& a : coll::algorithms(collective)) {
      if (!a.fits(whole)) continue;
      const std::vector<Schedule> in_pieces = schedules_for(cut, a.name);
      if (a.cuts(cut)) {
        ++cutting;
        EXPECT_EQ(coll::chunk_in_force(cut, a), 4 * kPieceKiB) << a.name;
        EXPECT_EQ(longest_message(in_pieces), 4 * kPieceKiB) << text(cut, a.name);
      } else {
        EXPECT_EQ(coll::chunk_in_force(cut, a), 0U) << a.name;
        EXPECT_EQ(number_of_steps(in_pieces), number_of_steps(schedules_for(whole, a.name))) << text(cut, a.name);
      }
      EXPECT_EQ(coll::chunk_in_force(whole, a), 0U) << a.name;
    }
  }
  EXPECT_EQ(cutting, 9U) << "of bcast, reduce and scans two each, of allreduce three";
}

// mlog_nP paper, 7.1 and equation 9: 8 MiB in tiles of 8 KiB are 1,024 segments, for jobs and models alike.
TEST(Chunks, ThePapersLargestVectorIsCutIntoItsSmallestTiles) {
  const Problem p = chunked(Collective::kBcast, 8 * kPieceMiB, 8 * kPieceKiB);
  const std::vector<Schedule> schedules = schedules_for(p, "hierarchical");
  const auto of_leaf = std::ranges::count_if(
      schedules[7].steps, [](const Step& s) { return s.kind == StepKind::kReceive && s.bytes == 8 * kPieceKiB; });
  EXPECT_EQ(of_leaf, 1024);
  const model::Parameters costs = round_parameters();
  const model::Cluster cluster{8, 2, 1};
  const auto us = [&](double bytes) { return message_us(model::Model::kTwoLog23P, costs, {bytes, 0}); };
  constexpr auto kChip = static_cast<size_t>(model::CommLevel::kIntraChip);
  constexpr auto kNodes = static_cast<size_t>(model::CommLevel::kInterNode);
  const auto form = model::closed_form(model::Model::kTwoLog23P, costs,
                                       {"hierarchical", cluster, 0, {8.0 * kPieceMiB, 0}, 8 * kPieceKiB});
  EXPECT_DOUBLE_EQ(form->us, 1024 * 2 * us(8 * kPieceKiB)[kChip] + us(8 * kPieceMiB)[kNodes]);
}

TEST(Chunks, PiecesAreOfWholeElementsAndNotTooMany) {
  Problem p = chunked(Collective::kBcast, 1 * kPieceMiB, 0);
  EXPECT_EQ(coll::piece_bytes(p, 1 * kPieceMiB), 0U);
  p.chunk_bytes = 1;
  EXPECT_EQ(coll::piece_bytes(p, kMostChunks), 1U);
  EXPECT_EQ(coll::piece_bytes(p, kMostChunks + 1), 2U);
  EXPECT_EQ(coll::piece_bytes(p, 0), 1U);
  p.element_bytes = 12;
  EXPECT_EQ(coll::piece_bytes(p, 12 * kMostChunks), 12U);
  p.chunk_bytes = 4096;
  EXPECT_EQ(coll::piece_bytes(p, 12 * kMostChunks), 4104U);
}

}  // namespace
}  // namespace zh::test
