// `zerohop bench p2p --calibrate-beside`: what a calibration that was made beside other work costs later, on a quiet
// machine, against built-in thresholds. Called by bench_p2p.cpp with the launch to repeat.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/bench/rounds.h"

namespace zh::tools {

/// LaunchRecord::group of these launches.
constexpr const char* kCalibrationGroup = "calibration";

/// Calibrates once beside each number of busy loops, each time into a cache of its own, and then runs rounds of one
/// launch with each calibration and one with built-in thresholds. Every launch gets a fresh copy of its calibration, so
/// that none is mended meanwhile. False after a message when a calibration could not be made.
bool run_calibrations(const std::vector<int>& beside, int rounds_wanted, const PlannedLaunch& launch,
                      const std::function<void()>& after_round, const std::string& command, Rounds* rounds);

/// One size in one placement with one calibration.
struct CalibrationRow {
  std::string placement;
  std::string bench;
  uint64_t size = 0;
  std::string setting;  ///< "beside 2"
  double us = 0;
  double built_in_us = 0;
  Interval ratio;  ///< to built-in thresholds, paired by round
};
std::vector<CalibrationRow> calibration_rows_of(const std::vector<LaunchRecord>& launches);
std::string calibration_table_of(const std::vector<CalibrationRow>& rows);
nlohmann::json json_of(const std::vector<CalibrationRow>& rows);

}  // namespace zh::tools
