// What requests are counted as while they last.
#include "p2p/requests.h"

#include <gtest/gtest.h>

#include "shm/arena.h"

namespace zh::p2p {
namespace {

TEST(Requests, WhatHasEndedIsCountedNoMore) {
  shm::Arena arena;
  Requests requests(arena);
  Request* send = requests.make_send();
  Request* receive = requests.make_receive({});
  ASSERT_TRUE(send != nullptr && receive != nullptr);
  requests.set_unpullable(send, true);
  requests.hide(receive);
  EXPECT_EQ(requests.pending_sends(), 1U);
  EXPECT_EQ(requests.unpullable(), 1U);
  EXPECT_EQ(requests.hidden(), 1U);
  requests.complete(send);
  requests.complete(receive);
  EXPECT_EQ(requests.pending_sends(), 0U);
  EXPECT_EQ(requests.unpullable(), 0U);
  EXPECT_EQ(requests.hidden(), 0U);
  requests.release(send);
  requests.release(receive);
}

TEST(Requests, APlaceIsUsedAgainAsIfItWereNew) {
  shm::Arena arena;
  Requests requests(arena);
  ASSERT_TRUE(requests.usable());
  Request* first = requests.make_send();
  requests.set_unpullable(first, true);
  first->transfer = 64;
  first->finished = 7;
  requests.complete(first);
  requests.release(first);
  Request* again = requests.make_receive({});
  ASSERT_EQ(again, first);
  EXPECT_TRUE(again->plain);
  EXPECT_FALSE(again->is_send || again->unpullable || again->is_done());
  EXPECT_EQ(again->transfer, kNoOffset);
  EXPECT_EQ(again->finished, 0U);
}

TEST(Requests, EachLiesAtItsIndex) {
  shm::Arena arena;
  Requests requests(arena);
  for (uint32_t i = 0; i < 1000; ++i) {
    const Request* r = requests.make_receive({});
    ASSERT_NE(r, nullptr);
    EXPECT_EQ(requests.at(r->index), r);
    EXPECT_NE(r, requests.sent());
  }
  EXPECT_TRUE(requests.sent()->is_done());
  requests.release(requests.sent());
  EXPECT_NE(requests.make_receive({}), requests.sent()) << "it stands for all sends";
}

}  // namespace
}  // namespace zh::p2p
