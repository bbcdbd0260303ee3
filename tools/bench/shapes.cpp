// `zerohop bench shapes`: which launches the paper's strided broadcasts have, and the rows that `zerohop model compare`
// reads. How a benchmark runs as a whole is command.h's. Measures nothing itself.
#include "tools/bench/shapes.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/algorithms.h"
#include "tools/bench/command.h"
#include "tools/bench/report.h"
#include "tools/cli/commands.h"

namespace zh::tools {
namespace {

constexpr const char* kShapesCommand = "bench shapes";
constexpr const char* kBcast = "_bcast";  // linear_bcast and binomial_bcast, as the benchmark's program names them

constexpr const char* kShapesExamples =
    "Broadcasts of the nine shapes by which the mlog_nP paper tells messages apart (section 5): 1, 4 and 16 KiB of\n"
    "elements of 4 bytes at strides of 8, 64 and 512. The program makes them of MPI_Send and MPI_Recv: the root sends\n"
    "to all in turn (linear), or ranks pass on (binomial). `zerohop model compare` sets them beside the models, as\n"
    "figures 2 to 4 of the paper do.\n\n"
    "  zerohop tune --json here.json\n"
    "  zerohop bench shapes --ranks 2 --line near --json shapes.json\n"
    "  zerohop model compare shapes.json --profile here.json --points\n"
    "  zerohop bench shapes --ranks 2 --machines 2 --json between.json    over TCP\n\n"
    "A profile is of one placement of the ranks; --line takes the launches of the same. Ends with 2 if a launch "
    "failed\n"
    "or a file could not be written.";

struct ShapeOptions {
  BenchOptions bench;
  std::string line;  ///< near or far: only launches whose first two ranks were so; empty: all
};

void shapes_round(const BenchOptions& o, const Hosts& hosts, int round, Rounds* rounds) {
  for (const int ranks : o.ranks)
    rounds->run_group(fmt::format("shapes x{}", ranks), round, o.rounds, plan_launches("coll", o, hosts, ranks));
}

nlohmann::json shape_rows(const Judged& judged, const std::vector<LaunchRecord>& launches) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& row : judged.rows) {
    const MachineSpread spread = spread_of(launches, row.key.ranks);
    rows.push_back({{"collective", "bcast"},
                    {"algorithm", row.key.bench.substr(0, row.key.bench.find(kBcast))},
                    {"chunk_bytes", 0},
                    {"bytes", row.key.size},
                    {"stride", static_cast<uint64_t>(row.key.param)},
                    {"ranks", row.key.ranks},
                    {"node_ranks", 0},
                    {"machines", spread.machines},
                    {"in_turn", spread.in_turn},
                    {"placement", row.placement},
                    {"under", row.host},
                    {"slowest_us", interval_json(row.zerohop)},
                    {"to_host", row.to_own_host.mid},
                    {"launches", row.rounds}});
  }
  return rows;
}

int report_shapes(const ShapeOptions& o, Launches launches) {
  const size_t all = launches.records.size();
  if (!o.line.empty())
    std::erase_if(launches.records, [&](const auto& r) { return r.document.value("placement", "") != o.line; });
  const Judged judged = judge(launches.records, {});
  std::fputs((table_of(judged, {}) + closing_of(judged, "from the root's start to the last rank's end")).c_str(),
             stdout);
  if (!o.line.empty())
    fmt::print("{} launches, {} left out that were not {}\n", all, all - launches.records.size(), o.line);
  bool written = true;
  if (!o.bench.json_path.empty()) {
    const nlohmann::json document = {{"schema", kAlgorithmsSchema},
                                     {"machine", json_of(launches.machine)},
                                     {"line", o.line},
                                     {"rows", shape_rows(judged, launches.records)}};
    written &= write_file(o.bench.json_path, document.dump(1) + "\n", kShapesCommand);
  }
  if (!o.bench.csv_path.empty()) written &= write_file(o.bench.csv_path, csv_of(judged), kShapesCommand);
  return written ? 0 : 2;
}

}  // namespace

void add_bench_shapes_command(CLI::App& bench) {
  auto o = std::make_shared<ShapeOptions>();
  const std::shared_ptr<BenchOptions> common(o, &o->bench);
  o->bench.hosts.usual_under = o->bench.hosts.usual_hosts = "openmpi";
  o->bench.ranks = {2};
  o->bench.only = "linear_bcast,binomial_bcast";
  MpiBench b;
  b.name = "shapes";
  b.program = "coll";
  b.about = "Strided broadcasts of the mlog_nP paper, for `zerohop model compare`";
  b.examples = kShapesExamples;
  b.sizes = "Comma list of bytes, with K or M (default 1K,4K,16K)";
  b.quick = "Fewer rounds";
  b.usual_pace = {10, 5, 4000, 1};
  b.quick_pace = {6, 3, 2000, 0.3};
  b.run_round = [o](const Hosts& hosts, int round, Rounds* rounds) { shapes_round(o->bench, hosts, round, rounds); };
  b.report = [o](const Launches& launches) { return report_shapes(*o, launches); };
  CLI::App* c = add_mpi_bench(bench, common, std::move(b));
  add_ranks_option(*c, common.get());
  c->add_option("--line", o->line, "Only launches whose first two ranks were near or far, by their raw line")
      ->check(CLI::IsMember({"near", "far"}));
}

}  // namespace zh::tools
