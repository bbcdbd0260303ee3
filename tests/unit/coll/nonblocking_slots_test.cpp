// Members of a NonblockingSlots in one thread, which takes their steps in a random order: any member may be any number
// of calls ahead or behind, with many under way, and every call has to end with the right bytes.
// label one-thread: [.]StartedTeamSteps[.]
#include "coll/team/nonblocking_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "team_memory.h"

namespace zh::coll {
namespace {

uint64_t started_value(uint64_t number, uint32_t member, uint32_t piece) {
  return (number * 7919 + 1) << 32 | (member * 131 + piece * 17 + number % 1000);
}

enum class StartedKind { kAllreduce, kBcast, kGather, kAlltoall, kBarrier, kCount };
struct StartedPlan {
  StartedKind what;
  uint32_t root;
  uint64_t number;
  uint32_t refuses = ~0U;  ///< the member that takes no part, so that the others may give the call up
};

/// A member's side of one call.
struct StartedSide {
  StartedPlan plan;
  std::vector<uint64_t> in;
  std::vector<uint64_t> out;
  std::vector<uint64_t> expected;
  NonblockingCall call;
};

std::unique_ptr<StartedSide> started_side(const StartedPlan& plan, uint32_t size, uint32_t self) {
  auto side = std::make_unique<StartedSide>();
  StartedSide& s = *side;
  s.plan = plan;
  for (uint32_t i = 0; i < size; ++i) s.in.push_back(started_value(plan.number, self, i));
  s.out.assign(size, 0);
  s.expected = s.out;
  NonblockingCall& c = s.call;
  const bool is_root = self == plan.root;
  c.number = plan.number;
  c.give = s.in.data();
  c.out = s.out.data();
  c.gives = plan.what != StartedKind::kBcast || is_root;
  c.bytes = plan.what == StartedKind::kBarrier ? 0 : 8;
  if (plan.what == StartedKind::kAlltoall) {
    c.pieces = size;
    c.piece = self;
  }
  const bool takes_all = plan.what != StartedKind::kBcast && (plan.what != StartedKind::kGather || is_root);
  c.end = takes_all ? size : 0;
  if (plan.what == StartedKind::kBcast && !is_root) {
    c.first = plan.root;
    c.end = plan.root + 1;
    s.expected[0] = started_value(plan.number, plan.root, 0);
  } else if (plan.what == StartedKind::kAllreduce) {
    c.how = {8, compose_kernel, nullptr, nullptr, false};
    s.expected[0] = started_value(plan.number, size - 1, 0);
    for (uint32_t i = size - 1; i-- > 0;) s.expected[0] = compose(started_value(plan.number, i, 0), s.expected[0]);
  } else if (takes_all && plan.what != StartedKind::kBarrier) {
    for (uint32_t i = 0; i < size; ++i) {
      s.expected[i] = started_value(plan.number, i, plan.what == StartedKind::kAlltoall ? self : 0);
    }
  }
  return side;
}

class StartedMembers {
 public:
  explicit StartedMembers(uint32_t size) : size_(size), pool_(memory), next_(size, 0), under_way_(size) {
    std::vector<uint32_t> all(size);
    for (uint32_t i = 0; i < size; ++i) all[i] = i;
    std::vector<Offset> blocks;
    for (uint32_t i = 0; i < size; ++i) {
      teams_.push_back(std::make_unique<NonblockingSlots>(memory, pool_, 1, all, i));
      blocks.push_back(teams_.back()->take_block());
    }
    for (const auto& team : teams_) team->open(blocks);
  }
  /// One step of a member; false where it can take none.
  bool step(uint32_t member, const std::vector<StartedPlan>& plans, std::mt19937_64& random) {
    auto& mine = under_way_[member];
    if (next_[member] < plans.size() && mine.size() < kMost && random() % 2 == 0) {
      const StartedPlan& plan = plans[next_[member]++];
      if (plan.refuses == member) return true;
      mine.push_back(started_side(plan, size_, member));
      teams_[member]->begin(&mine.back()->call);
      teams_[member]->advance(&mine.back()->call);
      return true;
    }
    bool ended = false;
    std::shuffle(mine.begin(), mine.end(), random);
    for (size_t i = 0; i < mine.size();) {
      const bool given = mine[i]->call.slots.published;
      if (mine[i]->plan.refuses < size_ && random() % 20 == 0 && !teams_[member]->advance(&mine[i]->call)) {
        teams_[member]->fail(&mine[i]->call, Code::kInvalid);
        mine.erase(mine.begin() + static_cast<ptrdiff_t>(i));
        ended = true;
        continue;
      }
      if (teams_[member]->advance(&mine[i]->call)) {
        EXPECT_EQ(mine[i]->call.code, Code::kOk);
        EXPECT_EQ(mine[i]->out, mine[i]->expected) << "call " << mine[i]->plan.number << " of member " << member;
        mine.erase(mine.begin() + static_cast<ptrdiff_t>(i));
        ended = true;
        continue;
      }
      ended = ended || given != mine[i]->call.slots.published;
      ++i;
    }
    return ended;
  }
  [[nodiscard]] bool through(const std::vector<StartedPlan>& plans) const {
    for (uint32_t i = 0; i < size_; ++i) {
      if (next_[i] < plans.size() || !under_way_[i].empty()) return false;
    }
    return true;
  }

  Memory memory;

 private:
  static constexpr size_t kMost = 20;
  uint32_t size_;
  ControlBlockPool pool_;
  std::vector<std::unique_ptr<NonblockingSlots>> teams_;
  std::vector<size_t> next_;  ///< by member: the plan that it begins next
  std::vector<std::vector<std::unique_ptr<StartedSide>>> under_way_;
};

TEST(StartedTeamSteps, EndInAnyOrder) {
  std::mt19937_64 random(20'261);
  for (const uint32_t size : {1U, 2U, 3U, 6U}) {
    for (int round = 0; round < 20; ++round) {
      StartedMembers members(size);
      members.memory.set_sleepers(static_cast<uint32_t>(round % 2));
      std::vector<StartedPlan> plans;
      // Past 32 bits; calls that are none of these, and far ones, lie between.
      uint64_t number = (uint64_t{1} << 32) - 100;
      for (int i = 0; i < 300; ++i) {
        plans.push_back({static_cast<StartedKind>(random() % static_cast<uint64_t>(StartedKind::kCount)),
                         static_cast<uint32_t>(random() % size), number});
        if (round % 4 == 3 && random() % 10 == 0) plans.back().refuses = static_cast<uint32_t>(random() % size);
        number += random() % 8 == 0 ? 1 + random() % 50 : 1;
      }
      uint64_t in_vain = 0;
      while (!members.through(plans)) {
        // Some members are slow for a while.
        const auto member = static_cast<uint32_t>(random() % (1 + random() % size));
        in_vain = members.step(member, plans, random) ? 0 : in_vain + 1;
        ASSERT_LT(in_vain, 10'000U) << size << " members wait for each other";
        if (::testing::Test::HasFailure()) return;
      }
      EXPECT_EQ(members.memory.wakes != 0, round % 2 == 1 && size > 1) << "who sleeps is woken";
    }
  }
}

}  // namespace
}  // namespace zh::coll
