// Timelines and pictures of schedules.
// label analysis: [.]Timeline[.]
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "coll/analysis/draw.h"
#include "coll/analysis/pairs.h"
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

Built built(Collective collective, std::string_view name, uint32_t ranks, uint32_t nodes, uint64_t chunk = 8,
            uint64_t count = 64, bool teams = false) {
  Problem problem{.collective = collective, .count = count, .chunk_bytes = chunk, .layout = blocks_of(ranks, nodes)};
  Built out;
  std::vector<Problem> problems = coll::for_all_ranks(problem);
  if (teams) problems = with_teams(std::move(problems), false);
  EXPECT_TRUE(coll::build(problems, name, &out.schedules).ok());
  out.times = coll::timeline(out.schedules, *problem.layout);
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

TEST(Timeline, LeadersTakeAnExchangeForEachDoubling) {
  // One message of 4 between 2 nodes, and of 3 to 4 nodes two; none inside, for each rank is alone.
  EXPECT_EQ(built(Collective::kAllreduce, coll::kHostLeaders, 2, 2, 0).times.end, 4);
  EXPECT_EQ(built(Collective::kAllreduce, coll::kHostLeaders, 3, 3, 0).times.end, 8);
  EXPECT_EQ(built(Collective::kBarrier, coll::kHostLeaders, 4, 4).times.end, 8);
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

/// Rank, kind of step, between nodes: two that share all of it share a port.
using PortName = std::tuple<size_t, coll::StepKind, bool>;

// A step begins when it is ready or when a port of it becomes free, and no port does two things at once.
TEST(Timeline, PortsDoOneThingAtATimeAndAreNotLeftIdle) {
  for (const Collective collective : all_collectives()) {
    for (const coll::Algorithm& algorithm : coll::algorithms(collective)) {
      const Built b = built(collective, algorithm.name, 24, 6);
      const coll::Pairs pairs = coll::pair_messages(b.schedules);
      std::map<PortName, std::map<double, double>> busy;  // end by start
      const auto port_of = [&](size_t rank, size_t i) {
        const coll::Step& step = b.schedules[rank].steps[i];
        const bool between = step.message() && rank / 4 != step.peer / 4;
        return PortName(rank, step.message() ? step.kind : coll::StepKind::kCopy, between);
      };
      const auto ready_at = [&](size_t rank, size_t i) {
        double at = 0;
        for (const uint32_t wait : b.schedules[rank].waits_of(b.schedules[rank].steps[i]))
          at = std::max(at, b.times.spans[rank][wait].end);
        return at;
      };
      for (size_t rank = 0; rank < b.schedules.size(); ++rank) {
        for (size_t i = 0; i < b.schedules[rank].steps.size(); ++i) {
          const coll::Span span = b.times.spans[rank][i];
          EXPECT_TRUE(busy[port_of(rank, i)].emplace(span.start, span.end).second) << algorithm.name;
        }
      }
      std::map<PortName, std::set<double>> ends;
      for (const auto& [port, spans] : busy) {
        double free = 0;
        for (const auto& [start, end] : spans) {
          EXPECT_GE(start, free) << algorithm.name;
          free = end;
          ends[port].insert(end);
        }
      }
      for (size_t rank = 0; rank < b.schedules.size(); ++rank) {
        for (size_t i = 0; i < b.schedules[rank].steps.size(); ++i) {
          const coll::Step& step = b.schedules[rank].steps[i];
          const double start = b.times.spans[rank][i].start;
          bool due = start == ready_at(rank, i) || ends[port_of(rank, i)].contains(start);
          if (step.message()) {
            const uint32_t other = pairs.partner[rank][i];
            due = due || start == ready_at(step.peer, other) || ends[port_of(step.peer, other)].contains(start);
          }
          EXPECT_TRUE(due) << algorithm.name << ", rank " << rank << ", step " << i;
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

// A node's team shares a chunk in one step, however many ranks there are: the multicore collectives paper's
// section 4.1.
TEST(Timeline, TeamsMakeNodesOfManyRanksAsFastAsSmallOnes) {
  const auto time = [](Collective collective, std::string_view algorithm, uint32_t ranks_per_node) {
    return built(collective, algorithm, 8 * ranks_per_node, 8, 32 << 10, 512 << 10, true).times.end;
  };
  const std::pair<Collective, std::string_view> all[] = {
      {Collective::kBarrier, "hierarchical"},        {Collective::kBcast, "leader-ring"},
      {Collective::kBcast, "hierarchical"},          {Collective::kReduce, "hierarchical"},
      {Collective::kAllreduce, "hierarchical"},      {Collective::kBarrier, coll::kHostLeaders},
      {Collective::kBcast, coll::kHostLeaders},      {Collective::kReduce, coll::kHostLeaders},
      {Collective::kAllgather, coll::kHostLeaders},  {Collective::kAllreduce, coll::kHostLeaders},
      {Collective::kGather, coll::kHostLeaders},     {Collective::kScatter, coll::kHostLeaders},
      {Collective::kScan, coll::kHostLeaders},       {Collective::kReduceScatter, coll::kHostLeaders},
      {Collective::kAllreduce, "shmem-parallel"},    {Collective::kAllreduce, "shmem-cyclic"},
      {Collective::kReduceScatter, "shmem-parallel"}};
  for (const auto& [collective, algorithm] : all) {
    const double few = time(collective, algorithm, 4);
    for (const uint32_t ranks_per_node : {8u, 16u, 32u}) {
      EXPECT_LE(time(collective, algorithm, ranks_per_node), 1.5 * few)
          << coll::name_of(collective) << " " << algorithm << ", " << ranks_per_node << " ranks a node";
    }
  }
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
  EXPECT_EQ(svg.find("left out"), std::string::npos);
}

TEST(Draw, AnArrowEndsWhenAndWhereTheMessageHasArrived) {
  const Built b = built(Collective::kBcast, "linear", 2, 1);
  const std::string svg = coll::draw(b.schedules, *blocks_of(2, 1), b.times, "one");
  double end = 0, top = 0;
  const size_t arrow = svg.find("<path", svg.find("time in logical"));
  ASSERT_EQ(std::sscanf(svg.c_str() + arrow, "<path d=\"M%*f %*fL%lf %lf\"", &end, &top), 2);
  double x = 0, y = 0, width = 0;
  const size_t title = svg.find("<title>rank 1, step 0: receive");
  ASSERT_NE(title, std::string::npos);
  const size_t box = svg.rfind("<rect", title);
  ASSERT_EQ(std::sscanf(svg.c_str() + box, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\"", &x, &y, &width), 3);
  EXPECT_NEAR(end, x + width, 0.2);
  EXPECT_NEAR(top, y, 0.2) << "not below the box, which would hide its head";
}

TEST(Draw, SaysThatItLeavesArrowsOut) {
  const Built b = built(Collective::kAlltoall, "linear", 32, 1);
  const std::string svg = coll::draw(b.schedules, *blocks_of(32, 1), b.times, "many");
  EXPECT_NE(svg.find("The arrows of 992 messages are left out"), std::string::npos);
  EXPECT_EQ(svg.find("marker-end"), std::string::npos);
}

}  // namespace
}  // namespace zh::test
