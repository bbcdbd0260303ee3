// What counts as a busy machine.
#include "tools/bench/machine_load.h"

#include <gtest/gtest.h>

namespace zh::tools {
namespace {

TEST(MachineLoad, TimeThatAHypervisorGaveToOthersIsBusyAndWaitingForADiskIsNot) {
  const auto busy = busy_seconds_of("cpu  100 20 30 9000 500 4 6 40 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n", 100);
  ASSERT_TRUE(busy);
  EXPECT_DOUBLE_EQ(*busy, 2.0);
}

TEST(MachineLoad, WithoutACountNothingIsKnown) {
  for (const char* text : {"", "cpu  0 0 0 0 0 0 0 0 0 0\n", "intr 1 2 3 4 5 6 7 8", "cpu 1 2"}) {
    EXPECT_FALSE(busy_seconds_of(text, 100)) << text;
  }
  EXPECT_TRUE(json_of(MachineLoad{}).is_null());
  EXPECT_EQ(start_line_of(MachineLoad{}), "");
}

TEST(MachineLoad, AFifthOfAProcessorIsBusyOnASmallMachineAndNotOnALargeOne) {
  MachineLoad load{.known = true, .processors = 2, .others_at_start = 0.3, .others_during = 0.3};
  EXPECT_TRUE(load.busy_at_start());
  EXPECT_TRUE(load.busy_during());
  EXPECT_NE(start_line_of(load).find("0.3 of 2 processors"), std::string::npos);
  load.processors = 64;
  EXPECT_FALSE(load.busy_at_start());
  EXPECT_FALSE(load.busy_during());
  EXPECT_EQ(run_line_of(load), "");
}

}  // namespace
}  // namespace zh::tools
