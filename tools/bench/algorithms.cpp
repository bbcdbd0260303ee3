// `zerohop bench algorithms`: the named algorithms of each collective beside each other, and the table of the fastest
// that jobs on this machine then use (coll/algorithms/selection.h). Launches the benchmark of collectives; measures
// nothing itself.
#include "tools/bench/algorithms.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "base/options.h"
#include "coll/algorithms/selection.h"
#include "tools/bench/command.h"
#include "tools/bench/level_pairs.h"
#include "tools/bench/report.h"
#include "tools/bench/series.h"
#include "tools/bench/stats.h"
#include "tools/cli/commands.h"
#include "tune/profile.h"

namespace zh::tools {
namespace {

constexpr const char* kAlgorithmsExamples =
    "Every launch has one algorithm of one collective, by ZEROHOP_ALGORITHM and ZEROHOP_CHUNK; `auto` is what\n"
    "zerohop does by itself. The host's own collective runs beside it in the same launch, and algorithms are compared "
    "by\n"
    "their ratio to it.\n\n"
    "  zerohop bench algorithms --only allreduce --ranks 8 --sizes 64K,1M,4M\n"
    "  zerohop bench algorithms --only bcast --ranks 16 --node-ranks 4 --chunks 0,4K,16K,64K    tiles against none\n"
    "  zerohop bench algorithms --machines 2 --ranks 4 --only allreduce --under mpich     between machines, over TCP\n"
    "  zerohop bench algorithms --node-ranks 2 --ranks 4,8 --save     jobs on this machine use the fastest from now "
    "on\n\n"
    "Where all are slower than the host's own collective by more than 5 %, that is saved. What is saved serves where a "
    "schedule does: communicators of several nodes, nonblocking and persistent calls of more than 240\n"
    "bytes. Algorithms that end in -domains "
    "are compared on one node of several sockets, memory nodes or last-level caches; the host has to bind ranks there.";

const std::vector<std::string> kUsual = {"barrier", "bcast", "reduce", "allreduce", "allgather", "alltoall"};
constexpr const char* kAlgorithmsCommand = "bench algorithms";
constexpr const char* kAuto = "auto";
constexpr const char* kUsualChunk = "64K";
constexpr const char* kWhole = "0";
constexpr double kNoGain = 1.05;  // slower than the host by more than this: the host's own collective serves

struct AlgorithmOptions {
  BenchOptions bench;
  std::vector<std::string> chunks = {kUsualChunk};
  uint32_t node_ranks = 0;
  std::string line;  ///< near or far: only launches whose first two ranks were so; empty: all
  bool save = false;
  std::string abi;  ///< of the host under which zerohop ran
};

std::string algorithm_setting(const std::string& algorithm, const std::string& chunk) {
  return chunk == kUsualChunk ? algorithm : algorithm + "/" + chunk;
}

std::string algorithm_of(const std::string& setting) { return setting.substr(0, setting.find('/')); }

/// Bytes of the pieces of a setting, 0: whole.
uint64_t chunk_of(const std::string& setting) {
  const size_t slash = setting.find('/');
  uint64_t bytes = 0;
  (void)parse_size(slash == std::string::npos ? kUsualChunk : setting.substr(slash + 1), &bytes);
  return bytes;
}

/// Leaders take vectors whole by default, and nothing else of some collectives; of others in chunks as well.
std::vector<std::string> chunks_for(coll::Collective collective, const coll::Algorithm& algorithm,
                                    const std::vector<std::string>& wanted) {
  if (algorithm.name != coll::kHostLeaders) return wanted;
  std::vector<std::string> chunks = {kWhole};
  for (const std::string& chunk : wanted) {
    coll::Problem problem;
    problem.collective = collective;
    (void)parse_size(chunk, &problem.chunk_bytes);
    if (coll::leaders_cut(problem)) chunks.push_back(chunk);
  }
  return chunks;
}

/// Whether ranks of one node may be of several domains: sockets, memory nodes or last-level caches.
bool may_divide(const AlgorithmOptions& o) {
  if (o.node_ranks > 0 || o.bench.hosts.machines > 0) return false;
  Options options;
  options.read_environment(environ);
  node::Machine machine;
  if (!machine.load(options.get_text(Opt::kTopology)).ok()) return false;
  return model_levels(machine.summary(), plan_pairs(machine, os::allowed_cpus())).inter_chip.has_value();
}

void algorithms_round(const AlgorithmOptions& o, const Hosts& hosts, int round, Rounds* rounds) {
  const BenchHost& host = hosts.under.front();
  const bool divides = may_divide(o);
  const bool several_nodes = o.node_ranks > 0 || o.bench.hosts.machines > 0 || !o.bench.hosts.mpiexec.empty();
  for (const int ranks : o.bench.ranks) {
    for (const std::string& name : o.bench.only.empty() ? kUsual : split(o.bench.only)) {
      std::vector<PlannedLaunch> planned;
      const auto plan = [&](const std::string& algorithm, const std::string& chunk) {
        BenchOptions part = o.bench;
        part.only = name;
        PlannedLaunch p = plan_launch("coll", part, host, ranks, kPairedArms);
        p.setting = algorithm_setting(algorithm, chunk);
        choose_algorithm(name, algorithm, algorithm == kAuto ? "" : chunk, &p);
        if (o.node_ranks > 0) p.spec.env["ZEROHOP_NODE_RANKS"] = std::to_string(o.node_ranks);
        planned.push_back(std::move(p));
      };
      plan(kAuto, kUsualChunk);
      const coll::Collective collective = coll::collective_named(name);
      for (const coll::Algorithm& a : coll::algorithms(collective)) {
        const bool fits = a.by_domains ? divides : a.name != coll::kHostLeaders || several_nodes;
        if (!fits) continue;
        for (const std::string& chunk : chunks_for(collective, a, o.chunks)) plan(std::string(a.name), chunk);
      }
      rounds->run_group(fmt::format("{} x{}", name, ranks), round, o.bench.rounds, std::move(planned));
    }
  }
}

using Cells = std::map<uint64_t, std::map<std::string, SeriesCell>>;   ///< by size and setting
using AlgorithmTables = std::map<std::pair<std::string, int>, Cells>;  ///< by collective and number of ranks

bool counts(const LaunchRecord& record, const std::string& line) {
  return line.empty() || record.document.value("placement", "") == line;
}

/// All launches count, whatever the placement of their first two ranks, which is all that a launch knows of it, unless
/// one is asked for.
AlgorithmTables algorithm_tables(const Launches& launches, const std::string& line) {
  AlgorithmTables tables;
  for (const LaunchRecord& record : launches.records) {
    if (!record.zerohop || !counts(record, line)) continue;
    const nlohmann::json& d = record.document;
    for (const nlohmann::json& c : d.value("cases", nlohmann::json::array())) {
      Cells& cells = tables[{c.value("bench", ""), d.value("ranks", 0)}];
      cells[c.value("size", uint64_t{0})][record.setting].add(c);
    }
  }
  return tables;
}

/// The setting with the least ratio to the host; "" if there is none.
std::string fastest_of(const std::map<std::string, SeriesCell>& by_setting, bool named_only) {
  std::string best;
  for (const auto& [setting, cell] : by_setting) {
    if (named_only && setting == kAuto) continue;
    if (best.empty() || cell.ratio() < by_setting.at(best).ratio()) best = setting;
  }
  return best;
}

void print_algorithms(const std::string& heading, const std::string& host, const Cells& cells) {
  std::set<std::string> settings;
  for (const auto& [size, by_setting] : cells) {
    for (const auto& [setting, cell] : by_setting) settings.insert(setting);
  }
  fmt::print("\n{}\n{:>9} {:>10}", heading, "bytes", host);
  for (const std::string& s : settings) fmt::print(" {:>{}} ", s, std::max<size_t>(s.size(), 9));
  fmt::print("\n");
  for (const auto& [size, by_setting] : cells) {
    const SeriesCell& first = by_setting.begin()->second;
    const std::string best = fastest_of(by_setting, false);
    fmt::print("{:>9} {:>10}", size, number_text(first.time() / first.ratio()));
    for (const std::string& s : settings) {
      const auto found = by_setting.find(s);
      const std::string text = found == by_setting.end() ? "-" : number_text(found->second.time());
      fmt::print(" {:>{}}{}", text, std::max<size_t>(s.size(), 9), s == best ? "*" : " ");
    }
    fmt::print("\n");
  }
}

/// The fastest named algorithm and its chunk from each size on, where they change.
coll::Selection selection_of(const AlgorithmTables& tables, bool several_nodes) {
  coll::Selection selection;
  for (const auto& [key, cells] : tables) {
    std::string last;
    for (const auto& [size, by_setting] : cells) {
      std::string setting = fastest_of(by_setting, true);
      if (setting.empty()) continue;
      if (by_setting.at(setting).ratio() > kNoGain) setting = coll::kHostAlgorithm;
      if (setting == last) continue;
      coll::Selection::Entry entry{};
      entry.collective = coll::collective_named(key.first);
      entry.ranks = static_cast<uint32_t>(key.second);
      entry.several_nodes = several_nodes;
      entry.from_bytes = last.empty() ? 0 : size;
      entry.algorithm = coll::algorithm(entry.collective, algorithm_of(setting));  // null: the host's
      if (entry.algorithm != nullptr) entry.chunk_bytes = chunk_of(setting);
      selection.add(entry);
      last = setting;
    }
  }
  return selection;
}

int save_algorithms(const AlgorithmOptions& o, const Launches& launches, const AlgorithmTables& tables) {
  Options options;
  options.read_environment(environ);
  const std::string folder = tune::kept_folders(options).own;
  const std::string path = coll::selection_path(folder, o.abi);
  if (path.empty()) {
    fmt::print(stderr, "zerohop bench algorithms: no folder to save in: set ZEROHOP_CACHE\n");
    return 2;
  }
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  coll::Selection saved;
  std::string why;
  if (saved.load(path, &why).code() == Code::kInvalid)
    fmt::print(stderr, "zerohop {}: what was there is replaced: {}\n", kAlgorithmsCommand, why);
  const bool several_nodes = o.node_ranks > 0 || !machines_text(launches.records.front().document).empty();
  saved.replace(selection_of(tables, several_nodes));
  if (!write_file(path, saved.text(), kAlgorithmsCommand)) return 2;
  fmt::print("\nsaved in {}\n", path);
  return 0;
}

nlohmann::json algorithm_rows(const Launches& launches, const AlgorithmTables& tables, uint32_t node_ranks) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [key, cells] : tables) {
    const MachineSpread spread = spread_of(launches.records, key.second);
    for (const auto& [size, by_setting] : cells) {
      for (const auto& [setting, cell] : by_setting) {
        rows.push_back({{"collective", key.first},
                        {"ranks", key.second},
                        {"node_ranks", node_ranks},
                        {"machines", spread.machines},
                        {"in_turn", spread.in_turn},
                        {"bytes", size},
                        {"algorithm", setting},
                        {"chunk_bytes", chunk_of(setting)},
                        {"us", cell.time()},
                        {"slowest_us", interval_json(median_interval(cell.slowest_us))},
                        {"to_host", cell.ratio()},
                        {"to_host_interval", interval_json(median_interval(cell.to_host))},
                        {"launches", cell.us.size()}});
      }
    }
  }
  return rows;
}

nlohmann::json algorithms_json(const Launches& launches, const AlgorithmTables& tables, const AlgorithmOptions& o) {
  return {{"schema", kAlgorithmsSchema},
          {"machine", json_of(launches.machine)},
          {"line", o.line},
          {"rows", algorithm_rows(launches, tables, o.node_ranks)}};
}

std::string algorithms_csv(const Launches& launches, const AlgorithmTables& tables) {
  std::string text = "collective,ranks,bytes,algorithm,us,to_host,launches\n";
  for (const nlohmann::json& r : algorithm_rows(launches, tables, 0)) {
    text += fmt::format("{},{},{},{},{:.6g},{:.6g},{}\n", r["collective"].get<std::string>(), r["ranks"].get<int>(),
                        r["bytes"].get<uint64_t>(), r["algorithm"].get<std::string>(), r["us"].get<double>(),
                        r["to_host"].get<double>(), r["launches"].get<size_t>());
  }
  return text;
}

int report_algorithms(const AlgorithmOptions& o, const Launches& launches) {
  const AlgorithmTables tables = algorithm_tables(launches, o.line);
  for (const auto& [key, cells] : tables) {
    const std::string nodes = o.node_ranks > 0 ? fmt::format(" · nodes of {}", o.node_ranks) : "";
    const std::string machines = machines_text(spread_of(launches.records, key.second));
    const std::string spread = machines.empty() ? "" : " on " + machines;
    const std::string host = launches.records.front().host;
    print_algorithms(fmt::format("{} · {} ranks{}{} · {} rounds", key.first, key.second, nodes, spread, o.bench.rounds),
                     host, cells);
  }
  if (!o.line.empty()) {
    const auto others = std::ranges::count_if(launches.records, [&](const auto& r) { return !counts(r, o.line); });
    fmt::print("\n{} launches, {} left out that were not {}\n", launches.records.size(), others, o.line);
  }
  fmt::print(
      "\nTimes in µs: means over the ranks, medians over the launches; * the least ratio to the host beside it.\n"
      "algorithm/4K: in pieces of 4 KiB instead of {}; /0: whole.\n",
      kUsualChunk);
  bool written = true;
  if (!o.bench.json_path.empty())
    written &= write_file(o.bench.json_path, algorithms_json(launches, tables, o).dump(1) + "\n", kAlgorithmsCommand);
  if (!o.bench.csv_path.empty())
    written &= write_file(o.bench.csv_path, algorithms_csv(launches, tables), kAlgorithmsCommand);
  const int code = o.save && !tables.empty() ? save_algorithms(o, launches, tables) : 0;
  return written ? code : 2;
}

}  // namespace

void add_bench_algorithms_command(CLI::App& bench) {
  auto o = std::make_shared<AlgorithmOptions>();
  // The options of all benchmarks, which live as long as those of this one.
  const std::shared_ptr<BenchOptions> common(o, &o->bench);
  o->bench.hosts.usual_under = o->bench.hosts.usual_hosts = "openmpi";
  o->bench.ranks = {8};
  o->bench.timeout_s = 300;
  MpiBench b;
  b.name = "algorithms";
  b.program = "coll";
  b.about = "Named algorithms of collectives side by side; --save makes this machine's jobs use the fastest";
  b.examples = kAlgorithmsExamples;
  b.sizes = "Comma list of bytes per rank, with K or M";
  b.quick = "Four sizes";
  b.usual_pace = {6, 3, 2000, 0.3};
  b.quick_pace = {3, 3, 1000, 0.2};
  b.run_round = [o](const Hosts& hosts, int round, Rounds* rounds) {
    o->abi = hosts.under.front().abi;
    algorithms_round(*o, hosts, round, rounds);
  };
  b.report = [o](const Launches& launches) { return report_algorithms(*o, launches); };
  CLI::App* c = add_mpi_bench(bench, common, std::move(b));
  add_ranks_option(*c, common.get());
  c->add_option("--only", o->bench.only,
                "Comma list: barrier, bcast, reduce, allreduce, reduce_scatter, scan, exscan, gather, scatter, "
                "allgather, alltoall (default: " +
                    joined(kUsual) + ")")
      ->check([](const std::string& list) {
        for (const std::string& name : split(list)) {
          if (coll::collective_named(name) == coll::Collective::kCount)
            return "no such collective: " + name + " (--help lists them)";
        }
        return std::string();
      });
  c->add_option("--chunks", o->chunks, "Comma list of ZEROHOP_CHUNK, 0: whole")
      ->delimiter(',')
      ->check([](const std::string& chunk) { return chunk == "0" ? std::string() : wrong_sizes({}, chunk); })
      ->capture_default_str();
  c->add_option("--node-ranks", o->node_ranks, "Pretend nodes of so many ranks (ZEROHOP_NODE_RANKS)")
      ->check(CLI::Range(1, kMostRanks))
      ->excludes("--machines");
  c->add_option("--line", o->line, "Only launches whose first two ranks were near or far, by their raw line")
      ->check(CLI::IsMember({"near", "far"}));
  c->add_flag("--save", o->save, "Write the fastest into the table that jobs on this machine read");
}

}  // namespace zh::tools
