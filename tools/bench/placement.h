// `zerohop bench p2p --by-placement`: launches until each placement that the machine takes, near or far, has enough of
// each host, and pairs of launches that belong to one placement and lie closest in time. Called by bench_p2p.cpp with
// what is to be launched; knows nothing of what is measured.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/rounds.h"

namespace zh::tools {

/// Launches of each host that a placement needs to be judged.
constexpr int kPlacementLaunches = 10;

/// Which launch comes next, by what each kind of launch (a host bare, zerohop under a host) has in each placement.
class PlacementCounts {
 public:
  explicit PlacementCounts(int wanted) : wanted_(wanted) {}
  /// A launch of a kind was made; a placement other than near and far counts for nothing.
  void note(const std::string& kind, const std::string& placement);
  /// The one of `kinds` that lacks most launches in the placement of the latest launch; where it lacks none, in another
  /// one that was seen. Nothing when each has enough in each placement that was seen.
  [[nodiscard]] std::optional<size_t> next(const std::vector<std::string>& kinds) const;

 private:
  [[nodiscard]] int lacking(const std::string& kind, const std::string& placement) const;

  int wanted_;
  std::string current_;
  std::map<std::string, std::map<std::string, int>> counts_;  ///< by placement and kind
};

struct PlacedGroup {
  std::string name;
  std::vector<PlannedLaunch> planned;
};
/// Launches until every group has enough, or the time is up. `between` is called after each pass over the groups, with
/// the placement of the latest launch.
void launch_by_placement(const std::vector<PlacedGroup>& groups, double minutes,
                         const std::function<void(const std::string& placement)>& between, Rounds* rounds);

/// The same launches with rounds such that a round holds a launch of zerohop and of each other kind the one of the same
/// group and placement that is closest in time, each in one round only.
std::vector<LaunchRecord> paired_by_time(const std::vector<LaunchRecord>& launches);

/// One table for each placement: the hosts' times, zerohop's, the raw limit, and the ratios.
std::string placement_table_of(const Judged& judged);
/// Of each table how many launches are behind it, and whether they are enough.
nlohmann::json placement_json_of(const Judged& judged);

}  // namespace zh::tools
