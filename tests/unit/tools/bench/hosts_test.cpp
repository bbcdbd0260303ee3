// Which MPI a launcher belongs to, and what is wrong with an option's value.
#include "tools/bench/hosts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/folder.h"
#include "tools/cli/inputs.h"

namespace zh::tools {
namespace {

namespace fs = std::filesystem;

using test::Folder;

TEST(BenchHosts, ALauncherIsKnownByWhatItSaysOfItsVersion) {
  const auto as_text = [](const std::string& said) {
    const LauncherKind k = launcher_kind(said);
    return k.host + " " + k.abi + " " + k.version;
  };
  EXPECT_EQ(as_text("mpiexec (Open MPI) 5.0.11\n\nReport bugs to"), "openmpi ompi Open MPI 5.0.11");
  EXPECT_EQ(as_text("mpirun (Open MPI) 4.1.4\n"), "openmpi ompi Open MPI 4.1.4");
  EXPECT_EQ(as_text("HYDRA build details:\n    Version:            5.0.2\n"), "mpich mpich MPICH 5.0.2");
  EXPECT_EQ(as_text("Intel(R) MPI Library for Linux* OS, Version 2021.19.0 Build 1"), "impi mpich Intel MPI 2021.19.0");
  EXPECT_EQ(as_text("slurm 22.05.8"), "  ");
}

TEST(BenchHosts, TheLibraryBesideALauncherNamesItsInterface) {
  const Folder f;
  f.write("bin/mpiexec", "");
  const std::string launcher = f.path() + "/bin/mpiexec";
  EXPECT_FALSE(library_beside(launcher, ""));
  f.write("lib64/libmpi_abi.so.1", "");
  EXPECT_EQ(library_beside(launcher, "")->abi, "abi");
  f.write("lib/libmpi.so.12", "");
  EXPECT_EQ(library_beside(launcher, "")->abi, "mpich") << "MPICH brings the standard ABI's library, too";
  EXPECT_EQ(library_beside(launcher, "abi")->folder, f.path() + "/lib64");
  EXPECT_FALSE(library_beside(launcher, "ompi"));
  f.write("lib/libmpi.so.40", "");
  EXPECT_FALSE(library_beside(launcher, "")) << "one of two";
  EXPECT_EQ(library_beside(launcher, "ompi")->name, "libmpi.so.40");
}

TEST(BenchHosts, ALinkedLauncherBelongsToWhereItReallyLies) {
  const Folder f;
  f.write("real/bin/orterun", "");
  f.write("real/lib/libmpi.so.40", "");
  fs::create_directories(f.path() + "/bin");
  fs::create_symlink(f.path() + "/real/bin/orterun", f.path() + "/bin/mpiexec");
  EXPECT_EQ(library_beside(f.path() + "/bin/mpiexec", "")->abi, "ompi");
}

TEST(BenchCheck, SizesAreOfTheProgramsRange) {
  EXPECT_EQ(wrong_sizes({}, "8,1K,4m"), "");
  for (const char* list : {"", "0", "4", "12", "3q", "K", "-8", "8,,x", "2000M", "99999999999999999999"}) {
    EXPECT_NE(wrong_sizes({}, list), "") << list;
  }
  EXPECT_EQ(wrong_sizes({.most = 4096, .step = 1}, "1,13,4096"), "");
  EXPECT_NE(wrong_sizes({.most = 4096, .step = 1}, "4097"), "");
}

TEST(BenchCheck, NamesAndFiles) {
  EXPECT_EQ(wrong_names({"a", "b"}, "b,a"), "");
  EXPECT_EQ(wrong_names({"a", "b"}, "a,c"), "no such name: c (there are a,b)");
  EXPECT_NE(wrong_names({"a", "b"}, ","), "");
  const Folder f;
  EXPECT_EQ(wrong_output(f.path() + "/new"), "");
  EXPECT_NE(wrong_output(f.path()), "");
  EXPECT_NE(wrong_output(f.path() + "/no/new"), "");
  EXPECT_NE(wrong_input(f.path() + "/new"), "");
  f.write("new", "");
  EXPECT_EQ(wrong_input(f.path() + "/new"), "");
}

}  // namespace
}  // namespace zh::tools
