// Members of a NonblockingStaged in one thread, which takes their steps in a random order: every collective, of sizes
// around the borders of rounds, in place and not, several under way, with members that refuse, lack memory or mean
// another call.
// label one-thread: [.]StagedTeamSteps[.]
#include "coll/team/nonblocking_staged.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "team_memory.h"

namespace zh::coll {
namespace {

enum class StagedKind { kAllreduce, kReduce, kReduceScatter, kBcast, kGather, kScatter, kAllgather, kAlltoall, kCount };
constexpr uint32_t kNobody = ~0U;
constexpr uint64_t kUntouched = 99;
constexpr uint64_t kBehind = 8;  ///< elements behind an output

struct StagedPlan {
  StagedKind what;
  uint32_t root;
  uint64_t number;
  uint64_t count;  ///< elements of 8 bytes: of the vector or of a piece
  bool in_place = false;
  uint32_t refuses = kNobody;  ///< the member that takes no part, so that the others give the call up
  uint32_t lacks = kNobody;    ///< the member that lacks memory, so that all take another way
  uint32_t differs = kNobody;  ///< the member that means another call
};

uint64_t staged_value(uint64_t number, uint32_t member, uint64_t i) {
  return (number * 7919 + 1) << 32 | static_cast<uint32_t>(member * 131'071 + i * 17 + number % 1000);
}
uint64_t composed(const StagedPlan& p, uint32_t size, uint64_t i) {
  uint64_t x = staged_value(p.number, size - 1, i);
  for (uint32_t m = size - 1; m-- > 0;) x = compose(staged_value(p.number, m, i), x);
  return x;
}
bool is_reduction(StagedKind what) { return what <= StagedKind::kReduceScatter; }
bool one_each(StagedKind what) {
  return what == StagedKind::kReduceScatter || what == StagedKind::kScatter || what == StagedKind::kAlltoall;
}

/// A member's side of one call.
struct StagedSide {
  StagedPlan plan;
  std::vector<uint64_t> in;
  std::vector<uint64_t> out;
  std::vector<uint64_t> expected;
  NonblockingCall call;
};

/// Whom a member takes from.
std::pair<uint32_t, uint32_t> givers(const StagedPlan& p, uint32_t size, uint32_t self) {
  const bool is_root = self == p.root;
  switch (p.what) {
    case StagedKind::kBcast:
      return is_root ? std::pair{0U, 0U} : std::pair{p.root, p.root + 1};
    case StagedKind::kScatter:
      return is_root && p.in_place ? std::pair{0U, 0U} : std::pair{p.root, p.root + 1};
    case StagedKind::kReduce:
    case StagedKind::kGather:
      return is_root ? std::pair{0U, size} : std::pair{0U, 0U};
    default:
      return {0, size};
  }
}

void expect(StagedSide& s, uint32_t size, uint32_t self) {
  const StagedPlan& p = s.plan;
  const uint64_t n = p.count;
  const auto [first, end] = givers(p, size, self);
  const uint64_t from = one_each(p.what) ? self * n : 0;
  for (uint64_t i = 0; i < n && first != end; ++i) {
    if (is_reduction(p.what)) {
      s.expected[i] = composed(p, size, from + i);
      continue;
    }
    for (uint32_t m = first; m < end; ++m) s.expected[(m - first) * n + i] = staged_value(p.number, m, from + i);
  }
}

std::unique_ptr<StagedSide> staged_side(const StagedPlan& plan, uint32_t size, uint32_t self) {
  auto side = std::make_unique<StagedSide>();
  StagedSide& s = *side;
  s.plan = plan;
  const uint64_t n = plan.count;
  NonblockingCall& c = s.call;
  c.number = plan.number;
  c.pieces = one_each(plan.what) ? size : 1;
  c.piece = one_each(plan.what) ? self : 0;
  c.bytes = n * 8;
  std::tie(c.first, c.end) = givers(plan, size, self);
  c.gives = (plan.what != StagedKind::kBcast && plan.what != StagedKind::kScatter) || self == plan.root;
  for (uint64_t i = 0; i < c.pieces * n; ++i) s.in.push_back(staged_value(plan.number, self, i));
  s.out.assign(size * n + kBehind, kUntouched);
  c.give = s.in.data();
  c.out = s.out.data();
  const bool from_out = plan.in_place && plan.what != StagedKind::kScatter && plan.what != StagedKind::kBcast;
  if (from_out && c.first != c.end) {
    const bool gathers = plan.what == StagedKind::kGather || plan.what == StagedKind::kAllgather;
    uint64_t* const own = s.out.data() + (gathers ? self * n : 0);
    std::copy(s.in.begin(), s.in.end(), own);
    c.give = own;
  }
  if (is_reduction(plan.what)) c.how = {8, compose_kernel, nullptr, nullptr, false};
  c.digest = plan.differs == self ? 1 : 2;
  c.able = plan.lacks != self;
  s.expected = s.out;
  expect(s, size, self);
  return side;
}

bool is_unserved(const StagedPlan& p) {
  return p.lacks != kNobody || p.differs != kNobody || (p.what == StagedKind::kReduceScatter && p.in_place);
}

class StagedMembers {
 public:
  explicit StagedMembers(uint32_t size) : size_(size), pool_(memory), next_(size, 0), under_way_(size) {
    std::vector<uint32_t> all(size);
    for (uint32_t i = 0; i < size; ++i) all[i] = i;
    std::vector<Offset> blocks;
    for (uint32_t i = 0; i < size; ++i) {
      teams_.push_back(std::make_unique<NonblockingStaged>(memory, pool_, 1, all, i));
      blocks.push_back(teams_.back()->take_block());
    }
    for (const auto& team : teams_) team->open(blocks);
  }
  /// One step of a member; false where it can take none.
  bool step(uint32_t member, const std::vector<StagedPlan>& plans, std::mt19937_64& random) {
    auto& mine = under_way_[member];
    if (next_[member] < plans.size() && mine.size() < kMost && random() % 2 == 0) {
      const StagedPlan& plan = plans[next_[member]++];
      if (plan.refuses == member) return true;
      mine.push_back(staged_side(plan, size_, member));
      teams_[member]->begin(&mine.back()->call);
      return true;
    }
    for (size_t i = 0; i < mine.size(); ++i) {
      NonblockingCall& call = mine[i]->call;
      const uint32_t before = call.staged.step;
      if (mine[i]->plan.refuses < size_ && random() % 20 == 0 && !teams_[member]->advance(&call)) {
        teams_[member]->fail(&call, Code::kInvalid);
      } else if (!teams_[member]->advance(&call)) {
        if (call.staged.step != before) return true;
        continue;
      } else {
        look_at(*mine[i], member);
      }
      mine.erase(mine.begin() + static_cast<ptrdiff_t>(i));
      return true;
    }
    return false;
  }
  [[nodiscard]] bool through(const std::vector<StagedPlan>& plans) const {
    for (uint32_t i = 0; i < size_; ++i) {
      if (next_[i] < plans.size() || !under_way_[i].empty()) return false;
    }
    return true;
  }

  Memory memory;

 private:
  void look_at(const StagedSide& side, uint32_t member) const {
    const StagedPlan& p = side.plan;
    EXPECT_EQ(p.refuses, kNobody) << "not all take part";
    EXPECT_EQ(side.call.code, Code::kOk);
    EXPECT_EQ(side.call.unserved, is_unserved(p)) << static_cast<int>(p.what) << (p.in_place ? ", in place" : "");
    if (side.call.unserved) return;
    EXPECT_TRUE(side.out == side.expected)
        << "collective " << static_cast<int>(p.what) << " of " << p.count << (p.in_place ? " in place" : "")
        << ", root " << p.root << ", member " << member << " of " << size_;
  }

  static constexpr size_t kMost = 3;
  uint32_t size_;
  ControlBlockPool pool_;
  std::vector<std::unique_ptr<NonblockingStaged>> teams_;
  std::vector<size_t> next_;  ///< by member: the plan that it begins next
  std::vector<std::vector<std::unique_ptr<StagedSide>>> under_way_;
};

void run_all(StagedMembers& members, uint32_t size, const std::vector<StagedPlan>& plans, std::mt19937_64& random) {
  uint64_t in_vain = 0;
  while (!members.through(plans)) {
    // Some members are slow for a while.
    const auto member = static_cast<uint32_t>(random() % (1 + random() % size));
    in_vain = members.step(member, plans, random) ? 0 : in_vain + 1;
    ASSERT_LT(in_vain, 10'000U) << size << " members wait for each other";
    if (::testing::Test::HasFailure()) return;
  }
}

/// Elements of the vector or of a piece: one, less than one for each member, and around the borders of rounds.
std::vector<uint64_t> counts_of(StagedKind what, uint32_t size) {
  const uint64_t half = kStagingBytes / 2 / 8;
  const bool by_place = is_reduction(what) || one_each(what);
  const uint64_t room = by_place ? half / size / 8 * 8 : half;
  const uint64_t round = what == StagedKind::kAllreduce || what == StagedKind::kReduce ? room * size : room;
  return {1, 3, round - 1, round, round + 1, 2 * round, 3 * round + 5};
}

TEST(StagedTeamSteps, EveryCollectiveOfEverySize) {
  std::mt19937_64 random(20'262);
  for (const uint32_t size : {2U, 3U, 5U}) {
    StagedMembers members(size);
    std::vector<StagedPlan> plans;
    for (uint64_t w = 0; w < static_cast<uint64_t>(StagedKind::kCount); ++w) {
      for (const uint64_t count : counts_of(static_cast<StagedKind>(w), size)) {
        for (const bool in_place : {false, true}) {
          plans.push_back(
              {static_cast<StagedKind>(w), static_cast<uint32_t>(random() % size), plans.size(), count, in_place});
        }
      }
    }
    ASSERT_NO_FATAL_FAILURE(run_all(members, size, plans, random));
    if (HasFailure()) return;
  }
}

TEST(StagedTeamSteps, EndInAnyOrderAndWithoutSomeMembers) {
  std::mt19937_64 random(20'261);
  for (int round = 0; round < 16; ++round) {
    const auto size = static_cast<uint32_t>(2 + random() % 3);
    StagedMembers members(size);
    members.memory.set_sleepers(static_cast<uint32_t>(round % 2));
    std::vector<StagedPlan> plans;
    // Past 32 bits; calls that are none of these lie between.
    uint64_t number = (uint64_t{1} << 32) - 20;
    for (int i = 0; i < 60; ++i) {
      StagedPlan p{static_cast<StagedKind>(random() % static_cast<uint64_t>(StagedKind::kCount)),
                   static_cast<uint32_t>(random() % size), number, 1 + random() % 9000};
      const auto member = static_cast<uint32_t>(random() % size);
      const uint64_t odd = random() % 12;
      if (odd == 0) p.refuses = member;
      if (odd == 1) p.lacks = member;
      if (odd == 2) p.differs = member;
      plans.push_back(p);
      number += random() % 8 == 0 ? 1 + random() % 50 : 1;
    }
    ASSERT_NO_FATAL_FAILURE(run_all(members, size, plans, random));
    if (HasFailure()) return;
    EXPECT_EQ(members.memory.wakes != 0, round % 2 == 1) << "who sleeps is woken";
  }
}

// Areas are used again: many more calls than there is memory for, and teams that come and go.
TEST(StagedTeamMemory, IsUsedAgain) {
  std::mt19937_64 random(3);
  Memory memory;
  ControlBlockPool pool(memory);
  for (uint64_t k = 0; k < 200; ++k) {
    NonblockingStaged a(memory, pool, 1 + k, {0, 1}, 0);
    NonblockingStaged b(memory, pool, 1 + k, {0, 1}, 1);
    const std::vector<Offset> blocks{a.take_block(), b.take_block()};
    ASSERT_EQ(std::count(blocks.begin(), blocks.end(), kNoOffset), 0);
    a.open(blocks);
    b.open(blocks);
    const StagedPlan plan{StagedKind::kAllreduce, 0, k, 5000};
    const std::unique_ptr<StagedSide> of_a = staged_side(plan, 2, 0);
    const std::unique_ptr<StagedSide> of_b = staged_side(plan, 2, 1);
    a.begin(&of_a->call);
    b.begin(&of_b->call);
    for (bool ended = false; !ended;) {
      const bool is_a = a.advance(&of_a->call);
      ended = b.advance(&of_b->call) && is_a;
    }
    ASSERT_FALSE(of_a->call.unserved);
    ASSERT_TRUE(of_a->out == of_a->expected && of_b->out == of_b->expected);
  }
}

TEST(StagedBlockInvariant, WhoHasBegunHasDoneAStep) {
  const auto block = std::make_unique<StagedBlockShm>();
  block->context.store_relaxed(7);
  EXPECT_STREQ(block->broken_invariant(7), nullptr);
  block->stage.store_relaxed(uint64_t{5} << kStageBits | 1);
  EXPECT_STREQ(block->broken_invariant(7), nullptr);
  block->stage.store_relaxed(uint64_t{5} << kStageBits);
  EXPECT_STREQ(block->broken_invariant(7), "who has begun a staged collective has done a step of it");
  EXPECT_STREQ(block->broken_invariant(8), nullptr) << "it serves another team";
}

}  // namespace
}  // namespace zh::coll
