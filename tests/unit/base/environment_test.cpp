// Words of the environment as the preloaded library reads them by itself; they must be the table's words.
#include "base/environment.h"

#include <gtest/gtest.h>

#include "base/options.h"

namespace zh {
namespace {

TEST(Environment, WordsAreReadAsTheTableReadsThem) {
  for (const char* value : {"0", "n", "no", "off", "false", "OFF", " No\t", "1", "yes", "on", "00", "offf", "of", ""}) {
    Options options;
    const bool obeyed = options.set("ENABLE", value, Source::kCommandLine).ok();
    EXPECT_EQ(says_no(value), obeyed && !options.get_bool(Opt::kEnable)) << '"' << value << '"';
  }
  EXPECT_FALSE(says_no(nullptr));
  EXPECT_TRUE(is_word(" 1 ", "1"));
  EXPECT_FALSE(is_word("11", "1"));
}

}  // namespace
}  // namespace zh
