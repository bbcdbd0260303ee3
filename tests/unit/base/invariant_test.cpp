// The check at a hand-over: what is whole goes on, what is broken ends the process with its text.
#define ZH_CHECK_INVARIANTS 1  // in every kind of build
#include "base/invariant.h"

#include <gtest/gtest.h>

namespace zh {
namespace {

TEST(CheckInvariant, GoesOnWhereItHolds) {
  const char* whole = nullptr;
  ZH_CHECK_INVARIANT(whole);
}

TEST(CheckInvariantDeathTest, EndsTheProcessWhereItDoesNot) {
  EXPECT_DEATH(ZH_CHECK_INVARIANT("one is two"), "broken invariant: one is two \\(.*invariant_test.cpp:");
}

}  // namespace
}  // namespace zh
