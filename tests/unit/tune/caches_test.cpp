// Where described curves of read costs rise, which cache a rise stands for, and what is noisy; then this machine's.
#include "tune/caches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace zh::tune {
namespace {

constexpr uint64_t kK = 1024;
constexpr uint64_t kM = 1024 * kK;

/// A level that holds `bytes`; behind it a read costs `ns`.
struct Level {
  uint64_t bytes;
  double ns;
};

/// A machine whose reads cost `first_ns` until the first level ends. `smear`: doublings that a rise takes. `noise`:
/// each point's relative deviation.
ReadCurve curve_of(double first_ns, const std::vector<Level>& levels, uint64_t last, double smear = 0,
                   double noise = 0) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> deviation(0, noise);
  ReadCurve curve;
  for (const uint64_t bytes : sweep_sizes(last)) {
    double log_ns = std::log(first_ns);
    double before = first_ns;
    for (const Level& level : levels) {
      const double over = std::log2(static_cast<double>(bytes) / static_cast<double>(level.bytes));
      const double share = smear > 0 ? std::clamp(over / smear + 0.5, 0.0, 1.0) : over > 0 ? 1.0 : 0.0;
      log_ns += share * std::log(level.ns / before);
      before = level.ns;
    }
    curve.push_back({bytes, std::exp(log_ns + deviation(random))});
  }
  return curve;
}

const std::vector<Level> kThree = {{48 * kK, 3.5}, {2 * kM, 18}, {32 * kM, 80}};

TEST(Caches, ACurveRisesBehindEachLevel) {
  EXPECT_EQ(rises_of(curve_of(1.2, kThree, 64 * kM)), (std::vector<uint64_t>{48 * kK, 2 * kM, 32 * kM}));
  EXPECT_EQ(rises_of(curve_of(1.2, kThree, 64 * kM, 0, 0.05)), (std::vector<uint64_t>{48 * kK, 2 * kM, 32 * kM}));
  EXPECT_EQ(rises_of(curve_of(1, {{32 * kK, 4}, {kM, 30}}, 16 * kM)), (std::vector<uint64_t>{32 * kK, kM}));
}

TEST(Caches, AFourthRiseTakesNoneOfTheCachesAway) {
  // Behind 8 MiB the processor walks page tables.
  const std::vector<Level> levels = {{32 * kK, 1.7}, {kM, 5}, {8 * kM, 9}, {32 * kM, 80}};
  EXPECT_EQ(rises_of(curve_of(1, levels, 256 * kM, 0, 0.03)), (std::vector<uint64_t>{32 * kK, kM, 8 * kM, 32 * kM}));
  const std::vector<ReadCurve> passes(3, curve_of(1, levels, 256 * kM, 0, 0.03));
  const auto found = caches_of(passes, {32 * kK, kM, 32 * kM});
  EXPECT_EQ(found[0].bytes, 32 * kK) << "the least of the rises";
  EXPECT_EQ(found[1].bytes, kM);
  EXPECT_EQ(found[2].bytes, 32 * kM);
}

TEST(Caches, ARiseThatTakesADoublingIsFoundInItsMiddle) {
  for (const double doublings : {1.0, 1.5}) {
    const std::vector<uint64_t> rises = rises_of(curve_of(1.2, kThree, 128 * kM, doublings, 0.03));
    ASSERT_EQ(rises.size(), 3U);
    for (size_t i = 0; i < 3; ++i) {
      const double off = static_cast<double>(rises[i]) / static_cast<double>(kThree[i].bytes);
      EXPECT_GE(off, 0.7) << rises[i];
      EXPECT_LE(off, 1.4) << rises[i];
    }
  }
}

TEST(Caches, AFlatCurveAndASlightRiseAreNone) {
  EXPECT_TRUE(rises_of(curve_of(5, {}, 16 * kM, 0, 0.05)).empty());
  EXPECT_EQ(rises_of(curve_of(1, {{32 * kK, 4}, {256 * kK, 4.6}, {kM, 30}}, 16 * kM)),
            (std::vector<uint64_t>{32 * kK, kM}));
  EXPECT_TRUE(rises_of({}).empty());
  EXPECT_TRUE(rises_of(ReadCurve{{8 * kK, 1}, {16 * kK, 9}}).empty()) << "one point is no level";
}

TEST(Caches, OneDisturbedPointIsNoCache) {
  ReadCurve curve = curve_of(1.2, kThree, 64 * kM);
  curve[9].ns *= 20;
  curve[25].ns /= 20;
  EXPECT_EQ(rises_of(curve), (std::vector<uint64_t>{48 * kK, 2 * kM, 32 * kM}));
}

TEST(Caches, ARiseStandsForTheCacheOfItsPlaceHoweverLargeItIs) {
  // A neighbour leaves a tenth of the last level.
  const std::vector<ReadCurve> passes(3, curve_of(1, {{32 * kK, 1.7}, {kM, 3.3}, {3 * kM, 25}}, 64 * kM));
  const auto found = caches_of(passes, {32 * kK, kM, 32 * kM});
  EXPECT_EQ(found[0].bytes, 32 * kK);
  EXPECT_EQ(found[1].bytes, kM);
  EXPECT_EQ(found[2].bytes, 3 * kM);
  for (const CacheFound& cache : found) EXPECT_FALSE(cache.noisy || cache.at_least);
}

TEST(Caches, OfFewerRisesTheClosestCachesAreMeant) {
  const std::vector<ReadCurve> passes(3, curve_of(1, {{kM, 3.3}, {24 * kM, 25}}, 64 * kM));
  const auto found = caches_of(passes, {32 * kK, kM, 32 * kM});
  EXPECT_EQ(found[0].bytes, 0U);
  EXPECT_EQ(found[1].bytes, kM);
  EXPECT_EQ(found[2].bytes, 24 * kM);
}

TEST(Caches, ALastLevelThatTheSweepDoesNotLeaveIsAtLeastSo) {
  const std::vector<ReadCurve> passes(3, curve_of(1, {{32 * kK, 4}, {2 * kM, 16}}, 64 * kM));
  const auto found = caches_of(passes, {32 * kK, 2 * kM, 256 * kM});
  EXPECT_TRUE(found[2].at_least);
  EXPECT_EQ(found[2].bytes, 64 * kM);
  EXPECT_FALSE(found[1].at_least);
}

TEST(Caches, WithoutADescriptionTheOrderNamesThem) {
  const auto three = caches_of(std::vector<ReadCurve>(3, curve_of(1.2, kThree, 64 * kM)), {});
  EXPECT_EQ(three[1].bytes, 2 * kM);
  EXPECT_EQ(three[2].bytes, 32 * kM);
  const auto two = caches_of(std::vector<ReadCurve>(3, curve_of(1, {{32 * kK, 4}, {kM, 30}}, 16 * kM)), {});
  EXPECT_EQ(two[0].bytes, 32 * kK);
  EXPECT_EQ(two[1].bytes, 0U);
  EXPECT_EQ(two[2].bytes, kM);
  EXPECT_FALSE(two[2].at_least);
}

TEST(Caches, PassesThatDisagreeAreNoisyAndTheirMedianStays) {
  std::vector<ReadCurve> passes;
  for (const uint64_t last : {4 * kM, 6 * kM, 16 * kM}) {
    passes.push_back(curve_of(1, {{32 * kK, 4}, {kM, 14}, {last, 60}}, 64 * kM));
  }
  const CacheBytes described = {32 * kK, kM, 32 * kM};
  auto found = caches_of(passes, described);
  EXPECT_EQ(found[2].bytes, 6 * kM);
  EXPECT_TRUE(found[2].noisy);
  EXPECT_FALSE(found[1].noisy);
  passes[1] = curve_of(1, {{32 * kK, 4}, {kM, 14}}, 64 * kM);
  found = caches_of(passes, described);
  EXPECT_TRUE(found[2].noisy) << "a pass without it";
}

TEST(Caches, WhatRepeatsIsFirmThoughOnePassWasDisturbed) {
  const CacheBytes described = {32 * kK, kM, 32 * kM};
  std::vector<ReadCurve> passes(5, curve_of(1, {{32 * kK, 4}, {kM, 14}, {24 * kM, 60}}, 64 * kM));
  passes[2] = curve_of(1, {{kM, 14}, {4 * kM, 60}}, 64 * kM);
  auto found = caches_of(passes, described);
  EXPECT_EQ(found[0].bytes, 32 * kK);
  EXPECT_EQ(found[2].bytes, 24 * kM);
  for (const CacheFound& cache : found) EXPECT_FALSE(cache.noisy);
  passes[4] = passes[2];
  found = caches_of(passes, described);
  EXPECT_TRUE(found[0].noisy) << "two of five passes did not find it";
  EXPECT_FALSE(found[1].noisy);
  EXPECT_TRUE(found[2].noisy);
}

TEST(Caches, SizesOfASweepRiseAndHoldWholePages) {
  const std::vector<uint64_t> sizes = sweep_sizes(48 * kM);
  EXPECT_EQ(sizes.front(), 8 * kK);
  EXPECT_EQ(sizes.back(), 48 * kM);
  EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
  EXPECT_EQ(std::adjacent_find(sizes.begin(), sizes.end()), sizes.end());
  for (const uint64_t bytes : sizes) EXPECT_EQ(bytes % 4096, 0U);
  for (const uint64_t usual : {32 * kK, 48 * kK, 512 * kK, kM, 1280 * kK, 2 * kM, 32 * kM}) {
    EXPECT_EQ(std::count(sizes.begin(), sizes.end(), usual), 1) << usual;
  }
}

TEST(Caches, ASweepOfThisMachineHasACostForEachSize) {
  const std::vector<ReadCurve> curves = sweep_reads(2 * kM, 2);
  ASSERT_EQ(curves.size(), 2U);
  for (const ReadCurve& curve : curves) {
    ASSERT_EQ(curve.size(), sweep_sizes(2 * kM).size());
    for (const ReadCost& point : curve) EXPECT_GT(point.ns, 0);
  }
  EXPECT_TRUE(sweep_reads(0, 1).empty());
}

}  // namespace
}  // namespace zh::tune
