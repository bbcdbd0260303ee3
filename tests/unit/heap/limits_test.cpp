// Settings and limits under which nothing can be put into memory files.
// label not-emulated: [.]Limits[.]
#include "heap/limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

#include "heap/huge_pages.h"
#include "heap_support.h"

namespace zh::heap::test {
namespace {

TEST(Limits, OnlyThoseOnDataAndFilesCount) {
  if (strict_overcommit()) GTEST_SKIP() << "vm.overcommit_memory is 2";
  EXPECT_EQ(system_obstacle(), nullptr);
  const auto under = [](decltype(RLIMIT_AS) which) {
    return in_process([=] {
      const rlimit limit{uint64_t{1} << 40, uint64_t{1} << 40};
      setrlimit(which, &limit);
      const char* why = system_obstacle();
      return why != nullptr && std::string(why).find("ulimit -") != std::string::npos;
    });
  };
  EXPECT_TRUE(under(RLIMIT_DATA));
  EXPECT_TRUE(under(RLIMIT_FSIZE));
  EXPECT_FALSE(under(RLIMIT_AS));
  EXPECT_FALSE(under(RLIMIT_MEMLOCK));
  EXPECT_FALSE(under(RLIMIT_NOFILE));
}

TEST(Limits, TheyFitEachOther) {
  EXPECT_GE(kKeptBytes, kKeptBlockBytes);
  EXPECT_LE(kMaxStretches * 3, 65530U) << "each may divide a mapping into three";
}

}  // namespace
}  // namespace zh::heap::test
