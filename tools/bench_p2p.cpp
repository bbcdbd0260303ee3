// `zerohop bench p2p`: starts the MPI benchmark program in rounds of short launches and hands the documents to the
// judge. Inside a job that somebody else started it starts nothing: each rank becomes the benchmark program. Measures
// nothing itself.
#include "bench_p2p.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bench_judge.h"
#include "bench_launch.h"
#include "bench_report.h"

namespace zh::tools {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string hosts = "mpich,openmpi,impi";
  std::string under = "mpich,openmpi";
  std::string only;
  std::string sizes;
  std::string buffers = "malloc,static,alloc_mem";
  std::string json_path;
  std::string csv_path;
  std::string raw = "auto";
  std::string hosts_py;
  std::string mpiexec;
  std::string abi = "mpich";
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

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream in(list);
  for (std::string w; std::getline(in, w, ',');) {
    if (!w.empty()) words.push_back(w);
  }
  return words;
}

bool contains(const std::vector<std::string>& v, const std::string& s) {
  return std::find(v.begin(), v.end(), s) != v.end();
}

std::string joined(const std::vector<std::string>& v) {
  std::string s;
  for (const std::string& w : v) s += (s.empty() ? "" : ",") + w;
  return s;
}

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
                              const std::vector<const BenchHost*>& under) {
  std::vector<Entry> e;
  if (g.fresh_job) {  // 64 ranks on a few processors: only hosts that yield their processor come to an end
    for (const BenchHost* h : under) {
      if (h->name == "mpich") continue;
      e.push_back({h, false, ""});
      e.push_back({h, true, ""});
    }
    return e;
  }
  for (const BenchHost& h : peers) e.push_back({&h, false, ""});
  for (const BenchHost* h : under) e.push_back({h, true, ""});
  if (g.heap_off) {
    for (const BenchHost* h : under) e.push_back({h, true, std::string(kHeapOffSetting)});
  }
  if (g.forced_skew) {
    for (const BenchHost* h : under) {
      e.push_back({h, true, "single_copy_skew_off"});
      e.push_back({h, true, "single_copy_skew_on"});
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

/// A launch that did not measure what it should have must not become a number.
std::string why_unusable(const LaunchResult& r, bool expect_zerohop) {
  if (!r.ok) return r.problem;
  if (r.document.value("errors", 1) != 0) return "wrong data arrived";
  if (r.document.value("zerohop_loaded", false) != expect_zerohop)
    return expect_zerohop ? "zerohop was not loaded" : "zerohop was loaded into a bare launch";
  return {};
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

class Rounds {
 public:
  Rounds(const Options& options, std::vector<BenchHost> peers, std::vector<const BenchHost*> under)
      : o_(options), peers_(std::move(peers)), under_(std::move(under)), folder_(own_folder()) {}

  void run() {
    const std::vector<Group> groups = groups_of(o_);
    const int rounds = o_.rounds > 0 ? o_.rounds : o_.quick ? 8 : 10;
    start_ = std::chrono::steady_clock::now();
    for (int round = 0; round < rounds; ++round) {
      if (round == 0 || !o_.quick) measure_raw(o_, folder_, &raw_);  // it takes as long as a quick round's launches
      for (const Group& g : groups) run_group(g, round, rounds);
    }
  }

  [[nodiscard]] const std::vector<LaunchRecord>& records() const { return records_; }
  [[nodiscard]] const RawLimits& raw() const { return raw_; }
  [[nodiscard]] int failures() const { return failures_; }
  RawLimits* mutable_raw() { return &raw_; }

 private:
  void run_group(const Group& g, int round, int rounds) {
    std::vector<Entry> entries = entries_of(g, peers_, under_);
    if (entries.empty()) return;
    // Every launch has every place in the order equally often.
    const auto first = static_cast<std::ptrdiff_t>(static_cast<size_t>(round) % entries.size());
    std::rotate(entries.begin(), entries.begin() + first, entries.end());
    for (const Entry& e : entries) {
      LaunchResult r = run_launch(spec_of(o_, g, e, folder_));
      // The machine changed its nature during the launch: such numbers are of no use, and the change is over.
      if (r.ok && r.document.value("placement", "") == "mixed") r = run_launch(spec_of(o_, g, e, folder_));
      const std::string problem = why_unusable(r, e.zerohop && !o_.null_test);
      const std::string placement =
          problem.empty() ? r.document.value("placement", "?") : "FAILED: " + problem + hint_for(problem);
      const std::string kind = e.zerohop ? "zerohop" + (e.setting.empty() ? "" : ":" + e.setting) : "bare";
      const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
      fmt::print(stderr, "[{:6.1f} s] round {}/{} {} {} {} {:.1f} s {}\n", elapsed, round + 1, rounds, g.name,
                 e.host->name, kind, r.wall_s, placement);
      if (!problem.empty()) {
        ++failures_;
        continue;
      }
      records_.push_back({round, g.name, e.host->name, e.zerohop, e.setting, r.wall_s, std::move(r.document)});
    }
  }

  const Options& o_;
  std::vector<BenchHost> peers_;
  std::vector<const BenchHost*> under_;
  std::string folder_;
  std::chrono::steady_clock::time_point start_;
  std::vector<LaunchRecord> records_;
  RawLimits raw_;
  int failures_ = 0;
};

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) fmt::print(stderr, "zerohop bench p2p: cannot write {}\n", path);
  return !out.fail();
}

int report(const Options& o, const std::vector<LaunchRecord>& records, const RawLimits& raw) {
  const Judged judged = judge(records, raw);
  std::fputs(table_of(judged, true).c_str(), stdout);
  bool written = true;
  if (!o.json_path.empty()) written &= write_file(o.json_path, json_of(judged).dump(1) + "\n");
  if (!o.csv_path.empty()) written &= write_file(o.csv_path, csv_of(judged));
  if (!written) return 2;
  bool missed = false;
  for (const Row& r : judged.rows)
    for (const Judgement& j : r.judgements) missed |= j.verdict == Verdict::kMissed;
  return o.strict && missed ? 1 : 0;
}

int rejudge(const Options& o) {
  std::ifstream in(o.rejudge_path);
  const auto all = nlohmann::json::parse(in, nullptr, false);
  if (!all.is_object()) {
    fmt::print(stderr, "zerohop bench p2p: {} holds no launches\n", o.rejudge_path);
    return 2;
  }
  std::vector<LaunchRecord> records;
  for (const auto& j : all.value("launches", nlohmann::json::array())) records.push_back(record_from(j));
  RawLimits raw;
  for (const auto& d : all.value("raw", nlohmann::json::array())) add_raw_document(d, &raw);
  return report(o, records, raw);
}

bool in_a_job() {
  for (const char* name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

/// Inside a job: this rank becomes the benchmark program, with zerohop preloaded.
int become_program(const Options& o) {
  const bool openmpi = std::getenv("OMPI_COMM_WORLD_RANK") != nullptr;
  const std::string folder = own_folder();
  std::vector<std::string> command = {folder + "/zerohop",
                                      "run",
                                      fmt::format("{}/bench_p2p_{}", folder, openmpi ? "ompi" : o.abi),
                                      "--arms",
                                      "host,zerohop,host",
                                      "--buffers",
                                      o.buffers};
  if (!o.only.empty()) command.insert(command.end(), {"--only", o.only});
  if (!o.sizes.empty()) command.insert(command.end(), {"--sizes", o.sizes});
  if (!o.json_path.empty()) command.insert(command.end(), {"--out", o.json_path});
  if (o.quick) command.emplace_back("--quick");
  std::vector<char*> argv;
  for (std::string& s : command) argv.push_back(s.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  std::perror(argv[0]);
  return 127;
}

int bench_p2p(const Options& o) {
  if (!o.rejudge_path.empty()) return rejudge(o);
  if (in_a_job()) return become_program(o);
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
    fmt::print(stderr, "zerohop bench p2p: {}\n", problem);
    return 2;
  }
  std::vector<BenchHost> peers;
  const std::vector<std::string> wanted = o.mpiexec.empty() ? split(o.hosts) : std::vector<std::string>{"custom"};
  for (const BenchHost& h : known) {
    if (contains(wanted, h.name)) peers.push_back(h);
  }
  std::vector<const BenchHost*> under;
  std::vector<std::string> carry = o.mpiexec.empty() ? split(o.under) : wanted;
  if (o.quick && carry.size() > 1) carry.resize(1);
  for (const BenchHost& h : known) {
    if (contains(carry, h.name)) under.push_back(&h);
  }
  if (peers.empty() || under.empty()) {
    fmt::print(stderr, "zerohop bench p2p: none of the hosts {} / {} is installed\n", o.hosts, o.under);
    return 2;
  }
  Rounds rounds(o, peers, under);
  if (o.raw != "auto" && o.raw != "off") {
    std::ifstream in(o.raw);
    add_raw_document(nlohmann::json::parse(in, nullptr, false), rounds.mutable_raw());
  }
  rounds.run();
  if (!o.launches_path.empty()) {
    nlohmann::json all = {{"schema", "zerohop-bench-launches/1"}, {"launches", nlohmann::json::array()}};
    for (const LaunchRecord& r : rounds.records()) all["launches"].push_back(json_of(r));
    if (!write_file(o.launches_path, all.dump() + "\n")) return 2;
  }
  const int code = report(o, rounds.records(), rounds.raw());
  if (rounds.failures() > 0)
    fmt::print(stderr, "zerohop bench p2p: {} launches failed and are not in the table\n", rounds.failures());
  return code != 0 ? code : rounds.failures() > 0 ? 2 : 0;
}

}  // namespace

void add_bench_p2p_command(CLI::App& bench) {
  auto o = std::make_shared<Options>();
  CLI::App* c =
      bench.add_subcommand("p2p", "Host MPIs and zerohop side by side: point-to-point, in rounds of short launches");
  c->add_option("--hosts", o->hosts, "Bare MPIs to compare with")->capture_default_str();
  c->add_option("--under", o->under, "MPIs under which zerohop runs (--quick takes the first)")->capture_default_str();
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
  c->add_option("--hosts-py", o->hosts_py,
                "The project's dev/hosts.py (default: found above the command or the current folder)");
  c->add_option("--mpiexec", o->mpiexec, "Use this launcher (with its arguments) as the only host");
  c->add_option("--abi", o->abi, "Build of the benchmark program for --mpiexec: mpich, ompi or abi")
      ->capture_default_str();
  c->add_flag("--null", o->null_test, "Run everything without zerohop: every ratio must come out at 1");
  c->add_flag("--strict", o->strict, "Exit code 1 when a limit is missed");
  c->final_callback([o] {
    const int code = bench_p2p(*o);
    if (code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace zh::tools
