// See rounds.h.
#include "tools/bench/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "tools/cli/commands.h"
#include "tools/cli/json_file.h"

namespace zh::tools {
namespace {

/// A launch that did not measure what it should have must not become a number.
std::string why_unusable(const LaunchResult& r, bool expect_zerohop) {
  if (!r.ok) return r.problem;
  if (r.document.value("errors", 1) != 0) return "wrong data arrived";
  if (r.document.value("zerohop_loaded", false) != expect_zerohop)
    return expect_zerohop ? "zerohop was not loaded" : "zerohop was loaded into a bare launch";
  return {};
}

nlohmann::json json_of(const LaunchRecord& r) {
  return {{"round", r.round},     {"group", r.group},   {"host", r.host}, {"zerohop", r.zerohop},
          {"setting", r.setting}, {"wall_s", r.wall_s}, {"at_s", r.at_s}, {"document", r.document}};
}

LaunchRecord record_from(const nlohmann::json& j) {
  LaunchRecord r;
  r.round = j.value("round", 0);
  r.group = j.value("group", "");
  r.host = j.value("host", "");
  r.zerohop = j.value("zerohop", false);
  r.setting = j.value("setting", "");
  r.wall_s = j.value("wall_s", 0.0);
  r.at_s = j.value("at_s", 0.0);
  r.document = j.value("document", nlohmann::json::object());
  return r;
}

std::string hint_for(const std::string& problem) {
  return problem.find("127") != std::string::npos
             ? " (is the benchmark program built for this host? see bench/README.md)"
             : "";
}

}  // namespace

void Rounds::run_group(const std::string& group, int round, int rounds, std::vector<PlannedLaunch> planned) {
  if (planned.empty()) return;
  // Every launch has every place in the order equally often.
  const auto first = static_cast<std::ptrdiff_t>(static_cast<size_t>(round) % planned.size());
  std::rotate(planned.begin(), planned.begin() + first, planned.end());
  for (const PlannedLaunch& p : planned) launch(group, round, rounds, p);
}

const LaunchRecord* Rounds::launch(const std::string& group, int round, int rounds, const PlannedLaunch& p) {
  const auto elapsed = [this] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  };
  double began = elapsed();
  LaunchResult r = run_launch(p.spec);
  // The machine changed its nature during the launch: such numbers are of no use, and the change is over.
  if (r.ok && r.document.value("placement", "") == "mixed") {
    began = elapsed();
    r = run_launch(p.spec);
  }
  const std::string problem = why_unusable(r, p.spec.zerohop);
  const std::string placement =
      problem.empty() ? r.document.value("placement", "?") : "FAILED: " + problem + hint_for(problem);
  const std::string kind = p.zerohop ? "zerohop" + (p.setting.empty() ? "" : ":" + p.setting) : "bare";
  const std::string of = rounds > 0 ? fmt::format("/{}", rounds) : "";
  fmt::print(stderr, "[{:6.1f} s] round {}{} {} {} {} {:.1f} s {}\n", elapsed(), round + 1, of, group, p.host->name,
             kind, r.wall_s, placement);
  if (!problem.empty()) {
    ++failures_;
    return nullptr;
  }
  launches_.records.push_back(
      {round, group, p.host->name, p.zerohop, p.setting, r.wall_s, std::move(r.document), began});
  return &launches_.records.back();
}

bool write_launches(const std::string& path, const Launches& launches, const std::string& command) {
  nlohmann::json all = {{"schema", "zerohop-bench-launches/1"},
                        {"launches", nlohmann::json::array()},
                        {"raw", launches.raw},
                        {"machine", json_of(launches.machine)}};
  for (const LaunchRecord& r : launches.records) all["launches"].push_back(json_of(r));
  return write_file(path, all.dump() + "\n", command);
}

std::optional<Launches> read_launches(const std::string& path, const std::string& command) {
  std::string problem;
  const nlohmann::json all = read_json(path, &problem);
  if (!problem.empty()) {
    fmt::print(stderr, "zerohop {}: {}: {}\n", command, path, problem);
    return std::nullopt;
  }
  if (!all.is_object() || !all.contains("launches")) {
    fmt::print(stderr, "zerohop {}: {} holds no launches (give a file that --launches wrote)\n", command, path);
    return std::nullopt;
  }
  Launches launches;
  for (const auto& j : all["launches"]) launches.records.push_back(record_from(j));
  launches.raw = all.value("raw", nlohmann::json::array());
  launches.machine = load_from(all.value("machine", nlohmann::json()));
  return launches;
}

}  // namespace zh::tools
