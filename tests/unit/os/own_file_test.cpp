// What zerohop may write over: nothing that somebody else has written.
// label one-thread: [.]OwnFile[.]
#include "os/own_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/folder.h"

namespace zh::os {
namespace {

constexpr FileForm kForms[] = {FileForm::kStatistics, FileForm::kTimeline, FileForm::kPage};

/// The forms that may be written over `text`, in their order.
std::string over(const std::string& text) {
  const test::Folder folder;
  const std::string path = folder.write("file", text);
  std::string forms;
  for (const FileForm form : kForms) forms += may_overwrite(path, form) ? 'y' : 'n';
  return forms;
}

TEST(OwnFile, AFormIsWrittenOverItselfAlone) {
  EXPECT_EQ(over("{\"schema\": 1, \"version\": \"0.1.0\", \"host\": \"mpich\",\n\"host_version\": \"MPICH\""), "ynn");
  EXPECT_EQ(over(R"({"displayTimeUnit":"ns","traceEvents":[{"ph":"M","pid":0,"name":"zerohop","args":{}})"), "nyn");
  EXPECT_EQ(over("<!doctype html>\n<html><head><meta name=\"generator\" content=\"zerohop report\">"), "nny");
}

TEST(OwnFile, WhatOthersHaveWrittenStays) {
  for (const char* text : {"\x7f"
                           "ELF",
                           "#!/bin/sh\n", "{}", "{\"schema\": 1, \"host\": \"x\"}", "{\"traceEvents\":[]}",
                           "<!doctype html>\n<title>notes on zerohop</title>", " "}) {
    EXPECT_EQ(over(text), "nnn") << text;
  }
}

TEST(OwnFile, NothingIsLostWhereNothingIs) {
  EXPECT_EQ(over(""), "yyy");
  const test::Folder folder;
  for (const FileForm form : kForms) {
    EXPECT_TRUE(may_overwrite(folder.path() + "/none", form));
    EXPECT_TRUE(may_overwrite(folder.path() + "/none/none", form));
    EXPECT_TRUE(may_overwrite(folder.path() + "/" + std::string(300, 'x'), form)) << "no file has such a name";
    EXPECT_TRUE(may_overwrite("/dev/null", form));
  }
}

TEST(OwnFile, ALinkIsFollowed) {
  const test::Folder folder;
  const std::string target = folder.write("data", "1 2 3\n");
  std::filesystem::create_symlink("data", folder.path() + "/link");
  EXPECT_FALSE(may_overwrite(folder.path() + "/link", FileForm::kTimeline));
  std::ofstream(target).close();
  EXPECT_TRUE(may_overwrite(folder.path() + "/link", FileForm::kTimeline));
}

}  // namespace
}  // namespace zh::os
