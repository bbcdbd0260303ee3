// Collectives of a team of real ranks: every operation, small and large, against results computed here, with memory
// mapped, through the kernel only, and reachable by messages alone.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "coll/team.h"
#include "storm_support.h"
#include "support/fake_heap.h"

namespace zh::test {
namespace {

using coll::Pieces;
using coll::Reduction;
using coll::Team;

/// The last two: mapped but for their edges, to which nothing leads, or the kernel.
enum class Memory { kMapped, kKernel, kMessages, kEdges, kEdgesKernel };

struct Case {
  World world;
  int ranks;
  Memory memory;
};

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  const char* const memory[] = {"mapped", "kernel", "messages", "edges", "edges_kernel"};
  return std::string(to_string(info.param.world)) + "_" + std::to_string(info.param.ranks) + "_" +
         memory[static_cast<int>(info.param.memory)];
}

/// Element `i` of what rank `r` contributes to call number `call`.
uint64_t value(uint32_t call, uint32_t r, uint64_t i) {
  return (uint64_t{call} * 1'000'003 + r * 7919 + i * 31) % 1'000'000'007 + (uint64_t{r} << 40);
}

void sum_kernel(const void* a, const void* b, void* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint64_t x = 0;
    uint64_t y = 0;
    std::memcpy(&x, static_cast<const std::byte*>(a) + i * 8, 8);
    std::memcpy(&y, static_cast<const std::byte*>(b) + i * 8, 8);
    x += y;
    std::memcpy(static_cast<std::byte*>(out) + i * 8, &x, 8);
  }
}

/// Affine maps modulo 2^32, in two halves of 64 bits: composition is associative and not commutative.
uint64_t compose(uint64_t left, uint64_t right) {
  const auto a = static_cast<uint32_t>(left >> 32);
  const auto b = static_cast<uint32_t>(left);
  const auto c = static_cast<uint32_t>(right >> 32);
  const auto d = static_cast<uint32_t>(right);
  return (uint64_t{a * c} << 32) | static_cast<uint32_t>(a * d + b);
}
void compose_user(void* context, void* in, void* inout, uint64_t n) {
  ++*static_cast<uint64_t*>(context);
  auto* a = static_cast<uint64_t*>(in);
  auto* b = static_cast<uint64_t*>(inout);
  for (uint64_t i = 0; i < n; ++i) b[i] = compose(a[i], b[i]);
}

class Teams : public ::testing::TestWithParam<Case> {
 protected:
  struct Member {
    Team& team;
    uint32_t self;
    uint32_t size;
    FakeHeap* heap;
    bool shifted = false;  ///< buffers begin anywhere in a page
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
    Reduction sums() { return {8, sum_kernel, nullptr, nullptr, true}; }
    Reduction compositions() { return {8, nullptr, compose_user, &user_calls, false}; }
  };

  static void run(const std::function<void(Member&)>& body, int timeout_s = 120) {
    const Case c = GetParam();
    run_ranks(c.world, c.ranks,
              [&](TestBootstrap& world) {
                FakeHeap heap(256 << 20);
                StormConfig config;
                config.world = c.world;
                config.ranks = c.ranks;
                config.cma = c.memory != Memory::kMessages && c.memory != Memory::kEdges;
                config.copiers = 2;
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
                           {},
                           0,
                           0,
                           {},
                           r.rank.get()};
                  body(m);
                  ASSERT_TRUE(world.barrier().ok());
                }
                r.rank->quiesce();
                ASSERT_TRUE(world.barrier().ok());
              },
              {.timeout_s = timeout_s});
  }
  static std::vector<uint64_t> counts() { return {0, 1, 7, 8, 100, 2048, 2049, 5000, 20'011, 131'072}; }
};

copy::Buffer bytes(const uint64_t* p, uint64_t n) {
  return {reinterpret_cast<std::byte*>(const_cast<uint64_t*>(p)), n * 8, nullptr};
}
Pieces even(const uint64_t* p, uint64_t n) { return {bytes(p, n), static_cast<int64_t>(n * 8), nullptr}; }

#define EXPECT_ALL(n, expected, got)                                   \
  for (uint64_t i = 0; i < (n); ++i) {                                 \
    ASSERT_EQ(expected, (got)[i]) << "element " << i << " of " << (n); \
  }

TEST_P(Teams, DataMovement) {
  run([](Member& m) {
    for (const uint64_t n : counts()) {
      for (int again = 0; again < 2; ++again) {  // memory is mapped from its second use on
        for (uint32_t root = 0; root<m.size; root += m.size> 3 ? 3 : 1) {
          ++m.call;
          uint64_t* data = m.self == root ? m.input(n) : m.memory(n);
          ASSERT_EQ(m.team.bcast(bytes(data, n), root), Code::kOk);
          EXPECT_ALL(n, value(m.call, root, i), data);

          ++m.call;
          const uint64_t* mine = m.input(n);
          uint64_t* all = m.memory(n * m.size);
          ASSERT_EQ(m.team.gather(bytes(mine, n), even(all, n), root, true), Code::kOk);
          for (uint32_t r = 0; m.self == root && r < m.size; ++r) EXPECT_ALL(n, value(m.call, r, i), all + r * n);

          ++m.call;
          const uint64_t* pieces = m.input(n * m.size);
          uint64_t* piece = m.memory(n);
          ASSERT_EQ(m.team.scatter(even(pieces, n), bytes(piece, n), root, true), Code::kOk);
          EXPECT_ALL(n, value(m.call, root, m.self * n + i), piece);
          m.give_back();
        }
        ASSERT_EQ(m.team.barrier(), Code::kOk);
        ++m.call;
        const uint64_t* mine = m.input(n);
        uint64_t* all = m.memory(n * m.size);
        ASSERT_EQ(m.team.allgather(bytes(mine, n), even(all, n), true), Code::kOk);
        for (uint32_t r = 0; r < m.size; ++r) EXPECT_ALL(n, value(m.call, r, i), all + r * n);

        ++m.call;
        const uint64_t* out = m.input(n * m.size);
        uint64_t* in = m.memory(n * m.size);
        ASSERT_EQ(m.team.alltoall(even(out, n), even(in, n), true), Code::kOk);
        for (uint32_t r = 0; r < m.size; ++r) EXPECT_ALL(n, value(m.call, r, m.self * n + i), in + r * n);
        m.give_back();
      }
    }
  });
}

TEST_P(Teams, Lists) {
  run([](Member& m) {
    // Rank r's piece for rank q has (r * 3 + q) * scale elements: some are empty, some small, some large.
    for (const uint64_t scale : {0, 1, 40, 700, 3000}) {
      for (int again = 0; again < 2; ++again) {
        const auto size_of = [&](uint32_t r, uint32_t q) { return (r * 3 + q) * scale; };
        const auto layout = [&](uint64_t* p, auto&& elements) {
          std::vector<copy::Buffer> list;
          for (uint32_t q = 0; q < m.size; ++q) {
            list.push_back(bytes(p, elements(q)));
            p += elements(q) + 3;
          }
          return list;
        };
        const uint64_t most = (m.size * 4) * scale * m.size + 3 * m.size;
        ++m.call;
        uint64_t* out = m.memory(most);
        uint64_t* in = m.memory(most);
        const auto send = layout(out, [&](uint32_t q) { return size_of(m.self, q); });
        const auto recv = layout(in, [&](uint32_t q) { return size_of(q, m.self); });
        for (uint32_t q = 0; q < m.size; ++q) {
          auto* p = reinterpret_cast<uint64_t*>(send[q].base);
          for (uint64_t i = 0; i < size_of(m.self, q); ++i) p[i] = value(m.call, m.self, q * 1000 + i);
        }
        ASSERT_EQ(m.team.alltoall({{}, 0, send.data()}, {{}, 0, recv.data()}, false), Code::kOk);
        for (uint32_t r = 0; r < m.size; ++r) {
          EXPECT_ALL(size_of(r, m.self), value(m.call, r, m.self * 1000 + i),
                     reinterpret_cast<uint64_t*>(recv[r].base));
        }
        const auto of_rank = [&](uint32_t q) { return size_of(q, 1); };
        const auto places = layout(in, of_rank);
        ++m.call;
        const uint64_t* mine = m.input(of_rank(m.self));
        ASSERT_EQ(m.team.allgather(bytes(mine, of_rank(m.self)), {{}, 0, places.data()}, false), Code::kOk);
        for (uint32_t r = 0; r < m.size; ++r) {
          EXPECT_ALL(of_rank(r), value(m.call, r, i), reinterpret_cast<uint64_t*>(places[r].base));
        }
        const uint32_t root = m.size - 1;
        ++m.call;
        mine = m.input(of_rank(m.self));
        ASSERT_EQ(m.team.gather(bytes(mine, of_rank(m.self)), {{}, 0, places.data()}, root, false), Code::kOk);
        for (uint32_t r = 0; m.self == root && r < m.size; ++r) {
          EXPECT_ALL(of_rank(r), value(m.call, r, i), reinterpret_cast<uint64_t*>(places[r].base));
        }
        ++m.call;
        for (uint32_t q = 0; m.self == root && q < m.size; ++q) {
          auto* p = reinterpret_cast<uint64_t*>(places[q].base);
          for (uint64_t i = 0; i < of_rank(q); ++i) p[i] = value(m.call, q, i);
        }
        uint64_t* piece = m.memory(of_rank(m.self));
        ASSERT_EQ(m.team.scatter({{}, 0, places.data()}, bytes(piece, of_rank(m.self)), root, false), Code::kOk);
        EXPECT_ALL(of_rank(m.self), value(m.call, m.self, i), piece);
        m.give_back();
      }
    }
  });
}

TEST_P(Teams, Reductions) {
  run([](Member& m) {
    for (const uint64_t n : counts()) {
      for (int again = 0; again < 4; ++again) {
        const bool user = again % 2 != 0;
        const bool in_place = again >= 2;
        const Reduction how = user ? m.compositions() : m.sums();
        const auto expected = [&](uint32_t first, uint32_t last, uint64_t i) {
          return user ? m.composed(first, last, i) : m.sum(first, last, i);
        };
        const auto output = [&](uint64_t* in, uint64_t elements) { return in_place ? in : m.memory(elements); };
        ++m.call;
        uint64_t* in = m.input(n);
        uint64_t* out = output(in, n);
        ASSERT_EQ(m.team.allreduce(in, out, n, how), Code::kOk);
        EXPECT_ALL(n, expected(0, m.size - 1, i), out);

        const uint32_t root = m.call % m.size;
        ++m.call;
        in = m.input(n);
        out = m.self == root ? output(in, n) : nullptr;
        ASSERT_EQ(m.team.reduce(in, out, n, how, root), Code::kOk);
        if (m.self == root) {
          EXPECT_ALL(n, expected(0, m.size - 1, i), out);
        }

        std::vector<uint64_t> per_rank(m.size);
        std::vector<uint64_t> first(m.size);
        uint64_t total = 0;
        for (uint32_t r = 0; r < m.size; ++r) {
          first[r] = total;
          per_rank[r] = r % 2 == 0 ? n : n / 2;
          total += per_rank[r];
        }
        ++m.call;
        in = m.input(total);
        out = output(in, n);
        ASSERT_EQ(m.team.reduce_scatter(in, out, per_rank.data(), how), Code::kOk);
        EXPECT_ALL(per_rank[m.self], expected(0, m.size - 1, first[m.self] + i), out);

        ++m.call;
        in = m.input(n);
        out = output(in, n);
        ASSERT_EQ(m.team.scan(in, out, n, how, false), Code::kOk);
        EXPECT_ALL(n, expected(0, m.self, i), out);

        ++m.call;
        in = m.input(n);
        out = output(in, n);
        ASSERT_EQ(m.team.scan(in, out, n, how, true), Code::kOk);
        if (m.self != 0) {
          EXPECT_ALL(n, expected(0, m.self - 1, i), out);
        }
        m.give_back();
      }
    }
    // What is used for the first time is not mapped yet.
    EXPECT_GT(stat(*m.rank, "staged_reductions"), 0U);
    EXPECT_EQ(stat(*m.rank, "mapped_accesses") > 0, m.heap != nullptr);
  });
}

// Rooted operations let ranks run ahead of each other; what they left on their boards must last as long as needed.
TEST_P(Teams, RunningAhead) {
  run([](Member& m) {
    uint64_t state = m.self + 1;
    for (uint32_t k = 0; k < 2000; ++k) {
      const uint32_t root = k / 7 % m.size;
      ++m.call;
      uint64_t x[2] = {value(m.call, m.self, 0), value(m.call, m.self, 1)};
      uint64_t y[2] = {0, 0};
      if (k % 3 == 0) {
        ASSERT_EQ(m.team.bcast(bytes(x, 2), root), Code::kOk);
        ASSERT_EQ(x[1], value(m.call, root, 1));
      } else if (k % 3 == 1) {
        ASSERT_EQ(m.team.reduce(x, y, 2, m.sums(), root), Code::kOk);
        ASSERT_EQ(y[1], m.self == root ? m.sum(0, m.size - 1, 1) : 0);
      } else {
        ASSERT_EQ(m.team.scan(x, y, 2, m.sums(), false), Code::kOk);
        ASSERT_EQ(y[0], m.sum(0, m.self, 0));
      }
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      if (state >> 58 == 0) compute(20'000);
    }
  });
}

/// Bytes added up, each by itself.
void add_bytes(const void* a, const void* b, void* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    static_cast<uint8_t*>(out)[i] =
        static_cast<uint8_t>(static_cast<const uint8_t*>(a)[i] + static_cast<const uint8_t*>(b)[i]);
  }
}

// Elements that no page bound divides: a mapped part ends in the middle of one.
TEST_P(Teams, OddElements) {
  run([](Member& m) {
    constexpr uint64_t kBytes[] = {3, 12, 24};
    constexpr void (*kKernels[])(const void*, const void*, void*, size_t) = {
        [](const void* a, const void* b, void* out, size_t n) { add_bytes(a, b, out, n * 3); },
        [](const void* a, const void* b, void* out, size_t n) { add_bytes(a, b, out, n * 12); },
        [](const void* a, const void* b, void* out, size_t n) { add_bytes(a, b, out, n * 24); }};
    for (uint32_t kind = 0; kind < 3; ++kind) {
      const uint64_t e = kBytes[kind];
      for (const uint64_t n : {uint64_t{6'000}, uint64_t{30'001}}) {
        for (int again = 0; again < 4; ++again) {
          const bool in_place = again >= 2;
          const Reduction how{e, kKernels[kind], nullptr, nullptr, true};
          const auto fill = [&](uint64_t elements) {
            auto* p = reinterpret_cast<uint8_t*>(m.memory(elements * e / 8 + 1));
            for (uint64_t i = 0; i < elements * e; ++i) p[i] = static_cast<uint8_t>(value(m.call, m.self, i) * 3);
            return p;
          };
          const auto expected = [&](uint32_t last, uint64_t i) {
            uint32_t s = 0;
            for (uint32_t r = 0; r <= last; ++r) s += static_cast<uint8_t>(value(m.call, r, i) * 3);
            return static_cast<uint8_t>(s);
          };
          const auto output = [&](uint8_t* in) {
            return in_place ? in : reinterpret_cast<uint8_t*>(m.memory(n * e / 8 + 1));
          };
          ++m.call;
          uint8_t* in = fill(n);
          uint8_t* out = output(in);
          ASSERT_EQ(m.team.allreduce(in, out, n, how), Code::kOk);
          EXPECT_ALL(n * e, expected(m.size - 1, i), out);
          ++m.call;
          in = fill(n);
          out = output(in);
          ASSERT_EQ(m.team.reduce(in, out, n, how, m.call % m.size), Code::kOk);
          if (m.self == m.call % m.size) {
            EXPECT_ALL(n * e, expected(m.size - 1, i), out);
          }
          ++m.call;
          in = fill(n);
          out = output(in);
          ASSERT_EQ(m.team.scan(in, out, n, how, false), Code::kOk);
          EXPECT_ALL(n * e, expected(m.self, i), out);
          ++m.call;
          in = fill(n);
          out = output(in);
          std::vector<uint64_t> counts(m.size, n / m.size);
          counts[0] += n % m.size;
          const uint64_t first = m.self == 0 ? 0 : n % m.size + m.self * (n / m.size);
          ASSERT_EQ(m.team.reduce_scatter(in, out, counts.data(), how), Code::kOk);
          EXPECT_ALL(counts[m.self] * e, expected(m.size - 1, first * e + i), out);
          m.give_back();
        }
      }
    }
  });
}

// Pieces with gaps between them, which belong to others: nobody writes there. Own pieces are where they belong.
TEST_P(Teams, GapsStayAsTheyAre) {
  run([](Member& m) {
    constexpr uint64_t kGap = 3;
    for (const uint64_t n : {uint64_t{2'100}, uint64_t{2'560}, uint64_t{9'000}}) {
      const uint64_t stride = n + kGap;
      for (int again = 0; again < 4; ++again) {
        const uint32_t root = m.call % m.size;
        ++m.call;
        const uint64_t* mine = m.input(n);
        uint64_t* all = m.memory(stride * m.size);
        std::fill_n(all, stride * m.size, ~uint64_t{0});
        const bool in_place = again % 2 != 0;
        if (in_place && m.self == root) {
          std::copy_n(mine, n, all + root * stride);
          mine = all + root * stride;
        }
        const Pieces pieces{bytes(all, n), static_cast<int64_t>(stride * 8), nullptr};
        // Memory with gaps is mapped if messages have shared all of it.
        if (m.heap != nullptr && again >= 2) {
          m.heap->use_twice(reinterpret_cast<std::byte*>(all), stride * m.size * 8);
        }
        ASSERT_EQ(m.team.gather(bytes(mine, n), pieces, root, true), Code::kOk);
        for (uint32_t r = 0; m.self == root && r < m.size; ++r) {
          EXPECT_ALL(n, value(m.call, r, i), all + r * stride);
          EXPECT_ALL(kGap, ~uint64_t{0}, all + r * stride + n);
        }
        ++m.call;
        std::fill_n(all, stride * m.size, ~uint64_t{0});
        uint64_t* const own = all + m.self * stride;
        for (uint64_t i = 0; i < n; ++i) own[i] = value(m.call, m.self, i);
        ASSERT_EQ(m.team.allgather(bytes(own, n), pieces, true), Code::kOk);
        for (uint32_t r = 0; r < m.size; ++r) {
          EXPECT_ALL(n, value(m.call, r, i), all + r * stride);
          EXPECT_ALL(kGap, ~uint64_t{0}, all + r * stride + n);
        }
        m.give_back();
      }
    }
  });
}

// Elements for which a staging area has no room are combined where they lie.
TEST_P(Teams, HugeElements) {
  run([](Member& m) {
    constexpr uint64_t kWords = 20'000;
    const Reduction how{
        kWords * 8, nullptr,
        [](void* context, void* in, void* inout, uint64_t n) { compose_user(context, in, inout, n * kWords); },
        &m.user_calls, false};
    for (const uint64_t n : {uint64_t{1}, uint64_t{3}}) {
      ++m.call;
      const uint64_t* const in = m.input(n * kWords);
      uint64_t* const out = m.memory(n * kWords);
      ASSERT_EQ(m.team.allreduce(in, out, n, how), Code::kOk);
      EXPECT_ALL(n * kWords, m.composed(0, m.size - 1, i), out);
      m.give_back();
    }
  });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const World world : {World::kThreads, World::kProcesses}) {
    for (const int ranks : {2, 3, 5, 8}) {
      for (const Memory memory :
           {Memory::kMapped, Memory::kKernel, Memory::kMessages, Memory::kEdges, Memory::kEdgesKernel}) {
        if (world == World::kThreads && ranks > 5) continue;
        all.push_back({world, ranks, memory});
      }
    }
  }
  return all;
}

// A member that dies ends the others' collective, whatever they wait for there.
TEST(TeamDeath, OthersAreTold) {
  constexpr int kRanks = 3;
  for (const uint64_t n : {uint64_t{1}, uint64_t{100'000}}) {
    run_ranks(World::kProcesses, kRanks,
              [n](TestBootstrap& world) {
                StormConfig config;
                config.world = World::kProcesses;
                config.ranks = kRanks;
                EngineRank r = make_rank(world, config);
                ASSERT_NE(r.rank, nullptr);
                const std::unique_ptr<Team> team = r.rank->make_team(11, {0, 1, 2}, r.node->self());
                ASSERT_TRUE(team->ready());
                std::vector<uint64_t> in(n, 1);
                std::vector<uint64_t> out(n);
                const Reduction how{8, sum_kernel, nullptr, nullptr, true};
                for (int k = 0; k < 5; ++k) ASSERT_EQ(team->allreduce(in.data(), out.data(), n, how), Code::kOk);
                if (r.node->self() == 1) {
                  raise(SIGKILL);
                }
                Code code = Code::kOk;
                for (int k = 0; k < 10 && code == Code::kOk; ++k) code = team->allreduce(in.data(), out.data(), n, how);
                EXPECT_EQ(code, Code::kPeerDead);
                EXPECT_EQ(team->barrier(), Code::kPeerDead);
              },
              {.may_die = 1});
  }
}

// Boards are used again, so that programs may make and free communicators without end.
TEST(TeamMemory, IsUsedAgain) {
  run_ranks(World::kThreads, 3, [](TestBootstrap& world) {
    StormConfig config;
    config.ranks = 3;
    config.rank_bytes = 16 << 20;
    EngineRank r = make_rank(world, config);
    ASSERT_NE(r.rank, nullptr);
    for (uint64_t k = 0; k < 2000; ++k) {
      const std::unique_ptr<Team> team = r.rank->make_team(100 + k, {0, 1, 2}, r.node->self());
      ASSERT_TRUE(team->ready());
      uint64_t x = k;
      ASSERT_EQ(team->bcast(bytes(&x, 1), static_cast<uint32_t>(k % 3)), Code::kOk);
    }
    ASSERT_TRUE(world.barrier().ok());
  });
}

// Without memory for one member, all of them say so.
TEST(TeamMemory, ThatOneLacksNobodyHas) {
  run_ranks(World::kThreads, 3, [](TestBootstrap& world) {
    StormConfig config;
    config.ranks = 3;
    config.rank_bytes = 16 << 20;
    EngineRank r = make_rank(world, config);
    ASSERT_NE(r.rank, nullptr);
    std::vector<std::unique_ptr<Team>> teams;
    bool ready = true;
    for (uint64_t k = 0; ready && k < 2000; ++k) {
      teams.push_back(r.rank->make_team(100 + k, {0, 1, 2}, r.node->self()));
      ready = teams.back()->ready();
    }
    EXPECT_FALSE(ready);
    EXPECT_GT(teams.size(), 20U);
    const auto agreed = static_cast<uint32_t>(teams.size());
    uint32_t all[3] = {};
    ASSERT_TRUE(world.allgather(&agreed, sizeof agreed, all).ok());
    EXPECT_EQ(all[0], all[1]);
    EXPECT_EQ(all[0], all[2]);
    // Nor is there any for a staging area.
    constexpr uint64_t kElements = 50'000;
    const std::vector<uint64_t> in(kElements, r.node->self());
    std::vector<uint64_t> out(kElements);
    const Reduction how{8, sum_kernel, nullptr, nullptr, true};
    for (int k = 0; k < 3; ++k) {
      ASSERT_EQ(teams[0]->allreduce(in.data(), out.data(), kElements, how), Code::kOk);
      EXPECT_ALL(kElements, 3U, out);
      std::fill(out.begin(), out.end(), 0);
    }
    EXPECT_EQ(stat(*r.rank, "staged_reductions"), 0U);
    teams.clear();
    ASSERT_TRUE(world.barrier().ok());
  });
}

// Ranks that were told to wait in different ways choose the same algorithms.
TEST(TeamWaiting, MayDiffer) {
  run_ranks(World::kThreads, 2, [](TestBootstrap& world) {
    StormConfig config;
    config.ranks = 2;
    config.wait = world.rank() == 0 ? engine::WaitPolicy::kAuto : engine::WaitPolicy::kPassive;
    EngineRank r = make_rank(world, config);
    ASSERT_NE(r.rank, nullptr);
    const std::unique_ptr<Team> team = r.rank->make_team(11, {0, 1}, r.node->self());
    ASSERT_TRUE(team->ready());
    const uint32_t self = r.node->self();
    std::vector<uint64_t> all(2 * 3000);
    std::iota(all.begin(), all.end(), 0U);
    std::vector<uint64_t> mine(3000);
    for (int k = 0; k < 100; ++k) {
      ASSERT_EQ(team->barrier(), Code::kOk);
      ASSERT_EQ(team->scatter(even(all.data(), 2000), bytes(mine.data(), 2000), 0, true), Code::kOk);
      EXPECT_EQ(mine[0], self * 2000U);
      EXPECT_EQ(mine[1999], self * 2000U + 1999);
    }
    ASSERT_TRUE(world.barrier().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(All, Teams, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace zh::test
