// The doctor's check of the calibration: is there one, does it count, and is there anything odd about it.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/options.h"
#include "node/node.h"
#include "os/clock.h"
#include "tools/doctor/doctor.h"
#include "tune/choice.h"

namespace zh::tools {
namespace {

constexpr int64_t kDayS = 86'400;
constexpr const char* kBuiltInCost = "messages go by built-in thresholds instead of measured ones";
constexpr const char* kRenew = "zerohop tune --renew   (then start two jobs while the machine is quiet)";

/// What is odd about one class of distance; "" if nothing is.
std::string oddity(const tune::DistanceClass& c, int64_t now) {
  const bool counts = tune::in_force(c);
  if (c.measured_at > now) return "measured in the future: a clock was set back";
  if (c.doubts > 0) return "contradicted since";
  // A machine that is never quiet, as many a virtual one, is no fault: jobs try again by themselves.
  if (!counts && c.attempts < tune::kMostAttempts && now - c.measured_at > kDayS)
    return "not confirmed for more than a day";
  return "";
}

}  // namespace

CalibrationFacts look_at_calibration(const Options& options) {
  CalibrationFacts f;
  const tune::KeptFolders folders = tune::kept_folders(options);
  const std::string& folder = f.folder = folders.own;
  const tune::MachineId machine = tune::this_machine();
  f.switched_off = options.is(Opt::kProfile, "builtin");
  f.path = tune::profile_path(folders, machine);
  f.now = os::seconds_since_1970();
  f.loaded = tune::load_profile(folders, machine, &f.profile);
  // Jobs make the folder: the nearest one that exists decides.
  std::filesystem::path place = folder;
  std::error_code none;
  while (!place.empty() && !std::filesystem::exists(place, none) && place != place.parent_path()) {
    place = place.parent_path();
  }
  if (place.empty() && !folder.empty()) place = ".";
  f.writable = std::filesystem::is_directory(place, none) && access(place.c_str(), W_OK | X_OK) == 0;
  return f;
}

Check check_calibration(const CalibrationFacts& f) {
  if (f.switched_off) return {"calibration", "switched off by ZEROHOP_PROFILE: built-in thresholds"};
  Check c{"calibration", f.loaded.ok() ? "" : f.loaded.what()};
  if (!f.loaded.ok() && f.loaded.code() != Code::kWouldBlock) {
    c.finding += ": " + f.path;
    return c.mark(State::kWarn, kBuiltInCost, kRenew);
  }
  if (!f.loaded.ok() && f.writable) {
    c.finding += "; the first two jobs of two ranks or more measure it";
    return c;
  }
  if (!f.writable) {
    c.finding += (c.finding.empty() ? "" : "; ") + std::string("what jobs measure cannot be kept in ") +
                 (f.folder.empty() ? "any folder" : f.folder);
    return c.mark(State::kWarn, "each job measures again, and none confirms another",
                  "set ZEROHOP_CACHE to a folder that can be written");
  }
  for (uint32_t i = 0; i < f.profile.n_classes; ++i) {
    const tune::DistanceClass& d = f.profile.classes[i];
    c.finding += (i == 0 ? "" : "; ") + tune::standing(d);
    if (tune::in_force(d) && d.cma_write.empty() && d.mapped_both.empty())
      c.finding += " (too noisy: only the ways through cells count)";
    const std::string odd = oddity(d, f.now);
    if (odd.empty()) continue;
    c.finding += " (" + odd + ")";
    c.mark(State::kWarn, std::string(kBuiltInCost) + " there, or by some that no longer hold", kRenew);
  }
  // The table of `zerohop tune` is padded; a sentence is not.
  for (size_t at = 0; (at = c.finding.find("  ", at)) != std::string::npos;) c.finding.erase(at, 1);
  return c;
}

}  // namespace zh::tools
