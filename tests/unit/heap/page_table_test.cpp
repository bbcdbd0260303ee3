// The bits of the pages: leaves, their bounds, and what lies beyond.
// label one-thread: [.]PageTable[.]
#include "heap/page_table.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>
#include <vector>

namespace zh::heap {
namespace {

constexpr uint64_t kLeaf = PageTable::kLeafPages;
using Runs = std::vector<std::pair<uint64_t, uint64_t>>;

Runs runs(const PageTable& table, Bit bit, bool value, Pages pages) {
  Runs out;
  table.for_each(bit, value, pages, [&](Pages run) { out.emplace_back(run.first, run.n); });
  return out;
}

const void* at(uintptr_t address) { return reinterpret_cast<const void*>(address); }

TEST(Pages, InsideAndAround) {
  for (const auto& [from, bytes, inside, around] :
       std::initializer_list<std::tuple<uintptr_t, uint64_t, Pages, Pages>>{{4096, 4096, {1, 1}, {1, 1}},
                                                                            {4097, 4096, {2, 0}, {1, 2}},
                                                                            {4097, 8192, {2, 1}, {1, 3}},
                                                                            {4096, 4095, {1, 0}, {1, 1}},
                                                                            {4100, 10, {2, 0}, {1, 1}},
                                                                            {4096, 0, {1, 0}, {1, 0}},
                                                                            {8191, 2, {2, 0}, {1, 2}}}) {
    EXPECT_EQ(pages_inside(at(from), bytes).n, inside.n) << from << '+' << bytes;
    if (inside.n != 0) {
      EXPECT_EQ(pages_inside(at(from), bytes).first, inside.first);
    }
    EXPECT_EQ(pages_around(at(from), bytes).first, around.first) << from << '+' << bytes;
    EXPECT_EQ(pages_around(at(from), bytes).n, around.n) << from << '+' << bytes;
  }
  EXPECT_EQ(Pages({3, 2}).bytes(), 8192U);
  EXPECT_EQ(Pages({3, 2}).address(), at(3 * 4096));
}

TEST(PageTable, WhereThereIsNoRoomNothingIsSet) {
  PageTable table;
  const Pages pages{kLeaf - 2, 4};
  EXPECT_TRUE(table.none(Bit::kShared, pages));
  EXPECT_FALSE(table.all(Bit::kShared, pages));
  EXPECT_EQ(table.count(Bit::kShared, pages), 0U);
  table.set(Bit::kShared, pages);
  table.clear(Bit::kShared, pages);
  EXPECT_TRUE(table.none(Bit::kShared, pages));
  EXPECT_EQ(runs(table, Bit::kShared, false, pages), (Runs{{kLeaf - 2, 2}, {kLeaf, 2}}));
  EXPECT_TRUE(runs(table, Bit::kShared, true, pages).empty());
  int visits = 0;
  table.for_each(Bit::kShared, [&](Pages) { ++visits; });
  EXPECT_EQ(visits, 0);
}

TEST(PageTable, RangesOverTheBoundsOfLeaves) {
  PageTable table;
  const Pages pages{5 * kLeaf - 3, 2 * kLeaf + 6};  // four leaves
  ASSERT_TRUE(table.prepare(pages));
  EXPECT_FALSE(table.set(Bit::kLeft, pages));
  EXPECT_TRUE(table.set(Bit::kLeft, pages)) << "all were set before";
  EXPECT_TRUE(table.all(Bit::kLeft, pages));
  EXPECT_FALSE(table.all(Bit::kLeft, {pages.first - 1, 2}));
  EXPECT_EQ(table.count(Bit::kLeft, {0, 100 * kLeaf}), pages.n);
  EXPECT_TRUE(table.none(Bit::kShared, pages)) << "another bit";
  EXPECT_EQ(runs(table, Bit::kLeft, true, {0, 100 * kLeaf}),
            (Runs{{5 * kLeaf - 3, 3}, {5 * kLeaf, kLeaf}, {6 * kLeaf, kLeaf}, {7 * kLeaf, 3}}))
      << "stretches end at the bounds of leaves";
  table.clear(Bit::kLeft, {5 * kLeaf - 1, 2});
  EXPECT_EQ(table.count(Bit::kLeft, pages), pages.n - 2);
  EXPECT_EQ(runs(table, Bit::kLeft, false, {5 * kLeaf - 4, 6}),
            (Runs{{5 * kLeaf - 4, 1}, {5 * kLeaf - 1, 1}, {5 * kLeaf, 1}}));
  EXPECT_FALSE(table.set(Bit::kLeft, {5 * kLeaf - 2, 2}));
  Runs all;
  table.for_each(Bit::kLeft, [&](Pages run) { all.emplace_back(run.first, run.n); });
  uint64_t sum = 0;
  for (const auto& [first, n] : all) sum += n;
  EXPECT_EQ(sum, pages.n - 1);
}

TEST(PageTable, ARangeIsExactOverTheBoundsOfWords) {
  PageTable table;
  ASSERT_TRUE(table.prepare({0, 512}));
  for (const Pages range : {Pages{0, 1}, Pages{63, 2}, Pages{5, 200}, Pages{64, 64}, Pages{511, 1}}) {
    EXPECT_FALSE(table.set(Bit::kShared, range));
    EXPECT_TRUE(table.all(Bit::kShared, range));
    EXPECT_EQ(table.count(Bit::kShared, {0, 512}), range.n);
    EXPECT_EQ(runs(table, Bit::kShared, true, {0, 512}), (Runs{{range.first, range.n}}));
    EXPECT_FALSE(table.all(Bit::kShared, {range.first, range.n + 1}));
    EXPECT_TRUE(table.none(Bit::kShared, {0, range.first}));
    EXPECT_TRUE(table.none(Bit::kShared, {range.end(), 64}));
    table.clear(Bit::kShared, range);
  }
  EXPECT_TRUE(table.all(Bit::kShared, {5, 0})) << "of nothing, all";
  EXPECT_TRUE(table.none(Bit::kShared, {64, 0}));
}

TEST(PageTable, EveryBitOfItsOwn) {
  PageTable table;
  ASSERT_TRUE(table.prepare({0, 20}));
  for (uint32_t i = 0; i < kBitKinds; ++i) table.set(static_cast<Bit>(i), {i, 1});
  for (uint32_t i = 0; i < kBitKinds; ++i) {
    EXPECT_EQ(runs(table, static_cast<Bit>(i), true, {0, 20}), (Runs{{i, 1}}));
  }
  for (uint32_t i = 0; i < kBitKinds; ++i) table.clear(static_cast<Bit>(i), {0, 5});
  for (uint32_t i = 0; i < kBitKinds; ++i) EXPECT_EQ(table.count(static_cast<Bit>(i), {0, 20}), i < 5 ? 0U : 1U);
}

TEST(PageTable, TheEndOfTheAddressSpace) {
  PageTable table;
  const uint64_t end = (uint64_t{1} << kAddressBits) / kPage;
  EXPECT_TRUE(table.prepare({end - 1, 1}));
  EXPECT_FALSE(table.prepare({end - 1, 2}));
  EXPECT_FALSE(table.prepare({end, 1}));
  EXPECT_FALSE(table.prepare({10, 0}));
  table.set(Bit::kShared, {end - 2, 4});
  EXPECT_EQ(table.count(Bit::kShared, {end - 10, 20}), 2U);
  EXPECT_FALSE(table.all(Bit::kShared, {end - 1, 2}));
  EXPECT_TRUE(table.none(Bit::kShared, {end, uint64_t{1} << 40}));
}

TEST(PageTable, RoomIsMadeOnce) {
  PageTable table;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(table.prepare({100, 10}));
  table.set(Bit::kShared, {100, 10});
  ASSERT_TRUE(table.prepare({0, 3 * kLeaf}));
  EXPECT_TRUE(table.all(Bit::kShared, {100, 10})) << "what was set stays";
  int visits = 0;
  table.for_each(Bit::kShared, [&](Pages run) { visits += run.first == 100 && run.n == 10 ? 1 : 100; });
  EXPECT_EQ(visits, 1);
}

}  // namespace
}  // namespace zh::heap
