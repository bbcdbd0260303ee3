// Small started collectives under the model checker: the shipped nonblocking_slots.cpp with members as threads, two
// slots each and two calls under way. A contribution is read when it is whole, a slot is written again only when nobody
// reads it, and no acquire or release can be spared. See team_test.cpp.
#include <gtest/gtest.h>

#include <array>

#include "coll/team/nonblocking_slots.h"
#include "team_world.h"

namespace zh::mc {
namespace {

using coll::NonblockingCall;
using coll::NonblockingSlots;

class StartedScenario : public TeamScenario {
 public:
  StartedScenario(uint32_t members, uint64_t calls) : TeamScenario(members), calls_(calls) {}
  void run(uint32_t me) override {
    std::vector<uint32_t> all(members_);
    std::vector<Offset> blocks(members_);
    for (uint32_t i = 0; i < members_; ++i) {
      all[i] = i;
      blocks[i] = offset_of(i);
    }
    NonblockingSlots team(*services_[me], *pools_[me], kTeam, all, me);
    check(team.take_block() == blocks[me], "there is memory");
    taken_.fetch_add_acq_rel(1);  // a team is open when all have told each other where their blocks are
    await([&] { return taken_.load_acquire() == members_; });
    team.open(blocks);
    std::array<NonblockingCall, kMost> calls;
    std::array<uint64_t, kMost> in{};
    std::array<uint64_t, kMost> out{};
    for (uint64_t number = 0; number < calls_ + kUnderWay; ++number) {
      if (number >= kUnderWay) {
        const uint64_t oldest = number - kUnderWay;
        wait(me, team, &calls.at(oldest));
        check(out.at(oldest) == expected(me, oldest), "the right bytes came");
      }
      if (number >= calls_) continue;
      NonblockingCall& call = calls.at(number);
      in.at(number) = value(static_cast<uint32_t>(number), me);
      call.number = number;
      call.give = &in.at(number);
      call.out = &out.at(number);
      call.bytes = kWord;
      describe(me, &call);
      team.begin(&call);
      advance(me, team, &call);
    }
  }

 protected:
  virtual void describe(uint32_t me, NonblockingCall* call) = 0;
  [[nodiscard]] virtual uint64_t expected(uint32_t me, uint64_t number) const = 0;

 private:
  static constexpr uint64_t kUnderWay = 2;
  static constexpr uint64_t kMost = 6;
  static Offset offset_of(uint32_t member) {
    return static_cast<Offset>(reinterpret_cast<const std::byte*>(&g_segment.parts[member].started) -
                               reinterpret_cast<const std::byte*>(&g_segment));
  }
  static bool advance(uint32_t me, NonblockingSlots& team, NonblockingCall* call) {
    g_doing[me].seq = static_cast<uint32_t>(call->number) + 1;
    return team.advance(call);
  }
  static void wait(uint32_t me, NonblockingSlots& team, NonblockingCall* call) {
    for (bool ended = false; !ended;) {
      await([&] {
        const uint64_t before = writes();
        ended = advance(me, team, call);
        return ended || writes() != before;  // it may have published
      });
    }
    check(call->code == Code::kOk, "it ends well");
  }

  uint64_t calls_;
  Atomic<uint32_t> taken_{0};
};

class StartedAllreduce final : public StartedScenario {
 public:
  using StartedScenario::StartedScenario;

 private:
  void describe(uint32_t, NonblockingCall* call) override {
    call->gives = true;
    call->end = members_;
    call->how = kSmallSum;
  }
  [[nodiscard]] uint64_t expected(uint32_t, uint64_t number) const override {
    return total(static_cast<uint32_t>(number));
  }
};

// A root that runs ahead.
class StartedBcast final : public StartedScenario {
 public:
  using StartedScenario::StartedScenario;

 private:
  void describe(uint32_t me, NonblockingCall* call) override {
    call->gives = me == 0;
    call->end = me == 0 ? 0 : 1;
    g_doing[me].reads_slot_of = me == 0 ? -1 : 0;
  }
  [[nodiscard]] uint64_t expected(uint32_t me, uint64_t number) const override {
    return me == 0 ? 0 : value(static_cast<uint32_t>(number), 0);
  }
};

TEST(ModelStarted, Allreduce) {
  prove([] { return std::make_unique<StartedAllreduce>(2, 3); }, 300, {kBlocksServeOneTeam}, bounded());
}
TEST(ModelStarted, ARootRunsAhead) {
  prove([] { return std::make_unique<StartedBcast>(2, 4); }, 100, {kBlocksServeOneTeam}, bounded());
}
TEST(ModelStarted, ARootOfTwo) {
  prove([] { return std::make_unique<StartedBcast>(3, 3); }, 100, {kBlocksServeOneTeam}, bounded(1));
}

}  // namespace
}  // namespace zh::mc
