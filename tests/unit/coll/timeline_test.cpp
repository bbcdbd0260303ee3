// Timelines and pictures of schedules.
#include <gtest/gtest.h>

#include "coll/analysis/draw.h"
#include "coll/analysis/timeline.h"
#include "schedule_support.h"

namespace zh::test {
namespace {

using coll::Collective;
using coll::Problem;
using coll::Schedule;
using coll::Timeline;

struct Built {
  std::vector<Schedule> schedules;
  Timeline times;
};

Built built(Collective collective, std::string_view name, uint32_t ranks, uint32_t nodes) {
  Problem problem;
  problem.collective = collective;
  problem.count = 64;
  problem.chunk_bytes = 8;
  problem.layout = blocks_of(ranks, nodes);
  Built out;
  EXPECT_TRUE(coll::build(coll::for_all_ranks(problem), name, &out.schedules).ok());
  out.times = coll::timeline(out.schedules, *problem.layout, coll::logical_prices());
  return out;
}

TEST(Timeline, KnownTimes) {
  // A message inside a node takes 2 and ports are single: the root of a linear broadcast is busy with one after the
  // other.
  EXPECT_EQ(built(Collective::kBcast, "linear", 8, 1).times.end, 14);
  EXPECT_EQ(built(Collective::kBcast, "binomial", 8, 1).times.end, 6);
  // Between nodes 4, and the one inside overlaps.
  EXPECT_EQ(built(Collective::kBcast, "linear", 3, 3).times.end, 8);
  EXPECT_EQ(built(Collective::kBarrier, "dissemination", 8, 1).times.end, 6);
}

TEST(Timeline, EverythingRunsAfterWhatItWaitsFor) {
  for (const Collective collective : all_collectives()) {
    for (const coll::Algorithm& algorithm : coll::algorithms(collective)) {
      const Built b = built(collective, algorithm.name, 7, 3);
      for (size_t rank = 0; rank < b.schedules.size(); ++rank) {
        const Schedule& schedule = b.schedules[rank];
        for (size_t i = 0; i < schedule.steps.size(); ++i) {
          const coll::Span span = b.times.spans[rank][i];
          EXPECT_GT(span.end, span.start) << algorithm.name << ", rank " << rank << ", step " << i;
          for (const uint32_t wait : schedule.waits_of(schedule.steps[i])) {
            EXPECT_GE(span.start, b.times.spans[rank][wait].end);
          }
        }
      }
    }
  }
}

TEST(Timeline, SharingInsideNodesHidesBehindTheRing) {
  // Ranks that share the node's chunks do not lengthen the ring by more than the last chunk's sharing.
  const double leaders_alone = built(Collective::kBcast, "leader-ring", 4, 4).times.end;
  const double with_node_mates = built(Collective::kBcast, "leader-ring", 12, 4).times.end;
  EXPECT_LE(with_node_mates, leaders_alone + 2 * 2);
}

TEST(Draw, HasEveryRankStepAndMessage) {
  const Built b = built(Collective::kAllreduce, "hierarchical", 6, 2);
  const std::string svg = coll::draw(b.schedules, *blocks_of(6, 2), b.times, "a < b");
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find("rank 5<"), std::string::npos);
  size_t steps = 0;
  for (const Schedule& s : b.schedules) steps += s.steps.size();
  size_t titles = 0;
  for (size_t at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>", at + 1)) ++titles;
  EXPECT_EQ(titles, steps);
}

}  // namespace
}  // namespace zh::test
