// The MPI-free parts of the shim: handle tables and context names.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "engine/contexts.h"
#include "mpi/entry/module_abi.h"
#include "mpi/handles/handle_map.h"

namespace zh::mpi {
namespace {

TEST(HandleMap, FindsWhatWasInsertedThroughGrowthAndErasure) {
  HandleMap<int> map;
  std::vector<int> values(5000);
  for (uintptr_t i = 0; i < values.size(); ++i) map.insert(0x84000000 + i, &values[i]);
  for (uintptr_t i = 0; i < values.size(); i += 2) EXPECT_EQ(map.erase(0x84000000 + i), &values[i]);
  for (uintptr_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(map.find(0x84000000 + i), i % 2 == 0 ? nullptr : &values[i]);
  }
  EXPECT_EQ(map.size(), values.size() / 2);
}

TEST(HandleMap, SurvivesManyLivesOfFewHandles) {
  HandleMap<int> map;
  int a = 0;
  int b = 0;
  for (int round = 0; round < 100000; ++round) {
    map.insert(0x1000 + static_cast<uintptr_t>(round % 7) * 16, &a);
    EXPECT_EQ(map.find(0x1000 + static_cast<uintptr_t>(round % 7) * 16), &a);
    map.insert(0x1000 + static_cast<uintptr_t>(round % 7) * 16, &b);
    EXPECT_EQ(map.erase(0x1000 + static_cast<uintptr_t>(round % 7) * 16), &b);
  }
  EXPECT_EQ(map.size(), 0U);
  EXPECT_EQ(map.erase(0x1000), nullptr);
}

TEST(Context, DiffersByParentCountAndMembers) {
  std::set<uint64_t> seen{engine::kWorldContext};
  const int groups[][3] = {{0, 1, 2}, {0, 2, 1}, {0, 1, 3}};
  uint64_t n = 1;
  for (const uint64_t parent : {engine::kWorldContext, engine::mix(engine::kWorldContext, 9)}) {
    for (uint64_t creations = 0; creations < 50; ++creations) {
      for (const auto& group : groups) {
        seen.insert(engine::derive_context(parent, creations, engine::hash_group(group, 3)));
        seen.insert(engine::derive_group_context(parent, engine::hash_group(group, 3), static_cast<int>(creations), 0));
        seen.insert(engine::derive_group_context(parent, engine::hash_group(group, 3), 0, creations + 1));
        n += 3;
      }
    }
  }
  EXPECT_EQ(seen.size(), n);
}

TEST(Context, IsTheSameForEveryMember) {
  const int group[] = {4, 5};
  EXPECT_EQ(engine::derive_context(engine::kWorldContext, 3, engine::hash_group(group, 2)),
            engine::derive_context(engine::kWorldContext, 3, engine::hash_group(group, 2)));
}

TEST(ModuleTable, HashSeesOrderAndBoundaries) {
  const char* const one[] = {"Send", "Recv"};
  const char* const swapped[] = {"Recv", "Send"};
  const char* const shifted[] = {"SendR", "ecv"};
  EXPECT_NE(table_hash(one, 2), table_hash(swapped, 2));
  EXPECT_NE(table_hash(one, 2), table_hash(shifted, 2));
}

}  // namespace
}  // namespace zh::mpi
