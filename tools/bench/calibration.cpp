// See calibration.h.
#include "tools/bench/calibration.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <tuple>

#include "base/options.h"
#include "tools/bench/busy_loops.h"
#include "tools/bench/report.h"
#include "tools/cli/scratch_folder.h"
#include "tune/profile.h"

namespace zh::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBuiltInSetting = "built-in";
// Two that find the same put curves in force; one more, for beside other work one may find nothing.
constexpr int kCalibratingJobs = 3;

std::string beside_setting(int beside) { return fmt::format("beside {}", beside); }

/// What the calibration in a folder knows, one line.
std::string standing_of(const std::string& folder) {
  tune::Profile profile;
  const Status status = tune::load_profile({folder, ""}, tune::this_machine(), &profile);
  if (!status.ok()) return status.what();
  std::string all;
  for (uint32_t i = 0; i < profile.n_classes; ++i) all += (i == 0 ? "" : "; ") + tune::standing(profile.classes[i]);
  return all.empty() ? "nothing measured" : all;
}

bool calibrate(int beside, const fs::path& cache, const PlannedLaunch& launch, const std::string& command) {
  const BusyLoops loops(beside);
  if (loops.children().size() != static_cast<size_t>(beside)) {
    fmt::print(stderr, "zerohop {}: cannot start {} busy loops\n", command, beside);
    return false;
  }
  LaunchSpec spec = launch.spec;
  spec.env["ZEROHOP_CACHE"] = cache.string();
  for (int job = 0; job < kCalibratingJobs; ++job) {
    const LaunchResult r = run_launch(spec);
    if (r.ok) continue;
    fmt::print(stderr, "zerohop {}: no calibration beside {} busy loops: {}\n", command, beside, r.problem);
    return false;
  }
  fmt::print(stderr, "calibrated beside {} busy loops: {}\n", beside, standing_of(cache.string()));
  return true;
}

}  // namespace

bool run_calibrations(const std::vector<int>& beside, int rounds_wanted, const PlannedLaunch& launch,
                      const std::function<void()>& after_round, const std::string& command, Rounds* rounds) {
  const ScratchFolder folder;
  if (folder.path().empty()) {
    fmt::print(stderr, "zerohop {}: no folder for the calibrations can be made: set TMPDIR\n", command);
    return false;
  }
  std::error_code failed;
  for (const int n : beside) {
    const fs::path cache = folder.path() / beside_setting(n);
    fs::create_directories(cache, failed);
    if (!calibrate(n, cache, launch, command)) return false;
  }
  for (int round = 0; round < rounds_wanted; ++round) {
    std::vector<PlannedLaunch> planned = {launch};
    planned.back().setting = kBuiltInSetting;
    planned.back().spec.env["ZEROHOP_PROFILE"] = "builtin";
    for (const int n : beside) {
      const fs::path copy = folder.path() / "in use" / beside_setting(n);
      fs::remove_all(copy, failed);
      fs::create_directories(copy, failed);
      fs::copy(folder.path() / beside_setting(n), copy, fs::copy_options::recursive, failed);
      planned.push_back(launch);
      planned.back().setting = beside_setting(n);
      planned.back().spec.env["ZEROHOP_CACHE"] = copy.string();
    }
    rounds->run_group(kCalibrationGroup, round, rounds_wanted, std::move(planned));
    after_round();
  }
  return true;
}

std::vector<CalibrationRow> calibration_rows_of(const std::vector<LaunchRecord>& launches) {
  using Case = std::tuple<std::string, std::string, uint64_t>;  // placement, bench, size
  std::map<Case, std::map<std::string, std::map<int, double>>> times;
  for (const LaunchRecord& r : launches) {
    const std::string placement = r.document.value("placement", "");
    if (r.group != kCalibrationGroup || (placement != "near" && placement != "far")) continue;
    for (const auto& c : r.document.value("cases", nlohmann::json::array())) {
      const auto arms = c.value("/metrics/time_us"_json_pointer, std::vector<std::vector<double>>{});
      if (arms.size() != 1) continue;
      times[{placement, c.value("bench", ""), c.value("size", uint64_t{0})}][r.setting][r.round] = median(arms[0]);
    }
  }
  std::vector<CalibrationRow> rows;
  for (const auto& [which, settings] : times) {
    const auto built_in = settings.find(kBuiltInSetting);
    if (built_in == settings.end()) continue;
    for (const auto& [setting, by_round] : settings) {
      if (setting == kBuiltInSetting) continue;
      std::vector<double> us;
      std::vector<double> base;
      std::vector<double> ratios;
      for (const auto& [round, time] : by_round) {
        const auto beside = built_in->second.find(round);
        if (beside == built_in->second.end() || beside->second <= 0) continue;
        us.push_back(time);
        base.push_back(beside->second);
        ratios.push_back(time / beside->second);
      }
      if (ratios.empty()) continue;
      const auto& [placement, bench, size] = which;
      rows.push_back({placement, bench, size, setting, median(us), median(base), median_interval(ratios)});
    }
  }
  return rows;
}

std::string calibration_table_of(const std::vector<CalibrationRow>& rows) {
  std::string out;
  const CalibrationRow* before = nullptr;
  for (const CalibrationRow& r : rows) {
    if (before == nullptr || before->placement != r.placement || before->bench != r.bench)
      out += fmt::format(
          "\n{} · {} · time with a calibration made beside busy loops / with built-in thresholds\n"
          "{:>8}  {:<12}{:>10}{:>10}  {:<26}{}\n",
          r.placement, r.bench, "size", "calibrated", "built-in", "time", "ratio (95 %)", "rounds");
    out += fmt::format("{:>8}  {:<12}{:>10}{:>10}  {:<26}{}\n", format_size(r.size), r.setting,
                       number_text(r.built_in_us), number_text(r.us), interval_text(r.ratio), r.ratio.count);
    before = &r;
  }
  if (rows.empty()) out = "\nno launch with a calibration and one without it in the same round and placement\n";
  return out +
         "\nTimes in µs, one way or per message. Intervals hold the median ratio with 95 %; [?]: too few rounds.\n";
}

nlohmann::json json_of(const std::vector<CalibrationRow>& rows) {
  nlohmann::json all = nlohmann::json::array();
  for (const CalibrationRow& r : rows) {
    all.push_back({{"placement", r.placement},
                   {"bench", r.bench},
                   {"size", r.size},
                   {"calibrated", r.setting},
                   {"built_in_us", r.built_in_us},
                   {"us", r.us},
                   {"ratio", interval_json(r.ratio)}});
  }
  return all;
}

}  // namespace zh::tools
