// Whom a death concerns: once while others may still serve a receive, always when nobody can.
#include "p2p/deaths.h"

#include <gtest/gtest.h>

#include <vector>

namespace zh::p2p {
namespace {

constexpr uint64_t kMembersContext = 7;

TEST(Deaths, ADeathIsToldOnceWhileOthersLive) {
  const std::vector<int32_t> members = {0, 1, 2};
  Deaths deaths(0, 4);
  deaths.name(kMembersContext, members);
  EXPECT_FALSE(deaths.concern(kMembersContext));
  deaths.add(3);
  EXPECT_FALSE(deaths.concern(kMembersContext)) << "no member";
  deaths.add(2);
  EXPECT_TRUE(deaths.concern(kMembersContext));
  deaths.told(kMembersContext);
  EXPECT_FALSE(deaths.concern(kMembersContext));
  deaths.add(1);
  deaths.told(kMembersContext);
  EXPECT_TRUE(deaths.concern(kMembersContext)) << "nobody is left";
}

TEST(Deaths, MembersOfOtherNodesMayStillServe) {
  const std::vector<int32_t> members = {0, 1, -1};
  Deaths deaths(0, 2);
  deaths.name(kMembersContext, members);
  deaths.add(1);
  EXPECT_TRUE(deaths.concern(kMembersContext));
  deaths.told(kMembersContext);
  EXPECT_FALSE(deaths.concern(kMembersContext));
}

}  // namespace
}  // namespace zh::p2p
