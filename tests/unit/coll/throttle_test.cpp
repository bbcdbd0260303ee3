// The throttle of copies from one member's memory: never more inside than the limit, and nobody is left outside.
#include "coll/team/throttle.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace zh::coll {
namespace {

TEST(Throttle, LetsInAsManyAsTheLimitSays) {
  ThrottleShm throttle{};
  EXPECT_TRUE(throttle.try_enter(2));
  EXPECT_TRUE(throttle.try_enter(2));
  EXPECT_FALSE(throttle.try_enter(2));
  EXPECT_TRUE(throttle.try_enter(3)) << "each brings its own limit";
  EXPECT_STREQ(throttle.broken_invariant(3), nullptr);
  EXPECT_STREQ(throttle.broken_invariant(2), "at most as many are inside as the limit says");
  throttle.leave();
  throttle.leave();
  EXPECT_TRUE(throttle.try_enter(2));
}

TEST(Throttle, HoldsAmongThreads) {
  constexpr uint32_t kLimit = 2;
  constexpr int kThreads = 4;
  constexpr int kTurns = 20'000;
  ThrottleShm throttle{};
  Atomic<uint32_t> inside{0};
  Atomic<uint32_t> most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns;) {
        if (!throttle.try_enter(kLimit)) {
          std::this_thread::yield();
          continue;
        }
        const uint32_t now = inside.fetch_add_relaxed(1) + 1;
        uint32_t seen = most.load_relaxed();
        while (now > seen && !most.cas_relaxed(seen, now)) {
        }
        inside.fetch_sub_acq_rel(1);
        throttle.leave();
        ++turn;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_LE(most.load_relaxed(), kLimit);
  EXPECT_EQ(throttle.inside.load_relaxed(), 0U);
}

}  // namespace
}  // namespace zh::coll
