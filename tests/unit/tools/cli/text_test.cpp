// Lines that fit.
#include "tools/cli/text.h"

#include <gtest/gtest.h>

#include <string>

namespace zh::tools {
namespace {

TEST(Text, BreaksAtBlanksAndIndents) {
  EXPECT_EQ(wrapped("one two three", 0, 2, 9), "one two\n  three");
  EXPECT_EQ(wrapped("one two three", 0, 2, 13), "one two three");
  EXPECT_EQ(wrapped("one two three", 6, 6, 13), "one two\n      three") << "columns that are taken count";
  EXPECT_EQ(wrapped("", 3, 3, 10), "");
}

TEST(Text, ALongWordStaysWhole) {
  EXPECT_EQ(wrapped("see /a/very/long/path now", 0, 1, 8), "see\n /a/very/long/path\n now");
  EXPECT_EQ(wrapped("/a/very/long/path", 0, 1, 8), "/a/very/long/path") << "no line before it";
  EXPECT_EQ(wrapped("of one,two,three,four", 0, 1, 9), "of\n one,two,\n three,\n four");
}

TEST(Text, KeepsBlanksInsideALine) { EXPECT_EQ(wrapped("command   (or so)", 0, 0, 40), "command   (or so)"); }

TEST(Text, CountsLettersNotBytes) {
  EXPECT_EQ(columns_of("µs"), 2U);
  EXPECT_EQ(wrapped("µµµ µµµ", 0, 0, 7), "µµµ µµµ");
}

TEST(Text, HangsBelowItself) { EXPECT_EQ(hanging("ok  ", "one two", 8), "ok  one\n    two\n"); }

TEST(Text, FitsLinesBelowTheirExplanations) {
  EXPECT_EQ(fitted("  name    what it is, in a few words\n  x\n", 30, false),
            "  name    what it is, in a few\n          words\n  x\n");
  EXPECT_EQ(fitted("  name    what it is, in a few words\n", 29, false),
            "  name\n      what it is, in a few\n      words\n")
      << "no room beside the name";
  EXPECT_EQ(fitted("one two\nthree\n", 30, false), "one two\nthree\n");
  EXPECT_EQ(fitted("one two\nthree\n", 30), "one two three\n") << "a paragraph";
}

TEST(Text, WhatATerminalHasNoRoomForGoesOnInASecondTable) {
  Table table({"size", "first", "second", "third"});
  table.add({"8", "1", "22", "333"});
  table.add({"16", "4"});
  EXPECT_EQ(table.text(kAnyColumns), "size  first  second  third\n8         1      22    333\n16        4\n");
  EXPECT_EQ(table.text(19), "size  first  second\n8         1      22\n16        4\n\nsize  third\n8       333\n16\n");
  EXPECT_EQ(table.text(1).find("size  first\n8         1\n"), 0U) << "a column at least";
}

}  // namespace
}  // namespace zh::tools
