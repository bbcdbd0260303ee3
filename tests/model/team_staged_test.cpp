// Large started collectives under the model checker: the shipped nonblocking_staged.cpp with members
// as threads. A member's area is written again only when nobody reads it, what is read is whole, and no acquire or
// release can be spared. See team_test.cpp.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "coll/team/nonblocking_staged.h"
#include "team_world.h"

namespace zh::mc {
namespace {

using coll::NonblockingCall;
using coll::NonblockingStaged;

/// Allreduces of two members, all begun at once: pieces are one element.
class StagedScenario final : public TeamScenario {
 public:
  StagedScenario(uint32_t elements, uint32_t calls) : TeamScenario(2), elements_(elements), calls_(calls) {
    need_memory(calls * elements * kHugeBytes);
  }
  void run(uint32_t me) override {
    NonblockingStaged team(*services_[me], *pools_[me], kTeam, {0, 1}, me);
    check(team.take_block() == offset_of(me), "there is memory");
    taken_.fetch_add_acq_rel(1);  // a team is open when all have told each other where their blocks are
    await([&] { return taken_.load_acquire() == members_; });
    team.open({offset_of(0), offset_of(1)});
    g_doing[me].rounds = elements_ / 2;
    std::array<NonblockingCall, kMost> calls;
    for (uint32_t number = 0; number < calls_; ++number) {
      for (uint32_t i = 0; i < elements_; ++i) put_value(in(me, number, i), value(number + i, me));
      describe(me, number, &calls.at(number));
      team.begin(&calls.at(number));
    }
    for (uint32_t number = 0; number < calls_; ++number) {
      NonblockingCall& call = calls.at(number);
      wait(team, &call);
      check(call.code == Code::kOk && !call.unserved, "it ends well");
      for (uint32_t i = 0; i < elements_; ++i) check_value(out(me, number, i), total(number + i));
    }
  }

 private:
  static constexpr uint32_t kMost = 2;
  static Offset offset_of(uint32_t member) {
    return static_cast<Offset>(reinterpret_cast<const std::byte*>(&g_segment.parts[member].staged) -
                               reinterpret_cast<const std::byte*>(&g_segment));
  }
  void describe(uint32_t me, uint32_t number, NonblockingCall* call) {
    call->number = number;
    call->give = in(me, number, 0);
    call->out = out(me, number, 0);
    call->gives = true;
    call->end = members_;
    call->bytes = elements_ * kHugeBytes;
    call->how = kHugeSum;
  }
  static void wait(NonblockingStaged& team, NonblockingCall* call) {
    for (bool ended = false; !ended;) {
      await([&] {
        const uint64_t before = writes();
        ended = team.advance(call);
        return ended || writes() != before;  // it may have taken a step
      });
    }
  }
  std::byte* in(uint32_t member, uint32_t number, uint32_t i) {
    return in_.at(member).data() + (number * elements_ + i) * kHugeBytes;
  }
  std::byte* out(uint32_t member, uint32_t number, uint32_t i) {
    return out_.at(member).data() + (number * elements_ + i) * kHugeBytes;
  }

  uint32_t elements_;
  uint32_t calls_;
  Atomic<uint32_t> taken_{0};
};

const Unneeded kBlockIsNotUsedAgain{"tell_done release", "no block is used again here"};

// Each half of the areas is used twice in one call, then both in another one.
TEST(ModelStaged, Allreduce) {
  prove([] { return std::make_unique<StagedScenario>(6, 1); }, 20, {kBlocksServeOneTeam, kBlockIsNotUsedAgain},
        bounded());
}
TEST(ModelStaged, AllreduceAfterAnother) {
  prove([] { return std::make_unique<StagedScenario>(2, 2); }, 20, {kBlocksServeOneTeam, kBlockIsNotUsedAgain},
        bounded());
}

}  // namespace
}  // namespace zh::mc
