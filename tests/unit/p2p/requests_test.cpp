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
  Request* receive = requests.make();
  ASSERT_TRUE(send != nullptr && receive != nullptr);
  receive->is_send = false;
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

}  // namespace
}  // namespace zh::p2p
