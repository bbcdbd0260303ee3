// Collectives whose buffers do not begin and end with a page: elements that a page bound cuts, pieces with gaps between
// them. The cases are those of team_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "team_support.h"

namespace zh::test {
namespace {

/// Bytes added up, each by itself, eight at a time: ThreadSanitizer looks at every access.
void add_bytes(const void* a, const void* b, void* out, size_t n) {
  constexpr uint64_t kHigh = 0x8080808080808080;
  for (size_t i = 0; i < n; i += 8) {
    const size_t bytes = std::min<size_t>(8, n - i);
    uint64_t x = 0;
    uint64_t y = 0;
    std::memcpy(&x, static_cast<const std::byte*>(a) + i, bytes);
    std::memcpy(&y, static_cast<const std::byte*>(b) + i, bytes);
    x = ((x & ~kHigh) + (y & ~kHigh)) ^ ((x ^ y) & kHigh);
    std::memcpy(static_cast<std::byte*>(out) + i, &x, bytes);
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
      for (const uint64_t n : {uint64_t{6'000}, e == 3 ? uint64_t{30'001} : 240'000 / e + 1}) {
        for (int again = 0; again < 4; ++again) {
          const bool in_place = again >= 2;
          const Reduction how{e, kKernels[kind], nullptr, nullptr, true};
          const auto fill = [&](uint64_t elements) {
            auto* p = reinterpret_cast<uint8_t*>(m.memory(elements * e / 8 + 1));
            const uint32_t call = m.call;
            const uint32_t self = m.self;
            for (uint64_t i = 0; i < elements * e; ++i) p[i] = static_cast<uint8_t>(value(call, self, i) * 3);
            return p;
          };
          const auto expected = [&](uint32_t last, uint64_t i) {
            const uint32_t call = m.call;
            uint32_t s = 0;
            for (uint32_t r = 0; r <= last; ++r) s += static_cast<uint8_t>(value(call, r, i) * 3);
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
        ASSERT_EQ(m.team.allgather(bytes(own, n), pieces), Code::kOk);
        for (uint32_t r = 0; r < m.size; ++r) {
          EXPECT_ALL(n, value(m.call, r, i), all + r * stride);
          EXPECT_ALL(kGap, ~uint64_t{0}, all + r * stride + n);
        }
        m.give_back();
      }
    }
  });
}

}  // namespace
}  // namespace zh::test
