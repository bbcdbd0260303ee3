// Collectives where the data lie under the model checker, on memory that is mapped but for its edges: the areas that
// stand for the edges are written and read by turns, used again, and never taken from before all members are done.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "team_world.h"

namespace zh::mc {
namespace {

TEST(ModelTeam, LargeAllreduceWithEdges) {
  for (const bool in_place : {false, true}) {
    prove([in_place] { return std::make_unique<LargeScenario>(3, 0, 1, kEdge, in_place); }, 30,
          {kBlocksServeOneTeam, kBlockStaysOurs, kNoFallback});
  }
}
TEST(ModelTeam, EdgesAreUsedAgain) {
  prove([] { return std::make_unique<LargeScenario>(2, 0, 2, kEdge); }, 100,
        {kBlocksServeOneTeam, kBlockStaysOurs, kNoFallback}, bounded());
}

// A chain: what a member has changed, its edges included, is read by the next one step by step.
class ScanScenario final : public TeamScenario {
 public:
  ScanScenario() : TeamScenario(3) {
    for (const auto& s : services_) s->edge_bytes = kEdge;
  }
  void run(uint32_t me) override {
    const auto team = make_team(me);
    Doing& d = next();
    d.edges_of = me - 1;
    d.kept.masks = {3, 1, 2};
    d.read.masks = {1, 2, 0};
    static std::array<std::array<std::byte, 2 * kHugeBytes>, kMembersMax> memory;  // too large to be made each time
    std::byte* const sums = memory.at(me).data();
    for (uint32_t i = 0; i < 2; ++i) put_value(sums + i * kHugeBytes, value(i, me));
    check(team->scan(sums, sums, 2, kHugeSum, false) == Code::kOk, "it ends well");
    for (uint32_t i = 0; i < 2; ++i) {
      uint64_t sum = 0;
      for (uint32_t m = 0; m <= me; ++m) sum += value(i, m);
      check_value(sums + i * kHugeBytes, sum);
      put_value(sums + i * kHugeBytes, 0);
    }
  }
};

// The steps' orders are proved needed by the staged reductions; here they tell what the flags of the slots do as well.
TEST(ModelTeam, LargeScanWithEdges) {
  const Report r = explore(bounded(1), [] { return std::make_unique<ScanScenario>(); });
  EXPECT_TRUE(r.ok) << r.failure;
  EXPECT_TRUE(r.complete);
  EXPECT_GE(r.executions, 1000U);
}

// The members write, and the root takes from its edges' area what they wrote, and nothing that is its own.
class GatherScenario final : public TeamScenario {
 public:
  explicit GatherScenario(uint32_t root) : TeamScenario(3), root_(root) {
    for (const auto& s : services_) s->edge_bytes = kEdge;
    need_memory(3 * kHugeBytes);
  }
  void run(uint32_t me) override {
    const auto team = make_team(me);
    Doing& d = next();
    d.edges_of = root_;
    const uint32_t own = me == 0 ? 1 : me == 2 ? 2 : 0;
    d.written.masks = {own, own, own};
    d.taken.masks = root_ == 0   ? std::array<uint32_t, 3>{0, 2, 2}
                    : root_ == 1 ? std::array<uint32_t, 3>{1, 2, 2}
                                 : std::array<uint32_t, 3>{1, 0, 0};
    const bool is_root = me == root_;
    for (uint32_t i = 0; is_root && i < 3; ++i) put_value(out_.at(root_).data() + i * kHugeBytes, 0);
    std::byte* const mine = is_root ? out_.at(root_).data() + me * kHugeBytes : in_.at(me).data();
    put_value(mine, value(0, me));
    const coll::Pieces all{{out_.at(root_).data(), kHugeBytes, nullptr}, kHugeBytes, nullptr};
    check(team->gather({mine, kHugeBytes, nullptr}, all, root_, true) == Code::kOk, "it ends well");
    put_value(mine, value(0, me));
    for (uint32_t i = 0; is_root && i < 3; ++i) {
      check_value(out_.at(root_).data() + i * kHugeBytes, value(0, i));
      put_value(out_.at(root_).data() + i * kHugeBytes, 0);
    }
  }

 private:
  uint32_t root_;
};

TEST(ModelTeam, LargeGatherWithEdges) {
  for (uint32_t root = 0; root < 3; ++root) {
    prove([root] { return std::make_unique<GatherScenario>(root); }, 100,
          {kBlocksServeOneTeam, kBlockStaysOurs, kNoFallback}, bounded(1));
  }
}

}  // namespace
}  // namespace zh::mc
