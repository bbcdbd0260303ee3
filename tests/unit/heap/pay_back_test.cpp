// When sharing a buffer pays, and what becomes of one that did not.
#include "heap/pay_back.h"

#include <gtest/gtest.h>

#include <memory>

namespace zh::heap {
namespace {

constexpr uint64_t kPrice = 1000;
constexpr uint64_t kSaves = 100;
constexpr uint64_t kPages = 16;

/// Uses of the buffer until sharing it would have paid.
uint64_t uses_until_due(PayBack& pays, uint64_t page, uint64_t pages = kPages) {
  uint64_t uses = 1;
  while (!pays.forgo(page, pages, kSaves, kPrice)) ++uses;
  return uses;
}

TEST(PayBack, ABufferIsDueWhenItsUsesWouldHavePaid) {
  const auto pays = std::make_unique<PayBack>();
  EXPECT_EQ(uses_until_due(*pays, 1), kPrice / kSaves);
  EXPECT_EQ(pays->saved_ns(), 0U);
  EXPECT_EQ(pays->spent_ns(), 0U);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(pays->forgo(2, kPages, 0, kPrice)) << "mapping it saves nothing";
}

TEST(PayBack, WhatEndedBeforeItPaidIsLeftAloneForLongerAndOthersOfItsSizeToo) {
  const auto pays = std::make_unique<PayBack>();
  uint64_t before = uses_until_due(*pays, 1);
  const uint64_t first = before;
  for (int i = 0; i < 3; ++i) {
    pays->shared(1, kPrice);
    pays->save(1, kPages, kSaves);
    pays->returned(1, kPages, kPrice / 2);
    const uint64_t now = uses_until_due(*pays, 1);
    EXPECT_GT(now, 2 * before) << i;
    before = now;
  }
  EXPECT_GT(uses_until_due(*pays, 77), first) << "of the same size";
  EXPECT_EQ(uses_until_due(*pays, 78, 1024 * kPages), first) << "of another";
  EXPECT_EQ(pays->spent_ns(), 3 * (kPrice + kPrice / 2));
  EXPECT_EQ(pays->saved_ns(), 3 * kSaves);
}

TEST(PayBack, WhatHasPaidIsTrustedAgain) {
  const auto pays = std::make_unique<PayBack>();
  const uint64_t first = uses_until_due(*pays, 1);
  pays->shared(1, kPrice);
  pays->returned(1, kPages, 0);
  for (int i = 0; i < 10; ++i) {
    (void)uses_until_due(*pays, 1);
    pays->shared(1, kPrice);
    for (uint64_t ns = 0; ns < kPrice; ns += kSaves) pays->save(1, kPages, kSaves);
    pays->returned(1, kPages, 0);
  }
  EXPECT_EQ(uses_until_due(*pays, 1), first);
}

TEST(PayBack, AMappingThatHasGoneBeginsAnew) {
  const auto pays = std::make_unique<PayBack>();
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(pays->forgo(1, kPages, kSaves, kPrice));
    pays->forget(1);
  }
  EXPECT_EQ(uses_until_due(*pays, 1), kPrice / kSaves);
}

TEST(PayBack, ManyBuffersInTurnAllBecomeDue) {
  const auto pays = std::make_unique<PayBack>();
  constexpr uint64_t kBuffers = 1000;
  uint64_t due = 0;
  for (uint64_t use = 0; use < 4 * kPrice / kSaves; ++use) {
    for (uint64_t k = 0; k < kBuffers; ++k) {
      if (!pays->forgo(1 + 256 * k, 256, kSaves, kPrice)) continue;
      pays->forget(1 + 256 * k);
      ++due;
    }
  }
  EXPECT_GT(due, kBuffers);
}

TEST(PayBack, WhoeverTakesAnEntryBeginsAnew) {
  const auto pays = std::make_unique<PayBack>();
  for (uint64_t page = 1; page < 20'000; ++page) {
    int tries = 0;
    while (!pays->forgo(page, kPages, kPrice, kPrice) && tries < 1000) ++tries;
    EXPECT_LT(tries, 1000) << page;
    pays->forget(page);
  }
}

TEST(Price, IsWhatWasMeasured) {
  Price price;
  for (int i = 0; i < 50; ++i) price.learn(10'000, 100, 100 * 500);
  EXPECT_NEAR(static_cast<double>(price.of(0)), 10'000, 100);
  EXPECT_NEAR(static_cast<double>(price.of(1000)), 10'000 + 1000 * 500, 10'000);
  const uint64_t before = price.of(1000);
  price.learn(10'000, 0, 5'000'000);
  EXPECT_EQ(price.of(1000), before) << "no page was made";
}

}  // namespace
}  // namespace zh::heap
