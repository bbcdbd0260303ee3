// The walk of schedules: that it is the closed forms of the mlog_nP paper where they must agree, and what it does where
// they say nothing.
// label analysis: [.]Walk[.]
#include "coll/analysis/walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "model/closed_forms.h"
#include "model/profiles.h"
#include "schedule_support.h"
#include "unit/model/model_support.h"

namespace zh::test {
namespace {

using coll::Collective;
using coll::Problem;
using coll::Schedule;
using coll::Timeline;
using model::Cluster;
using model::kPaperModels;
using model::Model;
using model::Parameters;

constexpr Cluster kCluster{64, 8, 2};

struct Walked {
  std::vector<Schedule> schedules;
  Timeline times;
};

Walked walked(const Parameters& parameters, Model model, const Cluster& cluster, Collective collective,
              std::string_view algorithm, uint64_t bytes, uint64_t stride = 0, uint32_t root = 0, uint64_t chunk = 0,
              bool team = false) {
  Problem problem{.collective = collective, .root = root, .count = bytes, .chunk_bytes = chunk};
  std::vector<uint32_t> node_of(cluster.ranks);
  for (uint32_t rank = 0; rank < cluster.ranks; ++rank) node_of[rank] = cluster.node_of(rank);
  problem.layout = std::make_shared<const coll::Layout>(node_of);
  Walked out;
  std::vector<Problem> problems = coll::for_all_ranks(problem);
  if (team) problems = with_teams(std::move(problems), false);
  EXPECT_TRUE(coll::build(problems, algorithm, &out.schedules).ok()) << algorithm;
  out.times = coll::walk(out.schedules, model::Pricing(model, parameters, cluster, stride));
  return out;
}

/// Of 500 bytes, where each node has a team.
Timeline walked_by_teams(const Parameters& p, Model model, const Cluster& cluster, Collective collective,
                         std::string_view algorithm, uint64_t stride = 0) {
  return walked(p, model, cluster, collective, algorithm, 500, stride, 0, 0, true).times;
}

double bcast(const Parameters& p, Model model, const Cluster& cluster, std::string_view algorithm, uint64_t bytes,
             uint64_t stride, uint32_t root = 0) {
  return walked(p, model, cluster, Collective::kBcast, algorithm, bytes, stride, root).times.end;
}

double form(const Parameters& p, Model model, const Cluster& cluster, std::string_view algorithm, uint64_t bytes,
            uint64_t stride, uint32_t root = 0) {
  return model::closed_form(model, p, {algorithm, cluster, root, {static_cast<double>(bytes), stride}, 0})->us;
}

TEST(Walk, ValuesByHand) {
  const Parameters p = round_parameters();
  // One message: an end of 3 on each side of a chip; 6 + 15 + 6 between nodes.
  EXPECT_EQ(bcast(p, Model::kMlogNP, {2, 1, 1}, "linear", 500, 8), 6);
  EXPECT_EQ(bcast(p, Model::kMlogNP, {2, 2, 1}, "linear", 500, 8), 27);
  // Three sends of one end each, then the network and the last receiver.
  EXPECT_EQ(bcast(p, Model::kMlogNP, {4, 4, 1}, "linear", 500, 8), 3 * 6 + 15 + 6);
}

// All of a node copy at once what its leader has, and then nothing else is to be done.
TEST(Walk, RanksThatShareByATeamTakeOneCopyTogether) {
  const Parameters p = round_parameters();
  for (const uint32_t ranks_per_node : {2U, 3U, 8U}) {
    const Cluster cluster{2 * ranks_per_node, 2, 1};
    const double copy = model::Pricing(Model::kMlogNP, p, cluster, 8).work(500);
    const Timeline times = walked_by_teams(p, Model::kMlogNP, cluster, Collective::kBcast, "hierarchical", 8);
    EXPECT_DOUBLE_EQ(times.end, 27 + copy);
    EXPECT_DOUBLE_EQ(times.spans[0].back().end, 6 + copy) << "the root's node waits for no message";
  }
}

// As many copy at once as read what another has.
TEST(Walk, EachRankOfASharedStepTakesItsPart) {
  Parameters p = round_parameters();
  p.facts.contention = {{"mapped", 64, {{1, 1}, {3, 2}, {4, 3}}, false}};
  const double copy = p.levels[0].overhead.us_at(500);
  const auto us = [&](Collective collective, const char* algorithm) {
    return walked_by_teams(p, Model::kLinked, {4, 1, 1}, collective, algorithm).end;
  };
  EXPECT_DOUBLE_EQ(us(Collective::kBcast, "hierarchical"), 2 * copy) << "three read what the root has";
  // All four combine a slice of everybody's, as long as one vector in all, and then the result is read by three.
  EXPECT_DOUBLE_EQ(us(Collective::kAllreduce, "hierarchical"), 3 * copy + 2 * copy);
  // Slices are combined and then gathered by all.
  EXPECT_DOUBLE_EQ(us(Collective::kAllreduce, "shmem-parallel"), 3 * copy + 3 * copy);
}

TEST(Walk, RanksWaitForTheProcessorsOfTheirNode) {
  const Parameters p = round_parameters();
  // Three messages of an end of 3 on each side. The root's sends take one processor all the time, the receptions the
  // other; on one alone all six ends follow each other.
  const auto us = [&](uint32_t processors) {
    return bcast(p, Model::kMlogNP, {4, 1, 1, false, processors}, "linear", 500, 8);
  };
  EXPECT_EQ(us(0), 12);
  EXPECT_EQ(us(2), 12);
  EXPECT_EQ(us(1), 18);
  // Each node has its own: two messages out of the root, one of which goes to the other node, then one in each.
  EXPECT_EQ(bcast(p, Model::kMlogNP, {4, 2, 1, false, 1}, "hierarchical", 500, 8),
            bcast(p, Model::kMlogNP, {4, 2, 1}, "hierarchical", 500, 8));
}

TEST(Walk, AsManyProcessorsAsRanksAreAsOneForEach) {
  const Parameters p = round_parameters();
  for (size_t i = 0; i < static_cast<size_t>(Collective::kCount); ++i) {
    const auto collective = static_cast<Collective>(i);
    for (const coll::Algorithm& a : coll::algorithms(collective)) {
      const auto us = [&](uint32_t processors) {
        return walked(p, Model::kLinked, {8, 2, 2, false, processors}, collective, a.name, 4096).times.end;
      };
      EXPECT_EQ(us(4), us(0)) << a.name;
      EXPECT_EQ(us(9), us(0)) << a.name;
      EXPECT_GE(us(1), us(0)) << a.name;
    }
  }
}

// All work of a node's ranks, told by their spans, has to fit onto its processors, and these never do two things.
TEST(Walk, NoMoreRanksWorkAtOnceThanThereAreProcessors) {
  const Parameters p = round_parameters();
  for (const uint32_t processors : {1U, 2U, 3U}) {
    for (const coll::Algorithm& a : coll::algorithms(Collective::kAllreduce)) {
      if (a.name == coll::kHostLeaders) continue;
      const Walked w = walked(p, Model::kMlogNP, {8, 1, 1, false, processors}, Collective::kAllreduce, a.name, 4096);
      std::vector<std::pair<double, int>> changes;  // an end comes before a begin at the same time
      for (const auto& spans : w.times.spans) {
        for (const auto& span : spans) {
          changes.emplace_back(span.start, 1);
          changes.emplace_back(span.end, -1);
        }
      }
      std::sort(changes.begin(), changes.end());
      int at_once = 0;
      for (const auto& [at, by] : changes) {
        at_once += by;
        EXPECT_LE(at_once, static_cast<int>(processors)) << a.name << " at " << at;
      }
      EXPECT_EQ(at_once, 0);
    }
  }
}

TEST(Walk, CopiesOfASharedStepTakeTurnsOnFewProcessors) {
  const Parameters p = round_parameters();
  for (const uint32_t processors : {1U, 2U, 3U, 4U}) {
    const Cluster cluster{8, 2, 1, false, processors};
    const double copy = model::Pricing(Model::kMlogNP, p, cluster, 8).work(500);
    const double turns = processors == 1 ? 3 : processors == 2 ? 2 : 1;  // of three that copy what the root has
    EXPECT_DOUBLE_EQ(walked_by_teams(p, Model::kMlogNP, cluster, Collective::kBcast, "hierarchical", 8).end,
                     27 + turns * copy);
  }
}

TEST(Walk, MessagesOfANodeTakeTurnsOnItsLink) {
  const Parameters p = round_parameters();
  constexpr Cluster kFour{4, 4, 1};
  // One alone: 6 + 15 + 6, of the 15 the last 8 on the receiver's link.
  EXPECT_EQ(bcast(p, Model::kLinked, {2, 2, 1}, "linear", 500, 8), 27);
  EXPECT_EQ(bcast(p, Model::kLinked, {2, 1, 1}, "linear", 500, 8), 6);
  // Out: sends end at 6, 12, 18, but the link is free at 6, 14, 22.
  EXPECT_EQ(bcast(p, Model::kMlogNP, kFour, "linear", 500, 8), 18 + 15 + 6);
  EXPECT_EQ(bcast(p, Model::kLinked, kFour, "linear", 500, 8), 22 + 15 + 6);
  // In: three reach the root's link at 13.
  EXPECT_EQ(walked(p, Model::kMlogNP, kFour, Collective::kGather, "linear", 500, 8).times.end, 21 + 3 * 6);
  EXPECT_EQ(walked(p, Model::kLinked, kFour, Collective::kGather, "linear", 500, 8).times.end, 13 + 3 * 8 + 6);
}

// Each old algorithm in the placement that is bad for it: its messages are dear because ranks of a node share a link.
// Gains like the papers' are over the better old one (python/zerohop/reproduce/simulate.py).
TEST(Walk, SharedLinksMakeBadPlacementsDear) {
  const Parameters& p = *model::built_in_profile("infiniband-ddr-like");
  const auto us = [&](Model model, bool cyclic, Collective collective, const char* algorithm, uint64_t bytes) {
    return walked(p, model, {128, 16, 2, cyclic}, collective, algorithm, bytes, 0, 0, 64 << 10).times.end;
  };
  const auto gain = [&](Model model, bool cyclic, Collective collective, const char* before, const char* knows_nodes,
                        uint64_t bytes) {
    return us(model, cyclic, collective, before, bytes) / us(model, cyclic, collective, knows_nodes, bytes);
  };
  for (const Model model : {Model::kMlogNP, Model::kLinked}) {
    const bool links = model == Model::kLinked;
    EXPECT_EQ(gain(model, false, Collective::kAllgather, "recursive-doubling", "leader-ring", 4 << 10) > 1.5, links);
    EXPECT_EQ(gain(model, true, Collective::kAllgather, "ring", "leader-ring", 16 << 10) > 1.5, links);
    EXPECT_EQ(gain(model, true, Collective::kBcast, "scatter-ring-allgather", "hierarchical", 1 << 20) > 1.5, links);
  }
}

TEST(Walk, IsTheClosedFormOfLinearBroadcast) {
  for (const Parameters& p : model::built_in_profiles()) {
    for (const uint64_t bytes : {1024U, 4096U, 16384U}) {
      for (const uint64_t stride : {8U, 64U, 512U}) {
        EXPECT_NEAR(bcast(p, Model::kLog3P, kCluster, "linear", bytes, stride),
                    form(p, Model::kLog3P, kCluster, "linear", bytes, stride), 1e-9);
        // As printed, the form for two levels leaves the last receiver's end out.
        const double last =
            model::Pricing(Model::kTwoLog23P, p, kCluster, stride).message(0, kCluster.ranks - 1, bytes).receive;
        for (const Model model : {Model::kTwoLog23P, Model::kMlogNP}) {
          EXPECT_NEAR(bcast(p, model, kCluster, "linear", bytes, stride),
                      form(p, model, kCluster, "linear", bytes, stride) + last, 1e-9);
        }
      }
    }
  }
}

TEST(Walk, IsTheClosedFormOfBinomialAndHierarchicalBroadcast) {
  for (const Parameters& p : model::built_in_profiles()) {
    for (const char* algorithm : {"binomial", "hierarchical"}) {
      for (const Cluster& cluster : {kCluster, Cluster{2, 1, 1}, Cluster{16, 16, 1}, Cluster{256, 4, 4}}) {
        for (const Model model : kPaperModels) {
          for (const uint64_t stride : {0U, 8U, 512U}) {
            EXPECT_NEAR(bcast(p, model, cluster, algorithm, 4096, stride),
                        form(p, model, cluster, algorithm, 4096, stride), 1e-9)
                << p.name << ", " << algorithm << ", " << cluster.ranks << ", " << name_of(model) << ", " << stride;
          }
        }
      }
    }
  }
}

TEST(Walk, IsNotAboveTheFormOfABinomialTreeOfAnySize) {
  // Steps overlap where P is no power of two or the root is elsewhere; the form takes them one after the other.
  const Parameters& p = *model::built_in_profile("gigabit-like");
  for (const Cluster& cluster : {Cluster{3, 1, 2}, Cluster{12, 3, 2}, Cluster{60, 6, 2}, Cluster{64, 8, 2}}) {
    for (uint32_t root = 0; root < cluster.ranks; root += 5) {
      for (const Model model : kPaperModels) {
        EXPECT_LE(bcast(p, model, cluster, "binomial", 1024, 64, root),
                  form(p, model, cluster, "binomial", 1024, 64, root) + 1e-9);
      }
    }
  }
}

TEST(Walk, EverythingRunsAfterWhatItWaitsForAndOneAtATime) {
  const Parameters p = round_parameters();
  const Cluster cluster{6, 3, 2};
  const auto look_at = [](const Walked& w, const std::string& what) {
    for (size_t rank = 0; rank < w.schedules.size(); ++rank) {
      const Schedule& schedule = w.schedules[rank];
      double engaged = 0;
      for (size_t i = 0; i < schedule.steps.size(); ++i) {
        const coll::Span span = w.times.spans[rank][i];
        EXPECT_GT(span.end, span.start) << what << ", rank " << rank << ", step " << i;
        engaged += span.end - span.start;
        for (const uint32_t wait : schedule.waits_of(schedule.steps[i])) {
          EXPECT_GE(span.start, w.times.spans[rank][wait].end);
        }
      }
      EXPECT_LE(engaged, w.times.end + 1e-9) << what << ", rank " << rank;
    }
  };
  for (const Collective collective : all_collectives()) {
    for (const coll::Algorithm& algorithm : coll::algorithms(collective)) {
      for (const bool team : {false, true}) {
        const std::string what = std::string(algorithm.name) + (team ? " of teams" : "");
        look_at(walked(p, Model::kMlogNP, cluster, collective, algorithm.name, 64, 0, 0, 16, team), what);
      }
    }
  }
}

TEST(Walk, GrowsWithSize) {
  const Parameters& p = *model::built_in_profile("infiniband-ddr-like");
  for (const char* algorithm : {"linear", "binomial", "hierarchical"}) {
    double before = 0;
    for (uint64_t bytes = 16; bytes <= 4 << 20; bytes *= 2) {
      const double us = bcast(p, Model::kMlogNP, {16, 4, 2}, algorithm, bytes, 8);
      EXPECT_GT(us, before) << algorithm << ", " << bytes;
      before = us;
    }
  }
  // Elsewhere a rank that takes what comes first may choose better with larger messages, so the steps are larger.
  for (const Collective collective : all_collectives()) {
    if (collective == Collective::kBarrier) continue;
    for (const coll::Algorithm& algorithm : coll::algorithms(collective)) {
      double before = 0;
      for (const uint64_t bytes : {1024U, 65536U, 4194304U}) {
        const double us = walked(p, Model::kMlogNP, {16, 4, 2}, collective, algorithm.name, bytes).times.end;
        EXPECT_GT(us, before) << name_of(collective) << " by " << algorithm.name << ", " << bytes;
        before = us;
      }
    }
  }
}

Parameters scaled(Parameters p, double factor) {
  const auto scale = [factor](model::CostTable* table) {
    for (model::CostTable::Point& point : table->points) point.us *= factor;
  };
  for (model::LevelCosts& level : p.levels) {
    for (model::CostTable* table : {&level.overhead, &level.network, &level.link, &level.gap}) scale(table);
    for (model::StridedCosts::Row& row : level.latency.rows) scale(&row.table);
  }
  return p;
}

TEST(Walk, WhoIsFirstDoesNotHangOnRounding) {
  // Steps that become ready at one moment by sums of other terms; in these a rank's choice changes the whole by 1 to 10
  // %.
  const struct {
    Collective collective;
    const char* algorithm;
    Cluster cluster;
    uint64_t bytes, stride;
  } cases[] = {{Collective::kBcast, "scatter-ring-allgather", {16, 4, 2, true}, 4096, 8},
               {Collective::kBcast, "scatter-ring-allgather", {8, 2, 2, false}, 4096, 8},
               {Collective::kAllreduce, "reduce-scatter-allgather", {12, 3, 2, false}, 4096, 8},
               {Collective::kAllreduce, "reduce-scatter-allgather", {6, 3, 2, false}, 65536, 0}};
  const Parameters& p = *model::built_in_profile("infiniband-ddr-like");
  for (const auto& c : cases) {
    const auto us = [&](const Parameters& costs) {
      return walked(costs, Model::kMlogNP, c.cluster, c.collective, c.algorithm, c.bytes, c.stride).times.end;
    };
    for (const double factor : {3.0, 7.0, 10.0, 13.0}) {
      EXPECT_NEAR(us(scaled(p, factor)) / us(p), factor, 1e-6) << c.algorithm << ", " << c.cluster.ranks;
    }
  }
}

TEST(Walk, ReceptionsKeepTheGap) {
  Parameters p = round_parameters();
  const Cluster cluster{4, 4, 1};
  // All three send at once; 6 + 15 later the root takes one after the other, 6 each.
  EXPECT_EQ(walked(p, Model::kMlogNP, cluster, Collective::kGather, "linear", 500, 8).times.end, 21 + 3 * 6);
  p.levels[2].gap = {{{0, 50}}};
  EXPECT_EQ(walked(p, Model::kMlogNP, cluster, Collective::kGather, "linear", 500, 8).times.end, 21 + 2 * 50 + 6);
}

}  // namespace
}  // namespace zh::test
