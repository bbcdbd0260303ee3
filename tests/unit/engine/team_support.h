// Teams of real ranks for tests of collectives, with memory mapped, through the kernel only, and reachable by messages
// alone; what members contribute, and what must come of it. Used by team_test.cpp and team_edges_test.cpp.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "coll/team/team.h"
#include "engine_support.h"
#include "support/fake_heap.h"

namespace zh::test {

using coll::Pieces;
using coll::Reduction;
using coll::Team;

/// kEdges, kEdgesKernel: mapped but for their edges, to which nothing leads, or the kernel. kModule: by the kernel's
/// module, with threads alone.
enum class Memory { kMapped, kKernel, kMessages, kEdges, kEdgesKernel, kModule };

struct TeamCase {
  World world;
  int ranks;
  Memory memory;
};

inline std::string team_case_name(const ::testing::TestParamInfo<TeamCase>& info) {
  const char* const memory[] = {"mapped", "kernel", "messages", "edges", "edges_kernel", "module"};
  return std::string(to_string(info.param.world)) + "_" + std::to_string(info.param.ranks) + "_" +
         memory[static_cast<int>(info.param.memory)];
}

/// Element `i` of what rank `r` contributes to call number `call`.
inline uint64_t value(uint32_t call, uint32_t r, uint64_t i) {
  return (uint64_t{call} * 1'000'003 + r * 7919 + i * 31) % 1'000'000'007 + (uint64_t{r} << 40);
}

/// Affine maps modulo 2^32, in two halves of 64 bits: composition is associative and not commutative.
inline uint64_t compose(uint64_t left, uint64_t right) {
  const auto a = static_cast<uint32_t>(left >> 32);
  const auto b = static_cast<uint32_t>(left);
  const auto c = static_cast<uint32_t>(right >> 32);
  const auto d = static_cast<uint32_t>(right);
  return (uint64_t{a * c} << 32) | static_cast<uint32_t>(a * d + b);
}
inline void compose_user(void* context, void* in, void* inout, uint64_t n) {
  ++*static_cast<uint64_t*>(context);
  auto* a = static_cast<uint64_t*>(in);
  auto* b = static_cast<uint64_t*>(inout);
  for (uint64_t i = 0; i < n; ++i) b[i] = compose(a[i], b[i]);
}

class Teams : public ::testing::TestWithParam<TeamCase> {
 protected:
  struct Member {
    Team& team;
    uint32_t self;
    uint32_t size;
    FakeHeap* heap;
    bool shifted = false;  ///< buffers begin anywhere in a page
    bool streams = true;   ///< see StormConfig
    std::vector<std::byte*> taken;
    uint32_t call = 0;
    uint64_t user_calls = 0;
    std::vector<std::vector<std::byte>> own;
    const engine::Rank* rank = nullptr;

    /// Memory for n elements; the same pages come back for the same size, so that they are mapped the second time.
    uint64_t* memory(uint64_t n) {
      if (heap == nullptr) {
        own.emplace_back(n * 8 + 8);
        return reinterpret_cast<uint64_t*>(own.back().data());
      }
      constexpr uint64_t kShifts[] = {16, 8, 2048, 4080, 0, 1000, 4088};
      const uint64_t shift = shifted ? kShifts[taken.size() % std::size(kShifts)] : 0;
      taken.push_back(heap->take(n * 8 + 8 + shift));
      EXPECT_NE(taken.back(), nullptr);
      return reinterpret_cast<uint64_t*>(taken.back() + shift);
    }
    void give_back() {
      for (std::byte* p : taken) heap->give_back(p);
      taken.clear();
      own.clear();
    }
    uint64_t* input(uint64_t n) {
      uint64_t* p = memory(n);
      for (uint64_t i = 0; i < n; ++i) p[i] = value(call, self, i);
      return p;
    }
    [[nodiscard]] uint64_t sum(uint32_t first, uint32_t last, uint64_t i) const {
      uint64_t s = 0;
      for (uint32_t r = first; r <= last; ++r) s += value(call, r, i);
      return s;
    }
    [[nodiscard]] uint64_t composed(uint32_t first, uint32_t last, uint64_t i) const {
      uint64_t x = value(call, last, i);
      for (uint32_t r = last; r-- > first;) x = compose(value(call, r, i), x);
      return x;
    }
    Reduction compositions() { return {8, nullptr, compose_user, &user_calls, false}; }
  };

  static void run(const std::function<void(Member&)>& body, int timeout_s = 120) {
    const TeamCase c = GetParam();
    FakeModules modules;
    run_ranks(c.world, c.ranks,
              [&](TestBootstrap& world) {
                FakeHeap heap(256 << 20);
                StormConfig config = config_in(c.world, c.memory != Memory::kMessages && c.memory != Memory::kEdges);
                config.copiers = 2;
                if (c.memory == Memory::kModule) {
                  config.module_use = node::ModuleUse::kFirst;
                  config.modules = &modules;
                }
                // Two that are far apart share nothing of what is mapped, unless nobody streams.
                config.streams = c.world == World::kThreads;
                heap.whole = c.memory == Memory::kMapped;
                const bool shifted = c.memory == Memory::kEdges || c.memory == Memory::kEdgesKernel;
                if (heap.whole || shifted) config.heap = &heap;
                EngineRank r = make_rank(world, config);
                ASSERT_NE(r.rank, nullptr);
                {
                  std::vector<uint32_t> members(static_cast<size_t>(c.ranks));
                  std::iota(members.begin(), members.end(), 0U);
                  const std::unique_ptr<Team> team = r.rank->make_team(11, members, r.node->self());
                  ASSERT_TRUE(team->ready());
                  Member m{*team,
                           r.node->self(),
                           static_cast<uint32_t>(c.ranks),
                           config.heap != nullptr ? &heap : nullptr,
                           shifted,
                           config.streams,
                           {},
                           0,
                           0,
                           {},
                           r.rank.get()};
                  body(m);
                  ASSERT_TRUE(world.barrier().ok());
                }
                // Where lengths disagree nobody takes a message whose sender has waited long enough to leave a copy.
                r.rank->take_back_sends();
                r.rank->quiesce();
                ASSERT_TRUE(world.barrier().ok());
              },
              {.timeout_s = timeout_s});
  }
  static std::vector<uint64_t> counts() { return {0, 1, 7, 8, 100, 2048, 2049, 4096, 5000, 20'011, 131'072}; }
};

inline copy::Buffer bytes(const uint64_t* p, uint64_t n) {
  return {reinterpret_cast<std::byte*>(const_cast<uint64_t*>(p)), n * 8, nullptr};
}
inline Pieces even(const uint64_t* p, uint64_t n) { return {bytes(p, n), static_cast<int64_t>(n * 8), nullptr}; }

#define EXPECT_ALL(n, expected, got)                                   \
  for (uint64_t i = 0; i < (n); ++i) {                                 \
    ASSERT_EQ(expected, (got)[i]) << "element " << i << " of " << (n); \
  }

}  // namespace zh::test
