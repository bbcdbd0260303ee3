// When a rank finds that other programs want its processor, and for how long it believes that.
#include "engine/busy_watch.h"

#include <gtest/gtest.h>

namespace zh::engine {
namespace {

constexpr uint64_t kMs = 1'000'000;

struct Rank {
  BusyWatch watch;
  uint64_t now = 100 * kMs;
  uint64_t lost = 5;
  bool away(uint64_t ns, bool to_another) {
    const uint64_t from = now;
    now += ns;
    if (to_another) ++lost;
    return watch.note(from, now, [this] { return lost; });
  }
  [[nodiscard]] bool busy() const {
    return watch.busy([this] { return now; });
  }
};

TEST(BusyWatch, AQuietMachineIsNot) {
  Rank rank;
  EXPECT_FALSE(rank.busy());
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(rank.away(kMs / 10, true)) << "a peer has had it for a moment";
  EXPECT_FALSE(rank.busy());
}

TEST(BusyWatch, AMachineThatStandsStillIsNot) {
  Rank rank;
  (void)rank.away(4 * kMs, true);
  rank.now += 1000 * kMs;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(rank.away(4 * kMs, false)) << "nobody else has run";
  EXPECT_FALSE(rank.busy());
}

TEST(BusyWatch, OneLateLookIsEnoughAndIsForgotten) {
  Rank rank;
  EXPECT_TRUE(rank.away(kMs, true));
  EXPECT_TRUE(rank.busy());
  rank.now += 5 * kMs;
  EXPECT_FALSE(rank.busy()) << "a launcher that wanted it for a millisecond";
}

TEST(BusyWatch, WhoStaysIsBelievedForLonger) {
  Rank rank;
  uint64_t lost_in_looks = 0;
  const uint64_t begin = rank.now;
  while (rank.now - begin < 20'000 * kMs) {
    if (rank.busy()) {
      rank.now += kMs;
    } else {
      lost_in_looks += 12 * kMs;
      (void)rank.away(12 * kMs, true);
    }
  }
  EXPECT_LT(lost_in_looks, 300 * kMs) << "of 20 s";
  rank.now += 10'000 * kMs;
  EXPECT_FALSE(rank.busy());
  EXPECT_TRUE(rank.away(3 * kMs, true));
  rank.now += 60 * kMs;
  EXPECT_FALSE(rank.busy()) << "a new guest begins anew";
}

}  // namespace
}  // namespace zh::engine
