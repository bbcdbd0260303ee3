// Own descriptors stay out of the way of the program's, above all of its standard ones.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "os/high_descriptor.h"
#include "os/process.h"
#include "os/segment.h"
#include "os/vm.h"

namespace zh::os {
namespace {

constexpr int kFirstFree = 3;

TEST(HighDescriptor, IsTheSameFileAndClosedByExec) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int moved = move_high(ends[0]);
  ASSERT_GE(moved, kFirstFree);
  EXPECT_NE(moved, ends[0]);
  EXPECT_EQ(fcntl(ends[0], F_GETFD), -1) << "the low one is free again";
  EXPECT_EQ(fcntl(moved, F_GETFD), FD_CLOEXEC);
  char c = 'x';
  ASSERT_EQ(write(ends[1], &c, 1), 1);
  c = 0;
  EXPECT_EQ(read(moved, &c, 1), 1);
  EXPECT_EQ(c, 'x');
  close(moved);
  close(ends[1]);
}

/// Entries of this process's table of descriptors.
int table_entries() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int entries = 0;
  while (status >> word && word != "FDSize:") {
  }
  status >> entries;
  return entries;
}

// In a child, whose table is as short as it may be.
[[noreturn]] void widen_the_table() {
  constexpr int kHigh = 300;
  const int next = dup(0);
  close(next);
  const int before = table_entries();
  widen_descriptor_table();
  const int after = dup(0);
  _exit(before <= kHigh && table_entries() > kHigh && after == next ? 0 : 1);
}

TEST(HighDescriptor, TheTableGetsLongAndNothingStaysOpen) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < 1000) GTEST_SKIP() << "few descriptors may be open";
  EXPECT_EXIT(widen_the_table(), ::testing::ExitedWithCode(0), "");
}

TEST(HighDescriptor, NoneIsNone) { EXPECT_EQ(move_high(-1), -1); }

// In a child, whose standard error is closed.
[[noreturn]] void make_all_without_standard_error() {
  close(2);
  Descriptor memory;
  Descriptor file;
  std::string path;
  const bool made =
      make_memfd("zerohop-test", 4096, &memory).ok() && make_file(find_shared_folder(), 4096, false, &file, &path).ok();
  const int sparse = make_sparse_file("zerohop-test", 4096);
  const int process = open_pidfd(getpid());
  const bool clear = memory.get() >= kFirstFree && file.get() >= kFirstFree && sparse >= kFirstFree &&
                     (process >= kFirstFree || process < 0);
  _exit(made && clear && fcntl(2, F_GETFD) == -1 ? 0 : 1);
}

TEST(HighDescriptor, NothingTakesThePlaceOfAClosedStandardError) {
  EXPECT_EXIT(make_all_without_standard_error(), ::testing::ExitedWithCode(0), "");
}

TEST(HighDescriptor, NorWhereFewMayBeOpen) {
  const auto with_few = [] {
    const rlimit few{32, 32};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) _exit(2);
    for (int fd = 16; fd < 32; ++fd) dup2(0, fd);  // the high ones are in use
    make_all_without_standard_error();
  };
  EXPECT_EXIT(with_few(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace zh::os
