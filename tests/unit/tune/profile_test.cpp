// The kept profile: what was saved is loaded, and what is corrupt, foreign, old or noisy is named and not obeyed.
#include "tune/profile.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "os/clock.h"
#include "support/folder.h"

namespace zh::tune {
namespace {

namespace fs = std::filesystem;

class Kept : public testing::Test {
 protected:
  void SetUp() override {
    machine_ = {"cpu \"quoted\"", "6.1", "hv", "0-1"};
    profile_.n_classes = 2;
    for (uint32_t i = 0; i < 2; ++i) {
      DistanceClass& c = profile_.classes[i];
      c.level = static_cast<int32_t>(i + 2);
      c.line_ns = 40.5F * static_cast<float>(4 * i + 1);  // near and far
      c.ring_bytes = 1 << 20;
      c.jobs = 2;
      c.attempts = 3;
      c.measured_at = 1'700'000'000;
      for (Curve* curve : {&c.cells, &c.cells_nt, &c.mapped_one}) {
        curve->add(1024, 0.25F, 0.125F);
        curve->add(65536, 7.5F, 0.0625F);
      }
    }
  }
  [[nodiscard]] std::string path() const { return profile_path(folder_, machine_); }
  [[nodiscard]] std::string text() const {
    std::ifstream in(path());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const { std::ofstream(path()) << text; }

  const test::Folder root_;
  const std::string folder_ = root_.path() + "/deep/folder";
  MachineId machine_;
  Profile profile_;
};

TEST_F(Kept, ComesBackAsItWasSaved) {
  Profile loaded;
  EXPECT_EQ(load_profile({folder_, ""}, machine_, &loaded).code(), Code::kWouldBlock);
  ASSERT_TRUE(save_profile(folder_, machine_, profile_).ok());
  ASSERT_TRUE(save_profile(folder_, machine_, profile_).ok()) << "over the old one";
  const Status status = load_profile({folder_, ""}, machine_, &loaded);
  ASSERT_TRUE(status.ok()) << status.what();
  EXPECT_EQ(std::memcmp(&loaded, &profile_, sizeof loaded), 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "a draft was left behind";
}

TEST_F(Kept, IsNotUsedOnAnotherMachine) {
  ASSERT_TRUE(save_profile(folder_, machine_, profile_).ok());
  MachineId other = machine_;
  other.kernel = "6.2";
  Profile loaded;
  EXPECT_EQ(load_profile({folder_, ""}, other, &loaded).code(), Code::kWouldBlock);
  // Somebody copied the file, or two hashes met.
  fs::copy_file(path(), profile_path(folder_, other));
  EXPECT_EQ(load_profile({folder_, ""}, other, &loaded).code(), Code::kInvalid);
  EXPECT_EQ(loaded.n_classes, 0U);
}

TEST_F(Kept, IsRefusedWhenCutAnywhere) {
  ASSERT_TRUE(save_profile(folder_, machine_, profile_).ok());
  const std::string whole = text();
  const size_t content = whole.find_last_not_of('\n');
  for (size_t n = 0; n < content; n += 37) {
    write(whole.substr(0, n));
    Profile loaded;
    ASSERT_EQ(load_profile({folder_, ""}, machine_, &loaded).code(), Code::kInvalid) << "cut at " << n;
    ASSERT_EQ(loaded.n_classes, 0U);
  }
}

TEST_F(Kept, NeverYieldsImpossibleNumbersWhateverIsWritten) {
  ASSERT_TRUE(save_profile(folder_, machine_, profile_).ok());
  const std::string whole = text();
  std::mt19937_64 random(5);
  const std::string letters = "0123456789.-e\"{}[]:,null ";
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string bad = whole;
    for (uint64_t k = 0; k <= random() % 3; ++k) bad[random() % bad.size()] = letters[random() % letters.size()];
    write(bad);
    Profile loaded;
    if (!load_profile({folder_, ""}, machine_, &loaded).ok()) {
      ++refused;
      continue;
    }
    ASSERT_GE(loaded.n_classes, 1U);
    ASSERT_LE(loaded.n_classes, Profile::kMaxClasses);
    for (uint32_t i = 0; i < loaded.n_classes; ++i) {
      const Curve& c = loaded.classes[i].cells;
      ASSERT_LE(c.n, Curve::kMaxPoints);
      for (uint32_t k = 0; k < c.n; ++k) {
        ASSERT_GT(c.points[k].us, 0.0F);
        ASSERT_TRUE(k == 0 || c.points[k].bytes > c.points[k - 1].bytes);
      }
    }
  }
  EXPECT_GT(refused, 40);
}

TEST_F(Kept, AMachineThatWasNeverQuietIsTriedAgainAfterADay) {
  profile_.classes[0].jobs = 1;
  profile_.classes[0].attempts = kMostAttempts;
  profile_.classes[1].attempts = kMostAttempts;
  for (const int64_t age_s : {3600, 100'000}) {
    profile_.classes[0].measured_at = os::seconds_since_1970() - age_s;
    ASSERT_TRUE(save_profile(folder_, machine_, profile_).ok());
    Profile loaded;
    ASSERT_TRUE(load_profile({folder_, ""}, machine_, &loaded).ok());
    EXPECT_EQ(loaded.classes[0].attempts, age_s == 3600 ? kMostAttempts : 0U);
    EXPECT_EQ(loaded.classes[1].attempts, kMostAttempts) << "what counts is not measured again";
  }
}

TEST_F(Kept, IsNoPipeAndNoFolder) {
  fs::create_directories(path());
  Profile loaded;
  EXPECT_EQ(load_profile({folder_, ""}, machine_, &loaded).code(), Code::kInvalid);
  fs::remove(path());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(load_profile({folder_, ""}, machine_, &loaded).code(), Code::kInvalid);
}

TEST_F(Kept, OfAnotherVersionIsRefused) {
  ASSERT_TRUE(save_profile(folder_, machine_, profile_).ok());
  std::string old = text();
  const size_t at = old.find("\"version\": 4");
  ASSERT_NE(at, std::string::npos);
  old.replace(at, 12, "\"version\": 0");
  write(old);
  Profile loaded;
  const Status status = load_profile({folder_, ""}, machine_, &loaded);
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(std::string(status.what()).find("version"), std::string::npos);
}

TEST_F(Kept, CurvesThatAreNoisyOrImpossibleDoNotCount) {
  profile_.classes[1].mapped_one.points[0].spread = kMaxSpread * 1.1F;
  profile_.classes[0].mapped_one.points[0].us = 58.7F;
  ASSERT_TRUE(save_profile(folder_, machine_, profile_).ok());
  Profile loaded;
  ASSERT_TRUE(load_profile({folder_, ""}, machine_, &loaded).ok());
  for (const DistanceClass& c : {loaded.classes[0], loaded.classes[1]}) {
    EXPECT_TRUE(c.mapped_one.empty());
    EXPECT_FALSE(c.cells.empty());
  }
}

TEST_F(Kept, CannotBeWrittenWhereTheFolderIsAFile) {
  std::ofstream(root_.path() + "/file") << "x";
  EXPECT_FALSE(save_profile(root_.path() + "/file", machine_, profile_).ok());
  EXPECT_FALSE(save_profile("", machine_, profile_).ok());
}

TEST_F(Kept, IsTheSitesWhereTheUserHasNone) {
  const KeptFolders folders = {folder_, root_.path() + "/site"};
  Profile loaded;
  EXPECT_EQ(load_profile(folders, machine_, &loaded).code(), Code::kWouldBlock);
  EXPECT_EQ(profile_path(folders, machine_), path()) << "where the own one will be";
  ASSERT_TRUE(save_profile(folders.site, machine_, profile_).ok());
  ASSERT_TRUE(load_profile(folders, machine_, &loaded).ok());
  EXPECT_EQ(profile_path(folders, machine_), profile_path(folders.site, machine_));
  EXPECT_TRUE(load_profile({"", folders.site}, machine_, &loaded).ok()) << "a user without a home";
  profile_.classes[0].jobs += 1;
  ASSERT_TRUE(save_profile(folders.own, machine_, profile_).ok());
  ASSERT_TRUE(load_profile(folders, machine_, &loaded).ok());
  EXPECT_EQ(loaded.classes[0].jobs, profile_.classes[0].jobs) << "the own one goes first";
  write("not a profile");
  EXPECT_EQ(load_profile(folders, machine_, &loaded).code(), Code::kInvalid) << "and is not passed over when broken";
}

TEST(Machine, IsLookedAtOnceAndNamesItsProcessor) {
  const MachineId& a = this_machine();
  EXPECT_EQ(&a, &this_machine());
  EXPECT_FALSE(a.cpu.empty());
  EXPECT_FALSE(a.kernel.empty());
}

TEST(KeptFolders, TheOwnIsTheChosenOneThenXdgThenHome) {
  EXPECT_EQ(kept_folders("/x/y", "").own, "/x/y");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(kept_folders("", "").own, "/xdg/zerohop");
  setenv("XDG_CACHE_HOME", "relative", 1);
  const test::Folder home;
  setenv("HOME", home.path().c_str(), 1);
  EXPECT_EQ(kept_folders("", "").own, home.path() + "/.cache/zerohop");
  setenv("HOME", (home.path() + "/none").c_str(), 1);
  EXPECT_EQ(kept_folders("", "").own, "") << "a home that is not there is not made";
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_EQ(kept_folders("", "").own, "");
}

}  // namespace
}  // namespace zh::tune
