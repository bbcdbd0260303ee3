// What speaks for the heap and against it, by the environment. Each case clears what the tests' own surroundings set.
#include "heap/decide.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace {

using zh::heap::decide;

class Decide : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef ZH_SANITIZE
    GTEST_SKIP() << "a sanitizer is one of the reasons";
#endif
    for (const char* name : {"ZEROHOP_HEAP", "ZEROHOP_ENABLE", "ZEROHOP_LAUNCHED", "PMI_RANK", "PMIX_RANK",
                             "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID", "PALS_RANKID", "SLURM_PROCID", "FLUX_TASK_RANK",
                             "JSM_NAMESPACE_RANK", "MALLOC_CHECK_", "MALLOC_PERTURB_", "GLIBC_TUNABLES"}) {
      unsetenv(name);
    }
  }
  static void set(const char* name, const char* value) { setenv(name, value, 1); }
};

TEST_F(Decide, OnlyBehindALauncherByDefault) {
  EXPECT_FALSE(decide(false).use);
  EXPECT_TRUE(decide(false, true).use);
  for (const char* name : {"ZEROHOP_LAUNCHED", "PMI_RANK", "SLURM_PROCID"}) {
    set(name, "0");
    EXPECT_TRUE(decide(false).use) << name;
    EXPECT_FALSE(decide(false).huge_too);
    unsetenv(name);
  }
}

TEST_F(Decide, TheUsersWordDecides) {
  set("ZEROHOP_HEAP", "1");
  EXPECT_TRUE(decide(false).use);
  EXPECT_TRUE(decide(false).huge_too);
  set("ZEROHOP_HEAP", " 0");
  EXPECT_FALSE(decide(false, true).use);
  EXPECT_NE(std::string(decide(false, true).why).find("ZEROHOP_HEAP"), std::string::npos);
  set("ZEROHOP_HEAP", "auto");
  for (const char* no : {"0", "no", "Off", "false"}) {
    set("ZEROHOP_ENABLE", no);
    EXPECT_FALSE(decide(false, true).use) << no;
  }
  set("ZEROHOP_ENABLE", "yes");
  EXPECT_TRUE(decide(false, true).use);
}

TEST_F(Decide, OtherAllocatorsAndWatchersAreLeftAlone) {
  set("ZEROHOP_HEAP", "1");
  EXPECT_FALSE(decide(true).use);
  for (const auto& [name, value] : {std::pair{"MALLOC_CHECK_", "3"}, std::pair{"MALLOC_PERTURB_", "7"},
                                    std::pair{"GLIBC_TUNABLES", "glibc.malloc.check=3"}}) {
    set(name, value);
    EXPECT_FALSE(decide(false).use) << name;
    unsetenv(name);
  }
  set("GLIBC_TUNABLES", "glibc.malloc.arena_max=1");
  EXPECT_TRUE(decide(false).use);
}

}  // namespace
