// See bench_rounds.h.
#include "bench_rounds.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "commands.h"
#include "os/program.h"

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
  return {{"round", r.round},     {"group", r.group},   {"host", r.host},        {"zerohop", r.zerohop},
          {"setting", r.setting}, {"wall_s", r.wall_s}, {"document", r.document}};
}

LaunchRecord record_from(const nlohmann::json& j) {
  LaunchRecord r;
  r.round = j.value("round", 0);
  r.group = j.value("group", "");
  r.host = j.value("host", "");
  r.zerohop = j.value("zerohop", false);
  r.setting = j.value("setting", "");
  r.wall_s = j.value("wall_s", 0.0);
  r.document = j.value("document", nlohmann::json::object());
  return r;
}

std::string hint_for(const std::string& problem) {
  return problem.find("127") != std::string::npos
             ? " (is the benchmark program built for this host? see bench/README.md)"
             : "";
}

}  // namespace

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream in(list);
  for (std::string w; std::getline(in, w, ',');) {
    if (!w.empty()) words.push_back(w);
  }
  return words;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string joined(const std::vector<std::string>& words) {
  std::string s;
  for (const std::string& w : words) s += (s.empty() ? "" : ",") + w;
  return s;
}

std::string wrong_names(const std::vector<std::string>& names, const std::string& list) {
  for (const std::string& word : split(list)) {
    if (!contains(names, word)) return "no such name: " + word + " (there are " + joined(names) + ")";
  }
  return "";
}

std::string wrong_sizes(const std::string& list) {
  for (const std::string& word : split(list)) {
    const size_t digits = word.find_first_not_of("0123456789");
    const std::string unit = digits == std::string::npos ? "" : word.substr(digits);
    const bool is_number = digits != 0 && word.find_first_not_of('0') != digits && word != "0";
    if (!is_number || (unit != "" && unit != "K" && unit != "k" && unit != "M" && unit != "m")) {
      return "no size: " + word + " (a number above 0, with K or M)";
    }
  }
  return "";
}

std::string wrong_command(const std::string& command) {
  std::istringstream in(command);
  std::string program;
  in >> program;
  std::string path;
  const Status found = os::find_program(program, &path);
  return found.ok() ? "" : "no program that can be run: " + program;
}

void add_host_options(CLI::App& command, HostOptions* o) {
  command.add_option("--hosts", o->hosts, "Bare MPIs to compare with")->capture_default_str();
  command.add_option("--under", o->under, "MPIs under which zerohop runs (--quick takes the first)")
      ->capture_default_str();
  command.add_option("--hosts-py", o->hosts_py,
                     "The project's dev/hosts.py (default: found above the command or the current folder)");
  command.add_option("--mpiexec", o->mpiexec, "Use this launcher (with its arguments) as the only host")
      ->check(&wrong_command);
  command.add_option("--abi", o->abi, "Build of the benchmark program for --mpiexec: mpich, ompi or abi")
      ->check(CLI::IsMember({"mpich", "ompi", "abi"}))
      ->capture_default_str();
}

std::optional<Hosts> choose_hosts(const HostOptions& o, bool first_only, const std::string& command) {
  std::string problem;
  std::vector<BenchHost> known;
  if (!o.mpiexec.empty()) {
    std::istringstream in(o.mpiexec);
    BenchHost h{"custom", o.abi, {}, {}};
    for (std::string w; in >> w;) h.mpiexec.push_back(w);
    known.push_back(h);
  } else {
    known = find_hosts(o.hosts_py.empty() ? default_hosts_py() : o.hosts_py, &problem);
  }
  if (known.empty()) {
    fmt::print(stderr, "zerohop {}: {}\n", command, problem);
    return std::nullopt;
  }
  const bool only_one = !o.mpiexec.empty();
  const auto installed = [&](const std::string& names) {
    std::vector<BenchHost> found;
    for (const std::string& name : split(only_one ? "custom" : names)) {
      for (const BenchHost& h : known) {
        if (h.name == name) found.push_back(h);
      }
    }
    return found;
  };
  Hosts chosen{installed(o.hosts), installed(o.under)};
  if (first_only && chosen.under.size() > 1) chosen.under.resize(1);
  if (chosen.peers.empty() || chosen.under.empty()) {
    fmt::print(stderr, "zerohop {}: none of the hosts {} / {} is installed\n", command, o.hosts, o.under);
    return std::nullopt;
  }
  return chosen;
}

void Rounds::run_group(const std::string& group, int round, int rounds, std::vector<PlannedLaunch> planned) {
  if (planned.empty()) return;
  // Every launch has every place in the order equally often.
  const auto first = static_cast<std::ptrdiff_t>(static_cast<size_t>(round) % planned.size());
  std::rotate(planned.begin(), planned.begin() + first, planned.end());
  for (const PlannedLaunch& p : planned) {
    LaunchResult r = run_launch(p.spec);
    // The machine changed its nature during the launch: such numbers are of no use, and the change is over.
    if (r.ok && r.document.value("placement", "") == "mixed") r = run_launch(p.spec);
    const std::string problem = why_unusable(r, p.spec.zerohop);
    const std::string placement =
        problem.empty() ? r.document.value("placement", "?") : "FAILED: " + problem + hint_for(problem);
    const std::string kind = p.zerohop ? "zerohop" + (p.setting.empty() ? "" : ":" + p.setting) : "bare";
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    fmt::print(stderr, "[{:6.1f} s] round {}/{} {} {} {} {:.1f} s {}\n", elapsed, round + 1, rounds, group,
               p.host->name, kind, r.wall_s, placement);
    if (!problem.empty()) {
      ++failures_;
      continue;
    }
    launches_.records.push_back({round, group, p.host->name, p.zerohop, p.setting, r.wall_s, std::move(r.document)});
  }
}

bool write_launches(const std::string& path, const Launches& launches, const std::string& command) {
  nlohmann::json all = {
      {"schema", "zerohop-bench-launches/1"}, {"launches", nlohmann::json::array()}, {"raw", launches.raw}};
  for (const LaunchRecord& r : launches.records) all["launches"].push_back(json_of(r));
  return write_file(path, all.dump() + "\n", command);
}

std::optional<Launches> read_launches(const std::string& path, const std::string& command) {
  std::ifstream in(path);
  const nlohmann::json all = nlohmann::json::parse(in, nullptr, false);
  if (!all.is_object() || !all.contains("launches")) {
    fmt::print(stderr, "zerohop {}: {} holds no launches\n", command, path);
    return std::nullopt;
  }
  Launches launches;
  for (const auto& j : all["launches"]) launches.records.push_back(record_from(j));
  launches.raw = all.value("raw", nlohmann::json::array());
  return launches;
}

}  // namespace zh::tools
