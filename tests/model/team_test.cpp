// The control blocks of collectives under the model checker: the shipped algorithms of src/coll (team.cpp, small.cpp,
// move.cpp, single_copy_reduce.cpp, staged_reduce.cpp, reach.cpp, control_block_pool.h) with members as threads,
// at the smallest sizes. Each case shows that every result is right, that a slot, a cell, a staging area or a
// control block is written again only when nobody reads it, and that a member's memory is its own when its call
// returns; together they show that none of the acquires and releases can be spared. Messages, memory of peers and the
// waiting are doubles, which announce every plain access to the race detector.
#include "coll/team/team.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/crash_point.h"
#include "team_world.h"

namespace zh::mc {
namespace {

// --- Everyone reads everyone's slot, or the last to arrive combines for all; slots and the result are used again.

class AllreduceScenario final : public TeamScenario {
 public:
  AllreduceScenario(uint32_t members, uint32_t polls, uint32_t calls) : TeamScenario(members, polls), calls_(calls) {
    counted_ = polls == 1 && members > 2;
  }
  void run(uint32_t me) override {
    const auto team = make_team(me);
    for (uint32_t call = 0; call < calls_; ++call) {
      Doing& d = next();
      d.contributes = true;
      d.reads_result = counted_;
      const uint64_t in = value(call, me);
      uint64_t out = 0;
      check(team->allreduce(&in, &out, 1, kSmallSum) == Code::kOk, "it ends well");
      check(out == total(call), "the sum is right");
    }
  }

 private:
  uint32_t calls_;
  bool counted_;
};

// --- Contributions go up a tree of leaders and the result down; a leader may have left.

class GroupedScenario final : public TeamScenario {
 public:
  static constexpr uint32_t kNobody = ~0U;
  /// `refuser`: who takes no part in the second call.
  explicit GroupedScenario(uint32_t refuser) : TeamScenario(4), refuser_(refuser) {}
  void run(uint32_t me) override {
    const auto team = make_team(me);
    for (uint32_t call = 0; call < 2; ++call) {
      Doing& d = next();
      d.contributes = true;
      const bool fails = call == 1 && refuser_ != kNobody;
      if (fails && me == refuser_) {
        team->refuse(true);
        continue;
      }
      d.grouped = !fails;
      const uint64_t in = value(call, me);
      uint64_t out = 0;
      check(team->allreduce(&in, &out, 1, kSmallSum) == (fails ? Code::kInvalid : Code::kOk), "it ends as it should");
      check(out == (fails ? 0 : total(call)), "the sum is right");
    }
  }

 private:
  uint32_t refuser_;
};

const Unneeded kNobodyLeaves{"has_left acquire", "no leader leaves"};

TEST(ModelTeam, GroupedAllreduce) {
  prove([] { return std::make_unique<GroupedScenario>(GroupedScenario::kNobody); }, 1000,
        {kBlocksServeOneTeam, kBlockStaysOurs, kNoFallback, kNextTellsEnd, kNobodyLeaves}, bounded(0));
}
// Who has left a collective has told of those before, whichever of the two is seen first.
TEST(ModelTeam, GroupedAllreduceWithoutARoot) {
  const auto make = [] { return std::make_unique<GroupedScenario>(0); };
  Options options = bounded(0);
  options.stale_reads = 2;
  const Report base = explore(options, make);
  ASSERT_TRUE(base.ok && base.complete) << base.failure;
  uint32_t found = 0;
  for (const std::string& site : base.sites) {
    if (site.find("has_left acquire") == std::string::npos && site.find("leave_groups release") == std::string::npos)
      continue;
    options.mutation = {Mutation::Kind::kRelaxed, site};
    EXPECT_FALSE(explore(options, make).ok) << site;
    ++found;
  }
  EXPECT_EQ(found, 2U);
}

// --- Leaders relay what a root of another group gives, and reduce for a root of another group.

class LeadersScenario final : public TeamScenario {
 public:
  explicit LeadersScenario(bool reduces) : TeamScenario(4), reduces_(reduces) {}
  void run(uint32_t me) override {
    const auto team = make_team(me);
    const uint32_t leader = me & ~1U;
    for (uint32_t call = 0; call < 3; ++call) {
      const uint32_t root = call % 2 == 0 ? 0 : 3;
      const bool is_near = me / 2 == root / 2;
      Doing& d = next();
      d.contributes = reduces_ || me == root || (!is_near && me == leader);
      if (!reduces_ && me != root) d.reads_slot_of = static_cast<int>(is_near || me == leader ? root : leader);
      const uint64_t in = value(call, me);
      uint64_t out = me == root ? in : 0;
      const copy::Buffer all{reinterpret_cast<std::byte*>(&out), sizeof out, nullptr};
      const Code code = reduces_ ? team->reduce(&in, &out, 1, kSmallSum, root) : team->bcast(all, root);
      check(code == Code::kOk, "it ends well");
      check(reduces_ ? me != root || out == total(call) : out == value(call, root), "the result is right");
    }
  }

 private:
  bool reduces_;
};

TEST(ModelTeam, LeadersRelay) {
  prove([] { return std::make_unique<LeadersScenario>(false); }, 500,
        {kBlocksServeOneTeam, kBlockStaysOurs, kNoFallback}, bounded(0));
}
TEST(ModelTeam, LeadersReduce) {
  prove([] { return std::make_unique<LeadersScenario>(true); }, 500,
        {kBlocksServeOneTeam, kBlockStaysOurs, kNoFallback}, bounded(0));
}

// --- The control blocks grow, alike on all members, or on none; what was contributed before is read on the way.

class GrowthScenario final : public TeamScenario {
 public:
  /// `spare`: how many members have memory for it.
  GrowthScenario(uint32_t members, uint32_t spare, uint32_t calls) : TeamScenario(members), calls_(calls) {
    for (uint32_t i = 0; i < spare; ++i) services_[i]->spares = true;
    grown_ = spare == members;
  }
  void run(uint32_t me) override {
    const auto team = make_team(me);
    for (uint32_t call = 0; call < calls_; ++call) {
      Doing& d = next();
      d.contributes = true;
      d.grown = grown_ && d.seq >= coll::kGrowAt + coll::kFirstSlots;
      const uint64_t in = value(call, me);
      uint64_t out = 0;
      check(team->allreduce(&in, &out, 1, kSmallSum) == Code::kOk, "it ends well");
      check(out == total(call), "the sum is right");
      check(team->grown() == d.grown, "all members switch at the same collective");
    }
  }

 private:
  uint32_t calls_;
};

TEST(ModelTeam, ControlBlocksGrow) {
  prove([] { return std::make_unique<GrowthScenario>(2, 2, 5); }, 300,
        {kBlocksServeOneTeam, kBlockStaysOurs, kNoFallback, kNextTellsEnd});
}
TEST(ModelTeam, ControlBlocksGrowTogetherOrNot) {
  prove([] { return std::make_unique<GrowthScenario>(2, 1, 5); }, 300,
        {kBlocksServeOneTeam, kBlockStaysOurs, kNoFallback, kNextTellsEnd});
}

TEST(ModelTeam, SmallAllreduce) {
  prove([] { return std::make_unique<AllreduceScenario>(2, 0, 4); }, 300,
        {kBlocksServeOneTeam, kBlockStaysOurs, kNoFallback, kNextTellsEnd});
}
TEST(ModelTeam, CountedAllreduce) {
  prove([] { return std::make_unique<AllreduceScenario>(3, 1, 2); }, 1000,
        {kBlocksServeOneTeam,
         kBlockStaysOurs,
         kNoFallback,
         kNextTellsEnd,
         {"publish release", "the arrival tells as much"}},
        bounded(1));
}

// --- A root that runs ahead; its slots are written again when the others have read them.

class RootedScenario final : public TeamScenario {
 public:
  explicit RootedScenario(uint64_t bytes, bool grows = false) : TeamScenario(2), bytes_(bytes), calls_(grows ? 5 : 4) {
    for (const auto& s : services_) s->spares = grows;
    grown_ = grows;
  }
  void run(uint32_t me) override {
    const auto team = make_team(me);
    std::vector<std::byte> data(bytes_);
    for (uint32_t call = 0; call < calls_; ++call) {
      Doing& d = next();
      d.grown = grown_ && d.seq >= coll::kGrowAt + coll::kFirstSlots;
      d.in_ring = bytes_ > coll::kInlineBytes;
      d.contributes = me == 0;
      if (me != 0) d.reads_slot_of = 0;
      data.back() = me == 0 ? std::byte(call + 1) : std::byte(0);
      check(team->bcast({data.data(), bytes_, nullptr}, 0) == Code::kOk, "it ends well");
      check(data.back() == std::byte(call + 1), "the root's bytes came");
    }
  }

 private:
  uint64_t bytes_;
  uint32_t calls_;
};

TEST(ModelTeam, RootRunsAheadOfGrowth) {
  prove([] { return std::make_unique<RootedScenario>(8, true); }, 500,
        {kBlocksServeOneTeam, kBlockStaysOurs, kNoFallback}, bounded());
}
TEST(ModelTeam, RootRunsAhead) {
  prove([] { return std::make_unique<RootedScenario>(8); }, 500, {kBlocksServeOneTeam, kBlockStaysOurs, kNoFallback});
}
TEST(ModelTeam, RootRunsAheadInTheRing) {
  prove([] { return std::make_unique<RootedScenario>(600); }, 20, {kBlocksServeOneTeam, kBlockStaysOurs, kNoFallback});
}

// --- Where the data lie.

TEST(ModelTeam, LargeAllreduceInPlace) {
  prove([] { return std::make_unique<LargeScenario>(3, 0, 1); }, 30,
        {kBlocksServeOneTeam, kBlockStaysOurs, kNoFallback});
}

// Each half of the staging areas is used twice in one reduction, then both in another one.
TEST(ModelTeam, StagedAllreduce) {
  prove([] { return std::make_unique<LargeScenario>(6, 3, 1); }, 1000,
        {kBlocksServeOneTeam,
         kBlockStaysOurs,
         kNoFallback,
         {"end release", "the area is not used again"},
         {"has_done acquire", "the area is not used again"}},
        bounded());
}
TEST(ModelTeam, StagedAllreduceAfterAnother) {
  prove([] { return std::make_unique<LargeScenario>(2, 1, 2); }, 1000,
        {kBlocksServeOneTeam,
         kBlockStaysOurs,
         kNoFallback,
         kNextTellsEnd,
         {"has_done acquire", "needed where another team uses the area next"}},
        bounded());
}

// --- What no way leads to is asked for: two members ask each other at once. They are crowded, or it would be messages.

class FallbackScenario final : public TeamScenario {
 public:
  FallbackScenario() : TeamScenario(2, 1) {
    for (const auto& s : services_) s->mapped = false;
  }
  void run(uint32_t me) override {
    const auto team = make_team(me);
    next();
    std::vector<std::byte> mine(kBytes, std::byte(me + 1));
    std::vector<std::byte> all(2 * kBytes);
    const copy::Buffer send{mine.data(), kBytes, nullptr};
    const coll::Pieces recv{{all.data(), kBytes, nullptr}, kBytes, nullptr};
    check(team->allgather(send, recv) == Code::kOk, "it ends well");
    check(all[0] == std::byte(1) && all[2 * kBytes - 1] == std::byte(2), "both pieces came");
  }

 private:
  static constexpr uint64_t kBytes = coll::kSmallBytes + 1;
};

TEST(ModelTeam, FallbackRequests) {
  prove([] { return std::make_unique<FallbackScenario>(); }, 1000,
        {kBlocksServeOneTeam,
         kBlockStaysOurs,
         {"end release", "only the owner looks at its memory"},
         {"has_done acquire", "only the owner looks at its memory"}},
        bounded());
}

// --- Control blocks serve one team after another: the pool alone, used as teams use it. Member 2 is slow, and not in
// the second team.

class ControlBlocksScenario final : public TeamScenario {
 public:
  ControlBlocksScenario() : TeamScenario(3) {}
  void run(uint32_t me) override {
    auto& pool = pools_[me]->controls();
    check(pool.take(1) == offset_of(me), "the first control block");
    taken_.fetch_add_acq_rel(1);  // a team begins when all have told each other where their control blocks are
    await([&] { return taken_.load_acquire() == 3; });
    ControlBlockShm& mine = g_segment.parts[me].blocks[0];
    const auto* const shown = &g_segment.parts[0].blocks[0].slots[0];
    if (me == 0) {
      data_write(shown);
      shown_.store_release(1);
    } else {
      await([&] { return shown_.load_acquire() == 1; });
      data_read(shown);
    }
    mine.done.store_release(1);
    pool.give(1, 1, offset_of(me), {offset_of(0), offset_of(1), offset_of(2)});
    if (me == 2) return;
    if (pool.take(2) != offset_of(me)) return;  // somebody may still read
    if (me == 0) data_write(shown);
  }

 private:
  static Offset offset_of(uint32_t member) {
    return static_cast<Offset>(reinterpret_cast<const std::byte*>(&g_segment.parts[member].blocks[0]) -
                               reinterpret_cast<const std::byte*>(&g_segment));
  }
  Atomic<uint32_t> taken_{0};
  Atomic<uint32_t> shown_{0};
};

TEST(ModelTeam, ControlBlocksAreUsedAgain) {
  prove([] { return std::make_unique<ControlBlocksScenario>(); }, 1000, {}, bounded(1));
}

}  // namespace
}  // namespace zh::mc

namespace zh {

void crash_point(const char* name) {
  using namespace mc;
  if (!running()) return;
  const std::string_view at = name;
  const uint32_t me = self();
  Doing& d = g_doing[me];
  if (at == "team: contributed") {
    // In a staged reduction it stands for what the slot says of the memory.
    if (d.contributes || d.rounds != 0) data_write(payload(me));
  } else if (at == "team: not yet done") {
    if (d.reads_slot_of >= 0) data_read(payload(static_cast<uint32_t>(d.reads_slot_of)));
    if (d.reads_result) data_read(control(0).result.payload);
    if (d.grouped) data_read(control(me & ~1U).result.payload);
  } else if (at == "team: result handed on") {
    data_read(control(0).result.payload);
    data_write(control(me & ~1U).result.payload);
  } else if (at == "team: step of a staged reduction") {
    for (uint32_t i = 0; i < g_members; ++i) {
      if (d.step == 0) data_read(payload(i));
      if (d.step < d.rounds && i != me) data_write(staging_room(me, d.step, i));
      if (d.step >= 2 && i != me) data_read(staging_room(i, d.step - 2, i));
    }
    if (d.step >= 1 && d.step <= d.rounds) data_write(staging_room(me, d.step - 1, me));
    ++d.step;
  } else if (at == "staged: contributed") {
    data_write(&g_segment.parts[me].staged.digest);
    d.step = 0;
  } else if (at == "staged: step taken") {
    for (uint32_t i = 0; i < g_members; ++i) {
      if (d.step == 1 && i != me) data_read(&g_segment.parts[i].staged.digest);
      if (d.step < d.rounds && i != me) data_write(staging_room(me, d.step, i));
      if (d.step >= 2 && i != me) data_read(staging_room(i, d.step - 2, i));
    }
    if (d.step >= 1 && d.step <= d.rounds) data_write(staging_room(me, d.step - 1, me));
    ++d.step;
  } else if (at == "started: contributed") {
    data_write(started_payload(me));
  } else if (at == "started: not yet done") {
    if (d.reads_slot_of >= 0) data_read(started_payload(static_cast<uint32_t>(d.reads_slot_of)));
  } else if (at == "team: edges kept") {
    announce_edges(g_segment.parts[me].edges.source, d.kept.next(), data_write);
  } else if (at == "team: edges read") {
    announce_edges(g_segment.parts[d.edges_of].edges.source, d.read.next(), data_read);
  } else if (at == "team: edges written") {
    announce_edges(g_segment.parts[d.edges_of].edges.target, d.written.next(), data_write);
  } else if (at == "team: edges taken") {
    announce_edges(g_segment.parts[me].edges.target, d.taken.next(), data_read);
  }
}

}  // namespace zh
