// Started collectives of real ranks: calls with their memory and what has to come of them. Used by
// nonblocking_slots_test.cpp and nonblocking_staged_test.cpp.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "coll/algorithms/choose.h"
#include "coll/sizes.h"
#include "coll/team/slot_block.h"
#include "engine/nonblocking_on_node.h"
#include "team_support.h"

namespace zh::test {

using coll::Collective;
using engine::NonblockingOnNode;

constexpr uint64_t kContext = 77;
constexpr uint64_t kUntouchedWord = 99;
constexpr uint64_t kBehind = 64;  ///< elements behind an output

inline void compose_kernel(const void* a, const void* b, void* out, size_t n) { each_word(a, b, out, n, compose); }

/// What a call is; the same on all ranks, but for `in_place`.
struct SmallCall {
  Collective collective = Collective::kBarrier;
  uint64_t number = 0;
  uint64_t count = 0;  ///< elements of 8 bytes: of the vector or of a piece
  uint32_t root = 0;
  bool in_place = false;
};

/// A rank with a communicator of all ranks, whose calls go one way.
class NonblockingRank {
 public:
  /// One rank's side of a call.
  struct UnderWay {
    SmallCall what;
    std::vector<uint64_t> in;
    std::vector<uint64_t> out;
    std::vector<uint64_t> expected;  ///< of `out`
    coll::NonblockingCall call;
  };

  NonblockingRank(engine::Rank& rank, uint64_t context, NonblockingOnNode::Kind kind)
      : rank_(rank),
        size_(rank.node().size()),
        self_(rank.node().self()),
        layout_(coll::Layout::one_node(size_)),
        kind_(kind),
        calls_(std::make_unique<NonblockingOnNode>(rank, kind, context, all_ranks(size_), self_)) {}

  [[nodiscard]] uint32_t size() const { return size_; }
  [[nodiscard]] uint32_t self() const { return self_; }
  [[nodiscard]] NonblockingOnNode& calls() { return *calls_; }

  UnderWay* begin(const SmallCall& what) {
    under_way.push_back(std::make_unique<UnderWay>());
    UnderWay& u = *under_way.back();
    u.what = what;
    fill(u);
    coll::Problem problem{.collective = what.collective, .self = self_, .root = what.root, .count = what.count};
    problem.element_bytes = 8;
    problem.in_place = what.in_place;
    problem.layout = layout_;
    EXPECT_TRUE(kind_ == NonblockingOnNode::Kind::kSlots ? coll::fits_slots(problem) : coll::fits_staging(problem));
    coll::Call buffers;
    const bool from_output = what.in_place && what.collective != Collective::kScatter;
    buffers.input = from_output ? nullptr : u.in.data();
    buffers.output = u.out.data();
    buffers.how.element_bytes = 8;
    buffers.how.kernel = compose_kernel;
    buffers.exact = exact;
    calls_->begin(problem, what.number, coll::digest(problem), buffers, &u.call);
    calls_->advance(&u.call);
    return &u;
  }
  /// As the shim does at every turn.
  void advance_all() {
    for (const auto& u : under_way) calls_->advance(&u->call);
  }
  void wait(const UnderWay* u) {
    rank_.wait_until([&] {
      advance_all();
      return u->call.ended;
    });
  }
  /// Turns that call alone.
  NonblockingOnNode::Progress outcome(UnderWay* u) {
    NonblockingOnNode::Progress progress = NonblockingOnNode::Progress::kWaits;
    rank_.wait_until([&] {
      progress = calls_->advance(&u->call);
      return progress != NonblockingOnNode::Progress::kWaits;
    });
    return progress;
  }
  /// Waits, looks at what has come, and forgets it.
  void finish(size_t place) {
    const UnderWay& u = *under_way.at(place);
    wait(&u);
    ASSERT_EQ(u.call.code, Code::kOk);
    ASSERT_EQ(u.out, u.expected) << coll::name_of(u.what.collective) << ", number " << u.what.number << ", root "
                                 << u.what.root << (u.what.in_place ? ", in place" : "");
    under_way.erase(under_way.begin() + static_cast<ptrdiff_t>(place));
  }
  void finish_all() {
    while (!under_way.empty()) ASSERT_NO_FATAL_FAILURE(finish(0));
  }

  std::vector<std::unique_ptr<UnderWay>> under_way;
  bool exact = false;

 private:
  [[nodiscard]] static uint64_t of(const SmallCall& what, uint32_t r, uint64_t i) {
    return value(static_cast<uint32_t>(what.number), r, i);
  }
  [[nodiscard]] static uint64_t composed(const SmallCall& what, uint32_t last, uint64_t i) {
    uint64_t x = of(what, last, i);
    for (uint32_t r = last; r-- > 0;) x = compose(of(what, r, i), x);
    return x;
  }
  void fill(UnderWay& u) const {
    const SmallCall& w = u.what;
    const uint64_t n = w.count;
    u.in.resize(size_ * n);
    for (uint64_t i = 0; i < u.in.size(); ++i) u.in[i] = of(w, self_, i);
    u.out.assign(size_ * n + kBehind, kUntouchedWord);
    if (w.in_place && (w.collective == Collective::kGather || w.collective == Collective::kAllgather)) {
      for (uint64_t i = 0; i < n; ++i) u.out[self_ * n + i] = u.in[i];
    } else if (w.in_place && w.collective != Collective::kScatter) {
      std::copy(u.in.begin(), u.in.end(), u.out.begin());
    }
    u.expected = u.out;
    for (uint64_t i = 0; i < n; ++i) expect(u, i);
  }
  /// Element `i` of a piece, or of the vector.
  void expect(UnderWay& u, uint64_t i) const {
    const SmallCall& w = u.what;
    const uint64_t n = w.count;
    const bool is_root = self_ == w.root;
    std::vector<uint64_t>& e = u.expected;
    switch (w.collective) {
      case Collective::kBcast:
        if (!is_root) e[i] = of(w, w.root, i);
        break;
      case Collective::kScatter:
        if (!w.in_place) e[i] = of(w, w.root, self_ * n + i);
        break;
      case Collective::kReduce:
      case Collective::kAllreduce:
        if (is_root || w.collective == Collective::kAllreduce) e[i] = composed(w, size_ - 1, i);
        break;
      case Collective::kReduceScatter:
        e[i] = composed(w, size_ - 1, self_ * n + i);
        break;
      case Collective::kScan:
        e[i] = composed(w, self_, i);
        break;
      case Collective::kExscan:
        if (self_ > 0) e[i] = composed(w, self_ - 1, i);
        break;
      default:
        for (uint32_t r = 0; r < size_; ++r) {
          const bool gathers =
              w.collective == Collective::kAllgather || (w.collective == Collective::kGather && is_root);
          if (gathers) e[r * n + i] = of(w, r, i);
          if (w.collective == Collective::kAlltoall) e[r * n + i] = of(w, r, self_ * n + i);
        }
    }
  }

  engine::Rank& rank_;
  uint32_t size_;
  uint32_t self_;
  std::shared_ptr<const coll::Layout> layout_;
  NonblockingOnNode::Kind kind_;
  std::unique_ptr<NonblockingOnNode> calls_;
};

inline StormConfig config_of(World world, uint64_t rank_bytes = 32 << 20) {
  return {.world = world, .rank_bytes = rank_bytes};
}

/// `ranks` of them, which leave together.
using NonblockingBody = std::function<void(NonblockingRank& me, engine::Rank& rank, TestBootstrap& world)>;
inline void run_nonblocking(const StormConfig& config, int ranks, NonblockingOnNode::Kind kind,
                            const NonblockingBody& body) {
  run_engine(ranks, config, [&](TestBootstrap& world, EngineRank& r, uint32_t) {
    {
      NonblockingRank me(*r.rank, kContext, kind);
      body(me, *r.rank, world);
      if (::testing::Test::HasFatalFailure()) return;
      ASSERT_TRUE(world.barrier().ok());
    }
    r.rank->quiesce();
  });
}

}  // namespace zh::test
