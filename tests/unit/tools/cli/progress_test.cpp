// What a long command tells where standard error is no terminal. tests/unit/tools_cli has terminals.
#include "tools/cli/progress.h"

#include <gtest/gtest.h>

namespace zh::tools {
namespace {

TEST(Progress, TellsWhatIsLeftOnceAPieceIsDone) {
  testing::internal::CaptureStderr();
  Progress progress("bench p2p", std::chrono::seconds(0));
  for (const int done : {0, 1}) progress.show("launch", done, 4);
  Progress("within a minute").show("launch", 1, 4);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "zerohop bench p2p: launch, 1 of 4\n"
            "zerohop bench p2p: launch, 2 of 4, about 0.0 s left\n");
}

}  // namespace
}  // namespace zh::tools
