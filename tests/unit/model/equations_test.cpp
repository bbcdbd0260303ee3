// Each equation of the paper by values reckoned by hand: a message of 500 bytes at stride 8 (model_support.h), and the
// paper's 64 ranks on 8 nodes of two chips.
// label one-thread: ^test_costs[.]
#include "model/equations.h"

#include <gtest/gtest.h>

#include "model/closed_forms.h"
#include "model/pricing.h"
#include "model/profiles.h"
#include "model_support.h"

namespace zh::model {
namespace {

constexpr MessageShape kShape{500, 8};
constexpr Cluster kCluster{64, 8, 2};
constexpr PathCost kOnChip{4, 2, 0};
constexpr PathCost kBetweenChips{6, 3, 0};
constexpr PathCost kBetweenNodes{8, 4, 15};

double form(Model model, std::string_view algorithm, const Cluster& cluster = kCluster, uint32_t root = 0,
            uint64_t segment = 0) {
  return closed_form(model, test::round_parameters(), {algorithm, cluster, root, kShape, segment})->us;
}

TEST(Equations, TermsOfAPath) {
  const Parameters p = test::round_parameters();
  const PathCost cost = path_cost(p.at(CommLevel::kInterNode), kShape);
  EXPECT_EQ(cost.o_mw, 8);
  EXPECT_EQ(cost.l_mw, 4);
  EXPECT_EQ(cost.o_net, 15);
  EXPECT_EQ(cost.end_us(), 6);
}

TEST(Equations, Equation1) {
  const TransferCost transfers[] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
  EXPECT_EQ(logn_p(transfers), 36);
  EXPECT_EQ(logn_p({}), 0);
}

TEST(Equations, Equation2) { EXPECT_EQ(log3_p({{{4, 2}, {15, 0}, {4, 2}}}), 27); }

TEST(Equations, Equation3) { EXPECT_EQ(log3_p(kBetweenNodes), 27); }

TEST(Equations, Equation4) {
  const Parameters p = test::round_parameters();
  EXPECT_EQ(mlogn_p(p, CommLevel::kIntraChip, kShape), 6);
  EXPECT_EQ(mlogn_p(p, CommLevel::kInterChip, kShape), 9);
  EXPECT_EQ(mlogn_p(p, CommLevel::kInterNode, kShape), 27);
  EXPECT_EQ(mlogn_p(p, CommLevel::kInterNode, {500, 0}), 23) << "contiguous";
}

TEST(Equations, Equation5) {
  EXPECT_EQ(two_log23_p(kOnChip, false), 6);
  EXPECT_EQ(two_log23_p(kBetweenNodes, true), 27);
}

TEST(Equations, Equation6IsEquation5) {
  const Parameters p = test::round_parameters();
  EXPECT_EQ(two_log23_p(p, false, kShape), 6);
  EXPECT_EQ(two_log23_p(p, true, kShape), 27);
}

TEST(Equations, Equation7) {
  EXPECT_EQ(tree(27, 64), 162);
  EXPECT_EQ(tree(27, 1), 0);
  EXPECT_EQ(tree(27, 65), 189) << "the next power of two";
}

TEST(Equations, Equation8) { EXPECT_EQ(hierarchical_tree(6, 27, 64, 8), 3 * 6 + 3 * 27); }

TEST(Equations, Equation9) {
  EXPECT_EQ(tiled_tree(4, 2, 27, 64, 8), 2 * (4 * 3) + 3 * 27);
  EXPECT_EQ(tiled_tree(6, 1, 27, 64, 8), hierarchical_tree(6, 27, 64, 8)) << "one segment is the whole message";
}

TEST(Equations, LinearBroadcast) {
  EXPECT_EQ(linear_log3_p(kBetweenNodes, 64), 64 * 6 + 15);
  EXPECT_EQ(linear_two_log23_p(kOnChip, kBetweenNodes, 64, 8), 7 * 3 + 56 * 6 + 15);
  EXPECT_EQ(linear_mlogn_p({kOnChip, kBetweenChips, kBetweenNodes}, {3, 4, 56}), 3 * 3 + 4 * 4.5 + 56 * 6 + 15);
  EXPECT_EQ(linear_mlogn_p({kOnChip, kOnChip, kBetweenNodes}, {3, 4, 56}),
            linear_two_log23_p(kOnChip, kBetweenNodes, 64, 8));
  EXPECT_EQ(linear_two_log23_p(kOnChip, kBetweenNodes, 8, 1), 7 * 3) << "no network on one node";
  EXPECT_EQ(linear_log3_p(kBetweenNodes, 1), 0);
}

TEST(Equations, BinomialBroadcast) {
  EXPECT_EQ(binomial_two_log23_p(6, 27, 64, 3), 3 * 6 + 3 * 27);
  EXPECT_EQ(distance_us({6, 9, 27}, {2, 1, 3}), 2 * 6 + 9 + 3 * 27);
}

TEST(Cluster, KnowsLevels) {
  EXPECT_EQ(kCluster.level(0, 3), CommLevel::kIntraChip);
  EXPECT_EQ(kCluster.level(3, 4), CommLevel::kInterChip);
  EXPECT_EQ(kCluster.level(7, 8), CommLevel::kInterNode);
  EXPECT_EQ(linear_sends(kCluster, 0), (CountByLevel{3, 4, 56}));
  EXPECT_EQ(linear_sends(kCluster, 63), (CountByLevel{3, 4, 56}));
  const Cluster lone{8, 8, 2};
  EXPECT_EQ(lone.level(0, 1), CommLevel::kInterNode);
  EXPECT_EQ(lone.chip_of(5), 0U);
}

TEST(Cluster, RanksAreDealtOutInTurn) {
  constexpr Cluster kCyclic{64, 8, 2, true};
  EXPECT_EQ(kCyclic.node_of(9), 1U);
  EXPECT_EQ(kCyclic.place_of(9), 1U);
  EXPECT_EQ(kCyclic.level(0, 8), CommLevel::kIntraChip);
  EXPECT_EQ(kCyclic.level(0, 32), CommLevel::kInterChip) << "the fifth of its node";
  EXPECT_EQ(kCyclic.level(0, 1), CommLevel::kInterNode);
  EXPECT_EQ(linear_sends(kCyclic, 9), (CountByLevel{3, 4, 56}));
}

TEST(Cluster, BinomialDistance) {
  EXPECT_EQ(binomial_distance(kCluster, 0, {6, 9, 27}), (CountByLevel{2, 1, 3}));
  // Root 3: +4 stays on the node (3 to 7), then rank 7 of the node sends to the next node twice, +2 and +1.
  EXPECT_EQ(binomial_distance(kCluster, 3, {6, 6, 27})[2], 5U);
  EXPECT_EQ(binomial_distance({1, 1, 1}, 0, {6, 9, 27}), (CountByLevel{0, 0, 0}));
  const CountByLevel six = binomial_distance({6, 1, 1}, 0, {6, 9, 27});
  EXPECT_EQ(six[0], 3U) << "as many steps as the next power of two has";
}

TEST(ClosedForms, ArePutTogether) {
  EXPECT_EQ(form(Model::kLog3P, "linear"), 399);
  EXPECT_EQ(form(Model::kTwoLog23P, "linear"), 372);
  EXPECT_EQ(form(Model::kMlogNP, "linear"), 378);
  EXPECT_EQ(form(Model::kLog3P, "binomial"), 162);
  EXPECT_EQ(form(Model::kTwoLog23P, "binomial"), 99);
  EXPECT_EQ(form(Model::kMlogNP, "binomial"), 102);
  EXPECT_EQ(form(Model::kTwoLog23P, "binomial", kCluster, 3), 1 * 6 + 5 * 27);
  EXPECT_EQ(form(Model::kLog3P, "hierarchical"), 162);
  EXPECT_EQ(form(Model::kTwoLog23P, "hierarchical"), 99);
  EXPECT_EQ(form(Model::kMlogNP, "hierarchical"), 102);
  // Two segments of 250 bytes: one end costs 1.5 + 0.5 µs on a chip, T is 4; between chips 6.
  EXPECT_EQ(form(Model::kTwoLog23P, "hierarchical", kCluster, 0, 250), 105);
  EXPECT_EQ(form(Model::kMlogNP, "hierarchical", kCluster, 0, 250), 2 * (2 * 4 + 6) + 81);
  EXPECT_FALSE(closed_form(Model::kLog3P, test::round_parameters(), {"leader-ring", kCluster, 0, kShape, 0}));
}

TEST(ClosedForms, OneRankSendsNothing) {
  for (const Model model : kPaperModels) {
    for (const char* algorithm : {"linear", "binomial", "hierarchical"}) {
      EXPECT_EQ(form(model, algorithm, {1, 1, 1}), 0) << name_of(model) << " " << algorithm;
    }
  }
}

TEST(ClosedForms, ModelsAreInOrder) {
  // Where they are alike, sums are rounded differently: compilers may contract products and sums.
  constexpr double kRounding = 1 + 1e-12;
  for (const Parameters& p : built_in_profiles()) {
    for (const char* algorithm : {"linear", "binomial", "hierarchical"}) {
      for (const double bytes : {8.0, 1024.0, 5000.0, 16384.0, 1e6}) {
        for (const uint32_t root : {0U, 5U, 63U}) {
          const auto us = [&](Model m) { return closed_form(m, p, {algorithm, kCluster, root, {bytes, 64}, 0})->us; };
          // A model that tells more levels apart finds more that is near, and 2log{2,3}P takes chips for one.
          EXPECT_LE(us(Model::kTwoLog23P), kRounding * us(Model::kMlogNP)) << algorithm << " " << bytes;
          EXPECT_LE(us(Model::kMlogNP), kRounding * us(Model::kLog3P)) << algorithm << " " << bytes;
        }
      }
    }
  }
}

TEST(ClosedForms, GrowWithSizeStrideAndRanks) {
  const Parameters& p = *built_in_profile("gigabit-like");
  for (const Model model : kPaperModels) {
    for (const char* algorithm : {"linear", "binomial", "hierarchical"}) {
      const auto us = [&](double bytes, uint64_t stride, uint32_t ranks, uint32_t nodes) {
        return closed_form(model, p, {algorithm, {ranks, nodes, 2}, 0, {bytes, stride}, 0})->us;
      };
      for (double bytes = 8; bytes <= 4 << 20; bytes *= 2) {
        EXPECT_LE(us(bytes, 8, 64, 8), us(2 * bytes, 8, 64, 8));
        EXPECT_LE(us(bytes, 8, 64, 8), us(bytes, 64, 64, 8));
        EXPECT_LE(us(bytes, 8, 32, 4), us(bytes, 8, 64, 8));
        EXPECT_LE(us(bytes, 8, 64, 4), us(bytes, 8, 64, 8)) << "the same ranks on more nodes";
      }
    }
  }
}

TEST(ClosedForms, AThousandNodesTakeNoTime) {
  EXPECT_GT(form(Model::kMlogNP, "binomial", {128'000, 1000, 2}, 77'777), 0);
}

TEST(Pricing, ReadersOfOneMemoryTakeLongerAsWasMeasured) {
  Parameters p = test::round_parameters();
  const auto priced = [&](uint64_t bytes, uint32_t readers, Model model = Model::kLinked) {
    const Pricing pricing(model, p, kCluster, 0);
    return pricing.shared(bytes, readers) / pricing.work(bytes);
  };
  EXPECT_EQ(priced(500, 3), 1) << "nothing was measured";
  p.facts.contention = {{"kernel", 64, {{1, 1}, {4, 9}}, false},
                        {"mapped", 256, {{1, 10}, {2, 12}, {4, 20}}, false},
                        {"mapped", 4096, {{1, 10}, {4, 30}}, false}};
  EXPECT_EQ(priced(500, 1), 1);
  EXPECT_DOUBLE_EQ(priced(500, 2), 1.2);
  EXPECT_DOUBLE_EQ(priced(500, 3), 1.6) << "between the numbers that were measured";
  EXPECT_DOUBLE_EQ(priced(500, 6), 2.8) << "beyond the most that were measured on the line";
  EXPECT_DOUBLE_EQ(priced(64, 4), 2) << "the least size stands for those below";
  EXPECT_DOUBLE_EQ(priced(5000, 4), 3);
  EXPECT_EQ(priced(500, 4, Model::kMlogNP), 1) << "the paper's models do not know it";
  p.facts.contention[1].noisy = p.facts.contention[2].noisy = true;
  EXPECT_EQ(priced(500, 4), 1);
}

TEST(Pricing, SplitsAMessageIntoItsParts) {
  Parameters p = test::round_parameters();
  const Pricing mlog(Model::kMlogNP, p, kCluster, 8);
  const MessagePrice far = mlog.message(0, 8, 500);
  EXPECT_EQ(far.send, 6);
  EXPECT_EQ(far.network, 15);
  EXPECT_EQ(far.receive, 6);
  EXPECT_EQ(far.gap, 4) << "g = o";
  EXPECT_EQ(mlog.message(0, 4, 500).send, 4.5);
  EXPECT_EQ(Pricing(Model::kTwoLog23P, p, kCluster, 8).message(0, 4, 500).send, 3);
  EXPECT_EQ(Pricing(Model::kLog3P, p, kCluster, 8).message(0, 1, 500).network, 15);
  EXPECT_EQ(mlog.work(500), 2);
  p.levels[2].gap = {{{0, 50}}};
  EXPECT_EQ(mlog.message(0, 8, 500).gap, 50);
}

}  // namespace
}  // namespace zh::model
