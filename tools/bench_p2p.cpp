// `zerohop bench p2p`: starts the MPI benchmark program in rounds of short launches and hands the documents to the
// judge. Inside a job that somebody else started it starts nothing: each rank becomes the benchmark program. Measures
// nothing itself.
#include "bench_p2p.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench_judge.h"
#include "bench_launch.h"
#include "bench_report.h"
#include "bench_rounds.h"

namespace zh::tools {
namespace {

namespace fs = std::filesystem;

struct Options {
  HostOptions hosts;
  std::string only;
  std::string sizes;
  std::string buffers = "malloc,static,alloc_mem";
  std::string json_path;
  std::string csv_path;
  std::string raw = "auto";
  std::string launches_path;
  std::string rejudge_path;
  int rounds = 0;
  int ranks_many = 8;
  int blocks = 0;
  double block_us = 0;
  double timeout_s = 120;
  bool quick = false;
  bool null_test = false;
  bool strict = false;
};

/// Launches of one group are compared with each other: short, so that a round of a group sees one nature of the
/// machine.
struct Group {
  std::string name;
  std::string only;  ///< sub-benchmarks, as the program takes them
  std::string buffers;
  int ranks = 2;
  bool forced_skew = false;  ///< one more zerohop launch for each forced setting
  bool heap_off = false;     ///< one more zerohop launch without the shared heap
  bool fresh_job = false;    ///< zerohop against its bare host, wall time included; nothing else in the job
};

std::vector<Group> groups_of(const Options& o) {
  const std::vector<Group> all = {
      {"latency", "latency", "malloc", 2, false, true},
      {"latency-static", "latency", "static", 2, false, true},
      {"latency-alloc_mem", "latency", "alloc_mem"},
      {"noreuse", "noreuse", "malloc", 2, false, true},
      {"streams", "bandwidth,bidirectional,rate", "malloc"},
      {"streams-alloc_mem", "bandwidth,bidirectional", "alloc_mem"},
      {"queues", "queues", "malloc"},
      {"overlap", "overlap", "malloc"},
      {"skew", "skew", "malloc", 2, true},
      {"breakdown", "breakdown", "malloc"},
      {"many", "pairs,exchange,multipair", "malloc", o.ranks_many},
      {"everybody", "everybody", "malloc", 64, false, false, true},
  };
  std::vector<std::string> wanted = split(o.only);
  // A quick run looks at the main numbers in one launch per host and round.
  if (wanted.empty() && o.quick) return {{"quick", "latency,rate,bandwidth,overlap", "malloc"}};
  const std::vector<std::string> kinds = split(o.buffers);
  std::vector<Group> chosen;
  for (Group g : all) {
    if (!contains(kinds, g.buffers)) continue;
    std::vector<std::string> benches = split(g.only);
    if (!wanted.empty()) std::erase_if(benches, [&](const std::string& b) { return !contains(wanted, b); });
    if (benches.empty()) continue;
    g.only = joined(benches);
    chosen.push_back(g);
  }
  return chosen;
}

/// One launch to make in every round of a group.
struct Entry {
  const BenchHost* host;
  bool zerohop;
  std::string setting;
};

std::vector<Entry> entries_of(const Group& g, const std::vector<BenchHost>& peers,
                              const std::vector<BenchHost>& under) {
  std::vector<Entry> e;
  if (g.fresh_job) {  // 64 ranks on a few processors: only hosts that yield their processor come to an end
    for (const BenchHost& h : under) {
      if (h.name == "mpich") continue;
      e.push_back({&h, false, ""});
      e.push_back({&h, true, ""});
    }
    return e;
  }
  for (const BenchHost& h : peers) e.push_back({&h, false, ""});
  for (const BenchHost& h : under) e.push_back({&h, true, ""});
  if (g.heap_off) {
    for (const BenchHost& h : under) e.push_back({&h, true, std::string(kHeapOffSetting)});
  }
  if (g.forced_skew) {
    for (const BenchHost& h : under) {
      e.push_back({&h, true, "single_copy_skew_off"});
      e.push_back({&h, true, "single_copy_skew_on"});
    }
  }
  return e;
}

LaunchSpec spec_of(const Options& o, const Group& g, const Entry& e, const std::string& folder) {
  LaunchSpec s;
  s.host = e.host;
  s.ranks = g.ranks;
  s.timeout_s = o.timeout_s;
  s.zerohop = e.zerohop && !o.null_test;
  if (s.zerohop) s.program = {folder + "/zerohop", "run"};
  s.program.push_back(fmt::format("{}/bench_p2p_{}", folder, e.host->abi));
  const char* arms = !e.zerohop ? "host" : g.fresh_job || !e.setting.empty() ? "zerohop" : "host,zerohop,host";
  s.program.insert(s.program.end(),
                   {"--label", e.host->name, "--only", g.only, "--buffers", g.buffers, "--arms", arms});
  if (!o.sizes.empty() && !g.fresh_job) s.program.insert(s.program.end(), {"--sizes", o.sizes});
  if (o.quick) s.program.emplace_back("--quick");
  const int blocks = g.fresh_job ? 1 : o.blocks > 0 ? o.blocks : o.quick ? 3 : 5;
  const double block_us = o.block_us > 0 ? o.block_us : o.quick ? 2000 : 4000;
  s.program.insert(s.program.end(),
                   {"--blocks", std::to_string(blocks), "--block-us", fmt::format("{:.0f}", block_us)});
  if (e.setting == kHeapOffSetting) s.env = {{"ZEROHOP_HEAP", "0"}};
  if (e.setting == "single_copy_skew_off") s.env = {{"ZEROHOP_SINGLE_COPY", "2048"}, {"ZEROHOP_SKEW", "0"}};
  if (e.setting == "single_copy_skew_on") s.env = {{"ZEROHOP_SINGLE_COPY", "2048"}, {"ZEROHOP_SKEW", "1"}};
  return s;
}

/// The raw limit once per round: in the nature that the machine has in this round.
void measure_raw(const Options& o, const std::string& folder, RawLimits* raw) {
  if (o.raw != "auto") return;
  const std::string file = (fs::temp_directory_path() / fmt::format("zerohop-raw-{}.json", getpid())).string();
  std::vector<std::string> command = {folder + "/zerohop", "bench", "raw", "--quick", "--json", file};
  if (output_of(command, 60)) {
    std::ifstream in(file);
    add_raw_document(nlohmann::json::parse(in, nullptr, false), raw);
  }
  std::error_code ignored;
  fs::remove(file, ignored);
}

std::vector<PlannedLaunch> launches_of(const Options& o, const Group& g, const Hosts& hosts,
                                       const std::string& folder) {
  std::vector<PlannedLaunch> planned;
  for (const Entry& e : entries_of(g, hosts.peers, hosts.under)) {
    planned.push_back({e.host, e.zerohop, e.setting, spec_of(o, g, e, folder)});
  }
  return planned;
}

int report(const Options& o, const std::vector<LaunchRecord>& records, const RawLimits& raw) {
  const Judged judged = judge(records, raw);
  std::fputs(table_of(judged, true).c_str(), stdout);
  bool written = true;
  if (!o.json_path.empty()) written &= write_file(o.json_path, json_of(judged).dump(1) + "\n", "p2p");
  if (!o.csv_path.empty()) written &= write_file(o.csv_path, csv_of(judged), "p2p");
  if (!written) return 2;
  bool missed = false;
  for (const Row& r : judged.rows)
    for (const Judgement& j : r.judgements) missed |= j.verdict == Verdict::kMissed;
  return o.strict && missed ? 1 : 0;
}

int rejudge(const Options& o) {
  nlohmann::json all;
  const auto records = read_launches(o.rejudge_path, "p2p", &all);
  if (!records) return 2;
  RawLimits raw;
  for (const auto& d : all.value("raw", nlohmann::json::array())) add_raw_document(d, &raw);
  return report(o, *records, raw);
}

int become_program(const Options& o) {
  std::vector<std::string> arguments = {"--buffers", o.buffers};
  if (!o.only.empty()) arguments.insert(arguments.end(), {"--only", o.only});
  if (!o.sizes.empty()) arguments.insert(arguments.end(), {"--sizes", o.sizes});
  if (!o.json_path.empty()) arguments.insert(arguments.end(), {"--out", o.json_path});
  if (o.quick) arguments.emplace_back("--quick");
  return become_benchmark("p2p", o.hosts.abi, arguments);
}

int bench_p2p(const Options& o) {
  if (!o.rejudge_path.empty()) return rejudge(o);
  if (in_a_job()) return become_program(o);
  const auto hosts = choose_hosts(o.hosts, o.quick, "p2p");
  if (!hosts) return 2;
  RawLimits raw;
  if (o.raw != "auto" && o.raw != "off") {
    std::ifstream in(o.raw);
    add_raw_document(nlohmann::json::parse(in, nullptr, false), &raw);
  }
  const std::vector<Group> groups = groups_of(o);
  const std::string folder = own_folder();
  const int count = o.rounds > 0 ? o.rounds : o.quick ? 8 : 10;
  Rounds rounds;
  for (int round = 0; round < count; ++round) {
    if (round == 0 || !o.quick) measure_raw(o, folder, &raw);  // it takes as long as a quick round's launches
    for (const Group& g : groups) rounds.run_group(g.name, round, count, launches_of(o, g, *hosts, folder));
  }
  if (!o.launches_path.empty() && !write_launches(o.launches_path, rounds.records(), "p2p")) return 2;
  const int code = report(o, rounds.records(), raw);
  if (rounds.failures() > 0)
    fmt::print(stderr, "zerohop bench p2p: {} launches failed and are not in the table\n", rounds.failures());
  return code != 0 ? code : rounds.failures() > 0 ? 2 : 0;
}

}  // namespace

void add_bench_p2p_command(CLI::App& bench) {
  auto o = std::make_shared<Options>();
  CLI::App* c =
      bench.add_subcommand("p2p", "Host MPIs and zerohop side by side: point-to-point, in rounds of short launches");
  add_host_options(*c, &o->hosts);
  c->add_option("--rounds", o->rounds, "Rounds (default 10; 8 with --quick; fewer than 6 resolve nothing)");
  c->add_flag("--quick", o->quick, "The main numbers in at most two minutes");
  c->add_option("--only", o->only,
                "Comma list: latency, noreuse, bandwidth, bidirectional, rate, queues, overlap, skew, breakdown, "
                "pairs, exchange, "
                "multipair, everybody");
  c->add_option("--sizes", o->sizes, "Comma list of bytes, with K or M");
  c->add_option("--buffers", o->buffers, "malloc, static, alloc_mem")->capture_default_str();
  c->add_option("--json", o->json_path, "Write the judged rows as JSON");
  c->add_option("--csv", o->csv_path, "Write the judged rows as CSV");
  c->add_option("--launches", o->launches_path, "Write every launch's document, for --rejudge");
  c->add_option("--rejudge", o->rejudge_path, "Judge the launches of an earlier run again; starts nothing");
  c->add_option("--raw", o->raw, "Raw limits: auto (measure each round), off, or a file of `zerohop bench raw --json`")
      ->capture_default_str();
  c->add_option("--ranks", o->ranks_many, "Ranks of the benchmarks for many ranks")->capture_default_str();
  c->add_option("--blocks", o->blocks, "Blocks of each arm per case and launch");
  c->add_option("--block-us", o->block_us, "Aimed length of a block in microseconds");
  c->add_option("--timeout", o->timeout_s, "Seconds after which a launch is ended")->capture_default_str();
  c->add_flag("--null", o->null_test, "Run everything without zerohop: every ratio must come out at 1");
  c->add_flag("--strict", o->strict, "Exit code 1 when a limit is missed");
  c->final_callback([o] {
    const int code = bench_p2p(*o);
    if (code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace zh::tools
