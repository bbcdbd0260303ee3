// What files on disk say of themselves: this program, its libraries, and files that are no ELF files or lie.
// label one-thread: [.]ElfFile[.]
#include "os/elf_file.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

// Not hidden as all else is: the linker makes hidden symbols of a program local.
extern "C" __attribute__((visibility("default"))) int zh_elf_file_test_marker() { return 1; }

namespace zh::os {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

std::string bytes_of(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ElfFileOf {
 public:
  // Tests of this file run beside each other.
  explicit ElfFileOf(const std::string& bytes)
      : path_(::testing::TempDir() + "zh_elf_file_test." + std::to_string(getpid())) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~ElfFileOf() { std::remove(path_.c_str()); }
  ElfFileOf(const ElfFileOf&) = delete;
  ElfFileOf& operator=(const ElfFileOf&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(ElfFile, AProgramNamesItsLoaderAndLibraries) {
  const ElfFile self = read_elf(kSelf);
  EXPECT_TRUE(self.valid && self.same_machine);
  EXPECT_NE(self.loader.find("ld-linux"), std::string::npos) << self.loader;
  EXPECT_NE(std::find(self.needed.begin(), self.needed.end(), "libc.so.6"), self.needed.end());
  EXPECT_EQ(self.soname, "");
}

TEST(ElfFile, SymbolsAreDefinedOrTakenFromElsewhere) {
  ASSERT_EQ(zh_elf_file_test_marker(), 1);
  const auto has = [](const char* wanted, bool where) {
    return any_symbol(kSelf, [&](const std::string& name, bool defined) {
      return name.substr(0, name.find('@')) == wanted && defined == where;
    });
  };
  EXPECT_TRUE(has("zh_elf_file_test_marker", true));
  EXPECT_FALSE(has("zh_elf_file_test_marker", false));
  EXPECT_TRUE(has("fopen", false) || has("fopen64", false) || has("malloc", false));
  EXPECT_FALSE(has("no_such_function_anywhere", true));
}

TEST(ElfFile, WhatIsNoElfFileSaysNothing) {
  for (const char* path : {"/no/such/file", "/", "/dev/null", "/proc/self/cmdline"}) {
    EXPECT_FALSE(read_elf(path).valid) << path;
    EXPECT_FALSE(any_symbol(path, [](const std::string&, bool) { return true; })) << path;
  }
}

TEST(ElfFile, PlacesOutsideOfTheFileAreNotBelieved) {
  const std::string whole = bytes_of(kSelf);
  for (size_t bytes : {sizeof(Elf64_Ehdr), sizeof(Elf64_Ehdr) + 100, whole.size() / 2}) {
    const ElfFileOf cut(whole.substr(0, bytes));
    EXPECT_TRUE(read_elf(cut.path()).valid) << bytes;
    EXPECT_FALSE(any_symbol(cut.path(), [](const std::string& name, bool) { return name == "malloc"; })) << bytes;
  }
  std::string wild = whole;
  Elf64_Ehdr header{};
  wild.copy(reinterpret_cast<char*>(&header), sizeof header);
  header.e_shoff = ~uint64_t{0} - 10;
  header.e_phoff = ~uint64_t{0} - 10;
  wild.replace(0, sizeof header, reinterpret_cast<const char*>(&header), sizeof header);
  const ElfFileOf file(wild);
  EXPECT_EQ(read_elf(file.path()).loader, "");
  EXPECT_FALSE(any_symbol(file.path(), [](const std::string&, bool) { return true; }));
}

TEST(ElfFile, AnotherProcessorIsSeen) {
  std::string other = bytes_of(kSelf);
  Elf64_Ehdr header{};
  other.copy(reinterpret_cast<char*>(&header), sizeof header);
  header.e_machine = EM_S390;
  other.replace(0, sizeof header, reinterpret_cast<const char*>(&header), sizeof header);
  const ElfFileOf file(other);
  EXPECT_TRUE(read_elf(file.path()).valid);
  EXPECT_FALSE(read_elf(file.path()).same_machine);
}

}  // namespace
}  // namespace zh::os
