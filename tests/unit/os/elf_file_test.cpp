// What files on disk say of themselves: this program, its libraries, and files that are no ELF files or lie.
// label one-thread: [.]ElfFile[.]
#include "os/elf_file.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "support/folder.h"

// Not hidden as all else is: the linker makes hidden symbols of a program local.
extern "C" __attribute__((visibility("default"))) int zh_elf_file_test_marker() { return 1; }

namespace zh::os {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

std::string bytes_of(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The header of an ELF file in memory, changed.
template <typename Change>
std::string with_header(std::string bytes, Change&& change) {
  Elf64_Ehdr header{};
  bytes.copy(reinterpret_cast<char*>(&header), sizeof header);
  change(header);
  bytes.replace(0, sizeof header, reinterpret_cast<const char*>(&header), sizeof header);
  return bytes;
}

TEST(ElfFile, AProgramNamesItsLoaderAndLibraries) {
  const ElfFile self = read_elf(kSelf);
  EXPECT_TRUE(self.valid && self.same_machine && !self.shared);
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
  const test::Folder folder;
  const std::string whole = bytes_of(kSelf);
  for (size_t bytes : {sizeof(Elf64_Ehdr), sizeof(Elf64_Ehdr) + 100, whole.size() / 2}) {
    const std::string cut = folder.write("cut", whole.substr(0, bytes));
    EXPECT_TRUE(read_elf(cut).valid) << bytes;
    EXPECT_FALSE(any_symbol(cut, [](const std::string& name, bool) { return name == "malloc"; })) << bytes;
  }
  const auto far_away = [](Elf64_Ehdr& header) { header.e_shoff = header.e_phoff = ~uint64_t{0} - 10; };
  const std::string wild = folder.write("wild", with_header(whole, far_away));
  EXPECT_EQ(read_elf(wild).loader, "");
  EXPECT_FALSE(any_symbol(wild, [](const std::string&, bool) { return true; }));
}

TEST(ElfFile, AnotherProcessorIsSeen) {
  const test::Folder folder;
  const auto of_another = [](Elf64_Ehdr& header) { header.e_machine = EM_S390; };
  const std::string other = folder.write("other", with_header(bytes_of(kSelf), of_another));
  EXPECT_TRUE(read_elf(other).valid);
  EXPECT_FALSE(read_elf(other).same_machine);
}

}  // namespace
}  // namespace zh::os
