// Several ways of zerohop beside each other: what launches of one group took by size, a column for each way. Used by
// `bench algorithms`; knows nothing of what differs.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/bench/judge.h"
#include "tools/bench/stats.h"

namespace zh::tools {

/// Of the JSON whose rows `zerohop model report` reads.
inline constexpr const char* kAlgorithmsSchema = "zerohop-bench-algorithms/1";

/// One way at one size: a value for each launch, as samples_of() has it.
struct SeriesCell {
  std::vector<double> us;          ///< mean over the ranks; of zerohop's arm where there is one
  std::vector<double> slowest_us;  ///< of the slowest rank
  std::vector<double> to_host;     ///< by the host's arms of the same launch

  [[nodiscard]] double time() const { return median(us); }
  [[nodiscard]] double ratio() const { return median(to_host); }
};

/// The launches of one group.
struct SeriesTable {
  std::string group;
  std::string collective;
  std::string host;  ///< under which zerohop ran
  int ranks = 0;
  int processors = 0;
  MachineSpread spread;
  int rounds = 0;
  std::vector<std::string> series;  ///< in the order of the first round
  std::map<uint64_t, std::map<std::string, SeriesCell>> cells;
};
/// In the order of the launches. `name_of`: the series of a launch; "": it does not count.
std::vector<SeriesTable> series_tables(const std::vector<LaunchRecord>& launches,
                                       const std::function<std::string(const LaunchRecord&)>& name_of);

/// Times by size, in brackets by the host's own in the same launch; * the least of these.
std::string series_text(const SeriesTable& table);

/// A row for each size and series; `add` completes it.
nlohmann::json series_rows(
    const std::vector<SeriesTable>& tables,
    const std::function<void(const SeriesTable&, const std::string& series, nlohmann::json* row)>& add);

}  // namespace zh::tools
