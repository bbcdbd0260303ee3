// The calibration between real processes: all ranks agree, a kept file is used, a corrupt one is reported and replaced.
// What is measured is not judged here: other work on the machine may make any run noisy.
// label not-emulated: Calibration[.]AllRanks|Ways[.]EveryWay
#include "tune/calibrate.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>

#include "os/clock.h"
#include "os/process.h"
#include "support/folder.h"
#include "tune/choice.h"

namespace zh::tune {
namespace {

std::byte* shared(uint64_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

/// Runs body(rank) in `n` processes; rank 0 is this one. True if all children returned 0.
template <typename Body>
bool in_ranks(uint32_t n, Body&& body) {
  const pid_t parent = getpid();
  std::vector<pid_t> children;
  for (uint32_t rank = 1; rank < n; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      os::die_with_parent(parent);
      _exit(body(rank));
    }
    children.push_back(pid);
  }
  bool good = body(0) == 0;
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

struct Outcome {
  Profile profile;
  int served;
};

class Calibration : public testing::Test {
 protected:
  static constexpr uint32_t kRanks = 3;
  void SetUp() override {
    outcomes_ = reinterpret_cast<Outcome*>(shared(sizeof(Outcome) * kRanks));
    ASSERT_NE(outcomes_, nullptr);
  }

  /// One job: all ranks prepare; true if all agree. `served`: whether they have a profile.
  bool job(bool may_measure, bool* served, bool quick = false) {
    std::byte* scratch = shared(calibration_bytes(quick));
    if (scratch == nullptr) return false;
    const bool ran = in_ranks(kRanks, [&](uint32_t rank) {
      CalibrationGroup group;
      group.self = rank;
      group.size = kRanks;
      group.pid = getpid();
      group.may_measure = may_measure;
      group.quick = quick;
      // Ranks 0 and 1 at one level, rank 2 at another.
      group.levels = {0, 2, 3, 2, 0, 3, 3, 3, 0};
      group.folders = {folder_, ""};
      group.scratch = scratch;
      std::string note;
      Outcome& mine = outcomes_[rank];
      mine.served = prepare_profile(group, &mine.profile, &note) ? 1 : 0;
      if (rank == 0) note_ = note;
      return note.empty() ? 1 : 0;
    });
    munmap(scratch, calibration_bytes(quick));
    *served = outcomes_[0].served != 0;
    for (uint32_t rank = 1; rank < kRanks; ++rank) {
      if (outcomes_[rank].served != outcomes_[0].served) return false;
      if (*served && std::memcmp(&outcomes_[rank].profile, &outcomes_[0].profile, sizeof(Profile)) != 0) return false;
    }
    return ran;
  }

  const test::Folder made_;
  const std::string folder_ = made_.path();
  std::string note_;
  Outcome* outcomes_ = nullptr;
};

TEST_F(Calibration, AllRanksAgreeAndAGoodRunIsKept) {
  bool served = false;
  ASSERT_TRUE(job(true, &served)) << note_;
  Profile kept;
  const Status status = load_profile({folder_, ""}, this_machine(), &kept);
  EXPECT_TRUE(status.ok() && served) << note_;
  if (served) {
    EXPECT_EQ(outcomes_[0].profile.n_classes, 2U);
    EXPECT_EQ(outcomes_[0].profile.classes[0].level, 2);
    EXPECT_EQ(outcomes_[0].profile.classes[1].level, 3);
    EXPECT_EQ(kept.classes[0].attempts, 1U);
    EXPECT_LE(kept.classes[0].jobs, 1U);
  }
}

TEST_F(Calibration, JobsMeasureUntilTwoFindTheSameOrNoneWill) {
  bool served = false;
  for (uint32_t n = 1; n <= kMostAttempts; ++n) {
    ASSERT_TRUE(job(true, &served)) << note_;
    ASSERT_TRUE(served);
  }
  ASSERT_TRUE(job(true, &served)) << note_;
  EXPECT_EQ(note_.substr(0, 4), "kept") << note_;
  for (const int level : {2, 3}) EXPECT_TRUE(covers(outcomes_[0].profile, level));
}

DistanceClass some_class(int level) {
  DistanceClass c;
  c.level = level;
  c.jobs = kConfirmed;
  c.line_ns = is_far(level) ? 177 : 77;
  c.ring_bytes = 65536;
  c.cells.add(1024, 1, 0.1F);
  c.cells_nt.add(1024, 1, 0.1F);
  c.looked_at = os::seconds_since_1970();
  return c;
}

TEST_F(Calibration, ADistanceThatWasNeverMeasuredIsMeasuredAndTheOthersAreKept) {
  constexpr int kElsewhere = 6;
  Profile kept;
  kept.n_classes = 1;
  kept.classes[0] = some_class(kElsewhere);
  ASSERT_TRUE(save_profile(folder_, this_machine(), kept).ok());
  bool served = false;
  ASSERT_TRUE(job(false, &served));
  EXPECT_FALSE(served) << "curves of another distance are not used";
  ASSERT_TRUE(job(true, &served)) << note_;
  ASSERT_TRUE(served);
  EXPECT_EQ(outcomes_[0].profile.n_classes, 3U);
  EXPECT_EQ(outcomes_[0].profile.classes[2].level, kElsewhere);
}

TEST_F(Calibration, AKeptProfileIsUsedWithoutMeasuring) {
  Profile kept;
  kept.n_classes = 2;
  for (int level = 2; level <= 3; ++level) kept.classes[level - 2] = some_class(level);
  ASSERT_TRUE(save_profile(folder_, this_machine(), kept).ok());
  bool served = false;
  ASSERT_TRUE(job(false, &served));
  ASSERT_TRUE(served) << note_;
  EXPECT_EQ(std::memcmp(&outcomes_[2].profile, &kept, sizeof kept), 0);
}

TEST_F(Calibration, AQuickLookIsKeptAndMeasuresOnlyWhatIsDue) {
  Profile kept;
  kept.n_classes = 2;
  for (int level = 2; level <= 3; ++level) {
    DistanceClass& c = kept.classes[level - 2];
    c = some_class(level);
    c.mapped_both.add(64 << 10, 0.001F, 0.1F);  // no machine is that fast
  }
  kept.classes[0].looked_at = 0;
  ASSERT_TRUE(save_profile(folder_, this_machine(), kept).ok());
  const std::vector<uint8_t> levels = {0, 2, 3, 2, 0, 3, 3, 3, 0};
  EXPECT_TRUE(wants_look(kept, levels));
  EXPECT_FALSE(wants_look(kept, {0, 3, 3, 0}));
  bool served = false;
  ASSERT_TRUE(job(true, &served, true)) << note_;
  ASSERT_TRUE(served) << note_;
  Profile now;
  ASSERT_TRUE(load_profile({folder_, ""}, this_machine(), &now).ok());
  EXPECT_GT(now.classes[0].looked_at, 0);
  EXPECT_LE(now.classes[0].doubts, 1U);
  EXPECT_TRUE(in_force(now.classes[0])) << "one job alone does not take it out of force";
  EXPECT_EQ(std::memcmp(&now.classes[1], &kept.classes[1], sizeof(DistanceClass)), 0);
}

TEST_F(Calibration, AQuickLookWithoutAKeptProfileMeasuresNothing) {
  bool served = true;
  ASSERT_TRUE(job(true, &served, true)) << note_;
  EXPECT_FALSE(served);
}

TEST_F(Calibration, ACorruptFileIsReported) {
  std::ofstream(profile_path(folder_, this_machine())) << "{ \"version\": ";
  bool served = true;
  ASSERT_TRUE(job(false, &served));
  EXPECT_FALSE(served);
  EXPECT_NE(note_.find("corrupt"), std::string::npos) << note_;
}

TEST(Ways, EveryWayIsMeasuredOrRefusedByBothSidesAlike) {
  constexpr ScratchLimits kLimits{.ring_bytes = 64 << 10, .message_bytes = 64 << 10};
  struct Case {
    Shot shot;
    bool must_work;
    bool must_fail;
  };
  const Case cases[] = {
      {{.way = Way::kInline, .bytes = 192, .trips = 5}, true, false},
      {{.way = Way::kInline, .bytes = 193, .trips = 5}, false, true},
      {{.way = Way::kCells, .bytes = 8, .ring_bytes = 64 << 10, .trips = 5}, true, false},
      {{.way = Way::kCells, .bytes = 60001, .ring_bytes = 32 << 10, .chunk_bytes = 8 << 10, .trips = 5}, true, false},
      {{.way = Way::kCells,
        .bytes = 60001,
        .store = copy::Store::kNonTemporal,
        .ring_bytes = 32 << 10,
        .chunk_bytes = 8 << 10,
        .trips = 5},
       true,
       false},
      {{.way = Way::kCells, .bytes = 8, .ring_bytes = 128 << 10, .trips = 5}, false, true},
      {{.way = Way::kCmaRead, .bytes = 64 << 10, .trips = 5}, false, false},
      {{.way = Way::kCmaWrite, .bytes = 64 << 10, .trips = 5}, false, false},
      {{.way = Way::kCmaBoth, .bytes = 64 << 10, .trips = 5}, false, false},
      {{.way = Way::kMappedRead, .bytes = 64 << 10, .trips = 5}, true, false},
      {{.way = Way::kMappedBoth, .bytes = 60001, .chunk_bytes = 4 << 10, .trips = 5}, true, false},
      {{.way = Way::kMappedRead, .bytes = 65 << 10, .trips = 5}, false, true},
  };
  std::byte* scratch = shared(MeasuringPair::scratch_bytes(kLimits));
  ASSERT_NE(scratch, nullptr);
  auto* seen = reinterpret_cast<Timing*>(shared(4096));
  ASSERT_TRUE(in_ranks(2, [&](uint32_t rank) {
    MeasuringPair pair(scratch, kLimits, static_cast<int>(rank), getpid(), true);
    if (!pair.meet()) return 1;
    size_t i = 0;
    for (const Case& c : cases) {
      const Timing t = pair.measure(c.shot);
      if (c.must_work && !t.ok) return 2;
      if (c.must_fail && t.ok) return 3;
      if (t.ok && !(t.us > 0)) return 4;
      seen[rank * std::size(cases) + i++] = t;
    }
    if (!pair.stream().ok) return 5;
    return pair.line_ns() > 0 && !pair.failed() ? 0 : 6;
  }));
  EXPECT_EQ(std::memcmp(seen, seen + std::size(cases), sizeof(Timing) * std::size(cases)), 0);
}

}  // namespace
}  // namespace zh::tune
