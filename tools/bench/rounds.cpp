// See rounds.h.
#include "tools/bench/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "tools/cli/commands.h"
#include "tools/cli/inputs.h"

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

std::string hint_for(const std::string& problem) {
  return problem.find("127") != std::string::npos
             ? " (is the benchmark program built for this host? see bench/README.md)"
             : "";
}

}  // namespace

void Rounds::run_group(const std::string& group, int round, int rounds, std::vector<PlannedLaunch> planned) {
  if (counting_) in_round_ += static_cast<int>(planned.size());
  if (counting_ || planned.empty()) return;
  // Every launch has every place in the order equally often.
  const auto first = static_cast<std::ptrdiff_t>(static_cast<size_t>(round) % planned.size());
  std::rotate(planned.begin(), planned.begin() + first, planned.end());
  for (const PlannedLaunch& p : planned) launch(group, round, rounds, p);
}

void Rounds::launch(const std::string& group, int round, int rounds, const PlannedLaunch& p) {
  const std::string kind = p.zerohop ? "zerohop" + (p.setting.empty() ? "" : ":" + p.setting) : "bare";
  const std::string what = fmt::format("round {}/{} {} {} {}", round + 1, rounds, group, p.host->name, kind);
  progress_.show(what, made_++, in_round_ * rounds);
  double began = progress_.elapsed_s();
  LaunchResult r = run_launch(p.spec);
  // The machine changed its nature during the launch: such numbers are of no use, and the change is over.
  if (r.ok && r.document.value("placement", "") == "mixed") {
    began = progress_.elapsed_s();
    r = run_launch(p.spec);
  }
  const std::string problem = why_unusable(r, p.spec.zerohop);
  if (!problem.empty()) {
    progress_.tell(fmt::format("{}: FAILED: {}{}", what, problem, hint_for(problem)));
    ++failures_;
    return;
  }
  launches_.records.push_back(
      {round, group, p.host->name, p.zerohop, p.setting, r.wall_s, std::move(r.document), began, p.host->abi});
}

bool write_launches(const std::string& path, const Launches& launches, const std::string& command) {
  nlohmann::json all = {{"schema", "zerohop-bench-launches/1"},
                        {"launches", launches.records},
                        {"raw", launches.raw},
                        {"arms", launches.arms},
                        {"machine", json_of(launches.machine)}};
  return write_file(path, all.dump() + "\n", command);
}

std::optional<Launches> read_launches(const std::string& path, const std::string& command) {
  std::string problem;
  const nlohmann::json all = read_json(path, &problem);
  if (!problem.empty()) {
    fmt::print(stderr, "zerohop {}: {}: {}\n", command, path, problem);
    return std::nullopt;
  }
  try {
    Launches launches;
    launches.records = all.at("launches").get<std::vector<LaunchRecord>>();
    launches.raw = all.value("raw", nlohmann::json::array());
    launches.arms = all.value("arms", std::vector<std::string>{});
    if (all.contains("machine") && all["machine"].is_object()) launches.machine = all["machine"];
    const auto has_document = [](const LaunchRecord& r) { return r.document.is_object(); };
    if (std::ranges::all_of(launches.records, has_document)) return launches;
  } catch (const nlohmann::json::exception&) {  // told below
  }
  fmt::print(stderr, "zerohop {}: {} holds no launches (give a file that --launches wrote)\n", command, path);
  return std::nullopt;
}

}  // namespace zh::tools
