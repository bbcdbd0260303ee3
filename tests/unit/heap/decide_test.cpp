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
    for (const char* name : {"ZEROHOP_HEAP", "ZEROHOP_ENABLE", "LD_PRELOAD"}) unsetenv(name);
  }
  static void set(const char* name, const char* value) { setenv(name, value, 1); }
};

TEST_F(Decide, EverywhereByDefault) {
  EXPECT_TRUE(decide().use);
  EXPECT_FALSE(decide().always);
  EXPECT_STREQ(decide().why, "the default");
  // Neither launchers nor libc's switches matter: its blocks stay libc's.
  for (const char* name : {"PMI_RANK", "MALLOC_CHECK_", "MALLOC_PERTURB_"}) {
    set(name, "3");
    EXPECT_TRUE(decide().use) << name;
    unsetenv(name);
  }
}

TEST_F(Decide, TheUsersWordDecides) {
  set("ZEROHOP_HEAP", "1");
  EXPECT_TRUE(decide().use);
  EXPECT_TRUE(decide().always);
  set("ZEROHOP_HEAP", " 0");
  EXPECT_FALSE(decide().use);
  EXPECT_NE(std::string(decide().why).find("ZEROHOP_HEAP"), std::string::npos);
  set("ZEROHOP_HEAP", "auto");
  for (const char* no : {"0", "no", "Off", "false"}) {
    set("ZEROHOP_ENABLE", no);
    EXPECT_FALSE(decide().use) << no;
    EXPECT_NE(std::string(decide().why).find("ZEROHOP_ENABLE"), std::string::npos);
  }
  set("ZEROHOP_ENABLE", "yes");
  EXPECT_TRUE(decide().use);
  EXPECT_FALSE(decide().always);
}

TEST_F(Decide, WatchersOfMemoryAreLeftAlone) {
  set("ZEROHOP_HEAP", "1");
  set("LD_PRELOAD", "/usr/lib/valgrind/vgpreload_core-amd64-linux.so:/usr/lib/libzerohop.so");
  EXPECT_FALSE(decide().use);
  set("LD_PRELOAD", "libc_malloc_debug.so.0:/usr/lib/libzerohop.so");
  EXPECT_FALSE(decide().use);
  set("LD_PRELOAD", "/usr/lib/libzerohop.so");
  EXPECT_TRUE(decide().use);
}

TEST(DecideBesideSanitizers, TheyWatchEveryAllocation) {
#ifndef ZH_SANITIZE
  GTEST_SKIP() << "no sanitizer";
#endif
  unsetenv("ZEROHOP_HEAP");
  unsetenv("ZEROHOP_ENABLE");
  EXPECT_FALSE(decide().use);
}

}  // namespace
