// Layouts against the naive oracle of layout_support.h, and the compression that make_layout promises.
// label one-thread: Layouts?[.]
#include "copy/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "unit/copy/layout_support.h"

namespace zh::copy {
namespace {

using test::random_sample;
using test::Sample;

constexpr uint64_t kRounds = 500;
constexpr int64_t kMargin = 64;

using Bytes = std::vector<std::byte>;

Bytes noise(std::mt19937_64& random, size_t n) {
  Bytes out(n);
  for (auto& b : out) b = static_cast<std::byte>(random());
  return out;
}

TEST(Layout, ASpanGoesFromTheFirstByteToBehindTheLast) {
  std::mt19937_64 random(17);
  for (uint64_t round = 0; round < kRounds; ++round) {
    const Sample sample = random_sample(random);
    const OwnedLayout layout = make_layout(sample.blocks, sample.extent);
    const uint64_t elements = 1 + random() % 4;
    int64_t low = sample.position(0), high = low;
    for (uint64_t k = 0; k < elements * sample.bytes.size(); ++k) {
      low = std::min(low, sample.position(k));
      high = std::max(high, sample.position(k));
    }
    std::byte* const base = nullptr;
    const MemorySpan span = span_of({base, elements * sample.bytes.size(), layout.get()});
    ASSERT_EQ(reinterpret_cast<int64_t>(span.from), low);
    ASSERT_EQ(span.bytes, static_cast<uint64_t>(high - low + 1));
  }
  EXPECT_EQ(span_of({}).bytes, 0U);
}

/// Memory with random content that holds `bytes` packed bytes of a sample, with guard bytes around.
struct Arena {
  Arena(std::mt19937_64& random, const Sample& sample, uint64_t bytes) {
    int64_t low = 0;
    int64_t high = 1;
    for (uint64_t k = 0; k < bytes; ++k) {
      low = std::min(low, sample.position(k));
      high = std::max(high, sample.position(k) + 1);
    }
    origin = kMargin - low;
    memory = noise(random, static_cast<size_t>(high - low + 2 * kMargin));
  }
  [[nodiscard]] std::byte* base() { return memory.data() + origin; }
  Bytes memory;
  int64_t origin = 0;
};

std::pair<uint64_t, uint64_t> random_range(std::mt19937_64& random, uint64_t bytes) {
  if (random() % 4 == 0) return {0, bytes};
  const uint64_t from = random() % bytes;
  return {from, random() % (bytes - from + 1)};
}

uint64_t random_message(std::mt19937_64& random, const Sample& sample) {
  const uint64_t whole = sample.bytes.size() * (1 + random() % 6);
  return random() % 3 == 0 ? 1 + random() % whole : whole;
}

/// A message of a random layout in memory of its own, and a part of it.
struct Message {
  Message(std::mt19937_64& random, const Sample& of, uint64_t packed)
      : sample(of), bytes(packed), arena(random, sample, bytes), layout(make_layout(sample.blocks, sample.extent)) {}
  explicit Message(std::mt19937_64& random) : Message(random, random_sample(random)) {}
  Message(std::mt19937_64& random, const Sample& of) : Message(random, of, random_message(random, of)) {
    std::tie(from, n) = random_range(random, bytes);
  }
  [[nodiscard]] copy::Buffer buffer() { return {arena.base(), bytes, layout.get()}; }
  Sample sample;
  uint64_t bytes;
  Arena arena;
  OwnedLayout layout;
  uint64_t from = 0;
  uint64_t n = 0;
};

/// Calls `check` for many.
template <typename Check>
void for_messages(uint64_t seed, Check&& check) {
  std::mt19937_64 random(seed);
  for (uint64_t round = 0; round < kRounds && !testing::Test::HasFatalFailure(); ++round) {
    Message m(random);
    SCOPED_TRACE("round " + std::to_string(round) + " from " + std::to_string(m.from) + " n " + std::to_string(m.n));
    check(random, m);
  }
}

class Layouts : public testing::TestWithParam<Store> {};
INSTANTIATE_TEST_SUITE_P(Stores, Layouts, testing::Values(Store::kTemporal, Store::kNonTemporal));

TEST_P(Layouts, PackGathersWhatTheOracleGathers) {
  for_messages(11, [](std::mt19937_64&, Message& m) {
    ASSERT_NE(m.layout, nullptr);
    ASSERT_STREQ(m.layout->broken_invariant(), nullptr);
    ASSERT_EQ(m.layout->size_bytes, m.sample.bytes.size());
    Bytes got(m.n + 2 * kMargin, std::byte{0x5a});
    Bytes want = got;
    for (uint64_t k = 0; k < m.n; ++k) want[kMargin + k] = m.arena.base()[m.sample.position(m.from + k)];
    pack(m.buffer(), m.from, m.n, got.data() + kMargin, GetParam());
    ASSERT_EQ(got, want);
  });
}

TEST_P(Layouts, UnpackScattersWhatTheOracleScattersAndNothingElse) {
  for_messages(12, [](std::mt19937_64& random, Message& m) {
    const Bytes data = noise(random, m.n);
    Arena want = m.arena;
    for (uint64_t k = 0; k < m.n; ++k) want.base()[m.sample.position(m.from + k)] = data[k];
    unpack(m.buffer(), m.from, m.n, data.data(), GetParam());
    ASSERT_EQ(m.arena.memory, want.memory);
  });
}

TEST_P(Layouts, CopyRangeMovesBetweenAnyTwoLayouts) {
  for_messages(13, [](std::mt19937_64& random, Message& to) {
    const Sample of = random() % 4 == 0 ? to.sample : random_sample(random);
    const uint64_t bytes = std::min(to.bytes, random_message(random, of));
    Message source(random, of, bytes);
    Message target(random, to.sample, bytes);
    const auto [from, n] = random_range(random, bytes);
    Arena want = target.arena;
    for (uint64_t k = from; k < from + n; ++k) want.base()[to.sample.position(k)] = source.arena.base()[of.position(k)];
    copy_range(target.buffer(), source.buffer(), from, n, GetParam());
    ASSERT_EQ(target.arena.memory, want.memory);
  });
}

TEST_P(Layouts, CopyRangeServesContiguousSides) {
  for_messages(14, [](std::mt19937_64& random, Message& m) {
    Bytes plain = noise(random, m.bytes);
    const copy::Buffer contiguous = {plain.data(), m.bytes, nullptr};
    Bytes want_plain = plain;
    for (uint64_t k = m.from; k < m.from + m.n; ++k) want_plain[k] = m.arena.base()[m.sample.position(k)];
    copy_range(contiguous, m.buffer(), m.from, m.n, GetParam());
    ASSERT_EQ(plain, want_plain);
    Arena want = m.arena;
    const Bytes other = noise(random, m.bytes);
    std::copy(other.begin(), other.end(), plain.begin());
    for (uint64_t k = m.from; k < m.from + m.n; ++k) want.base()[m.sample.position(k)] = plain[k];
    copy_range(m.buffer(), contiguous, m.from, m.n, GetParam());
    ASSERT_EQ(m.arena.memory, want.memory);
  });
}

TEST(Layout, IovecsListTheRangeInOrderAndStopAtTheirLimit) {
  for_messages(15, [](std::mt19937_64& random, Message& m) {
    const size_t max = 1 + random() % 40;
    const uint64_t end = m.from + m.n;
    // Several calls, each with room for `max`, list everything.
    for (uint64_t at = m.from; at < end;) {
      std::vector<iovec> list(max);
      uint64_t covered = 0;
      const size_t used = to_iovecs(m.buffer(), at, end - at, list.data(), max, &covered);
      ASSERT_GT(used, 0U);
      ASSERT_LE(used, max);
      uint64_t seen = 0;
      for (size_t i = 0; i < used; ++i) {
        for (size_t k = 0; k < list[i].iov_len; ++k, ++seen) {
          ASSERT_EQ(static_cast<std::byte*>(list[i].iov_base) + k, m.arena.base() + m.sample.position(at + seen));
        }
      }
      ASSERT_EQ(seen, covered);
      ASSERT_TRUE(used == max || covered == end - at) << "stopped early";
      at += covered;
    }
  });
}

TEST(Layout, EmptyRangesTouchNothing) {
  const OwnedLayout layout = make_layout({{0, 8}, {16, 8}}, 32);
  uint64_t covered = 7;
  EXPECT_EQ(to_iovecs({nullptr, 0, layout.get()}, 0, 0, nullptr, 0, &covered), 0U);
  EXPECT_EQ(covered, 0U);
  pack({nullptr, 0, layout.get()}, 0, 0, nullptr, Store::kTemporal);
  unpack({nullptr, 0, layout.get()}, 0, 0, nullptr, Store::kNonTemporal);
  copy_range({nullptr, 0, layout.get()}, {nullptr, 0, nullptr}, 0, 0, Store::kTemporal);
}

TEST(Layout, AbsoluteAddressesWorkFromANullBase) {
  // MPI_BOTTOM: the offsets are addresses.
  uint64_t source[4] = {1, 2, 3, 4};
  uint64_t target[2] = {};
  const auto address = reinterpret_cast<intptr_t>(source);
  const OwnedLayout layout = make_layout({{address, 8}, {address + 24, 8}}, 8);
  pack({nullptr, 16, layout.get()}, 0, 16, target, Store::kTemporal);
  EXPECT_EQ(target[0], 1U);
  EXPECT_EQ(target[1], 4U);
}

TEST(Layout, NeighboursMergeIntoOneBlock) {
  const OwnedLayout layout = make_layout({{0, 8}, {8, 4}, {12, 0}, {12, 20}}, 32);
  ASSERT_EQ(layout->n_items, 1U);
  EXPECT_EQ(layout->items()[0].len_bytes, 32U);
  EXPECT_EQ(layout->items()[0].count[0], 1U);
}

TEST(Layout, AVectorIsOneItem) {
  std::vector<Block> blocks;
  for (int64_t i = 0; i < 1000; ++i) blocks.push_back({i * 24, 8});
  const OwnedLayout layout = make_layout(blocks, 24000);
  ASSERT_EQ(layout->n_items, 1U);
  EXPECT_EQ(layout->items()[0].count[0], 1000U);
  EXPECT_EQ(layout->items()[0].stride[0], 24);
}

TEST(Layout, ASubarrayOfThreeDimensionsIsOneItem) {
  std::vector<Block> blocks;
  for (int64_t z = 0; z < 10; ++z) {
    for (int64_t y = 0; y < 20; ++y) blocks.push_back({z * 8000 + y * 80, 24});
  }
  const OwnedLayout layout = make_layout(blocks, 80000);
  ASSERT_EQ(layout->n_items, 1U);
  EXPECT_EQ(layout->items()[0].count[0], 20U);
  EXPECT_EQ(layout->items()[0].count[1], 10U);
  EXPECT_EQ(layout->items()[0].stride[1], 8000);
  EXPECT_EQ(layout->description_bytes(), sizeof(LayoutShm) + sizeof(LayoutItem));
}

TEST(Layout, ReversedRunsKeepTheirOrder) {
  std::vector<Block> blocks;
  for (int64_t i = 9; i >= 0; --i) blocks.push_back({i * 16, 8});
  const OwnedLayout layout = make_layout(blocks, 160);
  ASSERT_EQ(layout->n_items, 1U);
  EXPECT_EQ(layout->items()[0].stride[0], -16);
}

TEST(Layout, ALayoutOfNothingHasNoItems) {
  const OwnedLayout layout = make_layout({{3, 0}, {9, 0}}, 8);
  EXPECT_EQ(layout->n_items, 0U);
  EXPECT_EQ(layout->size_bytes, 0U);
}

TEST(Layout, ItsInvariantIsFoundBroken) {
  const OwnedLayout layout = make_layout({{0, 8}, {20, 4}, {40, 16}}, 64);
  ASSERT_GT(layout->n_items, 1U);
  EXPECT_STREQ(layout->broken_invariant(), nullptr);
  EXPECT_STREQ(make_layout({}, 8)->broken_invariant(), nullptr);
  ++layout->size_bytes;
  EXPECT_STREQ(layout->broken_invariant(), "a layout's items cover all bytes of the element");
  ++layout->items()[0].len_bytes;
  EXPECT_STREQ(layout->broken_invariant(), "each item of a layout begins behind the one before");
  layout->items()[0].len_bytes = 0;
  EXPECT_STREQ(layout->broken_invariant(), "no item of a layout is empty");
}

TEST(Layout, CountsBeyondOneElementContinueAtItsExtent) {
  const OwnedLayout layout = make_layout({{0, 8}}, 24);
  int64_t source[9] = {1, 0, 0, 2, 0, 0, 3, 0, 0};
  int64_t target[3] = {};
  pack({reinterpret_cast<std::byte*>(source), 24, layout.get()}, 0, 24, target, Store::kTemporal);
  EXPECT_EQ(target[0], 1);
  EXPECT_EQ(target[1], 2);
  EXPECT_EQ(target[2], 3);
}

}  // namespace
}  // namespace zh::copy
