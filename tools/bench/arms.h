// Arms of zerohop beside each other: what --arm and --layout say, and the table and JSON of launches that had them.
// Used by `zerohop bench p2p` and `coll`; knows nothing of what is measured.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/hosts.h"
#include "tools/bench/judge.h"

namespace zh::tools {

/// Zerohop as it is set in some launches of a round.
struct Arm {
  std::string name;
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> settings;  ///< of ZEROHOP_CONFIG
};
/// "kernel alone:heap=0,single_copy=1": a name, and variables and settings as `zerohop run --option` takes them;
/// without any, as zerohop is by default.
Arm arm_of(const std::string& text);
std::string wrong_arm(const std::string& text);

/// Ranks of a job: so many nodes of so many.
struct JobLayout {
  int nodes = 1;
  int ranks_per_node = 2;
  bool in_turn = false;  ///< ranks are dealt out to the nodes one by one, not in blocks
  [[nodiscard]] int ranks() const { return nodes * ranks_per_node; }
};
/// "4x8", "4x8:turn".
JobLayout job_layout_of(const std::string& text);
std::string wrong_layout(const std::string& text);

/// The hosts of jobs by layout: several nodes are machines made of namespaces, or where the user's launcher goes.
class LayoutHosts {
 public:
  /// Null after a message when nothing here can run it.
  const Hosts* of(const HostOptions& o, const Hosts& plain, const JobLayout& layout, const std::string& command,
                  const std::string& program);

 private:
  std::map<std::pair<int, bool>, Hosts> on_machines_;
};

/// A column for each bare host and each arm; behind an arm's value that by the host's own in the same launch.
std::string arms_text(const std::vector<LaunchRecord>& launches);
/// A row for each case, placement, metric and series, with the value of every launch by its round.
nlohmann::json arms_rows(const std::vector<LaunchRecord>& launches);

}  // namespace zh::tools
