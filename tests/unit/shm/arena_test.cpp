// A rank's allocator: memory that comes back is used again, and counted while it is in use.
#include "shm/arena.h"

#include <gtest/gtest.h>

#include <memory>

#include "node/node.h"
#include "support/fork_world.h"

namespace zh::shm {
namespace {

TEST(Arena, WhatIsUsedAgainIsCountedAgain) {
  test::run_ranks(test::World::kThreads, 1, [](test::TestBootstrap& world) {
    node::JoinConfig config;
    config.rank_bytes = 4 << 20;
    config.measure_line = false;
    std::unique_ptr<node::Node> node;
    ASSERT_TRUE(node::Node::join(world, config, &node).ok());
    Arena arena;
    ASSERT_TRUE(arena.open(*node, 4096).ok());
    const uint64_t before = arena.used_bytes();
    const Offset first = arena.allocate(1000);
    ASSERT_NE(first, kNoOffset);
    const uint64_t used = arena.used_bytes();
    EXPECT_GE(used, before + 1000);
    arena.free(first, 1000);
    EXPECT_EQ(arena.used_bytes(), before);
    EXPECT_EQ(arena.allocate(1000), first);
    EXPECT_EQ(arena.used_bytes(), used);
    EXPECT_EQ(arena.allocate(4 << 20), kNoOffset);
    EXPECT_STREQ(arena.refusal().what(), "the rank's part of the segment is used up");
  });
}

}  // namespace
}  // namespace zh::shm
