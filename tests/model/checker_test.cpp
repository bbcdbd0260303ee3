// The checker itself: litmus tests that must fail, and ones that must pass. A check that cannot fail proves nothing.
#include <gtest/gtest.h>

#include <set>

#include "base/atomic.h"
#include "base/invariant.h"
#include "checker.h"

namespace zh::mc {
namespace {

/// A scenario from lambdas over shared variables of type V, made anew for each execution.
template <typename V>
class Litmus final : public Scenario {
 public:
  using Body = void (*)(V&);
  Litmus(std::vector<Body> bodies, Body last) : bodies_(std::move(bodies)), last_(last) {}
  [[nodiscard]] uint32_t threads() const override { return static_cast<uint32_t>(bodies_.size()); }
  void run(uint32_t thread) override { bodies_[thread](vars_); }
  void finish() override {
    if (last_ != nullptr) last_(vars_);
  }

 private:
  V vars_;
  std::vector<Body> bodies_;
  Body last_;
};

template <typename V>
Report litmus(std::vector<void (*)(V&)> bodies, void (*last)(V&) = nullptr, const Options& options = {}) {
  Report r = explore(options, [&] { return std::make_unique<Litmus<V>>(bodies, last); });
  std::printf("%s: %lu executions, %lu pruned\n", ::testing::UnitTest::GetInstance()->current_test_info()->name(),
              static_cast<unsigned long>(r.executions), static_cast<unsigned long>(r.pruned));
  return r;
}

struct Two {
  Atomic<uint32_t> x, y;
  Atomic<uint32_t> z;
  uint32_t plain = 0;
  uint32_t r[4] = {};
};

TEST(Checker, MessagePassingHolds) {
  const Report r = litmus<Two>({[](Two& v) {
                                  data_write(&v.plain);
                                  v.plain = 42;
                                  v.x.store_release(1);
                                },
                                [](Two& v) {
                                  if (v.x.load_acquire() == 0) return;
                                  data_read(&v.plain);
                                  check(v.plain == 42, "payload");
                                }});
  EXPECT_TRUE(r.ok && r.complete) << r.failure;
  EXPECT_EQ(r.sites.size(), 2u);
}

TEST(Checker, RelaxedFlagIsADataRace) {
  const Report r = litmus<Two>({[](Two& v) {
                                  data_write(&v.plain);
                                  v.x.store_relaxed(1);
                                },
                                [](Two& v) {
                                  if (v.x.load_acquire() != 0) data_read(&v.plain);
                                }});
  EXPECT_FALSE(r.ok);
  EXPECT_NE(r.failure.find("data race"), std::string::npos);
}

TEST(Checker, WriteAfterTheReleaseIsADataRace) {
  const Report r = litmus<Two>({[](Two& v) {
                                  v.x.store_release(1);
                                  data_write(&v.plain);
                                },
                                [](Two& v) {
                                  if (v.x.load_acquire() != 0) data_read(&v.plain);
                                }});
  EXPECT_FALSE(r.ok);
}

TEST(Checker, RelaxedReadsMayBeStale) {
  // Message passing of an atomic payload by a relaxed flag: the old payload must be seen in some execution.
  const Report r = litmus<Two>({[](Two& v) {
                                  v.y.store_relaxed(1);
                                  v.x.store_relaxed(1);
                                },
                                [](Two& v) {
                                  if (v.x.load_acquire() == 1) check(v.y.load_relaxed() == 1, "stale payload");
                                }});
  EXPECT_FALSE(r.ok);
}

TEST(Checker, WriteAfterReadIsADataRace) {
  const Report r = litmus<Two>({[](Two& v) { data_read(&v.plain); }, [](Two& v) { data_write(&v.plain); }});
  EXPECT_FALSE(r.ok);
}

// Results of two threads' loads over all executions.
std::set<std::pair<uint32_t, uint32_t>> g_seen;
void record(Two& v) { g_seen.insert({v.r[0], v.r[1]}); }

TEST(Checker, StoreBufferingIsAllowed) {
  g_seen.clear();
  const Report r = litmus<Two>({[](Two& v) {
                                  v.x.store_release(1);
                                  v.r[0] = v.y.load_acquire();
                                },
                                [](Two& v) {
                                  v.y.store_release(1);
                                  v.r[1] = v.x.load_acquire();
                                }},
                               record);
  EXPECT_TRUE(r.ok && r.complete);
  EXPECT_EQ(g_seen.size(), 4u);  // (0, 0) included
}

TEST(Checker, FencesForbidStoreBuffering) {
  g_seen.clear();
  const Report r = litmus<Two>({[](Two& v) {
                                  v.x.store_relaxed(1);
                                  fence_seq_cst();
                                  v.r[0] = v.y.load_relaxed();
                                },
                                [](Two& v) {
                                  v.y.store_relaxed(1);
                                  fence_seq_cst();
                                  v.r[1] = v.x.load_relaxed();
                                }},
                               record);
  EXPECT_TRUE(r.ok && r.complete);
  EXPECT_EQ(g_seen.size(), 3u);
  EXPECT_EQ(g_seen.count({0, 0}), 0u);
}

TEST(Checker, LostUpdateIsFound) {
  const Report r = litmus<Two>({[](Two& v) { v.x.store_relaxed(v.x.load_relaxed() + 1); },
                                [](Two& v) { v.x.store_relaxed(v.x.load_relaxed() + 1); }},
                               [](Two& v) { check(v.x.load_relaxed() == 2, "lost update"); });
  EXPECT_FALSE(r.ok);
}

TEST(Checker, FetchAddLosesNothing) {
  const auto add = [](Two& v) { v.x.fetch_add_relaxed(1); };
  const auto all = [](Two& v) { check(v.x.load_relaxed() == 3, "lost update"); };
  const Report r = litmus<Two>({add, add, add}, all);
  EXPECT_TRUE(r.ok && r.complete) << r.failure;
  EXPECT_GE(r.executions, 6u);  // at least every order of the three
  Options torn;
  for (const std::string& site : r.sites) torn.mutation = {Mutation::Kind::kTorn, site};
  EXPECT_FALSE(litmus<Two>({add, add, add}, all, torn).ok);
}

TEST(Checker, ReleaseSequenceThroughReadModifyWrite) {
  const auto write = [](Two& v) {
    data_write(&v.plain);
    v.x.store_release(1);
  };
  const auto read = [](Two& v) {
    if (v.x.load_acquire() >= 2) data_read(&v.plain);
  };
  // A relaxed read-modify-write continues the release sequence ...
  EXPECT_TRUE(litmus<Two>({write,
                           [](Two& v) {
                             if (v.x.load_relaxed() == 1) v.x.fetch_add_relaxed(1);
                           },
                           read})
                  .ok);
  // ... a relaxed store breaks it.
  EXPECT_FALSE(litmus<Two>({write,
                            [](Two& v) {
                              if (v.x.load_relaxed() == 1) v.x.store_relaxed(2);
                            },
                            read})
                   .ok);
}

TEST(Checker, CoherenceOfReads) {
  const Report r = litmus<Two>({[](Two& v) {
                                  v.x.store_relaxed(1);
                                  v.x.store_relaxed(2);
                                },
                                [](Two& v) {
                                  const uint32_t a = v.x.load_relaxed();
                                  check(v.x.load_relaxed() >= a, "went back in modification order");
                                }});
  EXPECT_TRUE(r.ok && r.complete) << r.failure;
}

TEST(Checker, IndependentReadsOfIndependentWrites) {
  // Two readers may disagree on the order of two writes: allowed by release and acquire, so it must be seen.
  g_seen.clear();
  const Report r = litmus<Two>({[](Two& v) { v.x.store_release(1); }, [](Two& v) { v.y.store_release(1); },
                                [](Two& v) {
                                  const uint32_t a = v.x.load_acquire();
                                  v.r[0] = a == 1 && v.y.load_acquire() == 0;
                                },
                                [](Two& v) {
                                  const uint32_t a = v.y.load_acquire();
                                  v.r[1] = a == 1 && v.x.load_acquire() == 0;
                                }},
                               record);
  EXPECT_TRUE(r.ok && r.complete);
  EXPECT_EQ(g_seen.count({1, 1}), 1u);
}

TEST(Checker, AwaitEndsAndDeadlockIsFound) {
  EXPECT_TRUE(litmus<Two>({[](Two& v) {
                             v.x.store_relaxed(1);
                             await([&] { return v.y.load_relaxed() == 1; });
                           },
                           [](Two& v) {
                             await([&] { return v.x.load_relaxed() == 1; });
                             v.y.store_relaxed(1);
                           }})
                  .ok);
  const Report r = litmus<Two>({[](Two& v) {
                                  await([&] { return v.y.load_relaxed() == 1; });
                                  v.x.store_relaxed(1);
                                },
                                [](Two& v) {
                                  await([&] { return v.x.load_relaxed() == 1; });
                                  v.y.store_relaxed(1);
                                }});
  EXPECT_FALSE(r.ok);
  EXPECT_NE(r.failure.find("deadlock"), std::string::npos);
}

TEST(Checker, LostWakeUpIsFound) {
  // The classic: look, then sleep, in two steps without a fence between flag and condition.
  const auto sleeper = [](Two& v) {
    v.x.store_relaxed(1);                 // I sleep
    if (v.y.load_relaxed() != 0) return;  // nothing to do?
    await([&] { return v.z.load_relaxed() != 0; });
  };
  const auto waker = [](Two& v) {
    v.y.store_relaxed(1);  // there is something to do
    if (v.x.load_relaxed() != 0) v.z.store_relaxed(1);
  };
  EXPECT_FALSE(litmus<Two>({sleeper, waker}).ok);
}

// The reduction must not lose outcomes: compare with all schedules, unreduced.
// x is never smaller than y, which the second thread sees in every state, and which takes no step.
template <bool kLetsItBreak>
void raise_both(Two& v) {
  if (kLetsItBreak) v.y.store_relaxed(1);
  v.x.store_relaxed(1);
  v.y.store_relaxed(1);
}
const char* broken(const Two& v) { return v.x.load_relaxed() < v.y.load_relaxed() ? "x comes before y" : nullptr; }
void look(Two& v) {
  (void)v.z.load_relaxed();
  ZH_CHECK_INVARIANT(broken(v));
}

TEST(Checker, InvariantsAreSeenAsMemoryIs) {
  const Report plain = litmus<Two>({raise_both<false>, [](Two& v) { (void)v.z.load_relaxed(); }});
  const Report watched = litmus<Two>({raise_both<false>, look}, [](Two& v) { ZH_CHECK_INVARIANT(broken(v)); });
  EXPECT_TRUE(watched.ok && watched.complete) << watched.failure;
  EXPECT_EQ(watched.executions, plain.executions);
  EXPECT_EQ(watched.longest, plain.longest);
}

TEST(Checker, ABrokenInvariantIsFound) {
  Options every_schedule;
  every_schedule.exhaustive = false;
  const Report r = litmus<Two>({raise_both<true>, look}, nullptr, every_schedule);
  EXPECT_FALSE(r.ok);
  EXPECT_NE(r.failure.find("x comes before y"), std::string::npos) << r.failure;
  const Report at_the_end =
      litmus<Two>({[](Two& v) { v.y.store_relaxed(1); }}, [](Two& v) { ZH_CHECK_INVARIANT(broken(v)); });
  EXPECT_FALSE(at_the_end.ok);
}

TEST(Checker, ReductionKeepsEveryOutcome) {
  const std::vector<void (*)(Two&)> bodies = {[](Two& v) {
                                                v.x.store_release(1);
                                                v.r[0] = v.y.load_acquire() * 10 + v.z.fetch_add_relaxed(1);
                                              },
                                              [](Two& v) {
                                                v.y.store_release(1);
                                                v.r[1] = v.x.load_acquire() * 10 + v.z.fetch_add_relaxed(1);
                                              },
                                              [](Two& v) {
                                                v.y.store_relaxed(2);
                                                v.x.store_relaxed(2);
                                              }};
  g_seen.clear();
  const Report reduced = litmus<Two>(bodies, record);
  const auto outcomes = g_seen;
  g_seen.clear();
  Options all;
  all.exhaustive = false;
  all.preemptions = all.stale_reads = 1000;
  const Report full = litmus<Two>(bodies, record, all);
  EXPECT_TRUE(reduced.complete && full.complete);
  EXPECT_EQ(outcomes, g_seen);
  EXPECT_LT(reduced.executions, full.executions);
}

}  // namespace
}  // namespace zh::mc
