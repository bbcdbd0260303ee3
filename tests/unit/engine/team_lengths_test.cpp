// Members that disagree on a collective's length: whoever gets more than it has room for learns so, nothing is written
// behind its buffer, nobody waits for what does not come, and the team works on. The cases are those of team_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "team_support.h"

namespace zh::test {
namespace {

constexpr uint64_t kGuard = 0xabababababababab;
constexpr uint64_t kGuards = 600;

/// One member has `odd` elements, the others `usual`.
struct Lengths {
  uint64_t usual;
  uint64_t odd;
  uint32_t odd_member;
  [[nodiscard]] uint64_t of(uint32_t member) const { return member == odd_member ? odd : usual; }
};

std::vector<Lengths> disagreements(uint32_t size) {
  const std::pair<uint64_t, uint64_t> pairs[] = {{1, 2}, {0, 8}, {70, 71}, {2000, 2049}, {1, 20'000}, {20'000, 40'000}};
  std::vector<Lengths> all;
  for (const auto& [a, b] : pairs) {
    for (const uint32_t member : {0U, size - 1}) {
      all.push_back({a, b, member});
      all.push_back({b, a, member});
    }
  }
  return all;
}

Code expected(bool more) { return more ? Code::kTruncated : Code::kOk; }

/// Takes the guards for what is behind n elements.
void guard(uint64_t* p, uint64_t n) { std::fill_n(p + n, kGuards, kGuard); }
void expect_guarded(const uint64_t* p, uint64_t n) {
  for (uint64_t i = n; i < n + kGuards; ++i) ASSERT_EQ(p[i], kGuard) << i - n << " elements behind " << n;
}

/// What member `r` gave, as much as there is room for.
void expect_piece(const uint64_t* p, uint64_t room, uint32_t call, uint32_t r, uint64_t given, uint64_t from = 0) {
  for (uint64_t i = 0; i < std::min(room, given); ++i) ASSERT_EQ(p[i], value(call, r, from + i)) << i << " of " << r;
}

TEST_P(Teams, LengthsOfWhatMoves) {
  run([](Member& m) {
    for (const Lengths& l : disagreements(m.size)) {
      ++m.call;
      const uint64_t n = l.of(m.self);
      const uint64_t most = std::max(l.usual, l.odd);
      const bool lacks_room = n < most;
      const bool root_has_more = l.of(0) > n;
      SCOPED_TRACE(std::to_string(l.usual) + ", of member " + std::to_string(l.odd_member) + " " +
                   std::to_string(l.odd));
      uint64_t* const mine = m.input(n * m.size);
      uint64_t* const all = m.memory(n * m.size + kGuards);
      const auto fresh = [&](uint64_t elements) {
        std::fill_n(all, n * m.size + kGuards, kGuard);
        guard(all, elements);
      };

      fresh(n);
      if (m.self == 0) std::copy_n(mine, n, all);
      ASSERT_EQ(m.team.bcast(bytes(all, n), 0), expected(root_has_more));
      EXPECT_EQ(m.team.fell_short(), l.of(0) < n);
      expect_piece(all, n, m.call, 0, l.of(0));
      expect_guarded(all, n);

      fresh(n * m.size);
      ASSERT_EQ(m.team.gather(bytes(mine, n), even(all, n), 0, true), expected(m.self == 0 && lacks_room));
      for (uint32_t r = 0; m.self == 0 && r < m.size; ++r) {
        if (l.of(r) <= n) expect_piece(all + r * n, n, m.call, r, l.of(r));  // what is too long may have stayed away
      }
      expect_guarded(all, n * m.size);

      fresh(n);
      ASSERT_EQ(m.team.scatter(even(mine, n), bytes(all, n), 0, true), expected(root_has_more));
      expect_piece(all, n, m.call, 0, l.of(0), l.of(0) * m.self);
      expect_guarded(all, n);

      fresh(n * m.size);
      ASSERT_EQ(m.team.allgather(bytes(mine, n), even(all, n)), expected(lacks_room));
      for (uint32_t r = 0; r < m.size; ++r) expect_piece(all + r * n, n, m.call, r, l.of(r));
      expect_guarded(all, n * m.size);

      fresh(n * m.size);
      ASSERT_EQ(m.team.alltoall(even(mine, n), even(all, n), true), expected(lacks_room));
      for (uint32_t r = 0; r < m.size; ++r) expect_piece(all + r * n, n, m.call, r, l.of(r), l.of(r) * m.self);
      expect_guarded(all, n * m.size);

      uint64_t sum = 0;
      const uint64_t one = m.self + 1;
      ASSERT_EQ(m.team.allreduce(&one, &sum, 1, kSums), Code::kOk);
      ASSERT_EQ(sum, uint64_t{m.size} * (m.size + 1) / 2);
      m.give_back();
    }
  });
}

TEST_P(Teams, LengthsOfReductions) {
  run([](Member& m) {
    for (const Lengths& l : disagreements(m.size)) {
      ++m.call;
      const uint64_t n = l.of(m.self);
      const Code wrong = n < std::max(l.usual, l.odd) ? Code::kTruncated : Code::kInvalid;
      SCOPED_TRACE(std::to_string(l.usual) + ", of member " + std::to_string(l.odd_member) + " " +
                   std::to_string(l.odd));
      uint64_t* const mine = m.input(n * m.size);
      uint64_t* const out = m.memory(n + kGuards);
      guard(out, n);

      const Code reduced = m.team.reduce(mine, out, n, kSums, 0);
      EXPECT_EQ(reduced, m.self == 0 ? wrong : reduced);
      EXPECT_EQ(m.team.allreduce(mine, out, n, kSums), wrong);
      EXPECT_NE(m.team.reduce_scatter(mine, out, std::vector<uint64_t>(m.size, n).data(), kSums), Code::kOk);
      bool lower_differs = false;
      for (uint32_t r = 0; r < m.self; ++r) lower_differs = lower_differs || l.of(r) != n;
      EXPECT_EQ(m.team.scan(mine, out, n, kSums, false) != Code::kOk, lower_differs);
      EXPECT_EQ(m.team.scan(mine, out, n, kSums, true) != Code::kOk, lower_differs);
      expect_guarded(out, n);

      uint64_t sum = 0;
      const uint64_t one = m.self + 1;
      ASSERT_EQ(m.team.allreduce(&one, &sum, 1, kSums), Code::kOk);
      ASSERT_EQ(sum, uint64_t{m.size} * (m.size + 1) / 2);
      ASSERT_EQ(m.team.barrier(), Code::kOk);
      m.give_back();
    }
  });
}

// Its sender has left a copy by the time the root comes, which expects so little that it takes no message.
TEST_P(Teams, AnOperandThatNobodyTakesKeepsNobody) {
  run([](Member& m) {
    const uint64_t n = m.self == 0 ? 1 : 20'000;
    for (int again = 0; again < 3; ++again) {
      uint64_t* const mine = m.input(n);
      uint64_t* const out = m.memory(n);
      if (m.self == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const Code reduced = m.team.reduce(mine, out, n, kSums, 0);
      EXPECT_EQ(reduced, m.self == 0 ? Code::kTruncated : reduced);
      ASSERT_EQ(m.team.barrier(), Code::kOk);
      m.give_back();
    }
  });
}

// A little, then as much as the ring of a control block that has grown takes: the last call uses blocks of both again.
TEST_P(Teams, ARootWaitsForTheReadersOfEveryBlock) {
  run([](Member& m) {
    for (int k = 0; k < 40; ++k) ASSERT_EQ(m.team.barrier(), Code::kOk);
    for (uint64_t call = 1; call <= 9; ++call) {
      std::vector<uint64_t> data(call == 1 ? 128 : 2048, m.self == 0 ? call : 0);
      if (m.self != 0 && call == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ASSERT_EQ(m.team.bcast(bytes(data.data(), data.size()), 0), Code::kOk);
      EXPECT_EQ(std::count(data.begin(), data.end(), call), static_cast<std::ptrdiff_t>(data.size())) << call;
    }
  });
}

// Slices that differ, of inputs that do not.
TEST_P(Teams, SlicesOfAReductionThatDisagree) {
  run([](Member& m) {
    constexpr uint64_t kMost = 60'000;
    std::vector<uint64_t> counts(m.size, 0);
    counts[0] = m.self == 0 ? kMost : kMost / 2;
    counts[m.size - 1] += kMost - counts[0];
    const uint64_t* const mine = m.input(kMost);
    uint64_t* const out = m.memory(kMost);
    EXPECT_NE(m.team.reduce_scatter(mine, out, counts.data(), kSums), Code::kOk);
    ASSERT_EQ(m.team.barrier(), Code::kOk);
  });
}

// A member that cannot take part: whoever needs it learns so.
TEST_P(Teams, AMemberThatRefuses) {
  run([](Member& m) {
    for (const uint64_t n : {uint64_t{1}, uint64_t{20'000}}) {
      uint64_t* const mine = m.input(n * m.size);
      uint64_t* const all = m.memory(n * m.size);
      const auto unless_first = [&](bool to_all, bool hurts_all, const std::function<Code()>& call) {
        if (m.self == 0) return m.team.refuse(to_all);
        const Code code = call();
        EXPECT_EQ(code, hurts_all ? Code::kInvalid : code);
      };
      for (int again = 0; again < 3; ++again) {
        unless_first(false, true, [&] { return m.team.bcast(bytes(all, n), 0); });
        unless_first(false, false, [&] { return m.team.gather(bytes(mine, n), even(all, n), 0, true); });
        unless_first(false, false, [&] { return m.team.gather(bytes(mine, n), even(all, n), m.size - 1, true); });
        unless_first(false, true, [&] { return m.team.scatter(even(mine, n), bytes(all, n), 0, true); });
        unless_first(false, true, [&] { return m.team.allgather(bytes(mine, n), even(all, n)); });
        unless_first(false, true, [&] { return m.team.alltoall(even(mine, n), even(all, n), true); });
        unless_first(true, true, [&] { return m.team.allreduce(mine, all, n, kSums); });
        unless_first(false, false, [&] { return m.team.reduce(mine, all, n, kSums, 0); });
        unless_first(false, true, [&] { return m.team.scan(mine, all, n, kSums, false); });
      }
      ASSERT_EQ(m.team.barrier(), Code::kOk);
      m.give_back();
    }
  });
}

}  // namespace
}  // namespace zh::test
