// Members of a NonblockingTeam of either kind in one thread, which takes their steps in a random order: any member may
// be any number of calls ahead or behind, several are under way, and every call has to end with the right bytes. Staged
// ones of sizes around the borders of rounds, in place and not, with members that refuse, lack memory or mean another
// call. And the invariants of their blocks as functions: each way to break one by hand is found.
// label one-thread: [.](Started|Staged)TeamSteps[.]
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "coll/schedule/problem.h"
#include "coll/team/nonblocking_slots.h"
#include "coll/team/nonblocking_staged.h"
#include "team_memory.h"

namespace zh::coll {
namespace {

constexpr uint32_t kNobody = ~0U;
constexpr uint64_t kUntouched = 99;
constexpr uint64_t kBehind = 8;  ///< elements behind an output

struct StartedPlan {
  Collective what;
  uint32_t root;
  uint64_t number;
  uint64_t count;  ///< elements of 8 bytes: of the vector or of a piece
  bool in_place = false;
  uint32_t refuses = kNobody;  ///< the member that takes no part, so that the others may give the call up
  uint32_t lacks = kNobody;    ///< the member that lacks memory, so that all take another way
  uint32_t differs = kNobody;  ///< the member that means another call
};

uint64_t started_value(uint64_t number, uint32_t member, uint64_t i) {
  return (number * 7919 + 1) << 32 | static_cast<uint32_t>(member * 131'071 + i * 17 + number % 1000);
}
uint64_t composed(const StartedPlan& p, uint32_t size, uint64_t i) {
  uint64_t x = started_value(p.number, size - 1, i);
  for (uint32_t m = size - 1; m-- > 0;) x = compose(started_value(p.number, m, i), x);
  return x;
}
bool one_each(Collective what) {
  return what == Collective::kReduceScatter || what == Collective::kScatter || what == Collective::kAlltoall;
}

/// A member's side of one call.
struct StartedSide {
  StartedPlan plan;
  std::vector<uint64_t> in;
  std::vector<uint64_t> out;
  std::vector<uint64_t> expected;
  NonblockingCall call;
};

/// Whom a member takes from.
std::pair<uint32_t, uint32_t> givers(const StartedPlan& p, uint32_t size, uint32_t self) {
  const bool is_root = self == p.root;
  switch (p.what) {
    case Collective::kBcast:
      return is_root ? std::pair{0U, 0U} : std::pair{p.root, p.root + 1};
    case Collective::kScatter:
      return is_root && p.in_place ? std::pair{0U, 0U} : std::pair{p.root, p.root + 1};
    case Collective::kReduce:
    case Collective::kGather:
      return is_root ? std::pair{0U, size} : std::pair{0U, 0U};
    default:
      return {0, size};
  }
}

void expect(StartedSide& s, uint32_t size, uint32_t self) {
  const StartedPlan& p = s.plan;
  const uint64_t n = p.count;
  const auto [first, end] = givers(p, size, self);
  const uint64_t from = one_each(p.what) ? self * n : 0;
  for (uint64_t i = 0; i < n && first != end; ++i) {
    if (reduces(p.what)) {
      s.expected[i] = composed(p, size, from + i);
      continue;
    }
    for (uint32_t m = first; m < end; ++m) s.expected[(m - first) * n + i] = started_value(p.number, m, from + i);
  }
}

std::unique_ptr<StartedSide> started_side(const StartedPlan& plan, uint32_t size, uint32_t self) {
  auto side = std::make_unique<StartedSide>();
  StartedSide& s = *side;
  s.plan = plan;
  const uint64_t n = plan.count;
  NonblockingCall& c = s.call;
  c.number = plan.number;
  c.pieces = one_each(plan.what) ? size : 1;
  c.piece = one_each(plan.what) ? self : 0;
  c.bytes = n * 8;
  std::tie(c.first, c.end) = givers(plan, size, self);
  c.gives = (plan.what != Collective::kBcast && plan.what != Collective::kScatter) || self == plan.root;
  // One more: memory there is also where nothing is given.
  for (uint64_t i = 0; i <= c.pieces * n; ++i) s.in.push_back(started_value(plan.number, self, i));
  s.out.assign(size * n + kBehind, kUntouched);
  c.give = s.in.data();
  c.out = s.out.data();
  const bool from_out = plan.in_place && plan.what != Collective::kScatter && plan.what != Collective::kBcast;
  if (from_out && c.first != c.end) {
    const bool gathers = plan.what == Collective::kGather || plan.what == Collective::kAllgather;
    uint64_t* const own = s.out.data() + (gathers ? self * n : 0);
    std::copy_n(s.in.data(), c.pieces * n, own);
    c.give = own;
  }
  if (reduces(plan.what)) c.how = {8, compose_kernel, nullptr, nullptr, false};
  c.digest = plan.differs == self ? 1 : 2;
  c.able = plan.lacks != self;
  s.expected = s.out;
  expect(s, size, self);
  return side;
}

bool is_unserved(const StartedPlan& p) {
  return p.lacks != kNobody || p.differs != kNobody || (p.what == Collective::kReduceScatter && p.in_place);
}

/// Members of a team of type `TeamKind`, each of which has up to `most` calls under way.
template <typename TeamKind>
class StartedMembers {
 public:
  StartedMembers(uint32_t size, size_t most) : size_(size), most_(most), pool_(memory), next_(size, 0), mine_(size) {
    std::vector<uint32_t> all(size);
    std::iota(all.begin(), all.end(), 0U);
    std::vector<Offset> blocks;
    for (const uint32_t i : all) {
      teams_.push_back(std::make_unique<TeamKind>(memory, pool_, 1, all, i));
      blocks.push_back(teams_.back()->take_block());
    }
    for (const auto& team : teams_) team->open(blocks);
  }

  /// Takes steps until all plans have been carried out.
  void run(const std::vector<StartedPlan>& plans, std::mt19937_64& random) {
    uint64_t in_vain = 0;
    while (!through(plans)) {
      // Some members are slow for a while.
      const auto member = static_cast<uint32_t>(random() % (1 + random() % size_));
      in_vain = step(member, plans, random) ? 0 : in_vain + 1;
      ASSERT_LT(in_vain, 10'000U) << size_ << " members wait for each other";
      if (::testing::Test::HasFailure()) return;
    }
  }

  Memory memory;

 private:
  /// One step of a member; false where it can take none.
  bool step(uint32_t member, const std::vector<StartedPlan>& plans, std::mt19937_64& random) {
    TeamKind& team = *teams_[member];
    auto& mine = mine_[member];
    if (next_[member] < plans.size() && mine.size() < most_ && random() % 2 == 0) {
      const StartedPlan& plan = plans[next_[member]++];
      if (plan.refuses == member) return true;
      NonblockingCall* const call = &mine.emplace_back(started_side(plan, size_, member))->call;
      team.begin(call);
      if (random() % 2 == 0) team.advance(call);
      return true;
    }
    std::shuffle(mine.begin(), mine.end(), random);
    for (size_t i = 0; i < mine.size(); ++i) {
      NonblockingCall& call = mine[i]->call;
      const uint32_t before = progress_of(call);
      if (mine[i]->plan.refuses < size_ && random() % 20 == 0 && !team.advance(&call)) {
        team.fail(&call, Code::kInvalid);
      } else if (!team.advance(&call)) {
        if (progress_of(call) != before) return true;
        continue;
      } else {
        look_at(*mine[i], member);
      }
      mine.erase(mine.begin() + static_cast<ptrdiff_t>(i));
      return true;
    }
    return false;
  }
  static uint32_t progress_of(const NonblockingCall& call) {
    return call.staged.step + (call.slots.published ? 1U : 0U);
  }
  [[nodiscard]] bool through(const std::vector<StartedPlan>& plans) const {
    for (uint32_t i = 0; i < size_; ++i) {
      if (next_[i] < plans.size() || !mine_[i].empty()) return false;
    }
    return true;
  }
  void look_at(const StartedSide& side, uint32_t member) const {
    const StartedPlan& p = side.plan;
    if constexpr (std::is_same_v<TeamKind, NonblockingStaged>) {
      EXPECT_EQ(p.refuses, kNobody) << "not all take part";
    }
    EXPECT_EQ(side.call.code, Code::kOk);
    EXPECT_EQ(side.call.unserved, is_unserved(p)) << name_of(p.what) << (p.in_place ? ", in place" : "");
    if (side.call.unserved) return;
    EXPECT_TRUE(side.out == side.expected)
        << name_of(p.what) << " of " << p.count << (p.in_place ? " in place" : "") << ", root " << p.root << ", call "
        << p.number << ", member " << member << " of " << size_;
  }

  uint32_t size_;
  size_t most_;
  ControlBlockPool pool_;
  std::vector<std::unique_ptr<TeamKind>> teams_;
  std::vector<size_t> next_;                                     ///< by member: the plan that it begins next
  std::vector<std::vector<std::unique_ptr<StartedSide>>> mine_;  ///< by member: under way
};

constexpr Collective kInSlots[] = {Collective::kAllreduce, Collective::kBcast, Collective::kGather,
                                   Collective::kAlltoall, Collective::kBarrier};
constexpr Collective kThroughStaging[] = {Collective::kAllreduce, Collective::kReduce,  Collective::kReduceScatter,
                                          Collective::kBcast,     Collective::kGather,  Collective::kScatter,
                                          Collective::kAllgather, Collective::kAlltoall};

TEST(StartedTeamSteps, EndInAnyOrder) {
  std::mt19937_64 random(20'261);
  for (const uint32_t size : {1U, 2U, 3U, 6U}) {
    for (int round = 0; round < 20; ++round) {
      StartedMembers<NonblockingSlots> members(size, 20);
      members.memory.set_sleepers(static_cast<uint32_t>(round % 2));
      std::vector<StartedPlan> plans;
      // Past 32 bits; calls that are none of these, and far ones, lie between.
      uint64_t number = (uint64_t{1} << 32) - 100;
      for (int i = 0; i < 300; ++i) {
        const Collective what = kInSlots[random() % std::size(kInSlots)];
        const auto root = static_cast<uint32_t>(random() % size);
        plans.push_back({what, root, number, what == Collective::kBarrier ? 0U : 1U});
        if (round % 4 == 3 && random() % 10 == 0) plans.back().refuses = static_cast<uint32_t>(random() % size);
        number += random() % 8 == 0 ? 1 + random() % 50 : 1;
      }
      ASSERT_NO_FATAL_FAILURE(members.run(plans, random));
      if (HasFailure()) return;
      EXPECT_EQ(members.memory.wakes != 0, round % 2 == 1 && size > 1) << "who sleeps is woken";
    }
  }
}

/// Elements of the vector or of a piece: one, less than one for each member, and around the borders of rounds.
std::vector<uint64_t> counts_of(Collective what, uint32_t size) {
  const uint64_t half = kStagingBytes / 2 / 8;
  const bool by_place = reduces(what) || one_each(what);
  const uint64_t room = by_place ? half / size / 8 * 8 : half;
  const uint64_t round = what == Collective::kAllreduce || what == Collective::kReduce ? room * size : room;
  return {1, 3, round - 1, round, round + 1, 2 * round, 3 * round + 5};
}

TEST(StagedTeamSteps, EveryCollectiveOfEverySize) {
  std::mt19937_64 random(20'262);
  for (const uint32_t size : {2U, 3U, 5U}) {
    StartedMembers<NonblockingStaged> members(size, 3);
    std::vector<StartedPlan> plans;
    for (const Collective what : kThroughStaging) {
      for (const uint64_t count : counts_of(what, size)) {
        for (const bool in_place : {false, true}) {
          plans.push_back({what, static_cast<uint32_t>(random() % size), plans.size(), count, in_place});
        }
      }
    }
    ASSERT_NO_FATAL_FAILURE(members.run(plans, random));
    if (HasFailure()) return;
  }
}

TEST(StagedTeamSteps, EndInAnyOrderAndWithoutSomeMembers) {
  std::mt19937_64 random(20'261);
  for (int round = 0; round < 16; ++round) {
    const auto size = static_cast<uint32_t>(2 + random() % 3);
    StartedMembers<NonblockingStaged> members(size, 3);
    members.memory.set_sleepers(static_cast<uint32_t>(round % 2));
    std::vector<StartedPlan> plans;
    // Past 32 bits; calls that are none of these lie between.
    uint64_t number = (uint64_t{1} << 32) - 20;
    for (int i = 0; i < 60; ++i) {
      const Collective what = kThroughStaging[random() % std::size(kThroughStaging)];
      StartedPlan p{what, static_cast<uint32_t>(random() % size), number, 1 + random() % 9000};
      const auto member = static_cast<uint32_t>(random() % size);
      const uint64_t odd = random() % 12;
      if (odd == 0) p.refuses = member;
      if (odd == 1) p.lacks = member;
      if (odd == 2) p.differs = member;
      plans.push_back(p);
      number += random() % 8 == 0 ? 1 + random() % 50 : 1;
    }
    ASSERT_NO_FATAL_FAILURE(members.run(plans, random));
    if (HasFailure()) return;
    EXPECT_EQ(members.memory.wakes != 0, round % 2 == 1) << "who sleeps is woken";
  }
}

// Areas are used again: many more calls than there is memory for, and teams that come and go.
TEST(StagedTeamMemory, IsUsedAgain) {
  Memory memory;
  ControlBlockPool pool(memory);
  for (uint64_t k = 0; k < 200; ++k) {
    NonblockingStaged a(memory, pool, 1 + k, {0, 1}, 0);
    NonblockingStaged b(memory, pool, 1 + k, {0, 1}, 1);
    const std::vector<Offset> blocks{a.take_block(), b.take_block()};
    ASSERT_EQ(std::count(blocks.begin(), blocks.end(), kNoOffset), 0);
    a.open(blocks);
    b.open(blocks);
    const StartedPlan plan{Collective::kAllreduce, 0, k, 5000};
    const std::unique_ptr<StartedSide> of_a = started_side(plan, 2, 0);
    const std::unique_ptr<StartedSide> of_b = started_side(plan, 2, 1);
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

constexpr uint64_t kTeam = 7;

class StartedBlockInvariant : public ::testing::Test {
 protected:
  StartedBlockInvariant() { block_->context.store_relaxed(kTeam); }
  [[nodiscard]] const char* broken() const { return block_->broken_invariant(kTeam); }
  CallSlotShm& slot(uint64_t seq) { return block_->slots[seq % kNonblockingSlots]; }

  std::unique_ptr<SlotBlockShm> block_ = std::make_unique<SlotBlockShm>();
};

TEST_F(StartedBlockInvariant, HoldsOverManyCollectives) {
  EXPECT_STREQ(broken(), nullptr);
  for (uint64_t seq = 1; seq < 3 * kNonblockingSlots; ++seq) {
    slot(seq).seq.store_relaxed(seq);
    EXPECT_STREQ(broken(), nullptr);
  }
  block_->reset();
  EXPECT_STREQ(broken(), nullptr);
  EXPECT_EQ(slot(2 * kNonblockingSlots).seq.load_relaxed(), 0U);
}

TEST_F(StartedBlockInvariant, ACollectiveHasOneSlot) {
  block_->slots[0].seq.store_relaxed(5);
  EXPECT_STREQ(broken(), "a started collective has one slot");
  block_->context.store_relaxed(kTeam + 1);
  EXPECT_STREQ(broken(), nullptr) << "it serves another team";
}

TEST_F(StartedBlockInvariant, AContributionFits) {
  slot(1).bytes = kSlotBytes;
  EXPECT_STREQ(slot(1).broken_invariant(), nullptr);
  slot(1).bytes = kSlotBytes + 1;
  EXPECT_STREQ(slot(1).broken_invariant(), "a contribution to a started collective fits its slot");
}

TEST(StagedBlockInvariant, WhoHasBegunHasDoneAStep) {
  const auto block = std::make_unique<StagedBlockShm>();
  block->context.store_relaxed(kTeam);
  EXPECT_STREQ(block->broken_invariant(kTeam), nullptr);
  block->stage.store_relaxed(uint64_t{5} << kStageBits | 1);
  EXPECT_STREQ(block->broken_invariant(kTeam), nullptr);
  block->stage.store_relaxed(uint64_t{5} << kStageBits);
  EXPECT_STREQ(block->broken_invariant(kTeam), "who has begun a staged collective has done a step of it");
  EXPECT_STREQ(block->broken_invariant(kTeam + 1), nullptr) << "it serves another team";
}

}  // namespace
}  // namespace zh::coll
