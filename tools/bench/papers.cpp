// `zerohop bench papers`: the launches that a paper's figure describes (figures.h), and its series as a table. Launches
// the benchmark of collectives, or the matrix multiplication; measures nothing itself.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/command.h"
#include "tools/bench/figures.h"
#include "tools/bench/report.h"
#include "tools/bench/series.h"
#include "tools/cli/text.h"

namespace zh::tools {
namespace {

constexpr const char* kPapersCommand = "bench papers";
constexpr int kMostMachines = 64;  // as --machines has it

constexpr const char* kPapersExamples =
    "  zerohop bench papers --list\n"
    "  zerohop bench papers cc-8 --quick                     a matrix multiplication\n"
    "  zerohop bench papers limic-13 --hosts openmpi,mpich --under mpich\n"
    "  zerohop bench papers cc-5a --layout 64x4 --mpiexec \"mpiexec -f hosts\"\n"
    "  zerohop bench papers ml-2 --line near --json shapes.json     then zerohop model report shapes.json\n\n"
    "Each layout has its own table. Nodes are machines made of namespaces with TCP between them, which share this "
    "one's processors: only ratios say something. --pretend makes nodes for zerohop alone, between which the host's "
    "messages go through shared memory; --mpiexec goes to real machines. Ends with 2 if a launch failed or a file "
    "could not be written.";

struct PapersOptions {
  BenchOptions bench;
  std::string name;
  std::vector<std::string> layouts;
  bool pretend = false;                               ///< nodes by the setting node_ranks
  std::map<std::pair<int, bool>, Hosts> on_machines;  ///< by number of nodes, and whether ranks are dealt out in turn

  [[nodiscard]] const Figure& figure() const { return *figure_named(name); }
};

/// "4x8".
std::optional<FigureLayout> layout_of(const std::string& text) {
  FigureLayout l;
  const char* end = text.data() + text.size();
  const auto nodes = std::from_chars(text.data(), end, l.nodes);
  if (nodes.ec != std::errc() || nodes.ptr == end || *nodes.ptr != 'x') return std::nullopt;
  const auto ranks = std::from_chars(nodes.ptr + 1, end, l.ranks_per_node);
  const auto fits = [](int n) { return n >= 1 && n <= kMostRanks; };
  if (ranks.ec != std::errc() || ranks.ptr != end || !fits(l.nodes) || !fits(l.ranks_per_node)) return std::nullopt;
  const int all = l.nodes * l.ranks_per_node;
  return all < 2 || all > kMostRanks ? std::nullopt : std::optional(l);
}

std::string layout_text(const FigureLayout& l) { return fmt::format("{}x{}", l.nodes, l.ranks_per_node); }

std::string wrong_layout(const std::string& text) {
  return layout_of(text) ? "" : fmt::format("no layout: {} (nodes x ranks on each, 2 to {} ranks)", text, kMostRanks);
}

std::vector<FigureLayout> layouts_of(const PapersOptions& o) {
  if (o.layouts.empty()) return {o.figure().layouts.begin(), o.figure().layouts.end()};
  std::vector<FigureLayout> all;
  for (const std::string& text : o.layouts) all.push_back(layout_of(text).value_or(FigureLayout()));
  return all;
}

bool makes_machines(const PapersOptions& o, const FigureLayout& layout) {
  return layout.nodes > 1 && !o.pretend && o.bench.hosts.mpiexec.empty();
}

/// What is wrong with the options as a whole; else completes them by the figure's.
std::string settle(PapersOptions* o) {
  if (o->name.empty()) return "name a figure (--list tells of each)";
  const Figure* figure = figure_named(o->name);
  if (figure == nullptr) return fmt::format("no such figure: {} (--list names them)", o->name);
  if (o->bench.hosts.machines > 0) return "a figure has its own nodes: --layout changes them, not --machines";
  for (const FigureLayout& l : layouts_of(*o)) {
    if (makes_machines(*o, l) && l.nodes > kMostMachines)
      return fmt::format("{}: at most {} nodes of namespaces (--pretend, or real ones by --mpiexec)", layout_text(l),
                         kMostMachines);
  }
  const bool matmul = figure->telling == FigureTelling::kMatmul;
  if (matmul) o->bench.program = "matmul";
  o->bench.only = figure->collective;
  if (o->bench.sizes.empty()) o->bench.sizes = figure->sizes;
  if (figure->any_root) o->bench.own_arguments.emplace_back("--rotate-root");
  const std::string wrong = wrong_sizes(matmul ? SizeRange{.most = 4096, .step = 1} : SizeRange(), o->bench.sizes);
  return wrong.empty() ? "" : "--sizes: " + wrong;
}

/// Where a job of this layout runs; null after a message when nothing here can.
const Hosts* hosts_for(PapersOptions* o, const Hosts& plain, const FigureLayout& layout, const FigureWay& way) {
  if (!makes_machines(*o, layout)) return &plain;
  const std::pair key(layout.nodes, way.in_turn);
  const auto found = o->on_machines.find(key);
  if (found != o->on_machines.end()) return &found->second;
  HostOptions on = o->bench.hosts;
  on.machines = layout.nodes;
  on.cyclic = way.in_turn;
  auto hosts = choose_hosts(on, true, kPapersCommand, o->bench.program);
  return hosts ? &o->on_machines.emplace(key, *std::move(hosts)).first->second : nullptr;
}

std::string joined_words(std::initializer_list<std::string_view> words) {
  std::string all;
  for (const std::string_view w : words) all += (all.empty() || w.empty() ? "" : " ") + std::string(w);
  return all;
}

/// The launches of one layout and way.
void plan(const PapersOptions& o, const Hosts& hosts, const FigureLayout& layout, const FigureWay& way,
          std::vector<PlannedLaunch>* planned) {
  BenchOptions part = o.bench;
  if (!way.placement.empty())
    part.own_arguments.insert(part.own_arguments.end(), {"--placement", std::string(way.placement)});
  const int ranks = layout.nodes * layout.ranks_per_node;
  for (const BenchHost& h : hosts.peers) {
    planned->push_back(plan_launch(part.program, part, h, ranks, kHostArm));
    planned->back().setting = way.name;
  }
  for (const FigureAlgorithm& a : o.figure().algorithms) {
    PlannedLaunch p = plan_launch(part.program, part, hosts.under.front(), ranks, kPairedArms);
    const std::string cut = a.chunk.empty() ? "" : fmt::format("/{}", a.chunk);
    p.setting = joined_words({std::string(a.name) + cut, way.name});
    choose_algorithm(std::string(o.figure().collective), std::string(a.name), std::string(a.chunk), &p);
    if (o.pretend && layout.nodes > 1) p.spec.settings["node_ranks"] = std::to_string(layout.ranks_per_node);
    planned->push_back(std::move(p));
  }
}

void papers_round(PapersOptions* o, const Hosts& plain, int round, Rounds* rounds) {
  for (const FigureLayout& layout : layouts_of(*o)) {
    std::vector<PlannedLaunch> planned;
    for (const FigureWay& way : o->figure().ways) {
      // Nodes that are pretended, or that a launcher of the user's fills, are not dealt out by this command.
      if (way.in_turn && !makes_machines(*o, layout)) continue;
      const Hosts* hosts = hosts_for(o, plain, layout, way);
      if (hosts == nullptr) return rounds->note_failure();
      plan(*o, *hosts, layout, way, &planned);
    }
    rounds->run_group(layout_text(layout), round, o->bench.rounds, std::move(planned));
  }
}

int report_series(const PapersOptions& o, const Launches& launches) {
  const Figure& figure = o.figure();
  const std::vector<SeriesTable> tables = series_tables(launches.records, [&o](const LaunchRecord& r) {
    return is_at(r, o.bench.line) ? joined_words({r.zerohop ? "zerohop" : r.host, r.setting}) : std::string();
  });
  for (const SeriesTable& t : tables) {
    fmt::print("\n{} · {} ranks on {} processors · zerohop under {} · {} rounds\n{}", t.group, t.ranks, t.processors,
               t.host, t.rounds, series_text(t));
  }
  fmt::print(
      "\nTimes in µs: means over the ranks, medians over the launches; in brackets by the host's own in the same\n"
      "launch, * the least. --json has the intervals.\n");
  nlohmann::json document = {{"schema", "zerohop-bench-figure/1"},
                             {"figure", figure.id},
                             {"source", figure.source},
                             {"collective", figure.collective},
                             {"pretended_nodes", o.pretend}};
  document["rows"] = series_rows(tables, [](const SeriesTable& t, const std::string& series, nlohmann::json* row) {
    row->update({{"layout", t.group}, {"series", series}});
  });
  return write_document(o.bench, std::move(document), launches.machine, kPapersCommand) ? 0 : 2;
}

int report_matmul(const PapersOptions& o, const Launches& launches) {
  const Judged judged = judge(launches.records, {});
  const std::string times =
      "of the slowest rank for one multiplication, comm_us in MPI_Allgather; * marks the best peer";
  std::fputs((table_of(judged, false) + closing_of(judged, times)).c_str(), stdout);
  return write_judged(o.bench, judged, launches.machine, kPapersCommand) ? 0 : 2;
}

int report_shapes(const PapersOptions& o, Launches launches) {
  const std::string left_out = left_out_text(launches.records, o.bench.line);
  std::erase_if(launches.records, [&](const LaunchRecord& r) { return !is_at(r, o.bench.line); });
  const Judged judged = judge(launches.records, {});
  std::fputs((table_of(judged, false) + closing_of(judged, "from the root's start to the last rank's end")).c_str(),
             stdout);
  fmt::print("{}", left_out);
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& row : judged.rows) {
    const auto one = std::ranges::find_if(
        launches.records, [&](const LaunchRecord& r) { return r.document.value("ranks", 0) == row.key.ranks; });
    const MachineSpread spread = spread_of(one->document);
    rows.push_back({{"collective", "bcast"},
                    {"algorithm", row.key.bench.substr(0, row.key.bench.find('_'))},  // linear_bcast, binomial_bcast
                    {"chunk_bytes", 0},
                    {"bytes", row.key.size},
                    {"stride", static_cast<uint64_t>(row.key.param)},
                    {"ranks", row.key.ranks},
                    {"machines", spread.machines},
                    {"in_turn", spread.in_turn},
                    {"placement", row.placement},
                    {"under", row.host},
                    {"slowest_us", interval_json(row.zerohop)},
                    {"to_host", interval_json(row.to_own_host)}});
  }
  nlohmann::json document = {{"schema", kAlgorithmsSchema}, {"line", o.bench.line}, {"rows", std::move(rows)}};
  return write_document(o.bench, std::move(document), launches.machine, kPapersCommand) ? 0 : 2;
}

int report_papers(const PapersOptions& o, const Launches& launches) {
  const Figure& figure = o.figure();
  fmt::print("{}", hanging(fmt::format("{}: ", figure.id), fmt::format("{}. {}", figure.source, figure.shows),
                           output_columns()));
  if (figure.telling == FigureTelling::kMatmul) return report_matmul(o, launches);
  return figure.telling == FigureTelling::kShapes ? report_shapes(o, launches) : report_series(o, launches);
}

[[noreturn]] void print_list() {
  const size_t columns = output_columns();
  for (const Figure& f : figures()) {
    std::string layouts;
    for (const FigureLayout& l : f.layouts) layouts += (layouts.empty() ? "" : ", ") + layout_text(l);
    fmt::print("{}\n{}{}{}", f.id, hanging("  source  ", f.source, columns), hanging("  shows   ", f.shows, columns),
               hanging("  here    ", fmt::format("{}; sizes {}", layouts, f.sizes), columns));
  }
  fmt::print(
      "\nOther figures\n"
      "  LiMIC 8 and 9     zerohop bench p2p --only breakdown\n"
      "  LiMIC 10 and 11   zerohop bench p2p --only latency,bandwidth\n"
      "  CC 6 (a) and (b)  zerohop bench algorithms --only allreduce --ranks 8\n"
      "  CC 5 to 7, ML 8   zerohop model report --papers: whole clusters, by models\n"
      "  hybrid paper 5    zerohop bench p2p --only skew\n");
  throw CLI::RuntimeError(0);
}

}  // namespace

void add_bench_papers_command(CLI::App& bench) {
  auto o = std::make_shared<PapersOptions>();
  // The options of all benchmarks, which live as long as those of this one.
  const std::shared_ptr<BenchOptions> common(o, &o->bench);
  o->bench.hosts.usual_under = o->bench.hosts.usual_hosts = "openmpi";
  o->bench.one_under = true;
  o->bench.timeout_s = 300;
  o->bench.program = "coll";
  MpiBench b;
  b.name = "papers";
  b.about = "A figure of the papers, measured here: host and zerohop side by side";
  b.examples = kPapersExamples;
  b.sizes = "Comma list of bytes of a block, with K or M, or of orders of matrices (default: the figure's)";
  b.size_range.step = 1;  // settle() knows the figure
  b.quick = "Fewer rounds";
  b.usual_pace = {6, 3, 2000, 0.5};
  b.quick_pace = {2, 2, 1000, 0.2};
  b.check = [o] { return settle(o.get()); };
  b.run_round = [o](const Hosts& hosts, int round, Rounds* rounds) { papers_round(o.get(), hosts, round, rounds); };
  b.report = [o](const Launches& launches) { return report_papers(*o, launches); };
  CLI::App* c = add_mpi_bench(bench, common, std::move(b));
  c->add_option("figure", o->name, "Its name, such as cc-5a or ml-8");
  c->add_flag_callback(
      "--list", [] { print_list(); }, "Tell of each figure: source, what it shows, what is measured");
  c->add_option("--layout", o->layouts, "Comma list of nodes x ranks on each, such as 4x8 (default: the figure's)")
      ->delimiter(',')
      ->check(&wrong_layout);
  c->add_flag("--pretend", o->pretend, "Nodes for zerohop alone (ZEROHOP_CONFIG=node_ranks=...), without namespaces");
  add_line_option(*c, common.get());
}

}  // namespace zh::tools
