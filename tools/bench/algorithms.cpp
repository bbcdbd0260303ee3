// `zerohop bench algorithms`: the named algorithms of each collective beside each other, and the table of the fastest
// that jobs on this machine then use (coll/algorithms/selection.h). Launches the benchmark of collectives; measures
// nothing itself.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/options.h"
#include "coll/algorithms/choose.h"
#include "coll/algorithms/selection.h"
#include "tools/bench/command.h"
#include "tools/bench/report.h"
#include "tools/bench/series.h"
#include "tools/cli/commands.h"
#include "tools/cli/text.h"
#include "tune/profile.h"

namespace zh::tools {
namespace {

constexpr const char* kAlgorithmsExamples =
    "Every launch has one algorithm of one collective, by ZEROHOP_ALGORITHM and the setting chunk; `auto` is what "
    "zerohop does by itself. The host's own collective runs beside it in the same launch, and algorithms are compared "
    "by their ratio to it.\n\n"
    "  zerohop bench algorithms --only allreduce --ranks 8 --sizes 64K,1M,4M\n"
    "  zerohop bench algorithms --only bcast --ranks 8 --node-ranks 4 --chunks 0,16K    tiles against none\n"
    "  zerohop bench algorithms --machines 2 --ranks 4 --only allreduce --under mpich     between machines, over TCP\n"
    "  zerohop bench algorithms --node-ranks 2 --ranks 4,8 --save     jobs on this machine use the fastest from now "
    "on\n\n"
    "Where all are slower than the host's own collective by more than 5 %, that is saved; of a busy machine, nothing. "
    "What is saved serves where a schedule does: communicators of several nodes, nonblocking and persistent calls of "
    "more than 512 bytes.";

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
  bool save = false;
};

std::string algorithm_of(const std::string& setting) { return setting.substr(0, setting.find('/')); }

/// Bytes of the pieces of a setting, 0: whole.
uint64_t chunk_of(const std::string& setting) {
  const size_t slash = setting.find('/');
  uint64_t bytes = 0;
  (void)parse_size(slash == std::string::npos ? kUsualChunk : setting.substr(slash + 1), &bytes);
  return bytes;
}

void algorithms_round(const AlgorithmOptions& o, const Hosts& hosts, int round, Rounds* rounds) {
  const BenchHost& host = hosts.under.front();
  const bool several_nodes = o.node_ranks > 0 || o.bench.hosts.machines > 0 || !o.bench.hosts.mpiexec.empty();
  for (const int ranks : o.bench.ranks) {
    for (const std::string& name : o.bench.only.empty() ? kUsual : split(o.bench.only)) {
      std::vector<PlannedLaunch> planned;
      const auto plan = [&](const std::string& algorithm, const std::string& chunk) {
        BenchOptions part = o.bench;
        part.only = name;
        PlannedLaunch p = plan_launch("coll", part, host, ranks, kPairedArms);
        p.setting = chunk == kUsualChunk ? algorithm : algorithm + "/" + chunk;
        choose_algorithm(name, algorithm, algorithm == kAuto ? "" : chunk, &p);
        if (o.node_ranks > 0) p.spec.settings["node_ranks"] = std::to_string(o.node_ranks);
        planned.push_back(std::move(p));
      };
      plan(kAuto, kUsualChunk);
      const coll::Collective collective = coll::collective_named(name);
      for (const coll::Algorithm& a : coll::algorithms(collective)) {
        const bool leaders = a.name == coll::kHostLeaders;  // they take vectors whole
        if (leaders && !several_nodes) continue;
        const std::vector<std::string> once = {leaders ? kWhole : kUsualChunk};
        for (const std::string& chunk : coll::cuts(a) ? o.chunks : once) plan(std::string(a.name), chunk);
      }
      rounds->run_group(fmt::format("{} x{}", name, ranks), round, o.bench.rounds, std::move(planned));
    }
  }
}

/// The named setting with the least ratio to the host; "" if there is none. What a team did is no schedule's time.
std::string fastest_named(const std::map<std::string, SeriesCell>& by_setting, coll::Collective collective,
                          bool several_nodes) {
  std::string best;
  for (const auto& [setting, cell] : by_setting) {
    const bool team = !several_nodes && coll::order_of(collective, algorithm_of(setting)) != coll::StagingOrder::kFree;
    if (setting == kAuto || team) continue;
    if (best.empty() || cell.ratio() < by_setting.at(best).ratio()) best = setting;
  }
  return best;
}

/// The fastest named algorithm and its chunk from each size on, where they change.
coll::Selection selection_of(const std::vector<SeriesTable>& tables, bool pretended) {
  coll::Selection selection;
  for (const SeriesTable& table : tables) {
    const coll::Collective collective = coll::collective_named(table.collective);
    const bool several_nodes = pretended || table.spread.machines > 1;
    std::string last;
    for (const auto& [size, by_setting] : table.cells) {
      std::string setting = fastest_named(by_setting, collective, several_nodes);
      if (setting.empty()) continue;
      if (by_setting.at(setting).ratio() > kNoGain) setting = coll::kHostAlgorithm;
      if (setting == last) continue;
      coll::Selection::Entry entry{};
      entry.collective = collective;
      entry.ranks = static_cast<uint32_t>(table.ranks);
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

int save_algorithms(const AlgorithmOptions& o, const std::vector<SeriesTable>& tables, const Launches& launches) {
  if (const std::string busy = run_line_of(launches.machine); !busy.empty())
    return refuse(kAlgorithmsCommand, "nothing is saved, such times are not the machine's. " + busy, 1);
  Options options;
  options.read_environment(environ);
  const std::string folder = tune::kept_folders(options).own;
  const std::string path =
      coll::selection_path(folder, std::ranges::find(launches.records, true, &LaunchRecord::zerohop)->abi);
  if (path.empty()) return refuse(kAlgorithmsCommand, "no folder to save in: set ZEROHOP_CACHE");
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  coll::Selection saved;
  std::string why;
  if (saved.load(path, &why).code() == Code::kInvalid)
    fmt::print(stderr, "zerohop {}: what was there is replaced: {}\n", kAlgorithmsCommand, why);
  saved.replace(selection_of(tables, o.node_ranks > 0));
  if (!write_file(path, saved.text(), kAlgorithmsCommand)) return 2;
  fmt::print("\nsaved in {}\n", path);
  return 0;
}

int report_algorithms(const AlgorithmOptions& o, const Launches& launches) {
  // All launches count, whatever the placement of their first two ranks, which is all that a launch knows of it, unless
  // one is asked for.
  const std::vector<SeriesTable> tables = series_tables(launches.records, [&](const LaunchRecord& r) {
    return r.zerohop && is_at(r, o.bench.line) ? r.setting : std::string();
  });
  for (const SeriesTable& t : tables) {
    const std::string nodes = o.node_ranks > 0 ? fmt::format(" · nodes of {}", o.node_ranks) : "";
    const std::string machines = machines_text(t.spread);
    print_shown(fmt::format("\n{} · {} ranks{}{} · zerohop under {} · {} rounds\n{}", t.collective, t.ranks, nodes,
                            machines.empty() ? "" : " on " + machines, t.host, t.rounds, series_text(t)));
  }
  print_shown(fmt::format(
      "\n{}Times in µs: means over the ranks, medians over the launches; in brackets by the host's own in the same\n"
      "launch, * the least. algorithm/4K: in pieces of 4 KiB instead of {}; /0: whole.\n",
      left_out_text(launches.records, o.bench.line), kUsualChunk));
  nlohmann::json document = {{"schema", kAlgorithmsSchema}, {"line", o.bench.line}};
  document["rows"] = series_rows(tables, [&](const SeriesTable&, const std::string& setting, nlohmann::json* row) {
    row->update({{"algorithm", setting}, {"chunk_bytes", chunk_of(setting)}, {"node_ranks", o.node_ranks}});
  });
  const bool written = write_document(o.bench, std::move(document), launches.machine, kAlgorithmsCommand);
  const int code = o.save && !tables.empty() ? save_algorithms(o, tables, launches) : 0;
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
  o->bench.program = "coll";
  MpiBench b;
  b.name = "algorithms";
  b.about = "Named algorithms of collectives side by side; --save makes this machine's jobs use the fastest";
  b.examples = kAlgorithmsExamples;
  b.sizes = "Comma list of bytes per rank, with K or M";
  b.quick = "Four sizes";
  b.usual_pace = {6, 3, 2000, 0.3};
  b.quick_pace = {3, 3, 1000, 0.2};
  b.run_round = [o](const Hosts& hosts, int round, Rounds* rounds) { algorithms_round(*o, hosts, round, rounds); };
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
  c->add_option("--chunks", o->chunks, "Comma list of bytes that the setting chunk has, 0: whole")
      ->delimiter(',')
      ->check([](const std::string& chunk) { return chunk == "0" ? std::string() : wrong_sizes({}, chunk); })
      ->capture_default_str();
  c->add_option("--node-ranks", o->node_ranks, "Pretend nodes of so many ranks (ZEROHOP_CONFIG=node_ranks=...)")
      ->check(CLI::Range(1, kMostRanks))
      ->excludes("--machines");
  add_line_option(*c, common.get());
  c->add_flag("--save", o->save, "Write the fastest into the table that jobs on this machine read");
}

}  // namespace zh::tools
