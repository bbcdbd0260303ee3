// The doctor's judgement of the calibration that is kept.
#include <gtest/gtest.h>

#include <string>

#include "node/node.h"
#include "os/clock.h"
#include "tools/doctor/doctor.h"

namespace zh::tools {
namespace {

constexpr int64_t kHourS = 3600;

CalibrationFacts good_calibration() {
  CalibrationFacts f;
  f.path = "/c/zerohop/calibration-1.json";
  f.folder = "/c/zerohop";
  f.now = os::seconds_since_1970();
  f.profile.n_classes = 1;
  tune::DistanceClass& c = f.profile.classes[0];
  c.level = static_cast<int32_t>(node::Level::kSharedL3);
  c.jobs = 3;
  c.attempts = 4;
  c.measured_at = f.now - 2 * kHourS;
  for (tune::Curve* curve : {&c.cells, &c.cells_nt, &c.cma_write, &c.mapped_both}) curve->add(65536, 10, 0.25F);
  return f;
}

void expect_warning(const CalibrationFacts& f, const std::string& word) {
  const Check c = check_calibration(f);
  EXPECT_EQ(c.state, State::kWarn) << word;
  EXPECT_NE(c.finding.find(word), std::string::npos) << c.finding;
  EXPECT_FALSE(c.cost.empty() || c.cure.empty()) << word;
}

TEST(DoctorCalibration, AgeNoiseAndConfirmationsAreTold) {
  const Check c = check_calibration(good_calibration());
  EXPECT_EQ(c.state, State::kOk);
  EXPECT_EQ(c.finding, "shared-l3 found alike by 3 of 4 jobs, the last 2.0 h ago, noise 25 %: in force");
}

TEST(DoctorCalibration, WhatIsFreshIsNotOddYet) {
  CalibrationFacts f = good_calibration();
  f.profile.classes[0].jobs = 1;
  EXPECT_EQ(check_calibration(f).state, State::kOk);
  f.profile.classes[0].measured_at = f.now - 30 * kHourS;
  expect_warning(f, "not confirmed for more than a day");
  EXPECT_EQ(check_calibration(f).cure.find("zerohop tune --renew"), 0U);
}

TEST(DoctorCalibration, Oddities) {
  CalibrationFacts f = good_calibration();
  f.profile.classes[0].doubts = 1;
  expect_warning(f, "contradicted");
  f = good_calibration();
  f.profile.classes[0].measured_at = f.now + kHourS;
  expect_warning(f, "a clock was set back");
}

TEST(DoctorCalibration, ANoisyMachineIsNoFault) {
  CalibrationFacts f = good_calibration();
  f.profile.classes[0].jobs = 0;
  f.profile.classes[0].attempts = tune::kMostAttempts;
  f.profile.classes[0].measured_at = f.now - 30 * kHourS;
  Check c = check_calibration(f);
  EXPECT_EQ(c.state, State::kOk) << c.finding;
  EXPECT_NE(c.finding.find("built-in choices; tried again after a day"), std::string::npos) << c.finding;
  f = good_calibration();
  f.profile.classes[0].cma_write = f.profile.classes[0].mapped_both = {};
  c = check_calibration(f);
  EXPECT_EQ(c.state, State::kOk) << c.finding;
  EXPECT_NE(c.finding.find("too noisy: only"), std::string::npos) << c.finding;
}

TEST(DoctorCalibration, AFileThatIsRefused) {
  CalibrationFacts f = good_calibration();
  f.loaded = Status{Code::kInvalid, "the calibration file is of another machine"};
  expect_warning(f, "another machine: /c/zerohop/calibration-1.json");
}

TEST(DoctorCalibration, NoneIsNoFaultUnlessNoneCanBeKept) {
  CalibrationFacts f = good_calibration();
  f.loaded = Status{Code::kWouldBlock, "no calibration kept for this machine"};
  EXPECT_EQ(check_calibration(f).state, State::kOk);
  EXPECT_NE(check_calibration(f).finding.find("first two jobs"), std::string::npos);
  f.writable = false;
  expect_warning(f, "cannot be kept in /c/zerohop");
  f.switched_off = true;
  EXPECT_EQ(check_calibration(f).state, State::kOk) << "the user's choice";
}

}  // namespace
}  // namespace zh::tools
