// `zerohop bench figure`: the launches that a paper's figure describes (figures.h), and its series as a table.
// Launches the benchmark of collectives; measures nothing itself.
#include "tools/bench/figure.h"

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
#include "tools/cli/commands.h"
#include "tools/cli/text.h"

namespace zh::tools {
namespace {

constexpr const char* kFigureCommand = "bench figure";
constexpr const char* kSchema = "zerohop-bench-figure/1";
constexpr int kMostMachines = 64;  // as --machines has it

constexpr const char* kFigureExamples =
    "  zerohop bench figure --list\n"
    "  zerohop bench figure ml-6 --json ml-6.json\n"
    "  zerohop bench figure limic-13 --hosts openmpi,mpich --under mpich\n"
    "  zerohop bench figure cc-5a --layout 64x4 --mpiexec \"mpiexec -f hosts\"\n\n"
    "Each layout has its own table: a row for each size, a column for each bare MPI and each way of zerohop. Nodes are "
    "machines made of namespaces with TCP between them; --pretend makes nodes for zerohop alone, between which the "
    "host's messages go through shared memory; --mpiexec goes to real machines. Ends with 2 if a launch failed or a "
    "file could not be written.";

struct FigureOptions {
  BenchOptions bench;
  std::string name;
  std::vector<std::string> layouts;
  bool pretend = false;                               ///< nodes by ZEROHOP_NODE_RANKS
  std::map<std::pair<int, bool>, Hosts> on_machines;  ///< by number of nodes, and whether ranks are dealt out in turn
};

/// "4x8".
std::optional<FigureLayout> layout_of(const std::string& text) {
  FigureLayout l;
  const char* end = text.data() + text.size();
  const auto nodes = std::from_chars(text.data(), end, l.nodes);
  if (nodes.ec != std::errc() || nodes.ptr == end || *nodes.ptr != 'x') return std::nullopt;
  const auto ranks = std::from_chars(nodes.ptr + 1, end, l.ranks_per_node);
  const bool whole = ranks.ec == std::errc() && ranks.ptr == end;
  if (!whole || l.nodes < 1 || l.ranks_per_node < 1 || l.nodes > kMostRanks || l.ranks_per_node > kMostRanks)
    return std::nullopt;
  const int all = l.nodes * l.ranks_per_node;
  return all < 2 || all > kMostRanks ? std::nullopt : std::optional(l);
}

std::string layout_text(const FigureLayout& l) { return fmt::format("{}x{}", l.nodes, l.ranks_per_node); }

std::string wrong_layout(const std::string& text) {
  return layout_of(text) ? "" : fmt::format("no layout: {} (nodes x ranks on each, 2 to {} ranks)", text, kMostRanks);
}

std::vector<FigureLayout> layouts_of(const FigureOptions& o, const Figure& figure) {
  if (o.layouts.empty()) return {figure.layouts.begin(), figure.layouts.end()};
  std::vector<FigureLayout> all;
  for (const std::string& text : o.layouts) all.push_back(layout_of(text).value_or(FigureLayout()));
  return all;
}

bool makes_machines(const FigureOptions& o, const FigureLayout& layout) {
  return layout.nodes > 1 && !o.pretend && o.bench.hosts.mpiexec.empty();
}

/// What is wrong with the options as a whole; else completes them by the figure's.
std::string settle_figure(FigureOptions* o) {
  if (o->name.empty()) return "name a figure (--list tells of each)";
  const Figure* figure = figure_named(o->name);
  if (figure == nullptr) return fmt::format("no such figure: {} (--list names them)", o->name);
  if (o->bench.hosts.machines > 0) return "a figure has its own nodes: --layout changes them, not --machines";
  for (const FigureLayout& l : layouts_of(*o, *figure)) {
    if (makes_machines(*o, l) && l.nodes > kMostMachines)
      return fmt::format("{}: at most {} nodes of namespaces (--pretend, or real ones by --mpiexec)", layout_text(l),
                         kMostMachines);
  }
  o->bench.only = figure->collective;
  if (o->bench.sizes.empty()) o->bench.sizes = figure->sizes;
  if (figure->any_root) o->bench.own_arguments.emplace_back("--rotate-root");
  return "";
}

/// Where a job of this layout runs; null after a message when nothing here can.
const Hosts* hosts_for(FigureOptions* o, const Hosts& plain, const FigureLayout& layout, const FigureWay& way) {
  if (!makes_machines(*o, layout)) return &plain;
  const std::pair key(layout.nodes, way.in_turn);
  const auto found = o->on_machines.find(key);
  if (found != o->on_machines.end()) return &found->second;
  HostOptions on = o->bench.hosts;
  on.machines = layout.nodes;
  on.cyclic = way.in_turn;
  auto hosts = choose_hosts(on, true, kFigureCommand, "coll");
  return hosts ? &o->on_machines.emplace(key, *std::move(hosts)).first->second : nullptr;
}

std::string joined_words(std::initializer_list<std::string_view> words) {
  std::string all;
  for (const std::string_view w : words) all += (all.empty() || w.empty() ? "" : " ") + std::string(w);
  return all;
}

std::string figure_setting(const FigureAlgorithm& a, const FigureWay& way) {
  const std::string cut = a.chunk.empty() ? "" : fmt::format("/{}", a.chunk);
  return joined_words({std::string(a.name) + cut, way.name});
}

/// The launches of one layout and way.
std::vector<PlannedLaunch> plan(const FigureOptions& o, const Figure& figure, const Hosts& hosts,
                                const FigureLayout& layout, const FigureWay& way) {
  BenchOptions part = o.bench;
  if (!way.placement.empty())
    part.own_arguments.insert(part.own_arguments.end(), {"--placement", std::string(way.placement)});
  const int ranks = layout.nodes * layout.ranks_per_node;
  std::vector<PlannedLaunch> planned;
  for (const BenchHost& h : hosts.peers) {
    planned.push_back(plan_launch("coll", part, h, ranks, kHostArm));
    planned.back().setting = way.name;
  }
  for (const FigureAlgorithm& a : figure.algorithms) {
    PlannedLaunch p = plan_launch("coll", part, hosts.under.front(), ranks, kPairedArms);
    p.setting = figure_setting(a, way);
    choose_algorithm(std::string(figure.collective), std::string(a.name), std::string(a.chunk), &p);
    if (o.pretend && layout.nodes > 1) p.spec.env["ZEROHOP_NODE_RANKS"] = std::to_string(layout.ranks_per_node);
    planned.push_back(std::move(p));
  }
  return planned;
}

void figure_round(FigureOptions* o, const Hosts& plain, int round, Rounds* rounds) {
  const Figure& figure = *figure_named(o->name);
  for (const FigureLayout& layout : layouts_of(*o, figure)) {
    std::vector<PlannedLaunch> planned;
    for (const FigureWay& way : figure.ways) {
      // Nodes that are pretended, or that a launcher of the user's fills, are not dealt out by this command.
      if (way.in_turn && !makes_machines(*o, layout)) continue;
      const Hosts* hosts = hosts_for(o, plain, layout, way);
      if (hosts == nullptr) {
        rounds->note_failure();
        return;
      }
      for (PlannedLaunch& p : plan(*o, figure, *hosts, layout, way)) planned.push_back(std::move(p));
    }
    rounds->run_group(layout_text(layout), round, o->bench.rounds, std::move(planned));
  }
}

/// The figure's points in one layout.
struct FigureTable {
  std::string layout;
  std::vector<std::string> series;  ///< in the order of the first round
  std::map<uint64_t, std::map<std::string, SeriesCell>> cells;
  std::string host;  ///< under which zerohop ran
  int ranks = 0;
  int processors = 0;
};

std::string series_of(const LaunchRecord& r) { return joined_words({r.zerohop ? "zerohop" : r.host, r.setting}); }

std::vector<FigureTable> figure_tables(const Launches& launches) {
  std::vector<FigureTable> tables;
  for (const LaunchRecord& r : launches.records) {
    auto t = std::ranges::find(tables, r.group, &FigureTable::layout);
    if (t == tables.end()) {
      t = tables.emplace(t);
      t->layout = r.group;
    }
    t->ranks = r.document.value("ranks", 0);
    t->processors = r.document.value("processors", 0);
    if (r.zerohop) t->host = r.host;
    const std::string series = series_of(r);
    if (std::ranges::find(t->series, series) == t->series.end()) t->series.push_back(series);
    for (const nlohmann::json& c : r.document.value("cases", nlohmann::json::array()))
      t->cells[c.value("size", uint64_t{0})][series].add(c);
  }
  return tables;
}

std::string cell_text(const SeriesCell& cell) {
  const std::string us = number_text(cell.time());
  return cell.to_host.empty() ? us : fmt::format("{} ({})", us, number_text(cell.ratio()));
}

void print_figure(const FigureTable& t, int rounds) {
  const auto width = [](const std::string& series) {
    constexpr size_t kNarrowest = 14;
    return std::max(series.size(), kNarrowest) + 2;
  };
  fmt::print("\n{} · {} ranks on {} processors · zerohop under {} · {} rounds\n{:>9}", t.layout, t.ranks, t.processors,
             t.host, rounds, "bytes");
  for (const std::string& s : t.series) fmt::print("{:>{}}", s, width(s));
  fmt::print("\n");
  for (const auto& [size, by_series] : t.cells) {
    fmt::print("{:>9}", size);
    for (const std::string& s : t.series) {
      const auto cell = by_series.find(s);
      fmt::print("{:>{}}", cell == by_series.end() ? "-" : cell_text(cell->second), width(s));
    }
    fmt::print("\n");
  }
}

nlohmann::json figure_rows(const std::vector<FigureTable>& tables) {
  nlohmann::json rows = nlohmann::json::array();
  for (const FigureTable& t : tables) {
    for (const auto& [size, by_series] : t.cells) {
      for (const auto& [series, cell] : by_series) {
        rows.push_back({{"layout", t.layout},
                        {"ranks", t.ranks},
                        {"processors", t.processors},
                        {"under", t.host},
                        {"bytes", size},
                        {"series", series},
                        {"us", interval_json(median_interval(cell.us))},
                        {"slowest_us", interval_json(median_interval(cell.slowest_us))},
                        {"to_host", interval_json(median_interval(cell.to_host))}});
      }
    }
  }
  return rows;
}

std::string figure_csv(const std::vector<FigureTable>& tables) {
  std::string text = "layout,ranks,bytes,series,us,to_host,launches\n";
  for (const FigureTable& t : tables) {
    for (const auto& [size, by_series] : t.cells) {
      for (const auto& [series, cell] : by_series) {
        const std::string ratio = cell.to_host.empty() ? "" : fmt::format("{:.6g}", cell.ratio());
        text += fmt::format("{},{},{},{},{:.6g},{},{}\n", t.layout, t.ranks, size, series, cell.time(), ratio,
                            cell.us.size());
      }
    }
  }
  return text;
}

void print_about(const Figure& f, size_t columns) {
  const auto line = [columns](const char* head, std::string_view text) {
    std::fputs(hanging(fmt::format("{:10}", head), text, columns).c_str(), stdout);
  };
  line("shows", f.shows);
  line("here", f.here);
  line("not here", f.not_here);
}

int report_figure(const FigureOptions& o, const Launches& launches) {
  const Figure& figure = *figure_named(o.name);
  const std::vector<FigureTable> tables = figure_tables(launches);
  fmt::print("{}: {}, {}\n", figure.id, figure.source, figure.collective);
  print_about(figure, output_columns());
  int rounds = 0;
  for (const LaunchRecord& r : launches.records) rounds = std::max(rounds, r.round + 1);
  for (const FigureTable& t : tables) print_figure(t, rounds);
  fmt::print(
      "\nTimes in µs: means over the ranks, medians over the launches. In brackets: by the host's own time in the "
      "same\n"
      "launch; --json has the intervals.\n");
  bool written = true;
  if (!o.bench.json_path.empty()) {
    const nlohmann::json document = {{"schema", kSchema},
                                     {"figure", figure.id},
                                     {"source", figure.source},
                                     {"collective", figure.collective},
                                     {"pretended_nodes", o.pretend},
                                     {"machine", json_of(launches.machine)},
                                     {"rows", figure_rows(tables)}};
    written &= write_file(o.bench.json_path, document.dump(1) + "\n", kFigureCommand);
  }
  if (!o.bench.csv_path.empty()) written &= write_file(o.bench.csv_path, figure_csv(tables), kFigureCommand);
  return written ? 0 : 2;
}

[[noreturn]] void print_list() {
  const size_t columns = output_columns();
  for (const Figure& f : figures()) {
    std::string layouts;
    for (const FigureLayout& l : f.layouts) layouts += (layouts.empty() ? "" : ", ") + layout_text(l);
    fmt::print("{}\n", f.id);
    std::fputs(hanging("  source    ", f.source, columns).c_str(), stdout);
    std::fputs(hanging("  shows     ", f.shows, columns).c_str(), stdout);
    std::fputs(hanging("  here      ", fmt::format("{}; {}, {} B", f.here, layouts, f.sizes), columns).c_str(), stdout);
    std::fputs(hanging("  not here  ", f.not_here, columns).c_str(), stdout);
  }
  fmt::print("\nOther figures\n");
  for (const FigureElsewhere& e : figures_elsewhere()) fmt::print("  {:<18}{}\n", e.figures, e.command);
  throw CLI::RuntimeError(0);
}

}  // namespace

void add_bench_figure_command(CLI::App& bench) {
  auto o = std::make_shared<FigureOptions>();
  // The options of all benchmarks, which live as long as those of this one.
  const std::shared_ptr<BenchOptions> common(o, &o->bench);
  o->bench.hosts.usual_under = o->bench.hosts.usual_hosts = "openmpi";
  o->bench.one_under = true;
  o->bench.timeout_s = 300;
  MpiBench b;
  b.name = "figure";
  b.program = "coll";
  b.about = "A figure of the papers, measured here: its series as a table, host and zerohop side by side";
  b.examples = kFigureExamples;
  b.sizes = "Comma list of bytes of a block, with K or M (default: the figure's)";
  b.quick = "Fewer rounds";
  b.usual_pace = {6, 3, 2000, 0.5};
  b.quick_pace = {2, 2, 1000, 0.2};
  b.check = [o] { return settle_figure(o.get()); };
  b.run_round = [o](const Hosts& hosts, int round, Rounds* rounds) { figure_round(o.get(), hosts, round, rounds); };
  b.report = [o](const Launches& launches) { return report_figure(*o, launches); };
  CLI::App* c = add_mpi_bench(bench, common, std::move(b));
  c->add_option("figure", o->name, "Its name, such as cc-5a or ml-6");
  c->add_flag_callback(
      "--list", [] { print_list(); }, "Tell of each figure: source, what is measured, what is not");
  c->add_option("--layout", o->layouts, "Comma list of nodes x ranks on each, such as 4x8 (default: the figure's)")
      ->delimiter(',')
      ->check(&wrong_layout);
  c->add_flag("--pretend", o->pretend, "Nodes for zerohop alone (ZEROHOP_NODE_RANKS), without namespaces");
}

}  // namespace zh::tools
